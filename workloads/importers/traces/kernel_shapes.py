"""What the kernels of a profiler's trace compute: the operation that launched each, with its input shapes.

Kineto writes "Input Dims", "Input type" and, in newer versions, "Concrete Inputs" beside each operation of the host
where shapes were recorded (torch.profiler, record_shapes=True), and the operation's "External id" beside each kernel.
Results are not written: they follow from the inputs for the operations that decide the time.

Steps of PyTorch's traces as workloads: the operations that the host called, by their shapes.

The events come from `traces.chrome_trace`; a step is what stands between two marks of the profiler
(``ProfilerStep#N``), or the whole trace where there is none. On each branch of calls the outermost operation is taken
whose name and shapes (torch.profiler, record_shapes=True) say its work, whether the host ran it or a device did: such
a step has an estimate on any machine.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.assembly import DTYPES, Tensor, traced_shape
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WORK, program_kind
from slipstick.workloads.importers.torch.aten import Call, read_call
from slipstick.workloads.importers.traces.activity import CALLS, HOST
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.graph_builder import rows_by_number, with_category
from slipstick.workloads.runs.event_steps import DEVICE_CATEGORIES
from slipstick.workloads.runs.event_table import EventTable

ARGUMENTS = ("correlation", "External id")
"""Numeric arguments of events that graphs and operations are made from."""
LISTS = ("Input Dims", "Input type", "Concrete Inputs")
"""Arguments that hold an operation's shapes."""
MOST_OPERATIONS = 5_000_000
_CONVOLUTIONS = ("cudnn_convolution", "miopen_convolution", "mkldnn_convolution", "miopen_depthwise_convolution")
_FLASH = ("_flash_attention_forward", "_efficient_attention_forward", "flash_attn::_flash_attn_forward")
_FLASH_BACKWARD = ("_flash_attention_backward", "_efficient_attention_backward", "flash_attn::_flash_attn_backward")


def read_kernel_operations(path: str | Path) -> dict[int, Op]:
    """The operation behind each kernel of a trace (see `kernel_operations`), by the kernel's correlation number.

    Raises InputError where the trace cannot be read.
    """
    return kernel_operations(read_events(path, ARGUMENTS, LISTS), str(path))


def kernel_operations(table: EventTable, where: str) -> dict[int, Op]:
    """The operation behind each kernel, by the kernel's correlation number; only where its shapes are known.

    It is the one of the same "External id"; where a profiler wrote none, the innermost around the launch.

    `table`: with the arguments `ARGUMENTS` and the lists `LISTS`.
    Raises InputError where the trace holds more than 5 million operations.
    """
    if table.text is None:
        return {}
    correlation = table.arguments["correlation"]
    external = table.arguments["External id"]
    calls = np.flatnonzero(with_category(table, HOST) & np.isfinite(external))
    if len(calls) > MOST_OPERATIONS:
        raise InputError(f"{where}: more than {MOST_OPERATIONS:,} operations")
    kernels = np.flatnonzero(with_category(table, ("kernel",)) & np.isfinite(correlation))
    behind = rows_by_number(external, calls, external[kernels])
    lost = np.flatnonzero(behind < 0)
    if len(lost) and len(calls):
        launches = np.flatnonzero(with_category(table, CALLS) & np.isfinite(correlation))
        around = _innermost(table, calls, launches)
        behind[lost] = [around.get(number, -1) for number in correlation[kernels[lost]].tolist()]
    known: dict[tuple[int, int], Op | None] = {}
    operations = {}
    names, texts = table.name, table.text
    for number, row in zip(correlation[kernels].astype(np.int64).tolist(), behind.tolist(), strict=True):
        key = (int(names[row]), int(texts[row])) if row >= 0 else (-1, -1)
        if key not in known:
            known[key] = _of_texts(table, *key)
        if (op := known[key]) is not None:
            operations[number] = op
    return operations


def _of_texts(table: EventTable, name: int, text: int) -> Op | None:
    made = pieces_of_event(table, name, text)
    return made[0] if made else None  # the two products of a backward convolution are alike


def pieces_of_event(table: EventTable, name: int, text: int) -> list[Op] | None:
    """What the operation of a name and of the texts of its lists amounts to, nothing where it does nothing; None where
    they do not say.

    `name`, `text`: codes of the table.
    """
    if text < 0 or table.text is None:
        return None
    try:
        lists = [json.loads(written) if written else None for written in table.texts[text]]
    except (ValueError, RecursionError):
        return None
    return _operation(table.names[name], *lists)


def _innermost(table: EventTable, calls: npt.NDArray[np.int64], launches: npt.NDArray[np.int64]) -> dict[float, int]:
    """The row of the innermost operation of a launch's thread around its start, by correlation."""
    innermost: dict[float, int] = {}
    start, end = table.start, table.start + table.duration
    for thread in np.unique(table.thread[launches]).tolist():
        inside = calls[table.thread[calls] == thread]
        opened = inside[np.lexsort((-end[inside], start[inside]))].tolist()
        of_thread = launches[table.thread[launches] == thread]
        stack: list[int] = []
        at = 0
        for row in of_thread[np.lexsort((table.arguments["correlation"][of_thread], start[of_thread]))].tolist():
            while at < len(opened) and start[opened[at]] <= start[row]:
                while stack and end[stack[-1]] < start[opened[at]]:
                    stack.pop()
                stack.append(opened[at])
                at += 1
            while stack and end[stack[-1]] < start[row]:
                stack.pop()
            if stack:
                innermost[float(table.arguments["correlation"][row])] = stack[-1]
    return innermost


