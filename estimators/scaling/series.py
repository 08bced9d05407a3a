"""A series: one time for each value of one parameter, made from measurements that may repeat.

How sure an extrapolation is (`sureness`), and why.

The probability comes from laws, parameters and noise together. It is of the time that runs settle at, not of one run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.sureness import Word, sureness, word_of
from slipstick.estimators.scaling.extrapolation_band import beyond
from slipstick.estimators.scaling.laws.repeats import (
    Statistic,
    noise_of,
    one_time_each,
    repeats_note,
    statistic_of,
    typical_times,
)

Kind = Literal["strong", "weak", "problem_size", "collective"]
KINDS: tuple[str, ...] = get_args(Kind)
MAX_VALUES = 4096
MAX_ROWS = 10_000_000
BROKEN_EXPONENT = 5.0
"""No law here grows faster than x^5: a first point that steep, and that many times off, is a broken measurement."""

OUTLIER_WEIGHT, OUTLIER_FACTOR, MOST_OUTLIERS = 0.1, float(np.log(1.2)), 5
"""A run that counts less than this, and is that far off in log time, is named; so many of them."""

MAX_SPREAD = 1e12
"""Times of one series farther apart than this are refused: nanoseconds beside a quarter of an hour is two things."""

SHORTEST, LONGEST = 1e-12, 1e12
"""Seconds: squares and cubes of times within are finite."""

FARTHEST = 1e15
"""Largest value of a parameter at which a time is predicted."""

MAX_REACH = 1e15
"""Values of one parameter farther apart than this are refused: from one byte to a petabyte."""

FELL = 0.7
"""Times that fell below this share of the first are of strong scaling, whatever they did later."""
_WORKERS = re.compile(r"thread|core|proc|rank|node|worker|gpu|task|cpu|device|^n?p(es?)?$|slots", re.IGNORECASE)


@dataclass(frozen=True)
class Series:
    """One time a value, the median or the least of its repeats, sorted by value.

    Parameters
    ----------
    x, y
        Values of the parameter and times in seconds.
    repeats
        Measurements behind each time.
    noise
        Typical standard deviation of log time within the repeats of one value; None where nothing repeats.
    parameter, name
        What varies ("threads"), and what was timed (a region, a benchmark).
    notes
        What was done to the input, in words.
    statistic
        Which of the repeats the times are.
    typical, runs
        What laws of strong scaling are fitted to where points repeat: the mean of each value's repeats in log time [s],
        in which outliers hardly count, and how many runs that is worth; empty: the times themselves.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    repeats: tuple[int, ...]
    noise: float | None = None
    parameter: str = "x"
    name: str = ""
    notes: tuple[str, ...] = ()
    statistic: Statistic = "median"
    typical: tuple[float, ...] = ()
    runs: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        values: npt.ArrayLike,
        times: npt.ArrayLike,
        parameter: str = "x",
        name: str = "",
        statistic: Statistic = "median",
    ) -> Series:
        """A series from measurements in any order, repeated or not.

        Parameters
        ----------
        values, times
            One a measurement; values > 0, times in seconds > 0.
        statistic
            Which of the repeats of a value counts: "median", or "least" where they differ by what other programs on
            the host took; then their spread widens the band.

        Raises
        ------
        InputError
            Where lengths differ, a number is not finite or not positive, there is nothing, or too much, times lie
            more than `MAX_SPREAD` times apart, or values more than `MAX_REACH` times.
        """
        where, statistic = f"series {name!r}: " if name else "", statistic_of(statistic)
        try:
            x, y = np.asarray(values, dtype=np.float64), np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{where}{parameter} and times must be numbers") from None
        if x.ndim != 1 or x.shape != y.shape:
            raise InputError(f"{where}want one time for each {parameter}, got shapes {x.shape} and {y.shape}")
        if not 0 < len(x) <= MAX_ROWS:
            raise InputError(f"{where}{len(x)} measurements; want 1 .. {MAX_ROWS}")
        for numbers, what, unit in ((x, parameter, ""), (y, "time", " s")):
            bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
            if len(bad):
                raise InputError(
                    f"{where}measurement {bad[0] + 1}: {what} = {numbers[bad[0]]:g}{unit}, want a finite number > 0"
                )
        refuse_spread(y, where)
        refuse_reach(x, parameter, where)
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
        unique, starts, counts = np.unique(x, return_index=True, return_counts=True)
        if len(unique) > MAX_VALUES:
            raise InputError(f"{where}{len(unique)} different values of {parameter}, want at most {MAX_VALUES}")
        middle = one_time_each(y, starts, counts, statistic)
        noise = noise_of(np.log(y), starts, counts)
        note = repeats_note(len(x), len(unique), parameter, statistic, noise)
        notes = [note] if note else []
        means, runs = np.log(middle), counts.astype(float)
        if noise is not None and statistic == "median":
            means, runs, weights = typical_times(np.log(y), starts, counts, noise)
            notes += _outliers(order, x, y, weights, means[np.searchsorted(unique, x)], parameter)
        keep = np.ones(len(unique), dtype=bool)
        if len(unique) >= 5:
            slope = np.log(middle[1] / middle[0]) / np.log(unique[1] / unique[0])
            rest = np.log(middle[2:] / middle[1:-1]) / np.log(unique[2:] / unique[1:-1])
            jump = abs(np.log(middle[1] / middle[0]))
            if abs(slope) > BROKEN_EXPONENT and jump > np.log(BROKEN_EXPONENT) and np.all(abs(rest) < abs(slope) / 2):
                keep[0] = False
                notes.append(
                    f"left out {parameter} = {unique[0]:g} ({middle[0]:.4g} s): a jump of {np.exp(jump):.3g} times to "
                    f"the next value follows no scaling law"
                )
        return cls(
            tuple(map(float, unique[keep])),
            tuple(map(float, middle[keep])),
            tuple(map(int, counts[keep])),
            noise,
            parameter,
            name,
            tuple(notes),
            statistic,
            tuple(map(float, np.exp(means[keep]))),
            tuple(map(float, runs[keep])),
        )

    def __len__(self) -> int:
        return len(self.x)


