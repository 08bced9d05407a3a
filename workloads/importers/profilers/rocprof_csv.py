"""rocprofv3's CSV: PREFIX_kernel_trace.csv, _memory_copy_trace.csv, _hip_api_trace.csv and their kin, one kind a file.

Source: https://github.com/ROCm/rocprofiler-sdk, source/docs/how-to/using-rocprofv3.rst
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_csv_rows, whole_number
from slipstick.common.records import counted_problems
from slipstick.workloads.importers.profilers.columns import EventColumns, event_table
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

LIMIT_BYTES = 1024 * MEGABYTE
TIMES = ("Start_Timestamp", "End_Timestamp")
NAMES = {"Kernel_Name": "kernel", "Direction": "gpu_memcpy", "Function": "hip_runtime"}
"""The column that holds names, and the category of its rows."""
_PROCESS = ("Agent_Id", "Destination_Agent_Id", "Process_Id")
_THREAD = ("Stream_Id", "Queue_Id", "Thread_Id")
_LANE = re.compile(r"(?:Agent )?(\d{1,18})")
_COPY = re.compile(r"(?:MEMORY_COPY_)?(HOST|DEVICE)_TO_(HOST|DEVICE)")


def read_rocprof_csv(path: Path) -> EventTable:
    """The events of one file (see `nsys.read_nsys` for categories and arguments).

    Raises InputError where columns are missing or the file holds no rows; names the lines whose numbers are wrong, all
    at once.
    """
    labels: dict[str, int] = {}
    rows: list[tuple[int, ...]] = []
    wrong: list[str] = []
    named = ""
    for line, row in read_csv_rows(path, TIMES, LIMIT_BYTES):
        named = named or next((name for name in NAMES if name in row), "")
        if not named:
            raise InputError(f"{path}: no column {', '.join(NAMES)} (columns: {', '.join(list(row)[:20])})")
        numbers = [whole_number(row[column]) for column in TIMES]
        correlation = whole_number(row.get("Correlation_Id", ""))
        lanes = [_lane(row, columns) for columns in (_PROCESS, _THREAD)]
        values = [*numbers, *lanes, -1 if correlation is None else correlation]
        if any(value is None for value in values):
            wrong.append(f"line {line}: {', '.join(f'{c} = {row[c][:30]!r}' for c in TIMES)}")
            continue
        rows.append(
            (*(value for value in values if value is not None), labels.setdefault(_name(row[named]), len(labels)))
        )
    if wrong:
        raise InputError(f"{path}: want whole numbers of nanoseconds: {counted_problems(wrong)}")
    if not rows:
        raise InputError(f"{path}: no rows below the header")
    start, end, process, thread, correlation_, names = np.array(rows, dtype=np.int64).T
    known = {"correlation": np.where(correlation_ < 0, np.nan, correlation_), "stream": thread.astype(float)}
    part = EventColumns(NAMES[named], start, end, names, tuple(labels), process, thread, known)
    return event_table([part], {}, TraceNotes(), 1e-9)


def _lane(row: dict[str, str], columns: tuple[str, ...]) -> int | None:
    text = next((row[column] for column in columns if column in row), "0")
    match = _LANE.fullmatch(text)
    return int(match.group(1)) if match else None


def _name(text: str) -> str:
    """A kernel's name as it is; a copy's as CUDA's tools write it."""
    way = _COPY.fullmatch(text)
    return f"Memcpy {way.group(1)[0]}to{way.group(2)[0]}" if way else text[:500]
