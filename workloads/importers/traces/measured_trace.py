"""Steps of a profiler's trace as workloads: what ran, in which order, and how long each took.

The events come from `traces.chrome_trace`; a step is what stands between two marks of the profiler
(``ProfilerStep#N``). On an accelerator the operations are its kernels and copies, found through the launches that the
host made within the step; otherwise the outermost operations of the host. Where a trace of a host alone holds shapes
(torch.profiler, record_shapes=True), it is the outermost ones whose work they say, with that work: such a step can be
asked on another machine. A trace without marks is one step then.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WORK, program_kind
from slipstick.workloads.importers.traces.activity import CALLS
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.kernel_shapes import LISTS, pieces_of_event
from slipstick.workloads.runs.event_steps import DEVICE_CATEGORIES, SKIPPED_CATEGORIES
from slipstick.workloads.runs.event_table import EventTable

MARK = r"ProfilerStep#(\d+)"
MAX_NAME = 80
NOTHING = (
    "to",
    "dropout",
    "detach",
    "alias",
    "contiguous",
    "resolve_conj",
    "resolve_neg",
    "lift_fresh",
    "item",
    "result_type",
)
"""Calls that call nothing, and so did nothing."""
CLOCK = 1e-9
"""Seconds to which profilers round."""


@dataclass(frozen=True)
class MeasuredStep:
    """One step of a run.

    `workload`: its operations; each waits for the one before it on its own stream or thread. Attribute `measured_as` is
        the key into `seconds`; what a kernel computes is not in a trace, so none has flop (kind "uncounted").
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
    events = read_events(Path(path), arguments=("correlation", "bytes"), lists=LISTS)
    return measured_steps(events, Path(path).name, mark)


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
    shaped = events.text is not None and not on_device.any() and bool((events.text >= 0).any())
    if not len(marks) and shaped:
        return [_shaped_step(events, np.flatnonzero(category != "trace"), 0, 0.0, name)]
    if not len(marks):
        raise InputError(f"{name}: no event names a step ({mark}): profile with a schedule, or give another mark")
    usable = ~np.isin(category, ["", *SKIPPED_CATEGORIES]) & ~is_mark & ~np.isin(category, CALLS)
    correlation = events.arguments["correlation"]
    launched = np.isin(category, CALLS) & ~np.isnan(correlation)
    steps = []
    for index in marks[np.argsort(events.start[marks], kind="stable")]:
        begin, end = events.start[index], events.start[index] + events.duration[index]
        within = (events.start >= begin) & (events.start < end)
        number, duration = numbers[int(events.name[index])], float(events.duration[index])
        if shaped:
            beside = within & ~is_mark & (category != "trace")
            steps.append(_shaped_step(events, np.flatnonzero(beside), number, duration, name))
            continue
        if on_device.any():
            wanted = correlation[launched & within]
            chosen = on_device & (np.isin(correlation, wanted) if len(wanted) else within)
        else:
            chosen = _outermost(events, usable & within & (events.thread == events.thread[index]))
        steps.append(_step(events, np.flatnonzero(chosen), number, duration, name))
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


def _shaped_step(
    events: EventTable, rows: npt.NDArray[np.intp], number: int, duration: float, name: str
) -> MeasuredStep:
    """The operations of a host by their shapes: on each branch of calls the outermost one that they say."""
    ends = events.start + events.duration
    rows = rows[np.lexsort((-ends[rows], events.start[rows], events.thread[rows], events.process[rows]))]
    names, lanes = events.names, list(zip(events.process.tolist(), events.thread.tolist(), strict=True))
    known: dict[tuple[int, int], list[Op] | None] = {}
    made: list[tuple[int, str, str, Op]] = []
    calls: list[tuple[int, bool, str]] = []  # those that are open: the row, whether it is taken, and its phase
    for place, row in enumerate(rows.tolist()):
        while calls and (lanes[calls[-1][0]] != lanes[row] or ends[calls[-1][0]] <= events.start[row] + CLOCK):
            calls.pop()
        _, taken, phase = calls[-1] if calls else (row, False, "forward")
        label, text = names[events.name[row]], int(events.text[row]) if events.text is not None else -1
        phase = (
            "backward" if label.startswith("autograd::engine") else "optimizer" if "Optimizer.step" in label else phase
        )
        if not taken and label.startswith("aten::"):
            key = int(events.name[row]), text
            if key not in known:
                known[key] = pieces_of_event(events, *key)
            below = rows[place + 1] if place + 1 < len(rows) else row
            leaf = lanes[below] != lanes[row] or events.start[below] >= ends[row] - CLOCK
            if (pieces := known[key]) is not None:
                made += [(row, label, phase, op) for op in pieces]
            elif leaf and label.removeprefix("aten::") not in NOTHING:
                made.append((row, label, phase, operation(label, "uncounted", {"reads": 0, "writes": 0}, "uint8")))
            taken = known[key] is not None
        calls.append((row, taken, phase))
    made.sort(key=lambda one: float(events.start[one[0]]))
    operations: list[Op] = []
    seconds: dict[str, float] = {}
    used: dict[str, int] = {}
    for row, label, phase, op in made:
        short = label.removeprefix("aten::")[:MAX_NAME]
        used[short] = used.get(short, 0) + 1
        unique = short if used[short] == 1 else f"{short}#{used[short]}"
        facts = op.attributes if phase == "forward" else {**op.attributes, "phase": phase}
        operations.append(replace(op, name=unique, attributes=FrozenDict(facts)))
        seconds[unique] = float(events.duration[row])
    order = [op.name for op in operations]
    lost = {op.name.partition("#")[0] for op in operations if op.kind == "uncounted"}
    facts = {WORK: program_kind(operations), "source": f"trace {name} of a host", "purpose": "run", "step": number}
    workload = Workload(
        f"{name}-step{number}", tuple(operations), tuple(itertools.pairwise(order)),
        metadata=FrozenDict(facts), uncounted=tuple(sorted(lost)),
    )  # fmt: skip
    whole = duration or float(ends[rows].max() - events.start[rows].min())
    return MeasuredStep(number, workload, FrozenDict(seconds), whole)


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
