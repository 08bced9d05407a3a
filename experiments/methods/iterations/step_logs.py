"""Steps of a recorded run from any file that holds them, and the phase of each by every method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstick.common.array_types import IntArray
    from slipstick.workloads.runs.step_profiles import StepProfile, StepTable

METHODS = ("duration", "published", "k-means", "dbscan")


def read_steps(path: Path, marker: str) -> tuple[list[StepProfile], list[str]]:
    """Step profiles of a trace or of a recorded run, and a line on each thing that was passed over in it.

    Raises InputError, which names the file where it cannot be read, or has no steps.
    """
    from slipstick.common.errors import InputError
    from slipstick.workloads.importers.formats.registry import identify
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, read_training_log
    from slipstick.workloads.importers.timeline import read_timeline
    from slipstick.workloads.importers.traces.event_csv import read_event_csv
    from slipstick.workloads.importers.xla.xplane import profiled_steps
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
    if is_training_log(path):
        log = read_training_log(path)
        profiles, count = log.profiles(), sum(each.count for each in log.steps)
        numbered = ", with the log's number of the last of them" if log.numbers else ""
        together = f"steps are lines of the log here: {len(log.steps)}, each the mean of its steps{numbered}"
        return profiles, [*log.lines(), *([together] if count > len(log.steps) else [])]
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return [without_stolen_time(step) for step in load_steps(path)], []
    pattern = step_marker(marker)
    kind = identify(path)
    if path.name.endswith((".csv", ".csv.gz")) and (kind is None or kind.key != "rocprof-csv"):
        if marker != MARKER:
            raise InputError(
                f"{path}: --step-pattern is for timelines: the steps of a .csv are in its column {STEP_ARGUMENTS[0]}"
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
) -> IntArray:
    """The phase of every step by one of `METHODS`, shape (steps,).

    `threshold`: similarity (a share) above which steps are of one phase.
    Raises InputError where the method is unknown.
    """
    from slipstick.common.readers import unknown_name
    from slipstick.estimators.sampling.phases import DurationScan, PublishedScan, density, k_means, scan_labels

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
