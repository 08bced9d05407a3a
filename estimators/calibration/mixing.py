"""Several predictions of one thing, joined with weights that measurements left out have earned.

A machine that nobody measured can be predicted by a formula, by its nearest measured relative scaled by bandwidth or
by a formula's ratio, or by that relative as it is. Which is best differs from machine to machine and is learned: each
known group (a device family) is left out in turn and predicted from the others in all these ways. The weights (none
below zero, their sum one) are those of least error there, drawn to what is expected; the joined log time is the
weighted mean of log times. Where the mixture, its weights fitted without the group that it predicts, errs more than
the best single way, that way is taken alone. The same errors are the band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.tuned.tuned_unseen import LARGEST, SOFT, STRENGTH
from slipstick.hwmodels.files.readers import InputError


@dataclass(frozen=True, eq=False)
class Split:
    """A known group that was left out and predicted from the others.

    Parameters
    ----------
    predicted
        Log predictions by the name of the way, each of shape (rows,); nan where a way has none.
    measured
        Logs of what was measured, shape (rows,).
    weight
        How much the group counts.
    """

    predicted: Mapping[str, FloatArray]
    measured: FloatArray
    weight: float = 1.0


@dataclass(frozen=True)
class MethodWeights:
    """Weights of several ways of predicting.

    Parameters
    ----------
    weights
        By way; their sum is one.
    spread
        Standard deviation of the normal law whose 80 % band holds 80 % of the errors of groups left out; None where no
        group was.
    """

    weights: Mapping[str, float]
    spread: float | None

    def log(self, predicted: Mapping[str, FloatArray]) -> FloatArray:
        """Weighted mean of log predictions, each of shape (rows,); a way that has none of a row (nan) leaves it.

        Raises InputError where no way has a prediction of a row.
        """
        logs = np.stack([np.asarray(predicted[name], dtype=np.float64) for name in self.weights])
        weights = np.array(list(self.weights.values()))[:, None]
        there = np.isfinite(logs)
        if not there.any(axis=0).all():
            raise InputError(f"no finite prediction of a row by any of {', '.join(self.weights)}")
        parts = there * weights
        empty = parts.sum(axis=0) <= 0
        parts = np.where(empty, there, parts)
        return np.asarray((parts * np.where(there, logs, 0.0)).sum(axis=0) / parts.sum(axis=0))


def mixture(expected: Mapping[str, float], splits: Sequence[Split]) -> MethodWeights:
    """The weights that groups left out have earned, and how far predictions with them scatter.

    Raises InputError where a weight is negative, or all are 0.

    Parameters
    ----------
    expected
        Weight of each way before anything was left out, none negative; brought to the sum one.
    splits
        Groups left out; none where too few are known.
    """
    total = sum(expected.values())
    if not expected or total <= 0 or min(expected.values()) < 0:
        raise InputError(f"expected weights = {dict(expected)}: want numbers >= 0 that are not all 0")
    start = {name: value / total for name, value in expected.items()}
    splits = [split for split in splits if len(split.measured)]
    if not splits:
        return MethodWeights(start, None)
    turns = [_fitted(start, splits[:i] + splits[i + 1 :]) for i in range(len(splits))]
    whole = _fitted(start, splits)
    mixed = sum(_loss(turn, split) + _away(turn, start) for turn, split in zip(turns, splits, strict=True))
    single = {
        name: sum(_loss(_alone(start, name), split) + _away(_alone(start, name), start) for split in splits)
        for name in start
    }
    best = min(single, key=lambda name: single[name])
    if single[best] < mixed:
        whole = _alone(start, best)
        turns = [whole] * len(splits)
    return MethodWeights(whole, _spread(turns, splits))


def _alone(start: Mapping[str, float], name: str) -> dict[str, float]:
    return {other: float(other == name) for other in start}


def _errors(weights: Mapping[str, float], split: Split) -> FloatArray:
    return np.asarray(MethodWeights(weights, None).log(split.predicted) - split.measured)


def _loss(weights: Mapping[str, float], split: Split) -> float:
    """Weighted mean over rows: the error, quadratic below `SOFT` and none the larger above `LARGEST`."""
    sizes = np.minimum(np.abs(_errors(weights, split)), LARGEST)
    return split.weight * float(np.mean(np.sqrt(SOFT**2 + sizes**2) - SOFT))


def _away(weights: Mapping[str, float], start: Mapping[str, float]) -> float:
    """What it costs to leave the expected weights."""
    return STRENGTH * sum((weights[name] - start[name]) ** 2 for name in start)


def _fitted(start: Mapping[str, float], splits: Sequence[Split]) -> dict[str, float]:
    """Weights of least loss over the splits, drawn to the expected ones."""
    from scipy.optimize import LinearConstraint, minimize

    if not splits:
        return dict(start)
    names, before = list(start), np.array(list(start.values()))

    def objective(weights: FloatArray) -> float:
        chosen = dict(zip(names, np.clip(weights, 0.0, 1.0).tolist(), strict=True))
        return sum(_loss(chosen, s) for s in splits) + _away(chosen, start)

    one = LinearConstraint(np.ones(len(names)), 1.0, 1.0)
    solution = minimize(objective, before, method="SLSQP", bounds=[(0.0, 1.0)] * len(names), constraints=[one]).x
    solution = np.clip(solution, 0.0, 1.0)
    return dict(zip(names, (solution / solution.sum()).tolist(), strict=True))


def _spread(turns: Sequence[Mapping[str, float]], splits: Sequence[Split]) -> float:
    """From the 80 % quantile of errors, each group by its weight."""
    sizes = [np.abs(_errors(turn, split)) for turn, split in zip(turns, splits, strict=True)]
    counts = np.concatenate([np.full(len(size), s.weight / len(size)) for size, s in zip(sizes, splits, strict=True)])
    errors = np.concatenate(sizes)
    order = np.argsort(errors)
    reached = np.cumsum(counts[order]) / counts.sum()
    place = min(int(np.searchsorted(reached, DEFAULT_LEVEL)), len(errors) - 1)
    return float(errors[order[place]]) / quantile(DEFAULT_LEVEL, None)
