"""How far predictions lie from measurements, and whether bands hold what they promise.

Predictions and measurements are times (or any positive quantity) of one unit, arrays of shape (n,). Errors are shares:
0.1 is 10 %. Everything about bands is in the logarithm, so a band of a factor two on either side has half-width log 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask

LEVEL = 0.8
"""The level of a band where none is named."""
BOOTSTRAPS, SEED = 1000, 7


def relative_errors(predicted: npt.ArrayLike, measured: npt.ArrayLike) -> FloatArray:
    """|predicted / measured - 1|, shape (n,)."""
    return np.asarray(np.abs(np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float) - 1))


def log_errors(predicted: npt.ArrayLike, measured: npt.ArrayLike) -> FloatArray:
    """|log(predicted / measured)|, shape (n,): half and double the time are equally wrong."""
    return np.asarray(np.abs(np.log(np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float))))


def mean_error(predicted: npt.ArrayLike, measured: npt.ArrayLike) -> float:
    """Mean of |predicted / measured - 1|: the mean absolute percentage error (MAPE), as a share."""
    return float(np.mean(relative_errors(predicted, measured)))


def relative_quantile(share: float, predicted: npt.ArrayLike, measured: npt.ArrayLike) -> float:
    """The quantile of |predicted / measured - 1| below which a share of the rows lies: 0.5 is the median."""
    return float(np.quantile(relative_errors(predicted, measured), share))


def log_quantile(share: float, predicted: npt.ArrayLike, measured: npt.ArrayLike) -> float:
    """The quantile of |log(predicted / measured)| below which a share of the rows lies.

    At the level of a band this is the half-width of one band for all rows that would have held (with hindsight, or of
    the errors of folds that were left out).
    """
    return float(np.quantile(log_errors(predicted, measured), share))


def weighted_quantile(values: npt.ArrayLike, weights: npt.ArrayLike, share: float = 0.5) -> float:
    """The least value at which values up to it have a share of the weight; arrays of shape (n,), weights above 0."""
    known, weighing = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    return float(np.quantile(known, share, weights=weighing, method="inverted_cdf"))


def normal_spread(errors: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Standard deviation of the normal law whose 80 % band holds 80 % of the errors (by weight), shape (n,)."""
    sizes = np.abs(np.asarray(errors, dtype=float))
    held = float(np.quantile(sizes, LEVEL)) if weights is None else weighted_quantile(sizes, weights, LEVEL)
    return held / NormalDist().inv_cdf(0.5 + LEVEL / 2)


def inside(low: npt.ArrayLike, high: npt.ArrayLike, measured: npt.ArrayLike) -> Mask:
    """Whether each measurement lies in its band, ends included, shape (n,)."""
    return np.asarray((np.asarray(low) <= np.asarray(measured)) & (np.asarray(measured) <= np.asarray(high)))


def half_widths_away(
    low: npt.ArrayLike, predicted: npt.ArrayLike, high: npt.ArrayLike, measured: npt.ArrayLike
) -> FloatArray:
    """How many half-widths of its band, in log, each measurement lies from its prediction, shape (n,).

    Each side of an uneven band counts by its own width; up to 1 lies inside. Their quantile at a level is the factor on
    all bands that would have held it.
    """
    bottom, middle, top, truth = (
        np.log(np.asarray(values, dtype=float)) for values in (low, predicted, high, measured)
    )
    side = np.where(truth < middle, middle - bottom, top - middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(truth == middle, 0.0, np.abs(truth - middle) / side))


def coverage(low: npt.ArrayLike, high: npt.ArrayLike, measured: npt.ArrayLike) -> float:
    """The share of measurements inside their bands."""
    return float(np.mean(inside(low, high, measured)))


def width(low: npt.ArrayLike, high: npt.ArrayLike) -> float:
    """The median of high over low: 1.5 means that half of the bands are narrower than a factor of 1.5."""
    return float(np.median(np.asarray(high, dtype=float) / np.asarray(low, dtype=float)))


def interval_scores(
    low: npt.ArrayLike, high: npt.ArrayLike, measured: npt.ArrayLike, level: float = LEVEL
) -> FloatArray:
    """Width of each band in log time plus 2 / (1 - level) times what lies outside, shape (n,); smaller is better.

    Source: Gneiting and Raftery 2007, Strictly proper scoring rules, equation 43.
    """
    bottom, top, truth = (np.log(np.asarray(values, dtype=float)) for values in (low, high, measured))
    outside = np.maximum(bottom - truth, 0) + np.maximum(truth - top, 0)
    return np.asarray(top - bottom + 2 / (1 - level) * outside)


def interval_score(low: npt.ArrayLike, high: npt.ArrayLike, measured: npt.ArrayLike, level: float = LEVEL) -> float:
    """The mean of the interval scores of bands, each array of shape (n,)."""
    return float(np.mean(interval_scores(low, high, measured, level)))


def constant_band_score(predicted: npt.ArrayLike, measured: npt.ArrayLike, level: float = LEVEL) -> float:
    """The interval score of one half-width for all rows, chosen with hindsight: what a varying band has to beat."""
    half = np.exp(log_quantile(level, predicted, measured))
    middle = np.asarray(predicted, dtype=float)
    return interval_score(middle / half, middle * half, measured, level)


def grouped_coverage(groups: Sequence[str], held: npt.ArrayLike, level: float = 0.9) -> tuple[float, float]:
    """The interval of the coverage (a share) where whole groups are drawn again.

    Where all groups lie inside, or none does, it is that of as many draws as there are groups (`binomial_interval`).

    `groups`: the source, system or machine of each row: rows of one group err together.
    `held`: whether each row's measurement lies in its band, shape (n,).
    """
    _, place = np.unique(np.asarray(groups), return_inverse=True)
    inside, counts = np.bincount(place, weights=np.asarray(held, dtype=float)), np.bincount(place)
    if np.all(inside == counts) or not inside.any():  # all alike: drawn again they tell nothing
        return binomial_interval(len(counts) if inside.any() else 0, len(counts), level)
    return redrawn(inside, counts, level)


def redrawn(sums: npt.ArrayLike, counts: npt.ArrayLike, level: float = 0.9) -> tuple[float, float]:
    """The interval of a mean over rows where whole groups are drawn again.

    `sums`, `counts`: of each group's rows, shape (groups,).
    """
    total, rows = np.asarray(sums, dtype=float), np.asarray(counts, dtype=float)
    drawn = np.random.default_rng(SEED).integers(0, len(rows), (BOOTSTRAPS, len(rows)))
    means = total[drawn].sum(axis=1) / rows[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def binomial_interval(hits: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Between what a share lies of which `hits` of `count` are seen (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(hits, count - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - tail)) if hits < count else 1.0
    return low, high


@dataclass(frozen=True)
class Score:
    """Errors of predictions and the worth of their bands.

    `mape`: mean of |predicted / measured - 1|.
    `median`, `ninetieth`: quantiles of |log(predicted / measured)|.
    `coverage`, `width`: share of measurements inside the band; median of high over low.
    `interval`: interval score in log time.
    """

    mape: float
    median: float
    ninetieth: float
    coverage: float
    width: float
    interval: float


def score(
    predicted: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    measured: npt.ArrayLike,
    level: float = LEVEL,
) -> Score:
    """All of a record's figures of predictions with bands of one level."""
    return Score(
        mean_error(predicted, measured),
        log_quantile(0.5, predicted, measured),
        log_quantile(0.9, predicted, measured),
        coverage(low, high, measured),
        width(low, high),
        interval_score(low, high, measured, level),
    )
