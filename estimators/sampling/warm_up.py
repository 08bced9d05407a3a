"""Iterations that were slow only because they were first: warm-up, and a library that tries kernels for each new shape.

A framework that autotunes runs every kernel it knows when an operation of new sizes comes by: in the first iteration
where all iterations are alike (CNNs), at the first occurrence of each length where they are not (Pati et al., ISPASS
2020, Section IV-C2: "autotune only runs once, we can easily ignore it when creating a representative training run").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import median_filter
from scipy.stats import hypergeom, theilslopes

from slipstick.common.array_types import FloatArray, IntArray, Mask
from slipstick.common.formatting import ratio_shown
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.workloads.runs.iterations import Iterations

SLOW = 1.5
"""An iteration is slow from this many times the usual time of its length on, and beyond the scatter of the run."""
SCATTER = 4.0
"""Robust standard deviations of an iteration's log time that belong to the scatter."""
CHANCE = 0.05
"""Slow iterations are first ones by chance with at most this probability, else they stay."""
MOST_LEADING = 10
"""Slow iterations at the very beginning of a run that count as its warm-up."""
SHOWN = 12
"""Numbers of iterations that a line holds."""


@dataclass(frozen=True)
class WarmUp:
    """Slow first iterations of a run, and the run without what they took longer.

    Parameters
    ----------
    run
        The iterations as they were logged.
    steady
        The same iterations; those that were slow for being first have the time of warm ones of their length, or of
        neighbouring lengths where their length occurs once.
    indices
        Shape (slow first iterations,): which, counted from 0, ascending.
    slow_later
        How many other iterations were as slow; they are part of the run and stay.
    """

    run: Iterations
    steady: Iterations
    indices: IntArray
    slow_later: int

    @property
    def extra_s(self) -> float:
        """Seconds that the slow first iterations took beyond those of warm ones."""
        return self.run.total - self.steady.total

    @property
    def factors(self) -> FloatArray:
        """How many times as long as a warm one each of them took."""
        ratios: FloatArray = self.run.known_times[self.indices] / self.steady.known_times[self.indices]
        return ratios

    def lines(self) -> list[str]:
        """What was left out, in words, with the numbers of the iterations; nothing where nothing was."""
        sentences = []
        if len(self.indices):
            few = ", ".join(map(str, self.indices[:SHOWN] + self.run.first))
            more = f" and {len(self.indices) - SHOWN} more (--format json has all)" if len(self.indices) > SHOWN else ""
            low, high = self.factors.min(), self.factors.max()
            times = (
                f"{ratio_shown(low)} x" if len(self.indices) == 1 else f"{ratio_shown(low)} to {ratio_shown(high)} x"
            )
            sentences.append(
                f"left out as slow for being first (autotuning, warm-up): {len(self.indices)} iterations, {times} the "
                f"time of warm ones, {self.extra_s:.5g} s more in all: {few}{more}"
            )
        if self.slow_later:
            sentences.append(
                f"{self.slow_later} other iterations are as slow for their length; they are part of the run"
            )
        return sentences

    def warm(self, chosen: RepresentativeSet) -> RepresentativeSet:
        """The selection with a warm iteration of the same length in place of each slow first one, where there is one.

        A length that occurs once stays: run it twice where it is measured again, and take the second time.
        """
        lengths = self.run.lengths
        cold = np.isin(np.arange(len(lengths)), self.indices)
        indices, times = chosen.indices.copy(), chosen.times.copy()
        for place in np.flatnonzero(cold[indices]):
            same = np.flatnonzero(~cold & (lengths == lengths[indices[place]]))
            if len(same):
                seconds = self.steady.known_times
                indices[place] = same[np.argmin(np.abs(seconds[same] - times[place]))]
                times[place] = seconds[indices[place]]
        return replace(chosen, indices=indices, times=times)


