"""slipstick phases TRACE"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.experiments.commands.vocabulary import Format, option

if TYPE_CHECKING:
    from slipstick.estimators.run.phases import Labels
    from slipstick.workloads.runs.step_profiles import StepProfile, StepTable

METHODS = ("duration", "published", "k-means", "dbscan")


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
        marker: Annotated[str, option("marker", "with the step's number")] = r"ProfilerStep#(\d+)",
        parts: Annotated[int, option("parts", "of a phase", min=1)] = 5,
        out: Annotated[Path | None, option("out", "phases.json, .csv and .trace.json, into this folder")] = None,
        format: Format = "table",
    ) -> None:
        """Phases of a run: steps that do the same for the same time, their share and their top operations."""
        from slipstick.estimators.run.phase_report import report_phases
        from slipstick.experiments.pages.output import emit
        from slipstick.workloads.runs.step_profiles import StepTable

        steps, passed_over = read_steps(trace, marker)
        table = StepTable.of(steps)
        report = report_phases(table, labels_of(table, method, threshold, clusters, minimum), parts)
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


def read_steps(path: Path, marker: str) -> tuple[list[StepProfile], list[str]]:
    """Step profiles of a trace or of a recorded run, and a line on each thing that was passed over in it.

    Raises
    ------
    InputError
        Names the file where it cannot be read, or has no steps.
    """
    from slipstick.hwmodels.files.readers import InputError
    from slipstick.workloads.importers.formats.registry import identify
    from slipstick.workloads.importers.mllog.mllog_reader import is_mllog, read_mllog
    from slipstick.workloads.importers.timeline import read_timeline
    from slipstick.workloads.importers.traces.event_csv import read_event_csv
    from slipstick.workloads.importers.xla.profiles import profiled_steps
    from slipstick.workloads.runs.event_steps import MARKER, STEP_ARGUMENTS, divided_events, step_marker
    from slipstick.workloads.runs.step_profiles import load_steps, without_stolen_time

    without_steps: InputError | None = None
    try:
        if (profiled := profiled_steps(path)) is not None:
            return profiled, []
    except InputError as error:
        if not path.name.endswith((".json", ".json.gz")):
            raise
        without_steps = error  # events may number their steps by themselves
    if is_mllog(path):
        log = read_mllog(path)
        return log.profiles(), log.lines()
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return [without_stolen_time(step) for step in load_steps(path)], []
    pattern = step_marker(marker)
    kind = identify(path)
    if path.name.endswith((".csv", ".csv.gz")) and (kind is None or kind.key != "rocprof-csv"):
        if marker != MARKER:
            raise InputError(
                f"{path}: --marker is for timelines: the steps of a .csv are in its column {STEP_ARGUMENTS[0]}"
            )
        return read_event_csv(path)
    events = read_timeline(path)
    if not any(map(pattern.fullmatch, events.names)):
        events = read_timeline(path, ("correlation", "stream", *STEP_ARGUMENTS))
    try:
        divided = divided_events(events, marker)
    except InputError as error:
        raise without_steps or InputError(f"{path}: {error}") from None
    counts = {
        "events without a finite start and a duration >= 0 passed over": events.notes.skipped,
        "events without a phase or a name passed over": events.notes.broken,
        "broken escapes repaired": events.notes.repaired_escapes,
    }
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    notes += divided.lines()
    return divided.steps, [*notes, *(["the file ends inside the events"] if events.notes.truncated else [])]


def labels_of(
    table: StepTable,
    method: str,
    threshold: float | None = None,
    clusters: int | None = None,
    minimum: int | None = None,
) -> Labels:
    """The phase of every step by one of `METHODS`, shape (steps,).

    Parameters
    ----------
    threshold
        Similarity (a share) above which steps are of one phase.

    Raises
    ------
    InputError
        Where the method is unknown.
    """
    from slipstick.estimators.run.phases import DurationScan, PublishedScan, density, k_means, scan_labels
    from slipstick.hwmodels.files.readers import unknown_name

    match method:
        case "duration":
            return scan_labels(DurationScan(0.5 if threshold is None else threshold), table.steps)
        case "published":
            return scan_labels(PublishedScan(0.7 if threshold is None else threshold), table.steps)
        case "k-means":
            return k_means(table, clusters=clusters).labels
        case "dbscan":
            return density(table, minimum=minimum).labels
    raise unknown_name("method", method, METHODS)


def compared(table: StepTable, method: str) -> str:
    """One line on what another method finds, with the agreement with the known labels where there are any."""
    from slipstick.estimators.run.phase_report import report_phases
    from slipstick.hwmodels.files.readers import InputError

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
