"""Time of a sparse product: on one core by reuse, on a whole accelerator by its rows, or by the kernel that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import REPEAT, Estimate, OperationTime, Spread
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.energy_and_cost import energy_of
from slipstick.estimators.cpu.vector_loops import LevelLoops
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.roofline.piecewise import FormulaPiecewise, Piecewise
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.kernel_costs import (
    KERNELS,
    HostKernels,
    imbalance,
    load_host_kernels,
    shipped_blocks,
    split_of,
)
from slipstick.estimators.sparse.product_energy import MODELLED, modelled_energy
from slipstick.estimators.sparse.reuse_model import (
    STATES,
    CacheSizes,
    KernelCosts,
    State,
    caches_of_core,
    is_accelerator,
)
from slipstick.estimators.sparse.spmv_devices import TrainedDevices, anchored, shipped_devices
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.blocks import STREAMED_BYTES, VALUE_BYTES
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import rows_operation

CALL = 1.05e-6
"""Seconds that a call of that kernel takes before its first non-zero, as calibrated (cost "call": 1.05 us)."""
WITHIN = f"blocks inside a running sweep: the start of a call, about {CALL * 1e6:g} µs, is left out"

FORMS = {
    "csr": "rows in compressed form",
    "coo": "non-zeros as coordinates",
    "ell": "rows filled up to the longest",
    "sellp": "slices of 64 rows filled up to their longest",
    "hybrid": "rows up to a length, the rest as coordinates",
}
"""Of `spmv_devices.FORMATS`, in words."""


STATE_TEXT: Mapping[State, str] = {
    "hot": f"hot labels: a block again and again, in the first cache; {WITHIN}",
    "streaming": f"streaming labels: {WITHIN}",
    "warm": "warm caches: product after product, they hold what the last one left",
    "cold": "cold caches: emptied before the product",
}


@dataclass(frozen=True, eq=False)
class OnKernel:
    """One kernel of a host, or of another machine by its clock and caches.

    `machine`: none for the host that was calibrated.
    `set_clock`: of the core [Hz], where it is not the machine's: what lies inside the core follows it, the rest does
        not.
    """

    host: HostKernels
    kernel: str
    state: State = "warm"
    threads: int = 1
    machine: Machine | None = None
    set_clock: float | None = None

    def __post_init__(self) -> None:
        if self.set_clock is not None and not 0 < self.set_clock < 1e12:
            raise InputError(f"clock = {self.set_clock:g} Hz: want a number > 0 and below 1e12")
        cores = self.host.cores if self.machine is None else self.machine.cores
        if not 1 <= self.threads <= cores:
            name = self.host.machine if self.machine is None else self.machine.name
            raise InputError(f"threads = {self.threads} of a product on {name!r}: want 1 to its {cores} cores")

    @property
    def rule(self) -> str:
        """How the time is made."""
        return "T = sum over terms of cost x count" if self.threads == 1 else "T = start + max over chunks of rows"

    @property
    def measured_here(self) -> bool:
        """Whether the machine is the host that was calibrated."""
        return self.machine is None or self.machine.name == self.host.machine

    @property
    def clock(self) -> float:
        """Of the core [Hz]."""
        if self.set_clock is not None:
            return self.set_clock
        return self.host.costs[0].clock if self.machine is None else self.machine.clock

    @property
    def caches(self) -> CacheSizes:
        """Of the core."""
        return self.host.costs[0].sizes if self.machine is None else caches_of_core(self.machine)

    @property
    def ran(self) -> tuple[object, ...]:
        """How a product runs."""
        return self.kernel, self.state, self.threads, self.clock

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer takes for granted."""
        costs = self.host.of(self.kernel, self.state)
        software = costs.software or "slipstick measure spmv"
        kernel = f"kernel {self.kernel}: {KERNELS.get(self.kernel, 'of a calibration')} ({software})"
        texts = [kernel, STATE_TEXT[self.state], self.host.source]
        if self.threads > 1:
            text = f"{self.threads} threads, rows shared out by {split_of(self.kernel)}"
            beyond = self.threads > self.host.threads_of(self.kernel, self.state).measured
            texts.append(text + (", more than were measured: the band is a guess" if beyond else ""))
        if self.set_clock is not None:
            texts.append(f"core at {self.set_clock / 1e9:g} GHz, not measured at that clock")
        if not self.measured_here and self.machine is not None:
            texts.append(f"clock and caches of {self.machine.name}, on which no kernel was measured")
        return tuple(texts)

    @property
    def spreads(self) -> tuple[float, float]:
        """Of machines nobody measured, and of matrices on one (of log time)."""
        between = 0.0 if self.measured_here else shipped_devices().machine_spread
        return between, self.host.spread(self.kernel, self.state, self.threads)

    def seconds(self, matrix: SparseMatrix) -> tuple[float, dict[str, float]]:
        """Of one product, and shares by name; never faster than main memory where the matrix lies beyond the caches."""
        time, waiting = self.host.seconds(matrix, self.kernel, self.state, self.threads, self.caches, self.clock)
        metrics = {"memory_share": waiting}
        if self.threads > 1:
            metrics["imbalance"] = imbalance(matrix, self.threads, split_of(self.kernel))
        return max(time, self.least(matrix)), metrics

    def least(self, matrix: SparseMatrix) -> float:
        """Seconds that main memory needs for what cannot lie in the caches; 0 without a machine, and for blocks."""
        if self.machine is None or self.state not in STATES:
            return 0.0
        moved = (STREAMED_BYTES - 4) * matrix.nonzeros + VALUE_BYTES * (2 * matrix.shape[0] + matrix.shape[1])
        kept = 0.0 if self.state == "cold" else self.caches.L3
        return max(0.0, moved - kept) / self.machine.bandwidth(self.machine.main_memory)


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Products on a whole device, by statistics of the rows; see `OnKernel`."""

    trained: TrainedDevices
    machine: Machine
    rule = "T = sum over terms of cost x amount"
    ran: tuple[object, ...] = ()

    @property
    def measured_here(self) -> bool:
        """Whether the machine is one of those measured."""
        return any(one.machine == self.machine.name for one in self.trained.model.devices)

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer takes for granted."""
        whose = "its own costs" if self.measured_here else "mean costs of its relatives"
        form = FORMS[self.trained.model.stored]
        return (f"{self.trained.source}: {whose}", f"whole device, {form}, on {self.machine.name}")

    @property
    def spreads(self) -> tuple[float, float]:
        """As those of `OnKernel`."""
        return (0.0 if self.measured_here else self.trained.machine_spread), self.trained.matrix_spread

    def seconds(self, matrix: SparseMatrix) -> tuple[float, dict[str, float]]:
        """Of a product; no shares of it.

        Raises InputError where the matrix has no non-zero.
        """
        if not matrix.nonzeros:
            raise InputError(f"matrix {matrix.name!r} has no non-zero: there is no product to time")
        return float(self.trained.model.times([rows_operation(matrix)], self.machine)[0]), {}


