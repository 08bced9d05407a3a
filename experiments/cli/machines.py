"""slipstick machines list|show|check|compare|import|detect"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.common.formatting import ratio_shown, shown
from slipstick.experiments.cli.vocabulary import Clock, Format, Report, option, verb_of
from slipstick.experiments.report.output import emit, emit_line
from slipstick.hwmodels.catalog import machine, machine_names, outlines
from slipstick.hwmodels.machine_kind import machine_kind

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    machines = verb_of(app, "machines", "The machines that ship, and your own files.")

    @machines.command("list")
    def list_machines(format: Format = "table") -> None:
        """Names and main figures of the shipped machines."""

        rows = [
            {
                "machine": name,
                "name": one.name,
                "cores": one.cores,
                "clock_Hz": one.clock,
                "memory_B_per_s": one.bandwidth,
                "price_dollars_per_h": one.price,
            }
            for name, one in outlines().items()
        ]
        emit(rows, format)

    @machines.command()
    def show(
        name: Annotated[str, typer.Argument(help="a shipped machine, or the path of a YAML file")],
        format: Format = "table",
    ) -> None:
        """Every number of a machine with its source."""
        from slipstick.estimators.gpu.kernels.memory_hierarchy import reached_in_words

        shown = machine(name)
        family = f" ({shown.family})" if shown.family else ""
        title = f"{shown.name}{family}, fingerprint {shown.fingerprint}"
        notes = [title, shown.description, reached_in_words(shown), _issue_in_words(shown)]
        _emit_fields(shown, format, [note for note in notes if note])

    @machines.command()
    def check(
        name: Annotated[str, typer.Argument(help="a shipped machine, or the path of a YAML file")],
        format: Format = "table",
    ) -> None:
        """Which answers read each number of a machine, what its geometry makes of its rates, and what is odd."""
        from slipstick.experiments.question.unused_inputs import readers_of_fields
        from slipstick.hwmodels.machine_file import implausible, odd_in_catalogue, stated_and_followed

        checked = machine(name)
        kind = machine_kind(checked)
        others = [
            one for one in map(machine, machine_names()) if machine_kind(one) == kind and one.name != checked.name
        ]
        readers, refused = readers_of_fields(checked)
        followed = stated_and_followed(checked)
        rows = [
            {"field": field, "read_by": ", ".join(kinds) or "no default answer", **followed.get(field, {})}
            for field, kinds in readers.items()
        ]
        unread = [field for field, kinds in readers.items() if not kinds]
        notes = [
            f"{checked.name}, {kind}: {len(readers) - len(unread)} of {len(readers)} numbers are read by some answer"
        ]
        geometry = [
            f"{field}: {row['stated']:,.10g} flop a cycle stated, {row['ratio']:.3g} x what {row['geometry']} do "
            "by one multiply-add a cycle"
            for field, row in followed.items()
        ]
        below = [f"no answer of kind {one}: {why}" for one, why in refused.items()]
        odd = [f"odd: {text}" for text in (*odd_in_catalogue(checked, others), *implausible(checked))]
        odd = odd or [f"odd: nothing, beside {len(others)} others of its kind"]
        emit(rows, format, notes=notes, below=[*geometry, *below, *odd])

    @machines.command()
    def compare(
        names: Annotated[list[str], typer.Argument(help="two or more shipped machines, or paths of YAML files")],
        report: Report = None,
        format: Format = "table",
    ) -> None:
        """Peaks, memory, links, power and price of machines side by side, with ratios to the first."""
        from slipstick.experiments.question.cautions import machine_remarks
        from slipstick.experiments.report.machine_comparison import shared

        machines = [machine(name) for name in names]
        note = "peaks of the data sheets, without sparsity; times of a workload: slipstick estimate NAME --on A,B"
        doubts = shared({one.name: machine_remarks(one) for one in machines})
        emit(_compared(machines, format), format, notes=[note], below=doubts)
        if report:
            from slipstick.common.answer import PlainAnswer
            from slipstick.experiments.report.page import page

            answer = PlainAnswer(_compared(machines, "table"), notes=(note, *doubts))
            page(answer, report, f"{len(machines)} machines compared")

    @machines.command()
    def fields(format: Format = "table") -> None:
        """Every field that a machine file may have: what is wanted, in which unit, and what it means."""
        from dataclasses import asdict

        from slipstick.hwmodels.machine_fields import machine_fields

        emit([asdict(field) for field in machine_fields()], format)

    @machines.command("import")
    def import_machine(
        file: Annotated[Path, typer.Argument(help="of kerncraft, lscpu (--json), lstopo (--of xml) or /proc/cpuinfo")],
        out: Annotated[Path | None, option("out", "the machine, FILE.yaml")] = None,
        benchmark: Annotated[str | None, option("benchmark", "of kerncraft's file; else copy")] = None,
        clock: Annotated[str, option("clock", "where the file (lstopo) does not state it, 2.5GHz")] = "",
        format: Format = "table",
    ) -> None:
        """A machine from another tool's file; what the file does not state is assumed, and the sources say so."""
        from slipstick.experiments.replay.machine_files import imported_machine

        _answer(imported_machine(file, benchmark, _hertz(clock)), out, format)

    @machines.command()
    def detect(
        out: Annotated[Path | None, option("out", "the machine, FILE.yaml")] = None,
        clock: Clock = "",
        format: Format = "table",
    ) -> None:
        """This host by lscpu and hwloc; bandwidths are assumed until `slipstick measure host`."""
        from slipstick.experiments.measure.host.host_topology import detect as detect_host

        _answer(detect_host(clock=_hertz(clock)).machine(), out, format)


