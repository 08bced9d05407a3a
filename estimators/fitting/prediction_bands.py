"""Bands that hold what they promise: predictions of left-out groups, and the factor on bands that they call for.

Folds that leave whole groups out: a fit is judged on devices, models or sources of which it saw no row.

A fold names row numbers, nothing else. With several keys a fold leaves out every row that shares *any* of them with
what is scored: a model is unseen only if another of equal shapes on the same system is unseen as well. Whatever a
procedure chooses, it chooses by the folds `within` a fold, so that the outer score stays blind to the choice.
The order of folds follows the sorted names of the groups, never the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import UNGROUPED, LawFit, LawRows, TimeLaw
from slipstick.estimators.fitting.scores import LEVEL, weighted_quantile

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that a fit may see, and rows that judge it.

    `held_out`: the groups that are left out, in words.
    `known`, `scored`: numbers of rows, ascending; no row is in both. Rows that share one of several keys with those
        that are scored are in neither.
    """

    held_out: str
    known: Places
    scored: Places


def folds(
    *keys: Sequence[str], rows: Iterable[int] | None = None, scored: Collection[int] | None = None, at_most: int = 0
) -> tuple[Fold, ...]:
    """Each group left out once.

    `keys`: the group of every row under each key; all of one length. A group is what has equal values of all keys.
    `rows`: numbers of the rows that may be used; all by default.
    `scored`: numbers of those that may be scored; the others are only ever known. All by default.
    `at_most`: groups are put together, the largest first, into this many folds of about equal numbers of rows; 0 leaves
        one fold a group.

    Returns
    -------
    tuple of Fold
        Folds in the order of their groups' names. A fold without any known row is left out.

    Raises
    ------
    ValueError
        Where there is no key, or the keys differ in length.
    """
    if not keys or len({len(key) for key in keys}) > 1:
        raise ValueError(f"keys of {[len(key) for key in keys]} rows: want at least one key, all of one length")
    table = np.array([[str(value) for value in key] for key in keys], dtype=object).T
    used = np.arange(len(table)) if rows is None else np.array(sorted(rows), dtype=np.intp)
    judged = used if scored is None else used[np.isin(used, np.array(sorted(scored), dtype=np.intp))]
    members: dict[tuple[str, ...], list[int]] = {}
    for place in judged:
        members.setdefault(tuple(table[place]), []).append(int(place))
    result = []
    for groups in _together(members, at_most):
        shared = np.zeros(len(used), dtype=bool)
        for at in range(len(keys)):
            shared |= np.isin(table[used, at], [group[at] for group in groups])
        known = used[~shared]
        if len(known):
            held = np.array(sorted(place for group in groups for place in members[group]), dtype=np.intp)
            result.append(Fold("; ".join(" and ".join(group) for group in groups), known, held))
    return tuple(result)


def knowing(made: Iterable[Fold], first: int) -> tuple[Fold, ...]:
    """Folds that know only rows before `first`: those from there on were given to be scored, whatever their group.

    Folds that then know none are left out.
    """
    parts = [Fold(one.held_out, one.known[one.known < first], one.scored) for one in made]
    return tuple(part for part in parts if len(part.known))


def within(
    fold: Fold, *keys: Sequence[str], scored: Collection[int] | None = None, at_most: int = 0
) -> tuple[Fold, ...]:
    """Folds of the rows that a fold knows: what a procedure may choose by. Numbers are those of all rows."""
    return folds(*keys, rows=fold.known.tolist(), scored=scored, at_most=at_most)


def _together(members: dict[tuple[str, ...], list[int]], at_most: int) -> list[list[tuple[str, ...]]]:
    """Groups of each fold: every group alone, or the largest first into the fold that is smallest so far."""
    names = sorted(members)
    if not at_most or len(names) <= at_most:
        return [[name] for name in names]
    parts: list[list[tuple[str, ...]]] = [[] for _ in range(at_most)]
    sizes = [0] * at_most
    for name in sorted(names, key=lambda one: (-len(members[one]), one)):
        least = sizes.index(min(sizes))
        parts[least].append(name)
        sizes[least] += len(members[name])
    return sorted(sorted(part) for part in parts)


FEWEST_GROUPS = 5
"""Groups left out below which bands are made no narrower (`LawFit.band_factors`)."""
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


def calibrated(law: TimeLaw, rows: LawRows, *keys: Key, least: float = 0.0, factors_by: str = "") -> LawFit:
    """A fit whose bands are stretched to hold 80 % of groups of each of `keys` that are left out in turn.

    Each inner fold is two Gauss-Newton steps from the fit to all rows; a test holds them near fits of their own. Of
    several keys the one that calls for the widest bands decides. What levels call for, named as keys, widens only the
    bands of rows whose group at the level is unseen: a release that is known is not to be paid for. Rows that leave
    none open have the least of the factors, and none below 1: nothing was left out that would narrow their bands. The
    first key says the inner error. Rows of the group `UNGROUPED` of a key are known in all of its folds.

    `least`: the least factor on bands: 1 where many groups nearly equal others, which would narrow the band of one
        that is unlike all.
    `factors_by`: a level, such as the backend, each of whose groups has a factor on its bands beside these
        (`LawFit.band_factors`). Of each key it is the factor with which 80 % of the group's rows lie inside when they
        are left out, at least 1 where the group has rows of fewer than `FEWEST_GROUPS` of the key's; the factor is the
        geometric mean of these over the keys.
    """
    made, needed, errors = fit(law, rows), list[float](), list[float | None]()
    predicted: list[tuple[FloatArray, FloatArray]] = []
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
        predicted.append((seconds, half))
    every = max([least, *(factor for key, factor in zip(keys, needed, strict=True) if not isinstance(key, str))])
    levels = {key: max(every, factor) for key, factor in zip(keys, needed, strict=True) if isinstance(key, str)}
    widest = max(every, 1.0, min(levels.values())) if levels else every
    factors: dict[str, float] = {}
    of_row = rows.groups[factors_by] if factors_by else []
    for group in sorted({*of_row} - {UNGROUPED}):
        places, logs = np.flatnonzero([one == group for one in of_row]), list[float]()
        for named, (seconds, half) in zip(keys, predicted, strict=True):
            key, widened = (rows.groups[named], levels[named]) if isinstance(named, str) else (named, every)
            names = [key[at] for at in places.tolist()]
            log = math.log(stretch(seconds[places], half[places] * widened, rows.seconds[places], names))
            logs.append(log if len({*names} - {UNGROUPED}) >= FEWEST_GROUPS else max(log, 0.0))
        factors[group] = math.exp(sum(logs) / len(logs))
    band_factors = {factors_by: factors} if factors else {}
    return replace(made, stretch=widest, inner=errors[0], stretches=levels, band_factors=band_factors)


def left_out(
    law: TimeLaw, rows: LawRows, outer: Sequence[Fold], *inner: Key, least: float = 0.0, factors_by: str = ""
) -> LeftOutRows:
    """Every fold's rows from a fit to what it knows, whose bands are stretched by the groups of `inner` in it."""
    seconds, half, names = _nothing(len(rows)), _nothing(len(rows)), [""] * len(rows)
    promised: list[tuple[float | None, int]] = []
    for fold in outer:
        known, scored = rows.take(fold.known), rows.take(fold.scored)
        keys = (key if isinstance(key, str) else [key[i] for i in fold.known] for key in inner)
        made = calibrated(law, known, *keys, least=least, factors_by=factors_by)
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
