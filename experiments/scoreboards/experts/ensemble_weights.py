"""Several predictions of one thing, joined with weights that groups left out have earned.

A machine that nobody measured can be predicted by a formula, by its nearest measured relative scaled by bandwidth or
by a formula's ratio, or by that relative as it is. Which is best differs from machine to machine and is learned: each
known group (a generation of devices) is left out in turn and predicted from the others in all these ways. The weights,
none below zero and their sum one, give the mean log time there the least squares of errors. The answer is the median of
the mixture (a linear opinion pool: Stone, Ann. Math. Statist. 32 (1961), 1339) in which each way has the scatter that
the formula announces: the mean of ways that lie within it, while one far beyond moves the answer little.

Few groups are known, so that the weights are drawn to equal ones: the prior is worth one group left out (a unit
information prior: Kass and Wasserman, JASA 90 (1995), 928), in which the ways err alike, each about the mean of all by
as much as they lie apart. Where groups of other cases are known as well, the weights that those have earned stand in
the place of equal ones. Nothing is dropped or chosen. The band is the formula's own, widened by what the ways lie
apart (the variance of a mixture), and stretched as groups left out call for (`bands.stretch`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fit_model import FREEDOM
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.fitting.nonnegative_terms import nonnegative
from slipstick.estimators.fitting.prediction_bands import stretch
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.symbolic.lambdified import FloatArray

ROUNDS, DONE, HEAVY = 50, 1e-4, 1e6
"""Most rounds of a fit, the change of weights that ends it, and the weight of the equation that makes their sum one."""
HALVINGS = 40
EXACT = 1e-3
"""Least scale of log errors: a way that is right to a thousandth needs no more weight."""


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a group that was left out and predicted from the others.

    `predicted`: log predictions by the name of the way, each of shape (rows,); nan where a way has none.
    `measured`: logs of what was measured, shape (rows,).
    `group`: what was left out.
    `half`: half-width of the formula's own 80 % band of log time, shape (rows,); None where it announces none.
    `case`: whose rows they are, where those of several cases are known; a group counts once in each.
    """

    predicted: Mapping[str, FloatArray]
    measured: FloatArray
    group: str
    half: FloatArray | None = None
    case: str = ""


