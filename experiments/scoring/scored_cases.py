"""Measured cases in groups: each is predicted from the cases of the other groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from slipstick.common.errors import InputError

Row = TypeVar("Row")
Read = TypeVar("Read")
Input = str | float | int | tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """What is to be predicted.

    `name`: unique in its set.
    `group`: what is held out together with it: a source, a system, a model.
    `inputs`: what is known of it, by name: numbers in SI units, words, rows of numbers.
    `kind`: cases of one kind are scored together (strong scaling, training of one stack); "" where there is one kind.
    `pool`: only cases of one pool may be known for one another: a measurement that is scored under two rules of holding
        out stands in two pools.
    """

    name: str
    group: str
    inputs: Mapping[str, Input]
    kind: str = ""
    pool: str = ""


@dataclass(frozen=True)
class Measured:
    """A case and its measured time [s]."""

    case: Case
    time: float


@dataclass(frozen=True)
class StatedTime:
    """A time [s] and the ends of its 80 % band, where the predictor states one.

    Raises
    ------
    InputError
        Where a number is not finite or not above zero, the ends stand the wrong way round, or one of them is missing.
    """

    time: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        for name, value in (("time", self.time), ("low", self.low), ("high", self.high)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} = {value!r} s: want a finite number above 0")
        if (self.low is None) != (self.high is None):
            raise InputError(f"a band from {ends[0]} to {ends[1]}: want both ends or none")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InputError(f"a band from {self.low:g} to {self.high:g} s: the low end is above the high one")


Answer = float | tuple[float, float, float] | None
"""Seconds; seconds with the ends of the 80 % band (time, low, high); or None where there is no answer."""


class Predictor(Protocol):
    """Anybody's model: a function of a case and of all cases that may be known for it (those of other groups)."""

    def __call__(self, case: Case, known: Sequence[Measured], /) -> Answer: ...


@dataclass(frozen=True, eq=False)
class CaseSet:
    """The cases of one scoreboard.

    `name`: the scoreboard's.
    `held_out`: what a group is, in words.
    `measured`: all cases with their times.
    `references`: name ("ours", a baseline) -> its predictions, in the order of the cases, made when they are wanted.
    """

    name: str
    held_out: str
    measured: tuple[Measured, ...]
    references: Mapping[str, Callable[[], Sequence[StatedTime | None]]]

    def __post_init__(self) -> None:
        counts = Counter(one.case.name for one in self.measured)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise InputError(f"{self.name}: {len(twice)} cases stand twice; first {twice[0]!r}")

    @cached_property
    def _known(self) -> dict[tuple[str, str], tuple[Measured, ...]]:
        places = dict.fromkeys((one.case.pool, one.case.group) for one in self.measured)
        return {
            (pool, group): tuple(one for one in self.measured if one.case.pool == pool and one.case.group != group)
            for pool, group in places
        }

    def known(self, case: Case) -> tuple[Measured, ...]:
        """The cases that a predictor may learn from: those of the other groups of its pool."""
        return self._known[case.pool, case.group]


def prediction_of(answer: Answer) -> StatedTime | None:
    """What a predictor returned, checked.

    Raises InputError where it is no time, no triple, or not positive and finite.
    """
    if answer is None:
        return None
    values = answer if isinstance(answer, (tuple, list)) else (answer,)
    if len(values) not in (1, 3):
        raise InputError(f"{len(values)} numbers: want seconds, or (time, low, high) in seconds")
    try:
        return StatedTime(*(float(value) for value in values))
    except (TypeError, ValueError) as error:
        raise InputError(f"{answer!r}: want seconds, or (time, low, high) in seconds: {error}") from None


def readable(rows: Iterable[Row], read: Callable[[Row], Read]) -> tuple[list[Read], dict[str, int]]:
    """What is read of rows, and the number of those that are refused with an InputError, by its words."""
    made, refused = [], Counter[str]()
    for row in rows:
        try:
            made.append(read(row))
        except InputError as error:
            refused[str(error)] += 1
    return made, dict(refused)
