"""Whole products measured here, beside what the host's calibrated kernels predict for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.kernel_costs import check_state
from slipstick.estimators.sparse.kernel_products import estimate_product
from slipstick.experiments.methods.spmv.kernel_answers import calibrated_beside
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.workloads.kernels.sparse_files import read_matrix


def measured_rows(
    files: Sequence[Path], kernel: str, caches: str, threads: int, machine_name: str
) -> list[dict[str, Any]]:
    """A row a matrix and kernel: seconds measured, and with `machine_name` those predicted, with the band.

    `kernel`: by name, or "all" for those that run here (with threads: that have them).
    `machine_name`: the machine file of 'slipstick spmv calibrate'; empty for no prediction.
    Raises InputError where a file, kernel or machine cannot be used, or nothing was calibrated beside the machine.
    """
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.spmv.kernel_times import Flush, time_products
    from slipstick.experiments.measure.spmv.product_kernels import kernels_here

    state = check_state(caches)
    host = calibrated_beside(machine_name)
    if machine_name and host is None:
        raise InputError(f"--on {machine_name}: no kernels beside it (slipstick spmv calibrate {machine_name})")
    machine = machine_by_name(machine_name) if machine_name else detect().machine()
    flush = Flush.of(machine)
    names = kernels_here() if kernel == "all" else (kernel,)
    rows = []
    for file in files:
        matrix = read_matrix(file)
        for one in time_products(matrix, names, (state,), (threads,), flush):
            row: dict[str, Any] = {"matrix": matrix.name, "nonzeros": matrix.nonzeros, "kernel": one.kernel}
            row |= {"threads": threads, "caches": state, "measured_s": one.seconds, "median_s": one.median}
            if host is not None:
                row |= dict.fromkeys(("predicted_s", "low_s", "high_s", "inside"))
            if host is not None and one.kernel in host.kernels:
                estimate = estimate_product(matrix, one.kernel, machine, state=state, threads=threads, host=host)
                low, high = estimate.interval() or (0.0, float("inf"))
                row |= {
                    "predicted_s": estimate.time,
                    "low_s": low,
                    "high_s": high,
                    "inside": low <= one.seconds <= high,
                }
            rows.append(row)
    if not rows:
        raise InputError(f"kernel {kernel!r} has no threads: nothing was measured")
    return rows
