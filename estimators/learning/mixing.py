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

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.learning.scores import normal_spread
from slipstick.estimators.learning.terms import nonnegative
from slipstick.estimators.tuned.tuned_unseen import LARGEST, SOFT, STRENGTH
from slipstick.hwmodels.files.readers import InputError

ROUNDS, ENDS, HEAVY = 200, 1e-10, 1e3
"""Most rounds of a fit, the fall of the loss that ends it, and the weight of the row that makes weights sum to one."""


@dataclass(frozen=True, eq=False)
class Split:
    """A known group that was left out and predicted from the others.

    `predicted`: log predictions by the name of the way, each of shape (rows,); nan where a way has none.
    `measured`: logs of what was measured, shape (rows,).
    `weight`: how much the group counts.
    """

    predicted: Mapping[str, FloatArray]
    measured: FloatArray
    weight: float = 1.0


@dataclass(frozen=True)
class MethodWeights:
    """Weights of several ways of predicting.

    `weights`: by way; their sum is one.
    `spread`: standard deviation of the normal law whose 80 % band holds 80 % of the errors of groups left out; None
        where no group was.
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

    `expected`: weight of each way before anything was left out, none negative; brought to the sum one.
    `splits`: groups left out; none where too few are known.
    Raises InputError where a weight is negative, or all are 0.
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


def _slopes(weights: Mapping[str, float], split: Split, off: FloatArray) -> FloatArray:
    """Derivatives of the errors by the weights, shape (rows, ways); 0 where a way has no prediction."""
    logs = np.stack([np.asarray(split.predicted[name], dtype=np.float64) for name in weights], axis=1)
    there = np.isfinite(logs)
    total = (there * np.array(list(weights.values()))).sum(axis=1, keepdims=True)
    apart = np.where(there, logs, 0.0) - there * (split.measured + off)[:, None]
    return np.where(total > 0, apart / np.where(total > 0, total, 1.0), 0.0)


def _loss(weights: Mapping[str, float], split: Split) -> float:
    """Weighted mean over rows: the error, quadratic below `SOFT` and none the larger above `LARGEST`."""
    sizes = np.minimum(np.abs(_errors(weights, split)), LARGEST)
    return split.weight * float(np.mean(np.sqrt(SOFT**2 + sizes**2) - SOFT))


def _away(weights: Mapping[str, float], start: Mapping[str, float]) -> float:
    """What it costs to leave the expected weights."""
    return STRENGTH * sum((weights[name] - start[name]) ** 2 for name in start)


def _fitted(start: Mapping[str, float], splits: Sequence[Split]) -> dict[str, float]:
    """Weights of least loss over the splits, drawn to the expected ones.

    Each round is a sum of squares whose weights are those of the last errors (majorise and minimise: the loss falls),
    over weights of at least zero with a heavy row for their sum.
    """
    shares, least = dict(start), _whole(start, start, splits)
    for _ in range(ROUNDS if splits else 0):
        parts = [np.sqrt(STRENGTH) * np.eye(len(start)), np.full((1, len(start)), HEAVY)]
        wanted = [np.sqrt(STRENGTH) * np.array(list(start.values())), np.array([HEAVY])]
        for split in splits:
            off = _errors(shares, split)
            slopes = _slopes(shares, split, off)
            counts = split.weight / len(off) / np.sqrt(SOFT**2 + off**2) / 2 * (np.abs(off) < LARGEST)
            parts.append(slopes * np.sqrt(counts)[:, None])
            wanted.append((slopes @ np.array(list(shares.values())) - off) * np.sqrt(counts))
        made = nonnegative(np.concatenate(parts), np.concatenate(wanted))
        new = dict(zip(start, (made / made.sum()).tolist(), strict=True))
        loss = _whole(new, start, splits)
        if loss > least - ENDS:
            break
        shares, least = new, loss
    return shares


def _whole(weights: Mapping[str, float], start: Mapping[str, float], splits: Sequence[Split]) -> float:
    return sum(_loss(weights, split) for split in splits) + _away(weights, start)


def _spread(turns: Sequence[Mapping[str, float]], splits: Sequence[Split]) -> float:
    """From the errors of all groups, each by its weight."""
    sizes = [np.abs(_errors(turn, split)) for turn, split in zip(turns, splits, strict=True)]
    counts = [np.full(len(size), split.weight / len(size)) for size, split in zip(sizes, splits, strict=True)]
    return normal_spread(np.concatenate(sizes), np.concatenate(counts))
