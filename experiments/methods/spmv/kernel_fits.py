"""What `slipstick spmv calibrate` does: products measured on this host in, the costs of its kernels out.

Costs of reuse from labelled blocks, as `slipstick spmv train` fits them, and their errors on held-out matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray, Mask
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict, as_document
from slipstick.common.writer import write_json
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.nonnegative_terms import ROUNDS, nearest_terms
from slipstick.estimators.sparse.kernel_costs import SCHEMA, SPLIT_OF, HostKernels, ThreadCosts, beside, counts_of
from slipstick.estimators.sparse.reuse_model import (
    LABEL_KINDS,
    LEARNT_ROWS,
    MEMORY_TERMS,
    STATES,
    SUFFIX,
    TERMS,
    CacheSizes,
    KernelCosts,
    State,
    check_state,
    counts_of_blocks,
    term_amounts,
)
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.labels import (
    FolderLabels,
    LabelledBlocks,
    Labels,
    MeasuredProduct,
    chunk_counts,
    family,
    recipes,
    shipped_labels,
)
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_file import load_machine, save_machine
from slipstick.workloads.kernels.blocks import BlockTable
from slipstick.workloads.kernels.generators import from_recipe
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

REACHES = (4.0, 8.0, 16.0)
"""As `reuse_model.REACH`; each kernel's is the one of least error on matrices held out."""
SHARED, STARTS = np.linspace(0.0, 1.0, 21), np.append(0.0, np.geomspace(1e-7, 1e-3, 41))
LEAST_THREADED = 20_000
"""Non-zeros of the smallest matrix that is timed on several threads."""


def fit_costs(amounts: FloatArray, seconds: npt.ArrayLike, rounds: int = ROUNDS) -> FloatArray:
    """Costs >= 0 [s] of least mean relative error, by least squares weighed again and again (in one round: of squares).

    `amounts` has shape (products, terms), `seconds` (products,).
    Raises InputError where there are fewer products than two, or a time is not above 0.
    """
    measured = np.asarray(seconds, dtype=np.float64)
    if len(measured) < 2 or amounts.shape[0] != len(measured) or not np.all(measured > 0):
        raise InputError(f"{len(measured)} products to fit costs to: want at least 2, all > 0 s")
    return nearest_terms(amounts, measured, rounds)


def amounts_of(
    every: Sequence[Mapping[str, float]], sizes: CacheSizes, state: State, reach: float, learnt: float = LEARNT_ROWS
) -> FloatArray:
    """What products of these counts do, shape (products, terms)."""
    levels = sizes.levels(reach)
    return np.array([list(term_amounts(one, state, levels, learnt).values()) for one in every])


def fit_blocks(
    blocks: BlockTable, labels: npt.ArrayLike, kind: State, sizes: CacheSizes, clock: float = 1e9, source: str = ""
) -> KernelCosts:
    """Costs of the blockwise kernel from labels (seconds a non-zero, shape (blocks,)), of least square relative error.

    `sizes`, `clock` [Hz]: of the core measured.
    Raises InputError where labels are not positive, or there are fewer blocks than terms.
    """
    if np.size(labels) < len(TERMS[kind]):
        raise InputError(f"{np.size(labels)} blocks cannot fix {len(TERMS[kind])} costs")
    counts = np.stack(list(term_amounts(counts_of_blocks(blocks), kind, sizes.levels()).values()), axis=1)
    costs = map(float, fit_costs(counts / blocks.size, labels, 1))
    cost = FrozenDict(dict(zip(TERMS[kind], costs, strict=True)))
    return KernelCosts("blocks", kind, cost, sizes, clock, source=source)


def left_out(groups: npt.ArrayLike, predicted: Callable[[Mask, Mask], FloatArray]) -> FloatArray:
    """Predictions of every row by what was fitted to the rows of other groups, shape (rows,).

    `predicted`: of masks of the rows known and of those left out: predictions of the latter.
    """
    names = np.asarray(groups)
    result = np.empty(len(names))
    for name in np.unique(names):
        out = names == name
        result[out] = predicted(~out, out)
    return result


def held_out_logs(amounts: FloatArray, seconds: npt.ArrayLike, families: Sequence[str]) -> FloatArray:
    """log(measured / predicted) of every product by costs fitted to the other families."""
    measured = np.asarray(seconds, dtype=np.float64)
    predicted = left_out(families, lambda known, out: amounts[out] @ fit_costs(amounts[known], measured[known]))
    return np.asarray(np.log(measured / np.maximum(predicted, 1e-12)))


def spread_over_families(logs: npt.ArrayLike, level: float = DEFAULT_LEVEL) -> float:
    """The wider of the standard deviation about no error and of the spread whose central band of `level` holds that
    share of errors, counted as of one more (conformal); 10 at most.

    A few families scatter much more than the others; a quantile over all matrices does not see how far those reach, and
    the next family may be like them.
    """
    ordered = np.sort(np.abs(np.asarray(logs, dtype=np.float64)))
    rank = min(len(ordered), int(np.ceil((len(ordered) + 1) * level)))
    return min(max(float(np.sqrt(np.mean(ordered**2))), float(ordered[rank - 1] / quantile(level, None))), 10.0)


