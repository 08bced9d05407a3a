"""Products by kernel, as `slipstick spmv predict` shows them: which kernels answer, a row each, their assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.sparse.host_kernels import HostKernels, beside, load_host_kernels
from slipstick.estimators.sparse.kernel_costs import State, check_state
from slipstick.estimators.sparse.kernel_products import OnKernel, estimate_product
from slipstick.estimators.sparse.spmv_costs import is_accelerator
from slipstick.experiments.question.settings import number_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.sparse import SparseMatrix


@dataclass(frozen=True)
class KernelOptions:
    """Which kernels are wanted.

    `kernel`: one by name; empty for all that were calibrated.
    """

    kernel: str = ""
    state: State = "warm"
    threads: int = 1
    clock: float | None = None

    @classmethod
    def of(cls, kernel: str, caches: str, threads: int, clock: str = "") -> KernelOptions:
        """From texts; the clock with its unit, empty for the machine's."""
        return cls(kernel, check_state(caches), threads, number_of("--clock", clock, "Hz") if clock else None)

    @property
    def given(self) -> bool:
        """Whether anything but the defaults is wanted."""
        return self != KernelOptions()


def calibrated_beside(machine: str) -> HostKernels | None:
    """The kernels kept beside a machine file; None where there are none."""
    path = beside(machine) if machine.endswith((".yaml", ".yml")) else None
    return load_host_kernels(path) if path is not None and path.exists() else None


def kernel_rows(
    matrix: SparseMatrix, machine: Machine | None, host: HostKernels | None, options: KernelOptions
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row a kernel, and what the answers take for granted.

    Raises InputError where the kernel is unknown or has no threads, or the machine is an accelerator.
    """
    if machine is not None and is_accelerator(machine):
        raise InputError(
            f"machine {machine.name!r} is an accelerator: --kernel, --caches and --threads are a processor's"
        )
    known = host or load_host_kernels()
    if options.kernel and options.kernel not in known.kernels:
        raise unknown_name("calibrated kernel", options.kernel, known.kernels)
    names: Sequence[str] = [options.kernel] if options.kernel else known.kernels
    if options.threads > 1 and not options.kernel:
        names = [name for name in names if f"{name} {options.state}" in known.threads]
        if not names:
            raise InputError(f"--threads {options.threads}: no kernel of {known.machine!r} was calibrated with threads")
    rows, notes = [], []
    for name in names:
        estimate = estimate_product(
            matrix, name, machine, state=options.state, threads=options.threads, clock=options.clock, host=known
        )
        rows.append(_row(matrix, name, machine, options, estimate, known))
        notes += [text for text in estimate.assumptions if text not in notes]
    return rows, notes


def _row(
    matrix: SparseMatrix,
    kernel: str,
    machine: Machine | None,
    options: KernelOptions,
    estimate: Estimate,
    known: HostKernels,
) -> dict[str, Any]:
    low, high = estimate.interval() or (None, None)
    return {
        "matrix": matrix.name,
        "machine": machine.name if machine is not None else known.machine,
        "rows": matrix.shape[0],
        "columns": matrix.shape[1],
        "nonzeros": matrix.nonzeros,
        "kernel": kernel,
        "threads": options.threads,
        "label": options.state,
        "model": "costs of the kernel",
        "time_s": estimate.time,
        "low_s": low,
        "high_s": high,
        "ns_per_nonzero": estimate.time / matrix.nonzeros * 1e9,
        "memory_share": estimate.metrics.get("memory_share"),
        "imbalance": estimate.metrics.get("imbalance"),
        "energy_J": estimate.energy,
        "package_energy_J": estimate.metrics.get("package_energy_J"),
        "dram_energy_J": estimate.metrics.get("dram_energy_J"),
        "measured_on": known.machine,
    }


def load_kernel(path: Path, threads: int, machine: Machine) -> OnKernel:
    """The kernel of a file of 'slipstick spmv calibrate' that answers for workloads: scipy's, or with threads numba's.

    Raises InputError where the file is none, or no kernel was calibrated with threads.
    """
    host = load_host_kernels(path)
    several = [name.removesuffix(" warm") for name in host.threads if name.endswith(" warm")]
    names = several if threads > 1 else list(host.kernels)
    if not names:
        raise InputError(f"{path}: no kernel was calibrated on several threads (spmv calibrate --threads)")
    best = min(names, key=lambda name: (name != ("numba" if threads > 1 else "scipy"), name))
    return OnKernel(host, best, "warm", threads, machine)