def predictor(machine: Machine | None = None, known: HostKernels | TrainedDevices | None = None) -> OnKernel | OnDevice:
    """What answers for a machine (None: the host that the labels were measured on).

    `known`: a host's kernels, of which the first answers, or devices; those that ship if None (streaming labels).
    Raises InputError where costs of one core are given for an accelerator, or those of devices for no machine.
    """
    if isinstance(known, TrainedDevices):
        if machine is None:
            raise InputError("a model of whole devices: needs a target machine")
        return OnDevice(known, machine)
    if machine is None or not is_accelerator(machine):
        host = known or shipped_blocks()
        return OnKernel(host, host.costs[0].kernel, host.costs[0].state, machine=machine)
    if known is not None:
        raise InputError(f"machine {machine.name!r} is an accelerator: costs of one core are not for it")
    return OnDevice(shipped_devices(), machine)


@checked
def estimate_spmv(
    matrix: SparseMatrix,
    machine: Machine | None = None,
    calibration: HostKernels | TrainedDevices | None = None,
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
        narrow the interval. Where this matrix is among them its own times answer.

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
    >>> ss.estimate_spmv(grid, ss.machine("H100"), measured=[(grid, 2e-5)]).time
    2e-05
    """
    return answer(predictor(machine, calibration), matrix, power, measured)


def answer(
    model: OnKernel | OnDevice,
    matrix: SparseMatrix,
    power: float | None = None,
    measured: Sequence[tuple[SparseMatrix, float]] = (),
    ran: Sequence[OnKernel | OnDevice] = (),
) -> Estimate:
    """The estimate of one product; `power` [W] and `measured` (seconds) as in `estimate_spmv`.

    `ran`: what answers for each measured product as it ran; all as the question does where it is empty.
    Raises InputError where a measured time is not positive, or the model cannot answer for a matrix.
    """
    time, shares = model.seconds(matrix)
    between, within = model.spreads
    freedom = model.host.of(model.kernel, model.state).freedom if isinstance(model, OnKernel) else None
    spread = Spread(between or None, within, residual_freedom=freedom)
    notes = [*model.notes]
    if measured:
        trained = shipped_devices()
        ran = ran or [model] * len(measured)
        ratios = np.array(
            [seconds / one.seconds(other)[0] for one, (other, seconds) in zip(ran, measured, strict=True)]
        )
        scale = anchored(ratios, between or trained.machine_spread, within, trained.doubt(len(measured)))
        same = np.array([other.digest == matrix.digest for other, _ in measured])
        here = same & np.array([one.ran == model.ran for one in ran])
        if same.any():
            repeats = ratios[here if here.any() else same]
            left = hypot(REPEAT, float(np.log(repeats).std()), 0.0 if here.any() else within)
            time, spread = time * float(np.median(repeats)), Spread(None, left)
            as_it_ran = "" if here.any() else ", which ran otherwise: the model's ratio to that"
            notes.append(f"the product with this matrix as measured there ({len(repeats)}{as_it_ran})")
        else:
            time, spread = time * scale.factor, replace(spread, parameter=scale.spread or None)
            notes.append(f"times {scale.factor:.3g}, by the products measured there ({len(measured)})")
    energy: float | None = None
    if power is not None:
        energy = power * time
        notes.append(f"energy = {power:g} W x time (the paper's analytic model), not measured")
    elif isinstance(model, OnKernel) and model.state in STATES:
        package, dram = modelled_energy(time, model.clock)
        energy, shares = package + dram, {**shares, "package_energy_J": package, "dram_energy_J": dram}
        notes.append(f"energy {MODELLED}")
    elif model.machine is not None:
        energy, over_cap = energy_of(Workload(f"spmv {matrix.name}", (rows_operation(matrix),)), model.machine, time)
        notes += over_cap
    return Estimate(
        time, energy, (OperationTime("spmv", "spmv", time),), model.rule, FrozenDict(shares), spread, tuple(notes)
    )


def spmv_estimator(costs: KernelCosts | None = None, between: float | None = None) -> Calibration:
    """Costs of reuse as an estimator of workloads: products by their counts, loops by the level of their vectors.

    Its interval is the scatter over whole matrices held out, and over machines.

    `costs`: of 'slipstick spmv train'; the streaming costs that ship if None.
    `between`: scatter of log time between machines (`OnKernel.spreads`); of machines that nobody measured if None.
    """
    costs = costs or shipped_blocks().costs[0]
    between = shipped_devices().machine_spread if between is None else between
    operation = FormulaPiecewise(FrozenDict({"spmv": costs}), LevelLoops())
    inner = ComposedEstimator(operation, Sequential(), "learned SpMV costs, level-aware loops")
    source = f"reuse model, {costs.state} labels, {costs.source}"
    return Calibration(inner, (), residual_std=hypot(between, costs.spread), source=source)


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


@checked
def estimate_product(
    matrix: SparseMatrix,
    kernel: str = "scipy",
    machine: Machine | None = None,
    *,
    state: State = "warm",
    threads: int = 1,
    clock: float | None = None,
    host: HostKernels | None = None,
) -> Estimate:
    """Time of one product with this kernel, with the band of its own held-out errors (80 %), and its energy.

    Parameters
    ----------
    kernel
        "scipy", "numba", "torch" (MKL) or "blocks" (ours), as far as `host` has them.
    machine
        A processor; None for the host that was calibrated. On another one its clock and caches take the place of the
        host's, and the band is wider by how far machines differ.
    state
        Of the caches: "warm" (product after product) or "cold" (emptied before it).
    threads
        Rows are shared out to so many cores.
    clock
        Of the core [Hz], where it is set to another one: times inside the core follow it, and so does the power.
    host
        Calibrated kernels (`slipstick spmv calibrate`); those that ship if None.

    Raises
    ------
    InputError
        Where the kernel was not calibrated (with threads), there are fewer cores than threads, the machine is an
        accelerator or has no cache, or the matrix has fewer than two non-zeros.

    Examples
    --------
    >>> import slipstick as ss
    >>> grid = ss.stencil((300, 300), 5)
    >>> one, two = (ss.estimate_product(grid, "numba", threads=threads) for threads in (1, 2))
    >>> two.time < one.time
    True
    """
    return answer(OnKernel(host or load_host_kernels(), kernel, state, threads, machine, clock), matrix)


@dataclass(frozen=True, eq=False)
class KernelProducts:
    """An operation model for kind "spmv": seconds of given matrices by a kernel."""

    kernel: OnKernel
    matrices: tuple[SparseMatrix, ...]

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one product each.

        Raises InputError where an operation is no product with one of the matrices.
        """
        known = {matrix.digest: matrix for matrix in self.matrices}
        here = replace(self.kernel, machine=machine)
        result = []
        for op in operations:
            if op.kind != "spmv" or op.payload not in known:
                raise InputError(f"operation {op.name!r} ({op.kind}): its matrix was not given to this model")
            result.append(here.seconds(known[str(op.payload)])[0])
        return np.array(result)


def kernel_estimator(kernel: OnKernel, matrices: tuple[SparseMatrix, ...]) -> Calibration:
    """A calibrated kernel as an estimator of workloads: products with these matrices, other loops on one core."""
    operation = Piecewise(FrozenDict({"spmv": KernelProducts(kernel, matrices)}), LevelLoops())
    inner = ComposedEstimator(operation, Sequential(), f"products by kernel {kernel.kernel}, level-aware loops")
    return Calibration(inner, (), residual_std=hypot(*kernel.spreads), source=kernel.host.source)
