"""The tiled roofline times what relatives' measurements leave over at the nearest shapes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters, entry
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer.anchor_constants import LENGTH
from slipstick.estimators.gpu.transfer.kernel_class import KernelClass, Scatter, kind_of, times
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount, symbols_of
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Op

SHAPE_FACTOR = "operation.shape_factor"
LEAST = 1e-3
"""Of a dim, where its logarithm is taken."""


@dataclass(frozen=True, eq=False)
class DistanceWeighted:
    """How far parameters that anchors moved hold: fully where the sources say times between those of the anchors.

    `machine`: on which the anchors were measured.
    `sources`: parameters of the class without the anchors, of calls timed alone: they say how long an operation is.
    `before`, `after`: parameters without and with the anchors, of the times that are taken back.
    `low`, `high`: log seconds between which the anchors lie.
    """

    machine: Machine
    sources: Mapping[str, float]
    before: Mapping[str, float]
    after: Mapping[str, float]
    low: float
    high: float

    def logs(self, form: OperationTimes, shaped: FloatArray) -> FloatArray:
        """What takes the time of `after` back towards that of `before` beyond the anchors, in log time.

        `shaped`: logarithm of the rows' shape factors, shape (rows,).
        """
        here = [replace(form, machine=self.machine)]
        usual = vars(KernelParameters())  # of a substitute: other kinds have parameters that its own formula lacks
        plain, before, after = (
            np.log(times(here, {**usual, **values})) for values in (self.sources, self.before, self.after)
        )
        return np.asarray((1 - distance_weight(plain + shaped, self.low, self.high)) * (before - after))


@dataclass(frozen=True, eq=False)
class ShapeFactor:
    """What some machines take over their own fits at the shapes nearest to an operation.

    `shares`: by machine: how much of its log residual is believed.
    `weighted`: where anchors moved the parameters: how far that holds.
    """

    one: KernelClass
    shares: Mapping[str, float]
    weighted: DistanceWeighted | None = None
    known: dict[Any, float] = field(default_factory=dict, repr=False)

    def logs(self, form: OperationTimes) -> FloatArray:
        """Logarithm of the factor of each row."""
        shaped = self.at(kind_of(form.op), form.place())
        return shaped + self.weighted.logs(form, shaped) if self.weighted else shaped

    def at(self, kind: Hashable, places: FloatArray) -> FloatArray:
        """The same at points (`OperationTimes.place`) of one kind (`kind_of`)."""
        total = np.zeros(len(places))
        for machine, share in self.shares.items():
            total += share * self.one.residual(machine, kind, places)
        return total

    def of(self, op: Op) -> float:
        """The factor of one operation.

        Raises InputError where a dim has no number.
        """
        sizes = tuple(op.dims[name] for name in KINDS[op.kind].dims)
        if any(symbols_of(size) for size in sizes):
            raise InputError(f"operation {op.name!r}: the nearest measured shapes are known for dims of numbers only")
        seen = kind_of(op), tuple(map(float, sizes))
        if seen not in self.known:
            place = np.log2(np.maximum(np.array([seen[1]]), LEAST))
            log = self.at(seen[0], place)
            if self.weighted:
                dims = {name: max(float(size), LEAST) for name, size in op.dims.items()}  # a fill reads nothing
                form = OperationTimes.of(self.weighted.machine, op.kind, op.dtype, dims, [1.0], op.attributes)
                log = log + self.weighted.logs(form, log)
            self.known[seen] = float(np.exp(log[0]))
        return self.known[seen]


@dataclass(frozen=True, eq=False)
class Rule:
    """For one class of operations on the machine: the factor of an operation's shape, and the scatter."""

    factor: ShapeFactor
    scatter: Scatter


@dataclass(frozen=True)
class ResidualByShape(TiledRoofline):
    """A tiled roofline whose classes of operations (of `kernels`) may have a factor that depends on their shape."""

    factors: FrozenDict[ShapeFactor] = FrozenDict()

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """As of the tiled roofline, of classes without a factor: the nearest shapes have no formula."""
        return entry(self.kernels, op) not in self.factors and super().holds_open(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """As of the tiled roofline, and which classes have a factor."""
        return super().form(machine), tuple(self.factors)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """As of the tiled roofline, times ``operation.shape_factor``."""
        plain = super().formula(op, machine)
        if entry(self.kernels, op) not in self.factors or op.kind in machine.runtime.free_kinds:
            return plain
        return replace(plain, expression=plain.expression * symbol(SHAPE_FACTOR))

    def amount(self, op: Op, name: str) -> Amount:
        """The factor is looked up by the operation's dims, everything else is an amount of it."""
        if name != SHAPE_FACTOR:
            return amount_of(op, name)
        return self.factors[entry(self.kernels, op)].of(op)


def distance_weight(logs: FloatArray, low: float, high: float) -> FloatArray:
    """How much of what anchors between two log times say holds at others: 1 between them, falling beyond."""
    octaves = np.maximum(np.maximum(low - logs, logs - high), 0.0) / np.log(2)
    return np.asarray(np.exp(-0.5 * (octaves / LENGTH) ** 2))
