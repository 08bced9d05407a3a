"""Folds that leave whole groups out: a fit is judged on devices, models or sources of which it saw no row.

A fold names row numbers, nothing else. With several keys a fold leaves out every row that shares *any* of them with
what is scored: a model is unseen only if its twin of equal shapes on the same system is unseen as well. Whatever a
procedure chooses, it chooses by the folds `within` a fold, so that the outer score stays blind to the choice.
The order of folds follows the sorted names of the groups, never the order of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