def calibrated(
    kernel: str,
    state: State,
    products: Sequence[MeasuredProduct],
    machine: Machine,
    software: str = "",
    source: str = "",
) -> KernelCosts:
    """The costs of a kernel from products measured on one thread, and their spread over families held out.

    Raises InputError where there are fewer than two families, or a time is not above 0.
    """
    families = [one.family for one in products]
    if len(set(families)) < 2:
        raise InputError(f"kernel {kernel!r}: products of {len(set(families))} families of matrices, want at least 2")
    seconds, sizes = [one.seconds[kernel, state, 1] for one in products], CacheSizes.of(machine)
    tried: list[tuple[float, KernelCosts]] = []
    for reach in REACHES:
        amounts = amounts_of([one.counts for one in products], sizes, state, reach)
        logs = held_out_logs(amounts, seconds, families)
        cost = FrozenDict(dict(zip(TERMS[state], map(float, fit_costs(amounts, seconds)), strict=True)))
        spread, freedom = spread_over_families(logs), float(len(set(families)) - 1)
        costs = KernelCosts(kernel, state, cost, sizes, machine.clock, spread, freedom, reach, software, source)
        tried.append((float(np.mean(np.abs(logs))), costs))
    return min(tried, key=lambda one: one[0])[1]


def fit_threads(costs: KernelCosts, threads: int, products: Sequence[MeasuredProduct]) -> ThreadCosts:
    """Start and sharing of least mean error of log time; the spread is that of families held out.

    `products`: also those on one thread alone, which costs that leave a family out are fitted to.
    Raises InputError where there are fewer than two families.
    """
    state, key = costs.state, (costs.kernel, costs.state, threads)
    chosen = [one for one in products if ran_together(key, one)]
    alone = [one for one in products if (costs.kernel, state, 1) in one.seconds]
    names, known = np.array([one.family for one in chosen]), np.array([one.family for one in alone])
    if len(set(names)) < 2:
        raise InputError(f"kernel {costs.kernel!r} on {threads} threads: want at least 2 families")

    def amounts(every: Sequence[Mapping[str, float]]) -> FloatArray:
        return amounts_of(every, costs.sizes, state, costs.reach)

    several = np.array([one.seconds[key] for one in chosen])
    together = [amounts(one.chunks[SPLIT_OF[costs.kernel], threads]) for one in chosen]
    single, seconds = (
        amounts([one.counts for one in alone]),
        np.array([o.seconds[costs.kernel, state, 1] for o in alone]),
    )
    memory = np.array([term in MEMORY_TERMS for term in TERMS[state]])

    def busy(cost: FloatArray, shared: float) -> FloatArray:
        """Seconds of the slowest chunk of every matrix."""
        paid = cost * np.where(memory, 1 + shared * (threads - 1), 1.0)
        return np.array([float((one @ paid).max()) for one in together])

    def logs(cost: FloatArray, start: float, shared: float) -> FloatArray:
        return np.asarray(np.log(several / np.maximum(start * (threads - 1) + busy(cost, shared), 1e-12)))

    def best(cost: FloatArray, rows: Mask) -> tuple[float, float]:
        started = STARTS[:, None] * (threads - 1)
        errors = [np.abs(np.log(several / (started + busy(cost, shared))))[:, rows].mean(axis=1) for shared in SHARED]
        where = np.unravel_index(int(np.argmin(errors)), (len(SHARED), len(STARTS)))
        return float(STARTS[where[1]]), float(SHARED[where[0]])

    def without(rows: Mask, out: Mask) -> FloatArray:
        others = ~np.isin(known, names[out])
        cost = fit_costs(single[others], seconds[others])
        return logs(cost, *best(cost, rows))[out]

    left = left_out(names, without)
    every = np.array([costs.cost[term] for term in TERMS[state]])
    return ThreadCosts(*best(every, names == names), spread_over_families(left), threads)


def fit_kernels(
    products: Sequence[MeasuredProduct], machine: Machine, software: Mapping[str, str], source: str
) -> HostKernels:
    """Costs of every kernel, state and number of threads that were measured.

    Raises InputError where nothing was measured, or products are of fewer than two families.
    """
    keys = sorted(
        {key for one in products for key in one.seconds}, key=lambda key: (key[0], STATES.index(key[1]), key[2])
    )
    costs: dict[tuple[str, State], KernelCosts] = {}
    several: dict[str, ThreadCosts] = {}
    for kernel, state, threads in keys:
        if threads == 1:
            chosen = [one for one in products if (kernel, state, 1) in one.seconds]
            costs[kernel, state] = calibrated(kernel, state, chosen, machine, software.get(kernel, ""), source)
        else:
            several[f"{kernel} {state}"] = fit_threads(costs[kernel, state], threads, products)
    if not costs:
        raise InputError("no product was measured")
    return HostKernels(machine.name, machine.cores, tuple(costs.values()), FrozenDict(several), source)


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
    from slipstick.experiments.measure.spmv.kernel_times import Flush, kernels_here, software, time_products

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
    text = f"{machine.name}, {date.today().isoformat()}, {len(result)} matrices, least of interleaved rounds"
    host = fit_kernels(result, machine, {kernel: software(kernel) for kernel in chosen}, text)
    target = beside(path)
    write_json(target, as_document(host, SCHEMA), indent=1)
    return host, target


