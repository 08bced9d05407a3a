"""Steps of a profiler's trace as workloads: what ran, in which order, and how long each took.

The events come from `traces.chrome_trace`; a step is what stands between two marks of the profiler
(``ProfilerStep#N``). On an accelerator the operations are its kernels and copies, found through the launches that the
host made within the step; otherwise the outermost operations of the host.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.importers.traces.activity import CALLS
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.runs.event_steps import DEVICE_CATEGORIES, SKIPPED_CATEGORIES
from slipstick.workloads.runs.event_table import EventTable

MARK = r"ProfilerStep#(\d+)"
MAX_NAME = 80


@dataclass(frozen=True)
class MeasuredStep:
    """One step of a run.

    `workload`: its operations; each waits for the one before it on its own stream or thread. Attribute `measured_as` is
        the key into `seconds`; what an operation computes is not in a trace, so none has flop (kind "uncounted").
    `seconds`: measured duration of each operation [s].
    `duration`: of the whole step on the host [s].
    """

    number: int
    workload: Workload
    seconds: FrozenDict[float]
    duration: float


def import_measured_steps(path: str | os.PathLike[str], mark: str = MARK) -> list[MeasuredStep]:
    """All steps of a Chrome or Kineto trace (.json or .json.gz, streamed).

    Raises InputError where the file is no trace, or holds no mark of a step.
    """
    return measured_steps(read_events(Path(path), arguments=("correlation", "bytes")), Path(path).name, mark)


def measured_steps(events: EventTable, name: str, mark: str = MARK) -> list[MeasuredStep]:
    """As `import_measured_steps`, of events already read.

    Raises InputError where no event matches `mark`.
    """
    numbers = {code: int(match.group(1)) for code, text in enumerate(events.names) if (match := re.search(mark, text))}
    categories = np.array([category.lower() for category in events.categories])
    category = categories[events.category] if len(events) else np.array([], dtype=str)
    on_device = np.isin(category, list(DEVICE_CATEGORIES))
    is_mark = np.isin(events.name, list(numbers)) & ~on_device & ~np.char.startswith(category, "gpu")
    marks = np.flatnonzero(is_mark)
    if not len(marks):
        raise InputError(f"{name}: no event names a step ({mark}): profile with a schedule, or give another mark")
    usable = ~np.isin(category, ["", *SKIPPED_CATEGORIES]) & ~is_mark & ~np.isin(category, CALLS)
    correlation = events.arguments["correlation"]
    launched = np.isin(category, CALLS) & ~np.isnan(correlation)
    steps = []
    for index in marks[np.argsort(events.start[marks], kind="stable")]:
        begin, end = events.start[index], events.start[index] + events.duration[index]
        within = (events.start >= begin) & (events.start < end)
        if on_device.any():
            wanted = correlation[launched & within]
            chosen = on_device & (np.isin(correlation, wanted) if len(wanted) else within)
        else:
            chosen = _outermost(events, usable & within & (events.thread == events.thread[index]))
        number = numbers[int(events.name[index])]
        steps.append(_step(events, np.flatnonzero(chosen), number, float(events.duration[index]), name))
    return steps


def _outermost(events: EventTable, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Of nested events of one thread, those that stand in no other."""
    kept = np.zeros(len(events), dtype=bool)
    order = np.flatnonzero(chosen)
    order = order[np.lexsort((-events.duration[order], events.start[order]))]
    end = -np.inf
    for index in order:
        if events.start[index] >= end - 1e-9:
            kept[index] = True
            end = events.start[index] + events.duration[index]
    return kept


def _step(events: EventTable, chosen: npt.NDArray[np.intp], number: int, duration: float, name: str) -> MeasuredStep:
    operations: list[Op] = []
    edges: list[tuple[str, str]] = []
    seconds: dict[str, float] = {}
    used: dict[str, int] = {}
    last: dict[tuple[int, int], str] = {}
    for index in chosen[np.argsort(events.start[chosen], kind="stable")]:
        label = events.names[events.name[index]][:MAX_NAME]
        used[label] = used.get(label, 0) + 1
        unique = label if used[label] == 1 else f"{label}#{used[label]}"
        seconds[unique] = float(events.duration[index])
        moved = events.arguments["bytes"][index]
        facts: dict[str, Attribute] = {"function": label, "measured_as": unique}
        dims = {"reads": 0.0 if np.isnan(moved) else float(moved), "writes": 0.0}
        operations.append(operation(unique, "uncounted", dims, "uint8", facts))
        lane = (int(events.process[index]), int(events.thread[index]))
        if lane in last:
            edges.append((last[lane], unique))
        last[lane] = unique
    workload = Workload(
        f"{name}-step{number}",
        tuple(operations),
        tuple(edges),
        metadata=FrozenDict({"source": f"trace {name}", "purpose": "run", "step": number, "step_seconds": duration}),
        uncounted=(f"flop of {len(operations)} measured operations",) if operations else (),
    )
    return MeasuredStep(number, workload, FrozenDict(seconds), duration)
