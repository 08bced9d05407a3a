"""Summaries of the TensorBoard profiler (input_pipeline.json, overview_page.json) as step profiles.

They are tables of the Google chart format: `cols` with ids, `rows` of cells `{"v": value}`. Source of the columns:
tensorflow/profiler and openxla/xprof, the input-pipeline analyzer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, read_json
from slipstick.workloads.runs.step_profiles import Operation, StepProfile

INFEED, COMPUTE = "infeed", "compute"
LONGEST = 1e12
"""Milliseconds."""
_STEP_COLUMNS = ("stepnum", "noninfeedTimeMs", "infeedTimeMs")

_POD_COLUMNS = {
    "highFlopsComputeUs": COMPUTE,
    "hostInfeedDurationUs": INFEED,
    "hostOutfeedDurationUs": "outfeed",
    "crsDurationUs": "all-reduce",
    "sendDurationUs": "send",
    "recvDurationUs": "recv",
}


def read_input_pipeline(path: str | os.PathLike[str]) -> list[StepProfile]:
    """Steps of an input-pipeline summary: seconds that the device computes, and waits for input.

    Raises InputError where the file holds no table of steps, or a cell is no number.
    """
    for table in _tables(path):
        if all(name in table for name in _STEP_COLUMNS):
            break
    else:
        raise InputError(f"{path}: no table with the columns {', '.join(_STEP_COLUMNS)}")
    steps, clock = [], 0.0
    for number, compute, infeed in zip(*(table[name] for name in _STEP_COLUMNS), strict=True):
        times = {
            name: 1e-3 * number_of(cell, f"{path}: {column}", 0, LONGEST)
            for name, column, cell in zip((COMPUTE, INFEED), _STEP_COLUMNS[1:], (compute, infeed), strict=True)
        }
        operations = {name: Operation(1, time, "device") for name, time in times.items()}
        duration = sum(times.values())
        steps.append(StepProfile(int(number_of(number, f"{path}: {_STEP_COLUMNS[0]}")), clock, duration, operations))
        clock += duration
    return steps


def read_pod_viewer(path: str | os.PathLike[str]) -> list[StepProfile]:
    """Steps of a pod viewer's summary, the mean over the cores: compute, infeed, outfeed, sums, transfers.

    Raises InputError where the file holds no such steps, or a cell is no number.
    """
    document = read_json(path)
    sequence = document.get("podStatsSequence") if isinstance(document, dict) else None
    maps = sequence.get("podStatsMap") if isinstance(sequence, dict) else None
    steps, clock = [], 0.0
    for entry in maps if isinstance(maps, list) else []:
        cores = entry.get("podStatsPerCore") if isinstance(entry, dict) else None
        rows = [core for core in cores.values() if isinstance(core, dict)] if isinstance(cores, dict) else []
        if not rows:
            continue
        duration = _mean(rows, "totalDurationUs", path)
        if duration <= 0:
            raise InputError(f"{path}: totalDurationUs: want a mean above 0 over the cores")
        operations = {}
        for column, name in _POD_COLUMNS.items():
            operations[name] = Operation(1, _mean(rows, column, path), "device")
        steps.append(
            StepProfile(int(number_of(rows[0].get("stepNum"), f"{path}: stepNum")), clock, duration, operations)
        )
        clock += duration
    if not steps:
        raise InputError(f"{path}: no steps in podStatsSequence.podStatsMap")
    return steps


def _mean(rows: list[dict[str, Any]], column: str, path: object) -> float:
    """Seconds of a column of microseconds, the mean over the cores."""
    return 1e-6 * sum(number_of(row.get(column, 0.0), f"{path}: {column}", 0) for row in rows) / len(rows)


def _tables(path: str | os.PathLike[str]) -> Iterator[dict[str, list[Any]]]:
    """Tables of the document as columns by id; what has another form is passed over."""
    document = read_json(path)
    for table in document if isinstance(document, list) else [document]:
        if not (
            isinstance(table, dict) and isinstance(table.get("cols"), list) and isinstance(table.get("rows"), list)
        ):
            continue
        names = [str(column.get("id")) if isinstance(column, dict) else "" for column in table["cols"]]
        cells = [row.get("c") if isinstance(row, dict) else None for row in table["rows"]]
        if not all(isinstance(row, list) and len(row) == len(names) for row in cells):
            raise InputError(f"{path}: a row has another number of cells than the {len(names)} columns")
        values = [[cell.get("v") if isinstance(cell, dict) else None for cell in row or ()] for row in cells]
        yield {name: [row[i] for row in values] for i, name in enumerate(names)}
