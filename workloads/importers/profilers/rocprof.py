"""rocprofv3's JSON (`rocprofv3 --output-format json`): dispatched kernels, copies, calls of HIP and ranges of roctx.

Times are nanoseconds. Names of kernels stand in `kernel_symbols`, those of calls in `strings` by kind and operation.
Without `--hip-trace` a file holds the device alone.

Source: https://github.com/ROCm/rocprofiler-sdk, source/docs/rocprofv3-schema.json

rocprofv3's CSV: PREFIX_kernel_trace.csv, _memory_copy_trace.csv, _hip_api_trace.csv and the like, one kind a file.

Source: https://github.com/ROCm/rocprofiler-sdk, source/docs/how-to/using-rocprofv3.rst
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError, Problems
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_csv_rows, read_json, require_mapping, whole_number
from slipstick.workloads.importers.profilers.columns import EventColumns, event_table
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

TOP = "rocprofiler-sdk-tool"
LIMIT_BYTES = 1024 * MEGABYTE
GPU = 2
"""`type` of an agent that is a GPU."""
_COPIES = ("HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE", "HOST_TO_HOST")
_SHORT = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}


def read_rocprof_json(path: Path) -> EventTable:
    """The events of the process in a file (see `nsys.read_nsys` for categories and arguments).

    Raises InputError where the file is not one of these or holds no events; names the first fields that are wrong, all
    at once.
    """
    document = require_mapping(read_json(path, LIMIT_BYTES), path, "the document")
    tools = document.get(TOP)
    if not isinstance(tools, list) or not tools:
        raise InputError(f"{path}: {TOP}: want a list with a process, got {str(tools)[:40]!r}")
    if len(tools) > 1:
        raise InputError(f"{path}: {TOP}: {len(tools)} processes in one file, want one: give each a file of its own")
    tool = require_mapping(tools[0], path, f"{TOP}[0]")
    records = require_mapping(tool.get("buffer_records") or {}, path, f"{TOP}[0].buffer_records")
    symbols = {
        entry["kernel_id"]: str(entry.get("demangled_kernel_name") or entry.get("kernel_name") or "")[:500]
        for entry in _entries(tool, "kernel_symbols", path)
        if type(entry.get("kernel_id")) is int
    }
    kinds = _kinds(tool, path)
    readers = {"kernel_dispatch": _kernel, "memory_copy": _copy, "hip_api": _call, "marker_api": _call}
    categories = {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy", "hip_api": "hip_runtime"}
    parts, wrong = [], Problems(f"{path}: buffer_records: no whole times and numbers")
    for name, read in readers.items():
        rows, labels = list[tuple[int, ...]](), dict[str, int]()
        for index, entry in enumerate(_entries(records, name, path)):
            try:
                *numbers, label = read(entry, symbols, kinds)
                if any(type(number) is not int or abs(number) >= 1 << 63 for number in numbers):
                    raise ValueError
                rows.append((*numbers, labels.setdefault(label, len(labels))))
            except (AttributeError, KeyError, TypeError, ValueError):
                wrong.append(f"{name}[{index}]: {str(entry)[:80]!r}")
        if rows:
            parts.append(_part(categories.get(name, "user_annotation"), np.array(rows), tuple(labels)))
    wrong.refuse()
    if not parts:
        raise InputError(f"{path}: holds no dispatches, copies, calls or ranges")
    notes = TraceNotes()
    devices = [entry for entry in _entries(tool, "agents", path) if entry.get("type") == GPU]
    notes.metadata["deviceProperties"] = [{"name": str(d.get("product_name") or d.get("name"))[:80]} for d in devices]
    return event_table(parts, {}, notes, 1e-9)


def _part(category: str, rows: Any, labels: tuple[str, ...]) -> EventColumns:
    start, end, process, thread, correlation, names = rows.T
    known = {"correlation": np.where(correlation < 0, np.nan, correlation), "stream": thread.astype(float)}
    return EventColumns(category, start, end, names, labels, process, thread, known)


def _entries(holder: Mapping[str, Any], field: str, path: Path) -> Iterator[Mapping[str, Any]]:
    entries = holder.get(field) or []
    if not isinstance(entries, list):
        raise InputError(f"{path}: {field}: want a list, got {str(entries)[:40]!r}")
    for index, entry in enumerate(entries):
        yield require_mapping(entry, path, f"{field}[{index}]")


def _kinds(tool: Mapping[str, Any], path: Path) -> Sequence[Sequence[str]]:
    """Names of operations by the number of their kind."""
    strings = require_mapping(tool.get("strings") or {}, path, "strings")
    kinds = []
    for entry in _entries(strings, "buffer_records", path):
        names = entry.get("operations") or []
        kinds.append([str(name)[:200] for name in names] if isinstance(names, list) else [])
    return kinds


_Row = tuple[Any, Any, Any, Any, Any, str]


def _times(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["start_timestamp"], entry["end_timestamp"]


def _kernel(entry: Mapping[str, Any], symbols: Mapping[int, str], _: Sequence[Sequence[str]]) -> _Row:
    info = entry["dispatch_info"]
    stream = (entry.get("stream_id") or {}).get("handle") or info["queue_id"]["handle"]
    number = entry["correlation_id"]["internal"]
    name = symbols.get(info["kernel_id"]) or f"kernel {info['kernel_id']}"
    return *_times(entry), info["agent_id"]["handle"], stream, number, name


def _copy(entry: Mapping[str, Any], _: Mapping[int, str], kinds: Sequence[Sequence[str]]) -> _Row:
    name = _named(entry, kinds)
    way = next((_SHORT[word] for word in _COPIES if word in name), name)
    source, target = entry["src_agent_id"]["handle"], entry["dst_agent_id"]["handle"]
    device = source if way == "DtoH" else target
    stream = (entry.get("stream_id") or {}).get("handle", 0)
    return *_times(entry), device, stream, entry["correlation_id"]["internal"], f"Memcpy {way}"


def _call(entry: Mapping[str, Any], _: Mapping[int, str], kinds: Sequence[Sequence[str]]) -> _Row:
    return *_times(entry), 0, entry["thread_id"], entry["correlation_id"]["internal"], _named(entry, kinds)


def _named(entry: Mapping[str, Any], kinds: Sequence[Sequence[str]]) -> str:
    kind, operation = entry["kind"], entry["operation"]
    if 0 <= kind < len(kinds) and 0 <= operation < len(kinds[kind]):
        return str(kinds[kind][operation])
    return f"operation {kind}.{operation}"


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
    wrong = Problems(f"{path}: want whole numbers of nanoseconds")
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
    wrong.refuse()
    if not rows:
        raise InputError(f"{path}: no rows below the header")
    part = _part(NAMES[named], np.array(rows, dtype=np.int64), tuple(labels))
    return event_table([part], {}, TraceNotes(), 1e-9)


def _lane(row: dict[str, str], columns: tuple[str, ...]) -> int | None:
    text = next((row[column] for column in columns if column in row), "0")
    match = _LANE.fullmatch(text)
    return int(match.group(1)) if match else None


def _name(text: str) -> str:
    """A kernel's name as it is; a copy's as CUDA's tools write it."""
    way = _COPY.fullmatch(text)
    return f"Memcpy {way.group(1)[0]}to{way.group(2)[0]}" if way else text[:500]