def _outliers(
    order: npt.NDArray[np.intp], x: FloatArray, y: FloatArray, weights: FloatArray, means: FloatArray, parameter: str
) -> list[str]:
    """Measurements that hardly count beside the repeats of their value, in words, by their place in the input."""
    places = np.flatnonzero((weights < OUTLIER_WEIGHT) & (np.abs(np.log(y) - means) > OUTLIER_FACTOR))
    lines = [
        f"measurement {order[i] + 1} ({parameter} = {x[i]:g}, {y[i]:.4g} s) is {y[i] / np.exp(means[i]):.3g} times the "
        f"other runs there and hardly counts"
        for i in places
    ]
    more = len(lines) - MOST_OUTLIERS
    return [*lines[:MOST_OUTLIERS], *([f"{more} more such measurements"] if more > 0 else [])]


def refuse_spread(times: FloatArray, where: str = "") -> None:
    """Check that times (> 0, in seconds) lie within `MAX_SPREAD` of each other: the squares of fits overflow else.

    Raises InputError where they lie further apart, or one lies outside `SHORTEST` to `LONGEST`.
    """
    low, high = float(times.min()), float(times.max())
    if low < high / MAX_SPREAD:
        raise InputError(
            f"{where}times from {low:.4g} s to {high:.4g} s: want them within a factor of {MAX_SPREAD:g} of each other"
        )
    for time, row in ((low, times.argmin()), (high, times.argmax())):
        if not SHORTEST <= time <= LONGEST:
            raise InputError(f"{where}measurement {row + 1}: time = {time:g} s, want {SHORTEST:g} to {LONGEST:g} s")


def refuse_reach(values: FloatArray, parameter: str, where: str = "") -> None:
    """Check that values (> 0, shape (n,)) lie within `MAX_REACH` of each other: their powers overflow else.

    Raises InputError where they lie further apart.
    """
    low, high = float(values.min()), float(values.max())
    if low < high / MAX_REACH:
        raise InputError(
            f"{where}{parameter} from {low:.4g} to {high:.4g}: want them within a factor of {MAX_REACH:g} of each other"
        )


def counts_nodes(parameter: str) -> bool:
    """Whether a parameter counts nodes, each of many cores."""
    return "node" in parameter.lower()


def check_series(series: object) -> None:
    """Refuse what is no series of numbers, as lists of values and times that were given in its place are.

    Raises InputError, which names the call that makes a series of such lists.
    """
    columns = [np.asarray(column) for column in (series.x, series.y)] if isinstance(series, Series) else []
    if not columns or any(one.dtype.kind not in "fiu" or one.shape != columns[0].shape for one in columns):
        raise no_series(series)


def no_series(given: object) -> InputError:
    """The error of what was given in the place of a series: it names the call that makes one."""
    return InputError(
        f"{str(given)[:60]!r} is no series: want ss.Series.of([1, 2, 4], [9.0, 5.1, 3.2], parameter='threads')"
    )


def counts_workers(parameter: str) -> bool:
    """Whether a parameter counts what works side by side: threads, ranks, nodes, devices."""
    return _WORKERS.search(parameter) is not None


