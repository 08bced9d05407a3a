"""slipstick replay TRACE"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.commands.vocabulary import Format, RecordedOn, Report, option

BETWEEN_VENDORS = "between vendors: kernels whose time should change little are taken to change less still"


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def replay(
        trace: Annotated[
            str,
            typer.Argument(help="a Kineto (Chrome) or Chakra trace, Nsight Systems' SQLite, rocprofv3's JSON or CSV"),
        ],
        on: Annotated[str | None, option("on", "the target")] = None,
        recorded_on: RecordedOn = None,
        vary: Annotated[list[str] | None, option("vary", "run.workers=0..8, run.host_ratio=0.5,1")] = None,
        set: Annotated[
            list[str] | None, option("set", "machine.runtime.mode=compiled | graph_replay, machine.clock=1.2GHz")
        ] = None,
        report: Report = None,
        marker: Annotated[str | None, option("marker", "'iteration (\\d+)'")] = None,
        format: Format = "table",
    ) -> None:
        """A recorded training step again: as it was, on another machine, under another runtime, with other loading."""
        answer(trace, on, recorded_on, vary or [], format, set or [], report, marker)


def answer(
    trace: str,
    on: str | None,
    recorded: str | None,
    vary: list[str],
    form: str,
    set_: list[str] | None = None,
    report: str | None = None,
    marker: str | None = None,
) -> None:
    """Print the rows of a trace's what-if (also `slipstick whatif --trace`)."""
    from slipstick.estimators.operation.gpu.kernels import between_vendors
    from slipstick.experiments.pages.output import emit
    from slipstick.experiments.traces.recorded import read_recorded
    from slipstick.experiments.traces.trace_rows import changes, rows
    from slipstick.experiments.traces.trace_whatif import COLUMNS
    from slipstick.hwmodels.catalog import machine

    other = machine(on) if on else None
    read = read_recorded(trace, machine(recorded) if recorded else None, marker)
    wanted = changes(vary, read.machine, other, set_ or [])
    notes = [f"assuming: {read.note}"]
    if read.machine is not None:
        notes.append(
            f"recorded on {read.machine.name}" + ("" if recorded else f" (the trace says {read.graph.device!r})")
        )
    doubts: list[str] = []
    if other is not None and read.machine is not None and between_vendors(read.machine, other):
        doubts.append(BETWEEN_VENDORS)
    answers = rows(read.graph, wanted, read.operations)
    emit(answers, form, below=[*notes, *doubts], remarks=doubts, columns=COLUMNS)
    if report:
        from slipstick.experiments.pages.report import rows_page

        rows_page(answers, report, f"Replay of {trace}", notes, COLUMNS)