def _matrices(files: Sequence[Path], largest: int) -> Iterator[tuple[SparseMatrix, str]]:
    for file in files:
        yield read_matrix(file), f"file {file.name}"
    for name, made in recipes("calibration").items():
        if made["nonzeros"] <= largest:
            yield from_recipe(name, made["recipe"]), family(made["recipe"])


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


Model = Callable[[LabelledBlocks, LabelledBlocks], FloatArray]
"""Seconds a non-zero of the second's blocks, fitted on the first."""
FOLDS = 3


def folds(count: int) -> IntArray:
    """Number of the fold that each matrix is held out in, shape (count,)."""
    return np.random.default_rng(0).permutation(count) % FOLDS


def held_out(blocks: LabelledBlocks, model: Model, groups: npt.ArrayLike | None = None) -> FloatArray:
    """Predictions (seconds a non-zero, shape (blocks,)) of every block by a model fitted to matrices of other groups.

    `groups`: of shape (matrices,); `folds` if None.
    """
    group = (folds(len(blocks.names)) if groups is None else np.asarray(groups))[blocks.matrix]
    return left_out(group, lambda known, out: model(blocks.select(known), blocks.select(out)))


@dataclass(frozen=True)
class Errors:
    """Relative errors of blocks and, by name, of whole matrices (sums over the labelled blocks)."""

    block: FloatArray
    by_matrix: dict[str, float]

    @property
    def matrix(self) -> FloatArray:
        """Of whole matrices, shape (matrices,)."""
        return np.array(list(self.by_matrix.values()))

    @property
    def scores(self) -> dict[str, float]:
        """Mean absolute relative errors of blocks and matrices, and that of the worst matrix, as shares."""
        return {
            "block": float(np.mean(np.abs(self.block))),
            "matrix": float(np.mean(np.abs(self.matrix))),
            "matrix max": float(np.max(np.abs(self.matrix))),
        }


def errors(blocks: LabelledBlocks, predicted: FloatArray) -> Errors:
    """Relative errors of predictions (shape (blocks,)) against the labels, by block and by matrix, as shares."""
    measured, estimated = (np.bincount(blocks.matrix, times) for times in (blocks.label, predicted))
    whole = {blocks.names[i]: float(estimated[i] / measured[i] - 1) for i in np.unique(blocks.matrix)}
    return Errors(predicted / blocks.label - 1, whole)


def reuse_of(kind: State, sizes: CacheSizes) -> Model:
    """The costs of reuse."""
    return lambda known, target: fit_blocks(known.table, known.label, kind, sizes).seconds_per_nonzero(target.table)


def constant(known: LabelledBlocks, target: LabelledBlocks) -> FloatArray:
    """The mean label, in seconds a non-zero, for every block of the second, shape (blocks,)."""
    return np.full(len(target.label), known.label.mean())


def fit_labels(source: Labels, kind: State, largest: int | None = None) -> tuple[HostKernels, LabelledBlocks]:
    """The host's kernel with its costs, and the blocks that they were fitted to.

    Their interval is the scatter over matrices held out; it is unknown with fewer than twice as many as folds.
    """
    blocks = source.blocks(kind, data_folder(), largest)
    facts = source.facts["matrices"].items()
    asked_for = [name for name, fact in facts if largest is None or fact["nonzeros"] <= largest]
    if missing := sorted(set(asked_for) - set(blocks.names)):
        text = f"{len(missing)} of {len(asked_for)} matrices are not here as they were measured, or have no such labels"
        print(f"slipstick: {text}: {', '.join(missing[:5])} ...", file=sys.stderr)
    fitted = fit_blocks(blocks.table, blocks.label, kind, source.caches, source.clock, source.source)
    if len(blocks.names) >= 2 * FOLDS:
        logs = np.log1p(errors(blocks, held_out(blocks, reuse_of(kind, source.caches))).matrix)
        fitted = replace(fitted, spread=float(np.std(logs, ddof=1)))
    return HostKernels(str(source.facts["machine"]), 1, (fitted,), source=source.source), blocks


def train_and_save(save: Path, folder: Path | None, label: str, largest: int) -> tuple[KernelCosts, dict[str, Any]]:
    """Fit the costs to labels of a folder or those that ship, write them, and say what came out.

    Raises InputError where files and labels cannot be used, or the name is not one that costs are read from.
    """
    if not save.name.endswith(SUFFIX):
        raise InputError(f"{save}: want a name that ends in {SUFFIX}")
    kind = check_state(label, LABEL_KINDS)
    host, blocks = fit_labels(FolderLabels(folder) if folder else shipped_labels(), kind, largest)
    write_json(save, as_document(host, SCHEMA), indent=1)
    return host.costs[0], {"label": label, "matrices": len(blocks.names), "blocks": len(blocks.label)}
