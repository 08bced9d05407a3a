"""KernelBench's programs as operations of the taxonomy, and their times: read from the public tables.

The traces are CPU decompositions: recurrent layers stand as one oneDNN call a layer, or unrolled; both become steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.frames import csv_frame
from slipstick.common.records import FrozenDict
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.hwmodels.catalog import aliases, machine
from slipstick.hwmodels.catalog.names import exact
from slipstick.workloads.graph.assembly import Tensor
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.importers.torch.aten import Call, read_call
from slipstick.workloads.transforms.channels_last import channels_last
from slipstick.workloads.transforms.fusion import fused

if TYPE_CHECKING:
    import pandas as pd

MACHINES = {
    "A10G": "a10g",
    "A100-40": "a100-sxm-40gb",
    "A100-80": "a100-sxm-80gb",
    "B200": "b200-sxm",
    "H100-PCIe": "h100-pcie",
    "H100-SXM": "h100-sxm",
    "H200": "h200-sxm",
    "L4": "l4",
    "L40S": "l40s",
    "MI250": "mi250-gcd",
    "RTX 3090 Ti": "rtx-3090-ti",
    "RTX 4090": "rtx-4090",
    "T4": "t4",
}
"""Devices of the table in the catalogue."""
WIDENED = "_safe_softmax.default"
"""Of attention as a CPU decomposes it: float16 is widened there (transformers/attention.cpp of aten), not in
kernels of a GPU."""
UNROLLED = 400
"""A product that stands more often in one program is a step of an unrolled recurrence."""


def machine_of(device: str) -> str:
    """The catalogue's name of a device of the table; "" where it is not there."""
    return MACHINES.get(device) or exact(device, aliases()) or ""


@dataclass(frozen=True, eq=False)
class Program:
    """What one program runs.

    `operations`: each with how often, in the order of its trace.
    `unread`: operations that were not read.
    `edges`: names of operations of which the first made a tensor of the shape that the second reads: the tables hold no
        edges. None where a recurrence was unrolled.
    """

    operations: tuple[Op, ...]
    unread: tuple[str, ...]
    edges: tuple[tuple[str, str], ...] = ()

    @cached_property
    def workload(self) -> Workload:
        """As a question takes it."""
        return Workload("program", self.operations, self.edges, metadata=FrozenDict({WORK: "program"}))

    @cached_property
    def compiled(self) -> Program:
        """As PyTorch's compiler hands it over: `fused`, then `channels_last`."""
        return Program(tuple(channels_last(fused(self.workload))), self.unread)


EAGER, INDUCTOR = "eager", "inductor default"
"""Modes of the table that are fitted and scored."""


@dataclass(frozen=True)
class ProgramRun:
    """A program on a host, and its measured seconds.

    `device`: as the table names it. `mode`: `EAGER` or `INDUCTOR`.
    """

    source: str
    host: str
    device: str
    mode: str
    seconds: float

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two rows one measurement."""
        return self.host, self.mode, self.source

    @property
    def machine(self) -> str:
        """The catalogue's name of the device."""
        return machine_of(self.device)

    @property
    def generation(self) -> str:
        """Of the device."""
        return generation_of(machine(self.machine).family)


def times(folder: Path, cohort: str = "v0.1") -> pd.DataFrame:
    """Rows of one cohort without the marked ones: machine (a host), device, mode, source, level, problem, mean_s."""
    import pandas as pd

    path = folder / "programs/times.csv.gz"
    if not path.exists():
        return pd.DataFrame()
    frame = csv_frame(path)
    return frame[(frame["cohort"] == cohort) & frame["suspicious"].isna()].reset_index(drop=True)


def runs_of(folder: Path) -> list[ProgramRun]:
    """Rows of the cohort that is fitted, in both modes."""
    frame = times(folder)
    columns = [frame[name].tolist() for name in ("source", "machine", "device", "mode", "mean_s")] if len(frame) else []
    rows = zip(*columns, strict=True)
    made = [
        ProgramRun(str(one), str(host), str(device), str(mode), float(time)) for one, host, device, mode, time in rows
    ]
    return [one for one in made if one.mode in (EAGER, INDUCTOR)]


def programs(folder: Path) -> dict[str, Program]:
    """By source: the operations of every traced program."""
    path = folder / "programs/operations.csv.gz"
    if not path.exists():
        return {}
    frame = csv_frame(path)
    return {str(source): _program(part) for source, part in frame.groupby("source")}


