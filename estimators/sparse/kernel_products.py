"""Time of a sparse product by the kernel that computes it, on one thread or several, with the kernel's own band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import Estimate, OperationTime, Spread
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.vector_loops import LevelLoops
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.roofline.piecewise import Piecewise
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.host_kernels import HostKernels, load_host_kernels
from slipstick.estimators.sparse.kernel_costs import State
from slipstick.estimators.sparse.product_energy import MEASURED, ProductEnergy, modelled_energy
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.estimators.sparse.row_chunks import KERNELS, imbalance, split_of
from slipstick.estimators.sparse.spmv_costs import caches_of_core
from slipstick.estimators.sparse.spmv_devices import shipped_devices
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.blocks import STREAMED_BYTES, VALUE_BYTES
from slipstick.workloads.kernels.sparse import SparseMatrix

STATE_TEXT = {
    "warm": "product after product: caches hold what the last one left",
    "cold": "caches emptied before the product",
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
    def measured_here(self) -> bool:
        """Whether the machine is the host that was calibrated."""
        return self.machine is None or self.machine.name == self.host.machine

    @property
    def clock(self) -> float:
        """Of the core [Hz]."""
        if self.set_clock is not None:
            return self.set_clock
        return self.host.clock if self.machine is None else self.machine.clock

    @property
    def caches(self) -> CacheSizes:
        """Of the core."""
        return self.host.caches if self.machine is None else caches_of_core(self.machine)

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer takes for granted."""
        costs = self.host.of(self.kernel, self.state)
        kernel = f"kernel {self.kernel}: {KERNELS.get(self.kernel, 'of a calibration')} ({costs.software})"
        texts = [kernel, f"{self.state} caches: {STATE_TEXT[self.state]}", self.host.source]
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
        ratio = self.clock / self.host.clock
        time, waiting = self.host.seconds(matrix, self.kernel, self.state, self.threads, self.caches, ratio)
        metrics = {"memory_share": waiting}
        if self.threads > 1:
            metrics["imbalance"] = imbalance(matrix, self.threads, split_of(self.kernel))
        return max(time, self.least(matrix)), metrics

    def least(self, matrix: SparseMatrix) -> float:
        """Seconds that main memory needs for what cannot lie in the caches; 0 without a machine's bandwidth."""
        if self.machine is None:
            return 0.0
        moved = (STREAMED_BYTES - 4) * matrix.nonzeros + VALUE_BYTES * (2 * matrix.shape[0] + matrix.shape[1])
        kept = 0.0 if self.state == "cold" else self.caches.L3
        return max(0.0, moved - kept) / self.machine.bandwidth(self.machine.main_memory)

    def energy(self, seconds: float) -> ProductEnergy:
        """Joules: measured watts x seconds on the calibrated host where it has counters, else the modelled formula."""
        power = self.host.power
        if self.measured_here and "package" in power and self.set_clock is None:
            return ProductEnergy(power["package"] * seconds, power.get("dram", 0.0) * seconds, MEASURED)
        return modelled_energy(seconds, self.clock)


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
    chosen = OnKernel(host or load_host_kernels(), kernel, state, threads, machine, clock)
    time, metrics = chosen.seconds(matrix)
    between, within = chosen.spreads
    energy = chosen.energy(time)
    shares = {**metrics, "package_energy_J": energy.package, "dram_energy_J": energy.dram}
    return Estimate(
        time,
        energy.total,
        (OperationTime("spmv", "spmv", time),),
        "T = sum over terms of cost x count" if threads == 1 else "T = start + max over chunks of rows",
        FrozenDict(shares),
        Spread(between or None, within, residual_freedom=chosen.host.of(kernel, state).freedom),
        (*chosen.notes, f"energy {energy.basis}"),
    )


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