def warm_up(run: Iterations) -> WarmUp:
    """Find the iterations of a run that were slow because they were first.

    An iteration is slow from 1.5 times the usual time of its length on, where that is beyond the scatter (four robust
    standard deviations). Slow first occurrences of a length are named where they are slow more often than the other
    iterations (hypergeometric test, 5 %), and so are slow iterations at the very beginning. Slow ones elsewhere are
    part of the run. Where durations stand for the lengths only the beginning is judged.

    Raises
    ------
    InputError
        Where the iterations have no times.

    Examples
    --------
    >>> import slipstick as ss
    >>> lengths = [10, 20, 30, 20, 10, 30, 20, 10, 30, 20]
    >>> seconds = [0.5, 0.8, 0.9, 0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2]  # each length is slow once
    >>> found = ss.runs.warm_up(ss.runs.Iterations(lengths, seconds))
    >>> found.indices.tolist(), round(found.extra_s, 6)
    ([0, 1, 2], 1.6)
    """
    times, lengths = run.known_times, run.lengths
    first = np.zeros(len(run), dtype=bool)
    first[np.unique(lengths, return_index=True)[1]] = True
    if run.proxy == "duration":
        named = _slow_beginning(times)
        usual, later = np.full(len(run), float(np.median(times[~named]))), 0
    else:
        usual, bound = _usual(lengths, times, first)
        slow = times > bound
        named = _named(slow, first)
        later = int((slow & ~named).sum())
    steady = times.copy()
    if named.any():
        unique, cells = np.unique(lengths, return_inverse=True)
        warm = np.bincount(cells, ~named, len(unique))
        mean = np.bincount(cells, np.where(named, 0.0, times), len(unique)) / np.maximum(warm, 1)
        # never more than was logged: a replaced time takes something away
        steady = np.where(named, np.minimum(np.where(warm > 0, mean, 0.0)[cells], times), times)
        alone = named & (warm == 0)[cells]
        steady[alone] = np.minimum(usual, times)[alone]
    return WarmUp(run, run.using(steady), np.flatnonzero(named), later)


def as_logged(run: Iterations) -> WarmUp:
    """The run with nothing left out."""
    return WarmUp(run, run, np.zeros(0, dtype=np.int64), 0)


FIRST_ITERATIONS: Mapping[str, Callable[[Iterations], WarmUp]] = {"leave-out": warm_up, "keep": as_logged}
"""What becomes of iterations that are slow for being first, by name."""


def _slow_beginning(times: FloatArray) -> Mask:
    """Of a run without lengths: iterations at its beginning that stand out from all that follow."""
    named = np.zeros(len(times), dtype=bool)
    middle = float(np.median(times))
    bound = middle * _factor(times / middle)
    for index in range(min(MOST_LEADING, len(times) - 2)):
        if times[index] <= max(bound, SLOW * float(np.quantile(times[index + 1 :], 0.99))):
            break
        named[index] = True
    return named


def _usual(lengths: FloatArray, times: FloatArray, first: Mask) -> tuple[FloatArray, FloatArray]:
    """The usual time of every iteration's length by those that are not first, and from where on one is slow [s].

    A robust line in the length, times the running median of what the lengths differ from it. Beyond the lengths that
    occur again the bound allows for times that grow with the square of the length.
    """
    known = ~first if (~first).sum() >= min(8, len(times) // 2) and (~first).any() else np.ones_like(first)
    unique, cells = np.unique(lengths[known], return_inverse=True)
    order = np.lexsort((times[known], cells))
    counts = np.bincount(cells)
    starts = np.cumsum(counts) - counts
    ranked = times[known][order]
    medians = 0.5 * (ranked[starts + (counts - 1) // 2] + ranked[starts + counts // 2])
    slope, start = 0.0, float(np.median(medians))
    if len(unique) > 1:
        some = np.unique(np.round(np.linspace(0, len(unique) - 1, 400)).astype(int))
        slope, start = theilslopes(medians[some], unique[some])[:2]

    def line(at: FloatArray) -> FloatArray:
        straight: FloatArray = np.maximum(start + slope * at, 0.1 * float(medians.min()))
        return straight

    ratio = median_filter(medians / line(unique), size=5, mode="nearest")
    usual = line(lengths) * np.interp(lengths, unique, ratio)
    factor = _factor(times[known] / usual[known])
    beyond = lengths > unique[-1]
    most = np.where(beyond, ratio[-1] * line(unique[-1:]) * (lengths / max(unique[-1], 1.0)) ** 2, usual)
    most = np.where(lengths < unique[0], ratio[0] * line(unique[:1]), most)
    return usual, factor * np.maximum(most, usual)


def _factor(ratios: FloatArray) -> float:
    """How many times the usual time is slow: beyond `SLOW`, and beyond the scatter of the ratios.

    The scatter is a robust standard deviation of the logarithm: 1.4826 times the median absolute deviation.
    """
    logs = np.log(ratios)
    scatter = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
    return max(SLOW, math.exp(min(SCATTER * scatter, 100.0)))


def _named(slow: Mask, first: Mask) -> Mask:
    """Which slow iterations are slow for being first, of their length or of the run."""
    named = np.zeros_like(slow)
    count, firsts, both = int(slow.sum()), int(first.sum()), int((slow & first).sum())
    if both and hypergeom.sf(both - 1, len(slow), count, firsts) <= CHANCE:
        named = slow & first
    leading = int(np.argmin(slow)) if not slow.all() else 0
    left = int((slow & ~named).sum()) + int(named[:leading].sum())
    chance = float(np.prod([(left - i) / (len(slow) - i) for i in range(leading)]))
    if 0 < leading <= MOST_LEADING and chance <= CHANCE:
        named[:leading] = True
    return named
