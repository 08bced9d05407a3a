"""The law of image networks: kernels by class (`program_kernels`), fitted to whole networks on one machine or several.

A network is evaluated as PyTorch hands it over: under autocast in 16 bits on GPUs, fused where it was compiled. Of the
memory format convolutions and pooling know: their kernels differ, so channels-last ones are classes of their own, and
so are backward passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.fitted_model import UNGROUPED, LawRows
from slipstick.estimators.gpu.programs.program_classes import (
    LAST_ORDERS,
    OTHERS,
    features,
    kernel_class,
    relative,
)
from slipstick.estimators.gpu.programs.program_kernels import COMPILED, HOST, MODE, machine_groups
from slipstick.estimators.schedules.host_issue import NOT_ISSUED, issues
from slipstick.experiments.scoreboards.programs.image_networks import image_network
from slipstick.experiments.scoreboards.programs.program_law import TimedOperations, bounds
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.transforms.channels_last import channels_last
from slipstick.workloads.transforms.fusion import fused
from slipstick.workloads.transforms.mixed import autocast

SOURCE = "timm"
PRODUCTS = ("gemm", "convolution", "attention")


@dataclass(frozen=True)
class Setting:
    """What decides how a network is handed over: task, mode, layout, data type, and the major release of torch."""

    task: str
    mode: str
    layout: str
    dtype: str
    torch: str = "2"


@dataclass(frozen=True, eq=False)
class NetworkRow:
    """One network in one setting on one machine: its distinct operations as columns, shape (operations,) or (.., n).

    `names` are classes; `sides` are arithmetic, traffic, cores and main memory in seconds; `groups` are the row's, by
    level of the law.
    """

    names: tuple[str, ...]
    features: FloatArray
    half: FloatArray
    count: FloatArray
    issued: FloatArray
    sides: FloatArray
    groups: Mapping[str, str]


def lowered_graph(network: Workload, setting: Setting) -> Workload:
    """The operations that PyTorch launches."""
    called = as_run(network, setting)
    return channels_last(fused(called)) if setting.mode == "compiled" else called


def as_run(network: Workload, setting: Setting) -> Workload:
    """What a user asks of it: the operations as they were called, channels together where they lay so.

    A training step has a backward pass of each operation, of products two, and no update of parameters: no trace of
    these networks holds either.
    """
    written = unfused(network) if setting.torch == "1" else network
    typed = autocast(written, "float16") if setting.dtype == "float16-amp" else written
    operations = []
    for op in typed:
        last = setting.layout == "nhwc" and op.kind in ("convolution", "pool")
        here = replace(op, attributes=FrozenDict({**op.attributes, "order": LAST_ORDERS[0]})) if last else op
        operations.append(here)
        if setting.task == "training" and op.kind != "view":
            back = FrozenDict({**here.attributes, "phase": "backward"})
            count = 2 if op.kind in PRODUCTS else 1
            operations += [replace(here, name=f"{op.name}.backward{at}", attributes=back) for at in range(count)]
    work = "program" if setting.task == "inference" else "training program"
    return replace(typed, operations=tuple(operations), metadata=FrozenDict({**typed.metadata, WORK: work}))


def unfused(network: Workload) -> Workload:
    """Attention as timm wrote it before PyTorch 2 had it in one kernel: scores, softmax, weighted values."""
    operations: list[Op] = []
    edges: list[tuple[str, str]] = []
    last: dict[str, str] = {}
    for op in network:
        if op.kind != "attention":
            operations.append(op)
            continue
        batch, queries, keys = op.dims["batch"] * op.dims["heads"], op.dims["queries"], op.dims["keys"]
        scores = {"batch": batch, "m": keys, "n": queries, "k": op.dims["head_dim"]}
        values = {"batch": batch, "m": op.dims["value_dim"], "n": queries, "k": keys}
        rows = {"rows": batch * queries, "columns": keys}
        operations += [
            operation(op.name, "gemm", scores, op.dtype, {}),
            operation(f"{op.name}.softmax", "softmax", rows, op.dtype, {"function": "softmax"}),
            operation(f"{op.name}.values", "gemm", values, op.dtype, {}),
        ]
        last[op.name] = f"{op.name}.values"
        edges += [(op.name, f"{op.name}.softmax"), (f"{op.name}.softmax", last[op.name])]
        edges += [(before, last[op.name]) for before, after in network.edges if after == op.name]
    edges += [(last.get(before, before), after) for before, after in network.edges]
    return Workload(network.name, tuple(operations), tuple(dict.fromkeys(edges)))


def network_row(model: str, pixels: int, batch: int, setting: Setting, target: Machine) -> NetworkRow:
    """A network's columns.

    Raises InputError where it is not traced.
    """
    distinct: dict[tuple[object, ...], tuple[Op, float]] = {}
    for op in lowered_graph(image_network(model, pixels, batch), setting):
        if op.kind != "view":
            key = op.kind, op.dtype, op.dims, op.attributes, op.cost
            distinct[key] = op, distinct.get(key, (op, 0.0))[1] + float(op.times)
    operations = [(op, times, kernel_class(op)) for op, times in distinct.values()]
    sides = np.stack(bounds([op for op, *_ in operations], target), axis=1)
    names = [name for *_, name in operations]
    count = [times for _, times, _ in operations]
    issued = [0.0 if op.kind in NOT_ISSUED else times * issues(op) for op, times, _ in operations]
    shapes = [features(op) for op, *_ in operations]
    half = [op.dtype in HALF for op, *_ in operations]
    mode = COMPILED if setting.mode == "compiled" else UNGROUPED
    groups = {**machine_groups(target.family), MODE: mode, HOST: target.name}
    known = np.array(shapes), np.array(half, dtype=float), np.array(count), np.array(issued), sides
    return NetworkRow(tuple(names), *known, groups)


def law_rows(
    rows: Sequence[NetworkRow], seconds: FloatArray, clusters: Sequence[str], classes: Sequence[str]
) -> tuple[TimedOperations, LawRows]:
    """Networks as columns of the law of some classes, and their measured seconds; those of a cluster err alike."""
    numbers = {"program": np.arange(len(rows), dtype=float)}
    groups = {level: [row.groups[level] for row in rows] for level in rows[0].groups}
    return packed(rows, classes), LawRows(numbers, groups, clusters, seconds, [SOURCE] * len(rows))


def packed(rows: Sequence[NetworkRow], classes: Sequence[str] = (OTHERS,)) -> TimedOperations:
    """Networks as columns; a class that was not fitted takes its relative's numbers (a grouped one a dense one's)."""
    place: Mapping[str, int] = {name: at for at, name in enumerate(classes)}
    lengths = [len(row.names) for row in rows]
    sides = np.concatenate([row.sides for row in rows])
    return TimedOperations(
        np.repeat(np.arange(len(rows)), lengths),
        np.array([place[relative(name, place.__contains__)] for row in rows for name in row.names], dtype=np.intp),
        np.concatenate([row.features for row in rows]),
        np.concatenate([row.half for row in rows]),
        np.concatenate([row.count for row in rows]),
        np.concatenate([row.issued for row in rows]),
        sides,
        np.ones(len(sides)),
        len(rows),
    )