def _issue_in_words(machine: Machine) -> str:
    """What default answers take for the host of a GPU, beyond what the machine states; "" for other machines."""
    from slipstick.estimators.schedules.host_constants import ISSUE

    if machine_kind(machine) != "gpu":
        return ""
    each = shown(machine.runtime.issue_overhead + ISSUE, "s")
    return f"eager PyTorch: default answers take {each} of a host for an operation (estimator.schedule.issue)"


def _compared(machines: list[Any], form: str) -> list[dict[str, Any]]:
    """A row a quantity, a column a machine; for people with units, and what the others have over the first."""

    quantities: dict[tuple[str, str], dict[str, float]] = {}
    for one in machines:
        for unit, engine in one.engines.items():
            for dtype in engine.flop_per_cycle:
                quantities.setdefault((f"peak {unit} {dtype}", "flop/s"), {})[one.name] = one.peak(unit, dtype)
        main = one.memory[one.main_memory]
        amounts = {
            ("main memory", "byte"): main.capacity,
            ("memory bandwidth", "byte/s"): one.bandwidth(one.main_memory),
        }
        amounts |= {("power cap", "W"): one.power.cap, ("price", "dollar/hour"): one.price, ("clock", "Hz"): one.clock}
        amounts |= {(f"link {name}", "byte/s"): link.bandwidth for name, link in one.links.items()}
        for key, value in amounts.items():
            if value is not None:
                quantities.setdefault(key, {})[one.name] = value
    rows = []
    for (name, unit), values in sorted(quantities.items()):
        plain = form == "table"  # units stand in the cells
        row: dict[str, Any] = {"quantity": name.removeprefix("peak ")} if plain else {"quantity": name, "unit": unit}
        first = values.get(machines[0].name)
        for one in machines:
            value = values.get(one.name)
            text = "" if value is None else shown(value, unit)
            if value and first and one is not machines[0]:
                text += f" ({ratio_shown(value / first)} x)"
            row[one.name] = text if plain else value
        rows.append(row)
    return rows


def _hertz(text: str) -> float | None:
    from slipstick.experiments.question.settings import number_of

    return number_of("--clock", text, "Hz") if text else None


def _answer(machine: Any, save: Path | None, form: str) -> None:
    from slipstick.hwmodels.machine_file import save_machine

    notes = [f"{machine.name}: {machine.description}, fingerprint {machine.fingerprint}"]
    if save is not None:
        save_machine(machine, save)
        notes.append(f"written: {save}")
    _emit_fields(machine, form, notes)


def _emit_fields(machine: Any, form: str, notes: list[str]) -> None:
    """The numbers of a machine; for people their sources stand below, each once."""
    from slipstick.hwmodels.machine import describe

    fields = describe(machine)
    if form != "table":
        emit([{"field": field, "value": machine.numbers[field], "source": source} for field, _, source in fields], form)
        return
    number = {
        source: place + 1 for place, source in enumerate(dict.fromkeys(source for *_, source in fields if source))
    }
    rows = [
        {"field": field, "value": text, "source": f"[{number[source]}]" if source else ""}
        for field, text, source in fields
    ]
    emit(rows, form, notes=notes)
    for source, place in number.items():
        emit_line(f"[{place}] {source}")
