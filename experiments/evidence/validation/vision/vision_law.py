"""The law of image networks: kernels by class (`program_kernels`), fitted to whole networks on one machine or several.

A network is evaluated as PyTorch hands it over: under autocast in 16 bits on GPUs, fused where it was compiled. Of the
memory format convolutions and pooling know: their kernels differ, so channels-last ones are classes of their own. A
training step has each forward operation's backward pass as an operation of a class of its own, twice for products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.programs.program_classes import LAST, class_of, features
from slipstick.estimators.operation.gpu.programs.program_sides import bounds
from slipstick.estimators.schedule.host_issue import NOT_ISSUED, issues
from slipstick.experiments.evidence.validation.models.programs.program_fit import Rows, fit, modelled
from slipstick.experiments.evidence.validation.vision.image_networks import image_network
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.channels_last import channels_last
from slipstick.workloads.transforms.fusion import fused
from slipstick.workloads.transforms.mixed import autocast

BACK = ".back"
PRODUCTS = ("gemm", "convolution", "attention")
FIT_ROWS = 400
"""Rows that a fit looks at, spread evenly over those that it may see: more do not change what 60 numbers say."""


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

    `names` are classes; `sides` are arithmetic, traffic, cores and main memory in seconds.
    """

    names: tuple[str, ...]
    features: FloatArray
    count: FloatArray
    issued: FloatArray
    sides: FloatArray


def handed_over(network: Workload, setting: Setting) -> Workload:
    """The operations that PyTorch launches."""
    written = unfused(network) if setting.torch == "1" else network
    typed = autocast(written, "float16") if setting.dtype == "float16-amp" else written
    return channels_last(fused(typed)) if setting.mode == "compiled" else typed


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

    Raises
    ------
    InputError
        Where it is not traced.
    """
    distinct: dict[tuple[object, ...], tuple[Op, float]] = {}
    for op in handed_over(image_network(model, pixels, batch), setting):
        if op.kind != "view":
            key = op.kind, op.dtype, op.dims, op.attributes, op.cost
            distinct[key] = op, distinct.get(key, (op, 0.0))[1] + float(op.times)
    operations = [(op, times, _class(op, setting)) for op, times in distinct.values()]
    sides = [bounds(op, target) for op, *_ in operations]
    names = [name for *_, name in operations]
    count = [times for _, times, _ in operations]
    issued = [0.0 if op.kind in NOT_ISSUED else times * issues(op) for op, times, _ in operations]
    shapes = [features(op) for op, *_ in operations]
    if setting.task == "training":
        names += [name + BACK for name in names]
        twice = [times * (2 if op.kind in PRODUCTS else 1) for op, times, _ in operations]
        count, issued = count + twice, issued + issued
        sides, shapes = sides + sides, shapes + shapes
    return NetworkRow(tuple(names), np.array(shapes), np.array(count), np.array(issued), np.array(sides))


def _class(op: Op, setting: Setting) -> str:
    apart = setting.layout == "nhwc" and setting.mode == "eager" and op.kind in ("convolution", "pool")
    return class_of(op) + (LAST if apart else "")


@dataclass(frozen=True, eq=False)
class VisionLaw:
    """A fitted law: the point of `program_fit.fit` and the classes that it knows."""

    classes: tuple[str, ...]
    point: FloatArray

    def seconds(self, rows: Sequence[NetworkRow]) -> FloatArray:
        """Seconds of each network, shape (rows,)."""
        return modelled(self.point, packed(rows, self.classes), len(self.classes))


def fitted(rows: Sequence[NetworkRow], seconds: FloatArray) -> VisionLaw:
    """The law that meets measured seconds, shape (rows,), best."""
    step = max(1, -(-len(rows) // FIT_ROWS))
    seen, logs = rows[::step], np.log(seconds[::step])
    classes = tuple(sorted({name for row in seen for name in row.names}))
    point = fit([(packed(seen, classes), np.array([*range(len(seen))]), logs)], classes)
    return VisionLaw(classes, point)


def packed(rows: Sequence[NetworkRow], classes: Sequence[str] = ("",)) -> Rows:
    """Networks as columns; a class that was not fitted takes its relative's numbers (a grouped one a dense one's)."""
    place: Mapping[str, int] = {name: at for at, name in enumerate(classes)}
    lengths = [len(row.names) for row in rows]
    sides = np.concatenate([row.sides for row in rows])
    return Rows(
        np.repeat(np.arange(len(rows)), lengths).astype(float),
        np.array([place[_known(name, place)] for row in rows for name in row.names], dtype=float),
        np.concatenate([row.features for row in rows]),
        np.concatenate([row.count for row in rows]),
        np.concatenate([row.issued for row in rows]),
        np.zeros(len(sides)),
        sides[:, 0],
        sides[:, 1],
        sides[:, 2],
        sides[:, 3],
        1.0,
        len(rows),
    )


def _known(name: str, place: Mapping[str, int]) -> str:
    """The class itself, or the nearest that was fitted: without its layout or pass, then its kind."""
    plain = name.replace(LAST, "").replace(BACK, "")
    for known in (name, plain, plain.rpartition(".")[0], "elementwise"):
        if known in place:
            return known
    return next(iter(place))