def kind_of(series: Series, given: str | None = None) -> tuple[str, str]:
    """The kind of scaling and how it is known, in words.

    Raises InputError where the given kind is unknown.
    """
    if given is not None:
        if given not in KINDS:
            raise unknown_name("kind of scaling", given, KINDS)
        return given, "given"
    x, y = np.log(series.x), np.log(series.y)
    slope = float((y[-1] - y[0]) / (x[-1] - x[0])) if len(x) > 1 else 0.0
    if counts_workers(series.parameter):
        fell = float(np.exp(y.min() - y[0]))
        kind = "strong" if slope < -0.2 or fell < FELL else "weak"
        why = (
            f"slope {slope:+.2f} of log time"
            if kind == "weak" or slope < -0.2
            else f"least time, {share_shown(fell)} of the first"
        )
        return kind, f"taken from the name {series.parameter!r} and the {why}"
    kind = "strong" if slope < -0.3 else "problem_size"
    return kind, f"taken from the slope {slope:+.2f} of log time; no kind follows from the name {series.parameter!r}"


ENOUGH_POINTS = 4
UNCONFIRMED = 0.5
"""Most that is sure across a border that no measurement crossed: even odds, for nothing measured says whether the law
goes on there. Set by hand; the scoring board, which names no machine, cannot see it."""
CONFIRMED = 16.0
"""Ratio to the last value up to which codes and series that were left out confirmed the probabilities."""


@dataclass(frozen=True)
class Verdict:
    """A word, why, and the probability of being within 20 % (None where it is unknown)."""

    word: Word
    reason: str
    probability: float | None = None


@dataclass(frozen=True, eq=False)
class Certainty:
    """What an answer's uncertainty is, one a target.

    `within`: probability that the answer is within 20 % of the truth.
    `low`, `high`: ends of the 80 % band [s].
    `reasons`: what makes the band as wide as it is, in words.
    `misfit`: in words, that no law fits; empty where one does.
    `held`: where none does, the share of the points within 20 % of the answer's law: no target is surer than that.
    """

    within: FloatArray
    low: FloatArray
    high: FloatArray
    reasons: tuple[str, ...]
    misfit: str = ""
    held: float = 1.0


def too_few(points: int) -> Verdict:
    """The verdict of a series too short for a band."""
    reason = f"too few points: {points}, want at least {ENOUGH_POINTS} to try an extrapolation on what is known"
    return Verdict("do not trust", reason)


def verdicts(
    series: Series, certainty: Certainty, to: FloatArray, value: FloatArray, known_borders: Sequence[float] = ()
) -> list[Verdict]:
    """One verdict a target, where the answer is `value` seconds.

    The probability is that of the laws and the noise, and what neither knows takes from it: beyond the ratio that the
    data span, or `CONFIRMED`, it falls with the ratio; across a border of the machine that no measurement crossed it is
    at most `UNCONFIRMED`. The word follows it.
    """
    span = series.x[-1] / series.x[0]
    most = min(span, CONFIRMED)
    ratios = beyond(np.asarray(series.x), np.asarray(to))
    result = []
    for i, target in enumerate(to):
        within = float(certainty.within[i])
        width = float(certainty.high[i] / certainty.low[i]) if certainty.low[i] > 0 else np.inf
        if not (np.isfinite(value[i]) and np.isfinite(width) and np.isfinite(within)):
            # a comparison with nan is false, so it would pass every limit below
            reason = f"no finite answer: {value[i]:g} s, 80 % band {certainty.low[i]:g} .. {certainty.high[i]:g} s"
            result.append(Verdict("do not trust", reason))
            continue
        ratio, under = float(ratios[i]), target < series.x[0]
        crossed = [border for border in known_borders if series.x[-1] <= border < target]
        caps = [certainty.misfit] if certainty.misfit else []
        if ratio > most:
            within *= most / ratio
            limit = f"the data span {span:.3g} times" if span <= CONFIRMED else f"confirmed up to {CONFIRMED:g} times"
            end = "below the first" if under else "the last"
            caps.append(f"ratio too large: {ratio:.3g} times {end} value, {limit}")
        if crossed:
            within = min(within, UNCONFIRMED)
            caps.append(f"crosses a border of the machine that no measurement crossed: {crossed[0]:g}")
        if certainty.misfit:
            within = min(within, certainty.held)
        word = word_of(within)
        why = () if word == "trust" else (certainty.reasons[i],)
        result.append(Verdict(word, "; ".join([sureness(within), *caps, *why]), within))
    return result
