"""slipstick replay TRACE"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, RecordedOn, Report, option


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
        timeline: Annotated[str | None, option("timeline", "of the first row")] = None,
        report: Report = None,
        step_pattern: Annotated[str | None, option("step_pattern", "'iteration (\\d+)'")] = None,
        format: Format = "table",
    ) -> None:
        """A recorded training step again: as it was, on another machine, under another runtime, with other loading."""
        answer(trace, on, recorded_on, vary or [], format, set or [], report, step_pattern, timeline)


def answer(
    trace: str,
    on: str | None,
    recorded: str | None,
    vary: list[str],
    form: str,
    set_: list[str] | None = None,
    report: str | None = None,
    step_pattern: str | None = None,
    timeline: str | None = None,
) -> None:
    """Print the rows of a trace's what-if (also `slipstick whatif --trace`)."""
    from slipstick.experiments.replay.replay import replay
    from slipstick.experiments.report.output import show
    from slipstick.experiments.report.page import page

    result = replay(
        trace, on, vary, recorded_on=recorded, settings=set_ or [], step_pattern=step_pattern, timeline=timeline
    )
    show(result, form, [f"timeline: {timeline} (chrome://tracing, Perfetto)"] if timeline else [])
    if report:
        page(result, report, f"Replay of {trace}")
