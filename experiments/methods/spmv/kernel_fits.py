"""What `slipstick spmv calibrate` does: products measured on this host in, the costs of its kernels out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from math import exp
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.sparse.host_kernels import HostKernels, ThreadCosts, beside
from slipstick.estimators.sparse.kernel_costs import STATES, TERMS, KernelCosts, State, calibrated
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.estimators.sparse.row_chunks import SPLIT_OF, counts_of
from slipstick.estimators.sparse.thread_fit import ThreadedProducts
from slipstick.experiments.measure.spmv.calibration_matrices import calibration_recipes, expected_nonzeros, family
from slipstick.experiments.measure.spmv.kernel_labels import MeasuredProduct, chunk_counts
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_file import load_machine, save_machine
from slipstick.workloads.kernels.generators import from_recipe
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

LEAST_THREADED = 20_000
"""Non-zeros of the smallest matrix that is timed on several threads."""


def fit_kernels(
    products: Sequence[MeasuredProduct],
    machine: Machine,
    software: Mapping[str, str],
    source: str,
    power: FrozenDict[float],
) -> HostKernels:
    """Costs of every kernel, state and number of threads that were measured.

    Raises InputError where nothing was measured, or products are of fewer than two families.
    """
    keys = sorted(
        {key for one in products for key in one.seconds}, key=lambda key: (key[0], STATES.index(key[1]), key[2])
    )
    caches = CacheSizes.of(machine)
    costs: dict[tuple[str, State], KernelCosts] = {}
    several: dict[str, ThreadCosts] = {}
    for kernel, state, threads in keys:
        chosen = [one for one in products if ran_together((kernel, state, threads), one)]
        families = [one.family for one in chosen]
        counts = [one.counts for one in chosen]
        seconds = [one.seconds[kernel, state, threads] for one in chosen]
        if threads == 1:
            text = software.get(kernel, "")
            costs[kernel, state] = calibrated(kernel, state, counts, seconds, families, caches, text)
        else:
            known = [one for one in products if (kernel, state, 1) in one.seconds]
            alone = (
                [one.counts for one in known],
                [one.seconds[kernel, state, 1] for one in known],
                [one.family for one in known],
            )
            parts = [one.chunks[SPLIT_OF[kernel], threads] for one in chosen]
            together = (parts, seconds, families)
            measured = ThreadedProducts.of(costs[kernel, state], threads, alone, together, caches)
            several[f"{kernel} {state}"] = measured.fit()
    if not costs:
        raise InputError("no product was measured")
    every = tuple(costs.values())
    return HostKernels(machine.name, machine.clock, machine.cores, caches, every, FrozenDict(several), power, source)


def ran_together(key: tuple[str, State, int], product: MeasuredProduct) -> bool:
    """Whether a product was measured, and its threads ran at the same time: not twice as long as one thread alone."""
    seconds = product.seconds.get(key)
    return seconds is not None and (key[2] == 1 or seconds < 2 * product.seconds[*key[:2], 1])


def calibrate(
    path: Path,
    kernels: Sequence[str],
    states: Sequence[State],
    threads: int,
    files: Sequence[Path],
    largest: int,
    say: Callable[[str], None],
) -> tuple[HostKernels, Path]:
    """Measure this host and write the costs beside its machine file, which is made by detection if it is not there.

    Parameters
    ----------
    threads
        Products are also timed on so many, if more than 1.
    files
        Matrices of one's own that are measured beside the generated ones.
    largest
        Generated matrices with more non-zeros are left out.

    Raises
    ------
    InputError
        Where a kernel cannot run here or a file cannot be used.
    """
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.spmv.kernel_times import Flush, time_products
    from slipstick.experiments.measure.spmv.product_kernels import kernels_here, software

    if path.exists():
        machine = load_machine(path)
    else:
        machine = detect().machine(path.name.split(".")[0])
        save_machine(machine, path)
        say(f"{path}: written, with caches and clock as this host states them")
    if not 1 <= threads <= machine.cores:
        raise InputError(f"--threads {threads}: want 1 to the {machine.cores} cores of {machine.name!r}")
    chosen = list(kernels) or list(kernels_here())
    flush = Flush.of(machine)
    result: list[MeasuredProduct] = []
    for matrix, kind in _matrices(files, largest):
        counts = [1, threads] if threads > 1 and matrix.nonzeros >= LEAST_THREADED else [1]
        times = time_products(matrix, chosen, states, counts, flush)
        seconds = {(one.kernel, one.state, one.threads): one.seconds for one in times}
        result.append(MeasuredProduct(matrix.name, kind, counts_of(matrix), chunk_counts(matrix, counts), seconds))
        say(f"{matrix.name}: {matrix.nonzeros} non-zeros")
    power = _power(chosen[0], machine)
    text = f"{machine.name}, {date.today().isoformat()}, {len(result)} matrices, least of interleaved rounds"
    host = fit_kernels(result, machine, {kernel: software(kernel) for kernel in chosen}, text, power)
    target = beside(path)
    host.save(target)
    return host, target


def _matrices(files: Sequence[Path], largest: int) -> Iterator[tuple[SparseMatrix, str]]:
    for file in files:
        yield read_matrix(file), f"file {file.name}"
    for name, recipe in calibration_recipes().items():
        if expected_nonzeros(recipe) <= largest:
            yield from_recipe(name, dict(recipe)), family(recipe)


def _power(kernel: str, machine: Machine) -> FrozenDict[float]:
    """Mean watts by domain while products run for a second; empty where no counter can be read."""
    import time

    from slipstick.experiments.measure.spmv.block_energy import energy_of, rapl_domains
    from slipstick.experiments.measure.spmv.product_kernels import product
    from slipstick.workloads.kernels.generators import stencil

    domains = rapl_domains()
    if not domains:
        return FrozenDict()
    run, passed = product(kernel, stencil((300, 300), 5)), 0.0

    def busy() -> None:
        nonlocal passed
        start = time.perf_counter()
        while passed < 1.0:
            run()
            passed = time.perf_counter() - start

    joules = energy_of(busy, domains)
    packages = sum(energy for name, energy in joules.items() if name.startswith("package"))
    memory = sum(energy for name, energy in joules.items() if name == "dram")
    return FrozenDict({"package": packages / passed, "dram": memory / passed})


def rows_of(host: HostKernels) -> list[dict[str, Any]]:
    """A row a kernel and state: its band, threads, and costs."""
    terms = dict.fromkeys(term for state in STATES for term in TERMS[state])
    rows = []
    for one in host.costs:
        several = host.threads.get(f"{one.kernel} {one.state}")
        half = quantile(DEFAULT_LEVEL, one.freedom) * one.spread
        rows.append(
            {
                "kernel": one.kernel,
                "caches": one.state,
                "software": one.software,
                "band_low": exp(-half),
                "band_high": exp(half),
                "threads_measured": several.measured if several else 1,
                "thread_start_s": several.start if several else None,
                "shared": several.shared if several else None,
                **{f"{name}_s": one.cost.get(name) for name in terms},
            }
        )
    return rows