@dataclass(frozen=True)
class MethodWeights:
    """Weights of several ways of predicting.

    `weights`: by way; their sum is one.
    `stretch`: factor on half-widths with which bands of groups left out hold 80 %; 1 where no group was.
    """

    weights: Mapping[str, float]
    stretch: float = 1.0

    def mean(self, predicted: Mapping[str, FloatArray]) -> FloatArray:
        """Weighted mean of log predictions, each of shape (rows,); a way that has none of a row (nan) leaves it.

        Raises InputError where no way has a prediction of a row.
        """
        shares, logs = self._shares(predicted)
        return np.asarray((shares * logs).sum(axis=0))

    def median(self, predicted: Mapping[str, FloatArray], half: FloatArray) -> FloatArray:
        """Median of the mixture of log predictions, each of shape (rows,); a way that has none of a row leaves it.

        `half`: half of the formula's own 80 % band of log time, above 0, shape (rows,).
        Raises InputError as `mean`.
        """
        from scipy.special import ndtr

        shares, logs = self._shares(predicted)
        low = np.where(shares > 0, logs, np.inf).min(axis=0)
        high = np.where(shares > 0, logs, -np.inf).max(axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            above = (shares * ndtr((middle - logs) * QUANTILE / half)).sum(axis=0) < 1 / 2
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.asarray((low + high) / 2)

    def half_width(self, predicted: Mapping[str, FloatArray], half: FloatArray) -> FloatArray:
        """Half of the 80 % band of log time of each row, shape (rows,).

        `half`: that of the formula alone, shape (rows,).
        Raises InputError as `mean`.
        """
        shares, logs = self._shares(predicted)
        apart = (shares * (logs - self.median(predicted, half)) ** 2).sum(axis=0)
        return np.asarray(self.stretch * np.sqrt(half**2 + QUANTILE**2 * apart))

    def _shares(self, predicted: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Weights of the ways that have a prediction of each row, and the predictions, 0 where none is."""
        logs = np.stack([np.asarray(predicted[name], dtype=np.float64) for name in self.weights])
        there = np.isfinite(logs)
        if not there.any(axis=0).all():
            raise InputError(f"no finite prediction of a row by any of {', '.join(self.weights)}")
        parts = there * np.array(list(self.weights.values()))[:, None]
        parts = np.where(parts.sum(axis=0) <= 0, there, parts)
        return parts / parts.sum(axis=0), np.where(there, logs, 0.0)


def mixture(ways: Sequence[str], *levels: Sequence[Split]) -> MethodWeights:
    """The weights that groups left out have earned, and how far their bands have to stretch.

    `ways`: names of the predictions.
    `levels`: groups left out, the widest set of cases first, the target's own last; each level is drawn to the one
        before it, the first to equal weights. The last one that has any says how far bands stretch, each of its groups
        by weights of the others.
    Raises InputError where there is no way.
    """
    if not ways:
        raise InputError("no way of predicting to mix: want at least one")
    weights = _through(ways, levels)
    last = next((level for level in reversed(levels) if level), ())
    judged = [(split, split.half) for split in last if split.half is not None]
    if not judged:
        return MethodWeights(weights)
    without = {
        group: MethodWeights(_through(ways, [[one for one in level if one.group != group] for level in levels]))
        for group in {split.group for split, _ in judged}
    }
    logs = np.concatenate([without[split.group].median(split.predicted, half) for split, half in judged])
    wide = np.concatenate([without[split.group].half_width(split.predicted, half) for split, half in judged])
    measured = np.exp(np.concatenate([split.measured for split, _ in judged]))
    groups = [split.group for split, _ in judged for _ in range(len(split.measured))]
    return MethodWeights(weights, stretch(np.exp(logs), wide, measured, groups))


def _through(ways: Sequence[str], levels: Sequence[Sequence[Split]]) -> dict[str, float]:
    shares = np.full(len(ways), 1 / len(ways))
    for level in levels:
        shares = _drawn(ways, shares, level)
    return dict(zip(ways, shares.tolist(), strict=True))


def _drawn(ways: Sequence[str], start: FloatArray, splits: Sequence[Split]) -> FloatArray:
    """Weights of least squares over groups left out, drawn to `start` as by one group more; shape (ways,).

    Rows that every way predicts count, by Student's t as in `fit`, each group alike. What one group more says has the
    size that the ways lie apart: their mean square about their mean.
    """
    errors = [_errors(ways, split) for split in splits]
    count = Counter((split.case, split.group) for split in splits)
    known = [(off, 1 / count[split.case, split.group]) for off, split in zip(errors, splits, strict=True) if len(off)]
    shares, ones = start, np.ones(len(ways))
    for _ in range(ROUNDS if known and len(ways) > 1 else 0):
        squares, apart = HEAVY * np.outer(ones, ones), 0.0
        for off, worth in known:
            mixed = off @ shares
            scale = max(normal_spread(mixed), EXACT)
            counts = (FREEDOM + 1) / (FREEDOM + (mixed / scale) ** 2) * worth / len(off)
            squares += (off * counts[:, None]).T @ off
            apart += float(counts @ off.var(axis=1, ddof=1))
        drawn = apart / sum(worth for _, worth in known)
        triangle = np.linalg.cholesky(squares + (drawn + EXACT**2) * np.eye(len(ways)))
        wanted = np.linalg.solve(triangle, HEAVY * ones + (drawn + EXACT**2) * start)
        made = nonnegative(np.asarray(triangle.T, dtype=np.float64), np.asarray(wanted, dtype=np.float64))
        moved, shares = shares, (shares + made / made.sum()) / 2
        if float(np.abs(moved - shares).max()) < DONE:
            break
    return shares


def _errors(ways: Sequence[str], split: Split) -> FloatArray:
    """Log errors of the rows that every way predicts, shape (rows, ways)."""
    off = np.stack([np.asarray(split.predicted[name], dtype=np.float64) for name in ways], axis=1)
    off = off - np.asarray(split.measured)[:, None]
    return np.asarray(off[np.isfinite(off).all(axis=1)])