def _operation(name: str, dims: Any, types: Any, concrete: Any) -> list[Op] | None:
    try:
        call = kineto_call(name, dims, types, concrete)
        pieces = None if call is None else read_call(call)
        if not call or pieces is None:
            return None
        floating = [t.dtype for t in call.tensors() if "float" in t.dtype]
        dtype = floating[0] if floating else "int64"
        return [operation(name[:60], p.kind, p.dims, dtype, p.attributes, times=p.times) for p in pieces]
    except (InputError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, StopIteration, AttributeError):
        return None


def kineto_call(name: str, dims: Any, types: Any, concrete: Any) -> Call | None:
    """The call that Kineto's arguments describe, with the shape of its result; None where there are none."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    values = concrete if isinstance(concrete, list) else [""] * len(dims)
    values = values + [""] * (len(dims) - len(values))
    arguments = tuple(_argument(d, str(t), c) for d, t, c in zip(dims, types, values, strict=False))
    base = name.removeprefix("aten::")
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    if not tensors and not any(isinstance(a, tuple) for a in arguments):
        return None
    if base in _CONVOLUTIONS:
        x, w = tensors[:2]
        lists = [a for a in arguments if isinstance(a, (list, tuple))]
        padding, stride, dilation = (lists + [None] * 3)[:3] if len(lists) >= 3 else (None, None, None)
        groups = x.shape[1] // w.shape[1]
        base, arguments = "convolution", (x, w, None, stride, padding, dilation, False, None, groups)
    if base in _FLASH + _FLASH_BACKWARD:
        inputs = tensors[1:4] if base in _FLASH_BACKWARD else tensors[:3]
        swapped = tuple(Tensor((t.shape[0], t.shape[2], t.shape[1], t.shape[3]), t.dtype) for t in inputs)
        back = base in _FLASH_BACKWARD
        base = "_scaled_dot_product_flash_attention" + ("_backward" if back else "")
        arguments = (swapped[0], *swapped) if back else swapped
    call = Call(base, _filled(base, arguments), ())
    return Call(base, call.arguments, _results(call))


def _filled(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Old traces leave out what is no tensor: what decides no shape takes its usual value."""
    if name == "convolution_backward":
        usual = (None, None, None, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, False))
        known = arguments[:11] + (None,) * (11 - len(arguments))
        return tuple(u if a is None and u is not None else a for a, u in zip(known, usual, strict=True))
    if name.removesuffix("_data").removesuffix("_backward").endswith("softmax") and not any(
        isinstance(a, int) and not isinstance(a, bool) for a in arguments
    ):
        return (*arguments, -1)
    if "layer_norm" in name and not any(isinstance(a, (list, tuple)) for a in arguments):
        return (*arguments, (1,))
    return arguments


def _argument(dims: Any, kind: str, concrete: Any) -> Any:
    if kind in DTYPES and (dims or concrete in ("", None)):
        return Tensor(traced_shape(dims), DTYPES[kind])
    if dims and isinstance(dims, list) and isinstance(dims[0], list):  # a list of tensors
        inner = kind.removeprefix("GenericList[").removesuffix("]").split(",")
        return tuple(Tensor(traced_shape(d), DTYPES.get(inner[0], "float32")) for d in dims)
    if not isinstance(concrete, str) or not concrete:
        return None
    if len(concrete) > 1000:
        return None
    text = {"True": "true", "False": "false"}.get(concrete, concrete)
    try:
        value = json.loads(text.replace("True", "true").replace("False", "false"))
    except (ValueError, RecursionError):
        return text
    return tuple(value) if isinstance(value, list) else value


def _results(call: Call) -> tuple[Tensor, ...]:
    """Shapes of what is made, where they follow from what is read."""
    tensors = call.tensors()
    match call.name:
        case "convolution" | "_convolution":
            x, w, stride, padding, dilation = (call.arguments[i] for i in (0, 1, 3, 4, 5))
            if not isinstance(stride, tuple) or not isinstance(padding, tuple):
                raise InputError("a convolution whose stride was not recorded")
            if call.arguments[6]:
                raise InputError("a transposed convolution")
            axes = len(w.shape) - 2
            spread = dilation if isinstance(dilation, tuple) else (1,) * axes
            out = tuple(
                (x.shape[2 + i] + 2 * padding[i] - spread[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
                for i in range(axes)
            )
            return (Tensor((x.shape[0], w.shape[0], *out), x.dtype),)
        case "embedding":
            return (Tensor((*tensors[1].shape, tensors[0].shape[-1]), tensors[0].dtype),)
        case "cat" | "stack":
            return (Tensor((sum(t.elements for t in tensors),), tensors[0].dtype),)
        case "sum" | "mean" | "max_pool2d_with_indices":
            return ()
    shape: tuple[int, ...] = ()
    for t in tensors:
        longest = max(len(shape), len(t.shape))
        one, other = (1,) * (longest - len(shape)) + shape, (1,) * (longest - len(t.shape)) + t.shape
        shape = tuple(max(a, b) for a, b in zip(one, other, strict=True))
    if call.name.endswith("_") and tensors:
        shape = tensors[0].shape
    if math.prod(shape) > 10**15:
        raise InputError("a result beyond all memory")
    return (Tensor(shape, tensors[0].dtype),) if tensors else ()


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
