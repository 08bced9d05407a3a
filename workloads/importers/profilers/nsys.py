"""Nsight Systems' SQLite export (`nsys export --type sqlite`, or `nsys profile --export=sqlite`).

Kernels, copies, fills, calls of CUDA's runtime and driver, and NVTX ranges, with times in nanoseconds; names stand in
`StringIds`. Everything else of the file (samples, context switches, other APIs) is left out.

Source: "SQLite Schema Reference", https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.sqlite_files import SqliteTables, tables
from slipstick.workloads.importers.profilers.columns import EventColumns, event_table
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

KERNELS, COPIES, FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
CALLS, RANGES, STRINGS, DEVICES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds", "TARGET_INFO_GPU"
PUSH_POP, START_END = 59, 60
"""Kinds of NVTX events that have a start and an end."""
_COPIES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_THREAD_BITS, _PROCESS_BITS = 24, 24


def is_nsys(path: Path) -> bool:
    """Whether an SQLite file holds tables of this tool; an error where it is no readable one."""
    with tables(path) as opened:
        return any(name in opened for name in (KERNELS, COPIES, CALLS, RANGES)) and STRINGS in opened


def read_nsys(path: Path) -> EventTable:
    """The events of a file, in the order device work, calls, ranges.

    Categories are those of Kineto (kernel, gpu_memcpy, gpu_memset, cuda_runtime, user_annotation), so that a graph and
    steps are made of them as of its traces. Arguments: correlation, stream, bytes.
    Raises InputError where the file is not one of these, is damaged, or holds no events.
    """
    notes = TraceNotes()
    with tables(path) as opened:
        if STRINGS not in opened:
            raise InputError(f"{path}: no table {STRINGS}: not an export of Nsight Systems")
        processes = _Processes()
        parts = [*_device(opened, processes), *_host(opened, processes)]
        if DEVICES in opened and "name" in opened.columns[DEVICES]:
            names = opened.texts(DEVICES, "id", "name")
            notes.metadata["deviceProperties"] = [{"name": name[:80]} for _, name in sorted(names.items())]
        wanted = np.unique(np.concatenate([part.names for part in parts if part.labels is None] or [np.empty(0, int)]))
        strings = opened.texts(STRINGS, "id", "value") if len(wanted) else {}
    if not sum(len(part.start) for part in parts):
        raise InputError(f"{path}: holds no CUDA activity and no NVTX ranges; was it recorded with --trace=cuda,nvtx?")
    return event_table(parts, strings, notes, 1e-9)


@dataclass
class _Processes:
    """Numbers of processes as they are met; a file of one process keeps its correlation numbers as they are."""

    known: dict[int, int] = field(default_factory=dict)

    def correlated(self, correlation: IntArray, process: IntArray) -> FloatArray:
        """Correlation numbers that differ between processes; NaN where there is none."""
        numbers, places = np.unique(process, return_inverse=True)
        order = np.array([self.known.setdefault(number, len(self.known)) for number in numbers.tolist()], dtype=float)
        return np.where(correlation < 0, np.nan, correlation + order[places.reshape(-1)] * 2.0**32)


def _device(tables: SqliteTables, processes: _Processes) -> Iterator[EventColumns]:
    for table, category, name in (
        (KERNELS, "kernel", "demangledName"),
        (COPIES, "gpu_memcpy", "copyKind"),
        (FILLS, "gpu_memset", ""),
    ):
        if table not in tables:
            continue
        held = tables.columns[table]
        rest = [one for one in ("correlationId", "globalPid", "bytes", "srcKind", "dstKind") if one in held]
        if name == "demangledName" and name not in held:
            name = "shortName"
        columns = ["start", "end", "deviceId", "streamId", *([name] if name else []), *rest]
        rows = tables.integers(table, columns)
        values = dict(zip(columns, rows.T, strict=True))
        missing = np.full(len(rows), -1, dtype=np.int64)
        labels = None
        names = values.get(name, missing)
        if category == "gpu_memcpy":
            names, labels = _copy_names(names, values.get("srcKind", missing), values.get("dstKind", missing))
        elif category == "gpu_memset":
            names, labels = np.zeros(len(rows), dtype=np.int64), ("Memset (Device)",)
        process = values.get("globalPid", missing) >> _THREAD_BITS
        yield EventColumns(
            category,
            values["start"],
            values["end"],
            names,
            labels,
            values["deviceId"],
            values["streamId"],
            {
                "correlation": processes.correlated(values.get("correlationId", missing), process),
                "stream": values["streamId"].astype(float),
                "bytes": np.where(values.get("bytes", missing) < 0, np.nan, values.get("bytes", missing)),
            },
        )


def _copy_names(kind: IntArray, source: IntArray, target: IntArray) -> tuple[IntArray, tuple[str, ...]]:
    """Codes and names such as "Memcpy HtoD (Pageable -> Device)"."""
    combined, codes = np.unique(np.stack([kind, source, target], axis=1), axis=0, return_inverse=True)
    labels = []
    for how, one, other in combined.tolist():
        between = f" ({_MEMORIES.get(one, 'Unknown')} -> {_MEMORIES.get(other, 'Unknown')})" if one >= 0 else ""
        labels.append(f"Memcpy {_COPIES.get(how, how)}{between}")
    return codes.reshape(-1).astype(np.int64), tuple(labels)


def _host(tables: SqliteTables, processes: _Processes) -> Iterator[EventColumns]:
    if CALLS in tables:
        rows = tables.integers(CALLS, ["start", "end", "globalTid", "nameId", "correlationId"])
        start, end, thread, names, correlation = rows.T
        process = thread >> _THREAD_BITS
        yield EventColumns(
            "cuda_runtime", start, end, names, None,
            process & (1 << _PROCESS_BITS) - 1, thread & (1 << _THREAD_BITS) - 1,
            {"correlation": processes.correlated(correlation, process)},
        )  # fmt: skip
    if RANGES in tables:
        held = tables.columns[RANGES]
        rows = tables.integers(
            RANGES,
            ["rowid", "start", "end", "globalTid", *(["textId"] if "textId" in held else []), "eventType"],
        )
        rows = rows[np.isin(rows[:, -1], (PUSH_POP, START_END)) & (rows[:, 2] >= 0), :-1]
        texts = rows[:, 4] if "textId" in held else np.full(len(rows), -1, dtype=np.int64)
        registered = texts >= 0
        yield _ranges(rows[registered], texts[registered], None)
        if not registered.all():
            ranges = tables.texts(RANGES, "rowid", "text")
            labels = tuple(dict.fromkeys(ranges.get(row, "") for row in rows[~registered, 0].tolist()))
            code = {label: number for number, label in enumerate(labels)}
            names = np.array([code[ranges.get(row, "")] for row in rows[~registered, 0].tolist()], dtype=np.int64)
            yield _ranges(rows[~registered], names, labels)


def _ranges(rows: IntArray, names: IntArray, labels: tuple[str, ...] | None) -> EventColumns:
    process, thread = rows[:, 3] >> _THREAD_BITS, rows[:, 3] & (1 << _THREAD_BITS) - 1
    return EventColumns(
        "user_annotation", rows[:, 1], rows[:, 2], names, labels,
        process & (1 << _PROCESS_BITS) - 1, thread, {},
    )  # fmt: skip
