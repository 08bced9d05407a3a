"""Kernels of the sparse product: whole products by generators that calibration did not use, one thread and two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.scores import mean_error
from slipstick.estimators.sparse.kernel_costs import SPLIT_OF, HostKernels
from slipstick.estimators.sparse.reuse_model import State
from slipstick.experiments.measure.spmv.labels import KernelLabels, Key, MeasuredProduct, shipped_products
from slipstick.experiments.methods.spmv.kernel_fits import fit_kernels, ran_together
from slipstick.experiments.scoring.score_rows import ValidationRow

DATASET = "own products by kernel"
COVERAGE_GOAL = (0.70, 0.90)


def rows() -> list[ValidationRow]:
    """A row a kernel, state of the caches and number of threads; met where the band covers 70 to 90 %."""
    labels = shipped_products()
    host = fit_kernels(labels.calibration, labels.host, labels.software, labels.source)
    keys = sorted({key for one in labels.judged for key in one.seconds}, key=lambda key: (key[2], key[1], key[0]))
    return [_row(labels, host, kernel, state, threads) for kernel, state, threads in keys]


def predicted(host: HostKernels, product: MeasuredProduct, kernel: str, state: State, threads: int) -> float:
    """Seconds of a measured product from its counts alone."""
    pieces = [product.counts] if threads == 1 else product.chunks[SPLIT_OF[kernel], threads]
    return host.of_counts(pieces, kernel, state, threads)[0]


def _row(labels: KernelLabels, host: HostKernels, kernel: str, state: State, threads: int) -> ValidationRow:
    key = (kernel, state, threads)
    scored = [one for one in labels.judged if ran_together(key, one)]
    measured = np.array([one.seconds[key] for one in scored])
    ours = np.array([predicted(host, one, kernel, state, threads) for one in scored])
    half = quantile(DEFAULT_LEVEL, host.of(kernel, state).freedom) * host.spread(kernel, state, threads)
    logs = np.log(measured / ours)
    coverage = float(np.mean(np.abs(logs) <= half))
    baselines = {"constant a non-zero": mean_error(_constant(labels.calibration, scored, key), measured)}
    if threads > 1:
        alone = np.array([predicted(host, one, kernel, state, 1) for one in scored])
        baselines["one thread / threads"] = mean_error(alone / threads, measured)
    return ValidationRow(
        DATASET,
        f"{kernel}, {state} caches, {threads} thread{'s' if threads > 1 else ''}",
        "generator (calibrated on five others)",
        len(scored),
        "MAPE",
        "1",
        mean_error(ours, measured),
        baselines,
        None,
        COVERAGE_GOAL[0] <= coverage <= COVERAGE_GOAL[1],
        DEFAULT_LEVEL,
        coverage,
        float(np.exp(2 * half)),
        None,
        f"{labels.source}; met where the band covers 70 to 90 %",
    )


def _constant(known: Sequence[MeasuredProduct], scored: Sequence[MeasuredProduct], key: Key) -> FloatArray:
    each = [one.seconds[key] / one.counts["nonzeros"] for one in known if key in one.seconds]
    return float(np.exp(np.mean(np.log(each)))) * np.array([one.counts["nonzeros"] for one in scored])
