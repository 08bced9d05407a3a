"""Steps of PyTorch's traces as workloads: the operations that the host called, by their shapes.

The events come from `traces.chrome_trace`; a step is what stands between two marks of the profiler
(``ProfilerStep#N``), or the whole trace where there is none. On each branch of calls the outermost operation is taken
whose name and shapes (torch.profiler, record_shapes=True) say its work, whether the host ran it or a device did: such
a step has an estimate on any machine.
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
from slipstick.workloads.runs.event_steps import DEVICE_CATEGORIES
from slipstick.workloads.runs.event_table import EventTable

MARK = re.compile(r"ProfilerStep#(\d+)")
MAX_NAME = 80
NOTHING = (
    "to", "dropout", "detach", "alias", "contiguous", "resolve_conj", "resolve_neg", "lift_fresh", "item", "result_type"
)  # fmt: skip
"""Calls that call nothing, and so did nothing."""
CLOCK = 1e-9
"""Seconds to which profilers round."""


@dataclass(frozen=True)
class TracedStep:
    """One step of a run: its number (0 of a trace without marks), what it does, and its seconds on the host.

    Each operation waits for the one called before it.
    """

    number: int
    workload: Workload
    duration: float


def read_traced_steps(path: str | os.PathLike[str]) -> list[TracedStep]:
    """All steps of a Chrome or Kineto trace (.json or .json.gz, streamed).

    Raises InputError where the file is no trace, or its operations have no shapes.
    """
    events = read_events(Path(path), lists=LISTS)
    if events.text is None or not (events.text >= 0).any():
        raise InputError(f"{path}: its operations have no shapes: record with torch.profiler, record_shapes=True")
    name = Path(path).name
    numbers = {code: int(match[1]) for code, text in enumerate(events.names) if (match := MARK.search(text))}
    skipped = (*DEVICE_CATEGORIES, *CALLS, "trace", "gpu_user_annotation")
    host = ~np.isin([category.lower() for category in events.categories], skipped)[events.category]
    is_mark = np.isin(events.name, list(numbers)) & host
    marks = np.flatnonzero(is_mark)
    if not len(marks):
        return [_step(events, np.flatnonzero(host), 0, name)]
    steps = []
    for index in marks[np.argsort(events.start[marks], kind="stable")]:
        begin, end = events.start[index], events.start[index] + events.duration[index]
        inside = host & ~is_mark & (events.start >= begin) & (events.start < end)
        made = _step(events, np.flatnonzero(inside), numbers[int(events.name[index])], name)
        steps.append(replace(made, duration=float(events.duration[index])))
    return steps


def _step(events: EventTable, rows: npt.NDArray[np.intp], number: int, name: str) -> TracedStep:
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
            below = rows[place + 1] if place + 1 < len(rows) else -1
            leaf = below < 0 or lanes[below] != lanes[row] or events.start[below] >= ends[row] - CLOCK
            if (pieces := known[key]) is not None:
                made += [(row, label, phase, op) for op in pieces]
            elif leaf and label.removeprefix("aten::") not in NOTHING:
                made.append((row, label, phase, operation(label, "uncounted", {"reads": 0, "writes": 0}, "uint8")))
            taken = known[key] is not None
        calls.append((row, taken, phase))
    made.sort(key=lambda one: float(events.start[one[0]]))
    operations: list[Op] = []
    used: dict[str, int] = {}
    for _, label, phase, op in made:
        short = label.removeprefix("aten::")[:MAX_NAME]
        used[short] = used.get(short, 0) + 1
        unique = short if used[short] == 1 else f"{short}#{used[short]}"
        held: dict[str, Attribute] = {**op.attributes, **({} if phase == "forward" else {"phase": phase})}
        operations.append(replace(op, name=unique, attributes=FrozenDict(held)))
    order = [op.name for op in operations]
    lost = {op.name.partition("#")[0] for op in operations if op.kind == "uncounted"}
    facts: dict[str, Attribute] = {
        WORK: program_kind(operations),
        "source": f"trace {name}",
        "purpose": "run",
        "step": number,
    }
    workload = Workload(
        f"{name}-step{number}", tuple(operations), tuple(itertools.pairwise(order)),
        metadata=FrozenDict(facts), uncounted=tuple(sorted(lost)),
    )  # fmt: skip
    return TracedStep(number, workload, float(ends[rows].max() - events.start[rows].min()) if len(rows) else 0.0)
