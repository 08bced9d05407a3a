"""Events of one's own as CSV: a row an event, with its step, its operation and how long it took."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number, whole_of
from slipstick.common.units import SECONDS, named_unit, time_columns
from slipstick.workloads.runs.event_steps import STEP_ARGUMENTS
from slipstick.workloads.runs.step_profiles import Place, StepProfile, operations_of

OPERATIONS = ("operation", "name", "op", "event")
TIMES = ("duration", "time", "dur", "took")
STARTS = ("start", "starttime", "ts", "begin")
PLACES: Mapping[str, Place] = {"host": "host", "cpu": "host", "device": "device", "gpu": "device", "tpu": "device"}
LIMIT_BYTES = 512_000_000
LONGEST = 1e9
"""Seconds of one event: thirty years."""


def read_event_csv(path: str | os.PathLike[str]) -> tuple[list[StepProfile], list[str]]:
    """Steps of a CSV of events, and a line on each thing that is left out or assumed.

    Columns: the step's number (step, step_num, step_number, iteration); a time with its unit in the name (duration_s,
    time_ms, dur_us, ...); and where they are known the operation (operation, name, op, event), a start (start_s, ts_us,
    ...) and the place (host, cpu, device, gpu or tpu). A step lasts from the first start to the last end; without
    starts as long as its events together, one step after the other.
    Raises InputError, which names the file, the line and the column.
    """
    path = Path(path)
    durations: dict[int, float] = {}
    spans: dict[int, tuple[float, float]] = {}
    operations: dict[int, list[tuple[str, Place, float]]] = {}
    columns: dict[str, str | None] | None = None
    blank = 0
    for line, row in read_csv_rows(path, limit_bytes=LIMIT_BYTES):
        if columns is None:
            columns = _columns(list(row), path)
        text = row[str(columns["step"])]
        if not text:
            blank += 1
            continue
        step = whole_of(text, f"{path}: line {line}: {columns['step']}")
        took = _seconds(row, str(columns["time"]), path, line, 0.0)
        durations[step] = durations.get(step, 0.0) + took
        if columns["start"] is not None:
            begin = _seconds(row, columns["start"], path, line, -LONGEST)
            low, high = spans.get(step, (begin, begin))
            spans[step] = min(low, begin), max(high, begin + took)
        of_step = operations.setdefault(step, [])
        if columns["operation"] is not None:
            of_step.append((row[columns["operation"]], _place(row, columns["place"], path, line), took))
    if not durations:
        raise InputError(f"{path}: has no rows with a step; want one for each event")
    notes = [f"{blank:,} rows without a step are left out"] if blank else []
    if not spans:
        notes.append("no column of starts: a step lasts as long as its events together")
    steps, clock = [], 0.0
    for step in sorted(durations, key=lambda number: spans.get(number, (number, 0.0))[0]):
        begin, end = spans.get(step, (clock, clock + durations[step]))
        clock = end
        steps.append(StepProfile(step, begin, end - begin, operations_of(operations[step])))
    return steps, notes


def _columns(names: Sequence[str], path: Path) -> dict[str, str | None]:
    """The columns by what they mean; an operation, a start and a place may be missing."""

    def timed(words: Sequence[str]) -> str | None:
        return next((name for name in time_columns(names, words, alone=True) if named_unit(name)[1]), None)

    meant = {
        "step": next((name for name in STEP_ARGUMENTS if name in names), None),
        "time": timed(TIMES),
        "operation": next((name for name in OPERATIONS if name in names), None),
        "start": timed(STARTS),
        "place": "place" if "place" in names else None,
    }
    for what, wanted in (("step", STEP_ARGUMENTS), ("time", ("duration_s", "time_ms", "dur_us"))):
        if meant[what] is None:
            raise InputError(
                f"{path}: no column of the {what}: want one of {', '.join(wanted)} (columns: {', '.join(names)})"
            )
    return meant


def _seconds(row: Mapping[str, str], column: str, path: Path, line: int, low: float) -> float:
    scale = SECONDS[named_unit(column)[1]]
    return scale * read_number(row[column], path, line, column, low / scale, LONGEST / scale)


def _place(row: Mapping[str, str], column: str | None, path: Path, line: int) -> Place:
    stated = row[column].lower() if column else "host"
    if stated not in PLACES:
        raise InputError(f"{path}: line {line}: {column} = {stated[:40]!r}: known: {', '.join(PLACES)}")
    return PLACES[stated]
