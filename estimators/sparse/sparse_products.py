"""Time of a sparse product on one core by what was learned from blocks, or on a whole accelerator by its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Protocol

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import Estimate, OperationTime, Spread
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.energy_and_cost import energy_of
from slipstick.estimators.cpu.vector_loops import LevelLoops
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.roofline.piecewise import FormulaPiecewise, Piecewise
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.network_products import NetProducts
from slipstick.estimators.sparse.reuse_model import LabelKind
from slipstick.estimators.sparse.spmv_anchors import anchored
from slipstick.estimators.sparse.spmv_costs import SpmvCosts, is_accelerator
from slipstick.estimators.sparse.spmv_devices import TrainedDevices, shipped_devices
from slipstick.estimators.sparse.spmv_model import SpmvModel, trained_model
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import rows_operation

KERNEL = "kernel: rows from 32-bit row and column positions, one thread (slipstick measure spmv); a library's differs"
CALL = 1e-6
"""Seconds that a call of that kernel takes before its first non-zero, as calibrated (cost "call": 1.03 us)."""
WITHIN = f"blocks inside a running sweep: the start of a call, about {CALL * 1e6:g} µs, is left out"
UNKNOWN_SPREAD = 0.3
"""Of a model that was trained on too few matrices to estimate its own: twice that of the one that ships."""


@dataclass(frozen=True)
class LearnedSpmv:
    """An operation model for kind "spmv": seconds by payload, as a `SpmvModel` predicts them for the given matrices."""

    seconds: FrozenDict[float]
    source: str = ""

    @classmethod
    def of(
        cls, model: SpmvModel | NetProducts, matrices: Sequence[SparseMatrix], machine: Machine | None = None
    ) -> LearnedSpmv:
        """For these matrices; with a machine, its clock and cache capacities take the place of the measured host's."""
        times = {matrix.digest: model.matrix_seconds(matrix, machine) for matrix in matrices}
        return cls(FrozenDict(times), f"learned SpMV, {model.label} labels, {model.source}")

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one product each.

        Raises
        ------
        InputError
            Where an operation is no product with one of these matrices.
        """
        for op in operations:
            if op.kind != "spmv" or op.payload not in self.seconds:
                raise InputError(
                    f"operation {op.name!r} ({op.kind}): its matrix {op.payload} was not given to this model"
                )
        return np.array([self.seconds[str(op.payload)] for op in operations])


FORMS = {
    "csr": "rows in compressed form",
    "coo": "non-zeros as coordinates",
    "ell": "rows filled up to the longest",
    "sellp": "slices of 64 rows filled up to their longest",
    "hybrid": "rows up to a length, the rest as coordinates",
}
"""Of `spmv_amounts.FORMATS`, in words."""


class ProductPredictor(Protocol):
    """Products on a machine: their seconds, their assumptions, and how far off they may be."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer takes for granted."""

    @property
    def spreads(self) -> tuple[float, float]:
        """Of machines nobody measured, and of the matrices of one machine (of log time)."""

    def answer(self, matrix: SparseMatrix) -> tuple[float, Mapping[str, float]]:
        """Seconds of one product, and shares of them by name."""


@dataclass(frozen=True, eq=False)
class OnCore:
    """One core of a processor, learned from blocks; without a machine the host that the labels were measured on."""

    model: SpmvModel
    machine: Machine | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """See `ProductPredictor`."""
        first = f"{self.model.label} labels: {self.model.source}"
        where = () if self.machine is None else (f"clock and caches of {self.machine.name}",)
        return (first, f"blocks of {self.model.block} non-zeros", WITHIN, KERNEL, *where)

    @property
    def spreads(self) -> tuple[float, float]:
        """See `ProductPredictor`; how far machines differ is known from public times of devices only."""
        between = UNKNOWN_SPREAD if self.model.matrix_spread is None else self.model.matrix_spread
        return (0.0 if self.machine is None else shipped_devices().machine_spread), between

    def answer(self, matrix: SparseMatrix) -> tuple[float, Mapping[str, float]]:
        """See `ProductPredictor`; the share of the time that does not follow the clock."""
        blocks = self.model.blocks_of(matrix)
        reuse = self.model.reuse if self.machine is None else self.model.reuse_on(self.machine)
        time = float(self.model.seconds_per_nonzero(blocks, self.machine).mean() * matrix.nonzeros)
        return time, {"memory_share": reuse.memory_share(blocks)}


