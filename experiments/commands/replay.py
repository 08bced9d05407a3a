"""slipstick replay TRACE"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def replay(
        trace: Annotated[
            str, typer.Argument(help="a Kineto (Chrome) trace with ProfilerStep annotations, .json or .json.gz")
        ],
        on: Annotated[str | None, typer.Option(help="the machine asked about")] = None,
        recorded: Annotated[
            str | None, typer.Option("--from", help="the machine that the trace was recorded on")
        ] = None,
        vary: Annotated[list[str] | None, typer.Option(help="run.workers=0..8, run.host_ratio=0.5,1")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """A recorded training step again: as it was, on another machine, or with other data loading."""
        answer(trace, on, recorded, vary or [], format)


def answer(trace: str, on: str | None, recorded: str | None, vary: list[str], form: str) -> None:
    """Print the rows of a trace's what-if (also `slipstick whatif --trace`)."""
    from experiments.output import emit
    from experiments.trace_whatif import changes, rows
    from hwmodels.catalog import machine
    from workloads.importers.trace_graph import read_trace_graph

    today = machine(recorded) if recorded else None
    other = machine(on) if on else None
    asked = changes(vary, today, other)
    graph = read_trace_graph(trace)
    notes = [
        f"assuming: {len(graph.nodes)} stretches of host, device and loading read off {trace}; every delay that is not "
        "explained by a launch, a stream or a wait stays as measured",
    ]
    emit(rows(graph, asked), form, notes=notes)
