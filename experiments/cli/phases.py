"""slipstick phases TRACE"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.experiments.cli.vocabulary import Format, option

if TYPE_CHECKING:
    from slipstick.workloads.runs.step_profiles import StepTable


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def phases(
        trace: Annotated[
            Path,
            typer.Argument(
                help="a timeline (Chrome trace, Nsight Systems, rocprofv3), a .csv of events (step, operation, "
                "duration_s), recorded steps, TensorBoard's profile, a log of MLPerf training"
            ),
        ],
        method: Annotated[str, option("method", "duration | published | k-means | dbscan")] = "duration",
        threshold: Annotated[float | None, option("threshold", "of the two scans")] = None,
        clusters: Annotated[int | None, option("clusters", "of k-means; by the elbow if left out")] = None,
        minimum: Annotated[int | None, option("minimum", "of dbscan; by the elbow if left out")] = None,
        step_pattern: Annotated[str, option("step_pattern", "with the step's number")] = r"ProfilerStep#(\d+)",
        top: Annotated[int, option("top", "of a phase", min=1)] = 5,
        out: Annotated[Path | None, option("out", "phases.json, .csv and .trace.json, into this folder")] = None,
        format: Format = "table",
    ) -> None:
        """Phases of a run: steps that do the same for the same time, their share and their top operations."""
        from slipstick.estimators.sampling.phase_report import report_phases
        from slipstick.experiments.methods.iterations.step_logs import METHODS, labels_of, read_steps
        from slipstick.experiments.report.output import emit
        from slipstick.workloads.runs.step_profiles import StepTable

        steps, passed_over = read_steps(trace, step_pattern)
        table = StepTable.of(steps)
        report = report_phases(table, labels_of(table, method, threshold, clusters, minimum), top)
        notes = [f"{trace.name}: {len(table.steps)} steps, {table.durations.sum():.4g} s; {method}"]
        notes += passed_over
        if format == "table":
            notes += [compared(table, each) for each in METHODS if each != method]
        if out is not None:
            notes.append("written: " + ", ".join(str(path) for path in report.save(out)))
        rows = report.records()
        if format != "json":
            rows = [_short(row) for row in rows]
        emit(
            rows,
            format,
            notes=[*notes, f"three longest phases: {report.coverage():.1%} of the time"],
            remarks=passed_over,
        )


def compared(table: StepTable, method: str) -> str:
    """One line on what another method finds, with the agreement with the known labels where there are any."""
    from slipstick.common.errors import InputError
    from slipstick.estimators.sampling.phase_report import report_phases
    from slipstick.experiments.methods.iterations.step_logs import labels_of

    try:
        labels = labels_of(table, method)
    except InputError as error:
        return f"{method}: not compared: {error}"
    report = report_phases(table, labels)
    known = [step.label for step in table.steps]
    text = f"{method}: {len(report.phases)} phases, three longest {report.coverage():.1%}"
    if all(label is not None for label in known):
        from sklearn.metrics import adjusted_rand_score

        text += f", adjusted Rand index {adjusted_rand_score(known, labels):.3f} with the known schedule"
    return text


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """A record for a table: the first operation of each place."""
    flat = {key: value for key, value in row.items() if key not in ("host", "device")}
    for place in ("host", "device"):
        flat[f"top_{place}"] = row[place][0]["operation"] if row[place] else None
    return flat
