"""Bands that hold what they promise: predictions of left-out groups, and the factor on bands that they call for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.folds import Fold, folds
from slipstick.estimators.fitting.group_effects_model import UNGROUPED, FloatArray, LawRows, TimeLaw
from slipstick.estimators.fitting.scores import LEVEL, weighted_quantile

WORTH = 4.0
"""Groups that an unstretched band is worth."""
MOST_FOLDS = 5


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Predictions of rows whose groups were left out, shape (rows,): seconds, and half of the 80 % band of log time.

    Rows that were not scored are not a number, and have no group.

    `inner`: mean |log error| of the groups that were left out within the folds: what the fits promised of these rows.
    """

    seconds: FloatArray
    half: FloatArray
    groups: Sequence[str]
    inner: float | None = None


Key: TypeAlias = str | Sequence[str]
"""By what rows are left out together: a level of the law by its name, or the group of each row."""


def calibrated(law: TimeLaw, rows: LawRows, *keys: Key, least: float = 0.0) -> LawFit:
    """A fit whose bands are stretched to hold 80 % of groups of each of `keys` that are left out in turn.

    Each inner fold is two Gauss-Newton steps from the fit to all rows; a test holds them near fits of their own. Of
    several keys the one that calls for the widest bands decides. What levels call for, named as keys, widens only the
    bands of rows whose group at the level is unseen: a release that is known is not to be paid for. Rows that leave
    none open have the least of the factors, and none below 1: nothing was left out that would narrow their bands. The
    first key says the inner error. Rows of the group `UNGROUPED` of a key are known in all of its folds.

    `least`: the least factor on bands: 1 where many groups are twins of others, which would narrow the band of a
        stranger.
    """
    made, needed, errors = fit(law, rows), list[float](), list[float | None]()
    for named in keys:
        key = rows.groups[named] if isinstance(named, str) else named
        seconds, half = _nothing(len(rows)), _nothing(len(rows))
        judged = [at for at, group in enumerate(key) if group != UNGROUPED]
        for fold in folds(key, scored=judged, at_most=MOST_FOLDS):
            inner, scored = fit(law, rows.take(fold.known), near=made), rows.take(fold.scored)
            seconds[fold.scored] = inner.seconds(law, scored.columns, scored.groups)
            half[fold.scored] = inner.half_width(law, scored.columns, scored.groups)
        off = np.abs(np.log(seconds / rows.seconds))
        errors.append(float(np.nanmean(off)) if np.isfinite(off).any() else None)
        needed.append(stretch(seconds, half, rows.seconds, key))
    every = max([least, *(factor for key, factor in zip(keys, needed, strict=True) if not isinstance(key, str))])
    levels = {key: max(every, factor) for key, factor in zip(keys, needed, strict=True) if isinstance(key, str)}
    widest = max(every, 1.0, min(levels.values())) if levels else every
    return replace(made, stretch=widest, inner=errors[0], stretches=levels)


def left_out(law: TimeLaw, rows: LawRows, outer: Sequence[Fold], *inner: Key, least: float = 0.0) -> LeftOutRows:
    """Every fold's rows from a fit to what it knows, whose bands are stretched by the groups of `inner` in it."""
    seconds, half, names = _nothing(len(rows)), _nothing(len(rows)), [""] * len(rows)
    promised: list[tuple[float | None, int]] = []
    for fold in outer:
        known, scored = rows.take(fold.known), rows.take(fold.scored)
        keys = (key if isinstance(key, str) else [key[i] for i in fold.known] for key in inner)
        made = calibrated(law, known, *keys, least=least)
        seconds[fold.scored] = made.seconds(law, scored.columns, scored.groups)
        half[fold.scored] = made.half_width(law, scored.columns, scored.groups)
        promised.append((made.inner, len(scored)))
        for place in fold.scored.tolist():
            names[place] = fold.held_out
    return LeftOutRows(seconds, half, names, mean_inner(promised))


def mean_inner(promised: Sequence[tuple[float | None, int]]) -> float | None:
    """Mean of the inner errors of fits, each with the number of rows that it predicted; None where none has one."""
    known = [(error, count) for error, count in promised if error is not None]
    return float(np.average([error for error, _ in known], weights=[count for _, count in known])) if known else None


def stretch(seconds: FloatArray, half: FloatArray, measured: FloatArray, groups: Sequence[str]) -> float:
    """The factor on half-widths with which 80 % of left-out rows lie inside, each group counting alike.

    It is drawn towards one: an unstretched band is worth four groups. Rows that are not a number do not count.
    """
    there = np.isfinite(seconds)
    if not there.any():
        return 1.0
    ratio = np.abs(np.log(seconds[there] / measured[there])) / half[there]
    names = np.array([str(name) for name in groups])[there]
    distinct, place, count = np.unique(names, return_inverse=True, return_counts=True)
    quantile = weighted_quantile(ratio, 1 / count[place] / len(distinct), LEVEL)
    return float(max(quantile, 1e-3) ** (len(distinct) / (len(distinct) + WORTH)))


def _nothing(count: int) -> FloatArray:
    return np.full(count, np.nan)
