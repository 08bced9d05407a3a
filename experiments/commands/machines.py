"""slipstick machines list|show|import|detect"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    machines = typer.Typer(no_args_is_help=True, help="The machines that ship, and your own files.")
    app.add_typer(machines, name="machines")

    @machines.command("list")
    def list_machines(format: Annotated[str, typer.Option(help=FORMAT)] = "table") -> None:  # noqa: A002
        """Names and main figures of the shipped machines."""
        from experiments.output import emit
        from hwmodels.catalog import machine, machine_names

        rows = []
        for name in machine_names():
            shipped = machine(name)
            rows.append(
                {
                    "machine": name,
                    "name": shipped.name,
                    "cores": shipped.cores,
                    "clock_Hz": shipped.clock,
                    "memory_B_per_s": shipped.bandwidth(shipped.main_memory),
                    "price_dollars_per_h": shipped.price,
                }
            )
        emit(rows, format)

    @machines.command()
    def show(
        name: Annotated[str, typer.Argument(help="a shipped machine, or the path of a YAML file")],
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """Every number of a machine with its source."""
        from experiments.output import emit
        from hwmodels.catalog import machine
        from hwmodels.machine import describe

        shown = machine(name)
        rows = [
            {"field": field, "value": shown.numbers[field] if format != "table" else text, "source": source}
            for field, text, source in describe(shown)
        ]
        emit(rows, format, notes=[f"{shown.name} ({shown.family}), fingerprint {shown.fingerprint}", shown.description])

    @machines.command("import")
    def import_machine(
        file: Annotated[Path, typer.Argument(help="a kerncraft machine file (.yml)")],
        save: Annotated[Path | None, typer.Option(help="write the machine to this YAML file")] = None,
        benchmark: Annotated[str, typer.Option(help="whose measured curve becomes the memory bandwidth")] = "copy",
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """One socket of a machine file of kerncraft, with its measured bandwidths."""
        from hwmodels.importers.kerncraft import load_kerncraft

        _answer(load_kerncraft(file).machine(benchmark), save, format)

    @machines.command()
    def detect(
        save: Annotated[Path | None, typer.Option(help="write the machine to this YAML file")] = None,
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """This host by lscpu and hwloc; bandwidths are assumed until `slipstick measure host`."""
        from experiments.measure.host import detect as detect_host

        _answer(detect_host().machine(), save, format)


def _answer(machine: Any, save: Path | None, form: str) -> None:
    from experiments.output import emit
    from hwmodels.machine import describe, save_machine

    notes = [f"{machine.name}: {machine.description}, fingerprint {machine.fingerprint}"]
    if save is not None:
        save_machine(machine, save)
        notes.append(f"written: {save}")
    rows = [
        {"field": field, "value": machine.numbers[field] if form != "table" else text, "source": source}
        for field, text, source in describe(machine)
    ]
    emit(rows, form, notes=notes)