def _program(rows: pd.DataFrame) -> Program:
    operations: list[Op] = []
    unread: list[str] = []
    edges: dict[tuple[str, str], None] = {}
    makers: dict[str, str] = {}
    widened = WIDENED in set(rows["operation"]) and "float16" in set(rows["dtype"])
    read = rows.assign(dtype="float16") if widened else rows
    for row in read.sort_values("first").itertuples():
        if widened and str(row.operation).startswith("_to_copy"):
            continue
        pieces = _pieces(row)
        if pieces is None:
            unread.append(str(row.operation))
            continue
        named = [replace(op, name=f"{len(operations) + i}.{op.name}") for i, op in enumerate(pieces)]
        if named:
            sources = [makers[shape] for shape in str(row.inputs).split(";") if shape in makers]
            edges |= {(source, named[0].name): None for source in sources}
            edges |= {(one.name, other.name): None for one, other in pairwise(named)}
            makers |= dict.fromkeys(str(row.outputs).split(";"), named[-1].name)
        operations += named
    rolled = _rolled(operations)
    return Program(tuple(rolled), tuple(unread), tuple(edges) if rolled is operations else ())


def _pieces(row: Any) -> list[Op] | None:
    """The operations of a line of the table; None where it cannot be read."""
    if str(row.operation).startswith("mkldnn_rnn_layer"):
        return _layer(row)
    pieces = read_call(_call(row))
    if pieces is None:
        return None
    name, dtype, count = str(row.operation), str(row.dtype), int(row.count)
    return [operation(name, p.kind, p.dims, dtype, p.attributes, times=count) for p in pieces]


def _rolled(operations: list[Op]) -> list[Op]:
    """Unrolled recurrences as steps: their products in the steps' stead, their elementwise operations inside."""
    if not any(op.kind == "gemm" and float(op.times) > UNROLLED for op in operations):
        return operations
    result = []
    for op in operations:
        if float(op.times) <= UNROLLED:
            result.append(op)
        elif op.kind == "gemm":
            size = {"batch": op.dims["n"], "hidden": op.dims["k"], "gates": 3, "outputs": op.dims["k"]}
            result.append(operation(op.name, "recurrent", size, op.dtype, {"function": "gru"}, times=op.times))
    return result


def _layer(row: Any) -> list[Op]:
    """A layer of a recurrent net: its inputs' product, and its steps."""
    x, weights = (shape.shape for shape in _tensors(row.inputs, row.dtype)[:2])
    length, batch, inputs = (int(size) for size in x)
    gates, hidden = int(weights[0]), int(weights[0]) // 4
    count = int(row.count)
    product = {"batch": 1, "m": gates, "n": length * batch, "k": inputs}
    steps = {"batch": batch, "hidden": hidden, "gates": 4, "outputs": hidden}
    return [
        operation(row.operation, "gemm", product, row.dtype, {}, times=count),
        operation(row.operation, "recurrent", steps, row.dtype, {"function": "lstm"}, times=count * length),
    ]


def _call(row: Any) -> Call:
    name = row.operation.partition(".")[0]
    inputs, results = _tensors(row.inputs, row.dtype), _tensors(row.outputs, row.dtype)
    scalars = _scalars(row.arguments)
    arguments: tuple[Any, ...] = (*inputs, *scalars)
    if name == "convolution":
        space = len(inputs[1].shape) - 2
        stride, padding, dilation = (tuple(scalars[i * space : (i + 1) * space]) for i in range(3))
        transposed, rest = scalars[3 * space], tuple(scalars[3 * space + 1 : 4 * space + 1])
        bias = inputs[2] if len(inputs) > 2 else None
        arguments = (inputs[0], inputs[1], bias, stride, padding, dilation, transposed, rest, scalars[-1])
    elif "pool" in name and "adaptive" not in name:
        space = 3 if "3d" in name else 2
        arguments = (*inputs, *(tuple(scalars[i : i + space]) for i in range(0, len(scalars) - space + 1, space)))
    elif name == "native_layer_norm":
        arguments = (inputs[0], tuple(scalars[:-1]), *inputs[1:], scalars[-1])
    elif name in ("cat", "stack"):
        arguments = (tuple(inputs), *scalars)
    return Call(name, arguments, tuple(results))


def _tensors(text: Any, dtype: str) -> list[Tensor]:
    """Shapes such as ``16x64x1x128;16`` as tensors."""
    if not isinstance(text, str):
        return []
    return [
        Tensor(tuple(int(size) for size in shape.split("x") if size not in ("", "scalar")), dtype)
        for shape in text.split(";")
    ]


def _scalars(text: Any) -> list[Any]:
    words = {"True": True, "False": False, "None": None}
    return [words[word] if word in words else _number(word) for word in (text.split() if isinstance(text, str) else ())]


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