@dataclass(frozen=True, eq=False)
class OnNetwork:
    """One core of a processor by the published network; see `OnCore`."""

    products: NetProducts
    machine: Machine | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """See `ProductPredictor`."""
        first = f"{self.products.label} labels: {self.products.source}"
        where = () if self.machine is None else (f"times the reuse model's ratio of {self.machine.name} to that core",)
        return (first, f"blocks of {self.products.block} non-zeros", WITHIN, KERNEL, *where)

    @property
    def spreads(self) -> tuple[float, float]:
        """See `ProductPredictor`: standard deviations in log time."""
        across = self.products.matrix_spread
        between = 0.0 if self.machine is None else shipped_devices().machine_spread
        return between, UNKNOWN_SPREAD if across is None else across

    def answer(self, matrix: SparseMatrix) -> tuple[float, Mapping[str, float]]:
        """See `ProductPredictor`; no shares."""
        return self.products.matrix_seconds(matrix, self.machine), {}


@dataclass(frozen=True, eq=False)
class OnDevice:
    """A whole device, by statistics of the rows."""

    trained: TrainedDevices
    machine: Machine

    @property
    def notes(self) -> tuple[str, ...]:
        """See `ProductPredictor`."""
        known = self.trained.model.knows(self.machine)
        whose = "its own costs" if known else "mean costs of its relatives"
        return (
            f"{self.trained.source}: {whose}",
            f"whole device, {FORMS[self.trained.model.stored]}, on {self.machine.name}",
        )

    @property
    def spreads(self) -> tuple[float, float]:
        """See `ProductPredictor`."""
        known = self.trained.model.knows(self.machine)
        return (0.0 if known else self.trained.machine_spread), self.trained.matrix_spread

    def answer(self, matrix: SparseMatrix) -> tuple[float, Mapping[str, float]]:
        """See `ProductPredictor`: seconds of a product; no shares of it.

        Raises
        ------
        InputError
            Where the matrix has no non-zero.
        """
        if not matrix.nonzeros:
            raise InputError(f"matrix {matrix.name!r} has no non-zero: there is no product to time")
        return float(self.trained.model.times([rows_operation(matrix)], self.machine)[0]), {}


def predictor(
    machine: Machine | None = None, model: SpmvModel | NetProducts | TrainedDevices | None = None
) -> ProductPredictor:
    """What answers for a machine (None: the host that the labels were measured on).

    Raises
    ------
    InputError
        Where a model of blocks is given for an accelerator, or one of devices for no machine.
    """
    if isinstance(model, TrainedDevices):
        if machine is None:
            raise InputError("a model of whole devices: needs a target machine")
        return OnDevice(model, machine)
    if machine is None or not is_accelerator(machine):
        if isinstance(model, NetProducts):
            return OnNetwork(model, machine)
        return OnCore(trained_model() if model is None else model, machine)
    if model is not None:
        raise InputError(f"machine {machine.name!r} is an accelerator: a model of one core's blocks is not for it")
    return OnDevice(shipped_devices(), machine)


@checked
def estimate_spmv(
    matrix: SparseMatrix,
    machine: Machine | None = None,
    calibration: SpmvModel | NetProducts | TrainedDevices | None = None,
    power: float | None = None,
    measured: Sequence[tuple[SparseMatrix, float]] = (),
) -> Estimate:
    """Time of one product with its interval; energy where a mean power is given or the machine has one.

    On a processor: one core, learned from blocks. With a machine, its clock and cache capacities take the place of the
    measured host's; what lies beyond the caches costs what it cost there. On an accelerator: the whole device, from
    statistics of the rows. A mean power times the time is the paper's analytic energy model.

    Parameters
    ----------
    calibration
        Of blocks on one core, or of whole devices; those that ship if None (streaming labels).
    measured
        Matrices, and the seconds of a product with each as measured on the machine: they scale every answer for it and
        narrow the interval.

    Raises
    ------
    InputError
        Where the matrix has fewer than two non-zeros, the machine no cache, or a model of blocks is given for an
        accelerator.

    Examples
    --------
    >>> import slipstick as ss
    >>> grid = ss.stencil((300, 300), 5)
    >>> slow, fast = ss.estimate_spmv(grid), ss.estimate_spmv(grid, ss.machine("H100"))
    >>> fast.time < slow.time
    True
    """
    model_here = predictor(machine, calibration)
    between, within = model_here.spreads
    if measured and not between:
        between = shipped_devices().machine_spread
    ratios = [seconds / model_here.answer(other)[0] for other, seconds in measured]
    doubt = shipped_devices().doubt(len(measured)) if measured else 1.0
    scale = anchored(ratios, between, within, doubt)
    plain, metrics = model_here.answer(matrix)
    time = plain * scale.factor
    notes = [*model_here.notes]
    if measured:
        notes.append(f"times {scale.factor:.3g}, by the products measured there ({len(measured)})")
    energy = None if power is None else power * time
    if power is not None:
        notes.append(f"energy = {power:g} W x time (the paper's analytic model), not measured")
    elif machine is not None:
        energy, over_cap = energy_of(Workload(f"spmv {matrix.name}", (rows_operation(matrix),)), machine, time)
        notes += over_cap
    return Estimate(
        time,
        energy,
        (OperationTime("spmv", "spmv", time),),
        "T = sum over terms of cost x amount" if isinstance(model_here, OnDevice) else "T = b sum t_i over blocks",
        FrozenDict(metrics),
        Spread(scale.spread or None, within),
        tuple(notes),
    )


def spmv_estimator(label: LabelKind = "streaming") -> Calibration:
    """The costs that ship as an estimator of workloads: products by their counts, loops by the level of their vectors.

    Its interval is the scatter over whole matrices held out.
    """
    model = trained_model(label)
    costs = SpmvCosts(label, model.reuse.cost, model.clock, f"reuse model, {label} labels, {model.source}")
    operation = FormulaPiecewise(FrozenDict({"spmv": costs}), LevelLoops())
    inner = ComposedEstimator(operation, Sequential(), "learned SpMV costs, level-aware loops")
    return Calibration(inner, (), residual_std=model.reuse_spread, source=costs.source)


def learned_estimator(
    model: SpmvModel | NetProducts, matrices: Sequence[SparseMatrix], machine: Machine
) -> Calibration:
    """A model of 'slipstick spmv train' as an estimator of workloads: PageRank, or a product with one of the matrices.

    The other loops run on the levels that their vectors are in. The interval is the model's scatter over matrices
    left out, and how far processors differ.

    Raises
    ------
    InputError
        Where the machine is an accelerator or has no cache, or a matrix has fewer than two non-zeros.
    """
    model_here = predictor(machine, model)
    products = LearnedSpmv.of(model, matrices, machine)
    operation = Piecewise(FrozenDict({"spmv": products}), LevelLoops())
    inner = ComposedEstimator(operation, Sequential(), "products learned from blocks, level-aware loops")
    return Calibration(inner, (), residual_std=hypot(*model_here.spreads), source=products.source)


def spmv_devices_estimator() -> Calibration:
    """Products on whole devices by statistics of their rows, as an estimator of workloads.

    Its interval is that of a device nobody measured, wider than need be on those measured.
    """
    trained = shipped_devices()
    inner = ComposedEstimator(
        trained.model, Sequential(), "five costs of a product's rows, pooled over measured devices"
    )
    spread = hypot(trained.machine_spread, trained.matrix_spread)
    return Calibration(inner, (), residual_std=spread, source=trained.source)
