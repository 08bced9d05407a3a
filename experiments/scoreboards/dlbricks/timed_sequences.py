"""Sequences of layers that others timed, several granularities of each network: their sum, and what went wrong in it.

A network is timed as sequences of G layers, for several G. Their sum differs from the network's time in three ways.
A timed sequence costs something of its own (`call_seconds`): 65 us on eight threads of a Haswell, less than nothing
where it finds its data in cache. This shows on the machine itself, since all granularities time the same layers. A
sequence that failed returns at once: a time that no machine can reach (`repaired`). What is left belongs to the network
and to the family of machines, and is learned on other machines (`WHOLE_LAW`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.scores import weighted_quantile

FAILED = 10.0
"""A sequence so many times faster than the rest of its network, by other machines' times, did not run to its end."""
LEAST = 0.3
"""Share of a sum of sequences that is left to the layers, whatever a sequence costs."""
STEPS = 400
NORMAL_DEVIATION, OF_MEDIAN = 1.4826, 1.2533
"""Standard deviation over median absolute deviation, and of a median over that of a mean, in a normal distribution."""


@dataclass(frozen=True, eq=False)
class TimedSequences:
    """The timed sequences of one network, arrays of shape (sequences,).

    `granularity`: the G that a sequence was cut with; only those of which every layer was timed should be here.
    `first`, `layers`: number of a sequence's first layer (the network's first is 0), and how many it has.
    `seconds`: its time.
    """

    granularity: npt.NDArray[np.intp]
    first: npt.NDArray[np.intp]
    layers: npt.NDArray[np.intp]
    seconds: FloatArray

    def without(self, call: float) -> FloatArray:
        """Seconds of each sequence without what it costs to time one."""
        return np.asarray(np.maximum(self.seconds - call, LEAST * self.seconds))

    def sums(self, call: float = 0.0) -> FloatArray:
        """Seconds of the network by each granularity, shape (granularities,)."""
        _, place = np.unique(self.granularity, return_inverse=True)
        return np.bincount(place, self.without(call)).astype(float)

    @property
    def counts(self) -> FloatArray:
        """Sequences of each granularity, shape (granularities,)."""
        return np.unique(self.granularity, return_counts=True)[1].astype(float)


@dataclass(frozen=True)
class ComposedTime:
    """A network's time composed of its sequences: seconds, and the standard error of their logarithm."""

    seconds: float
    error: float


def call_seconds(networks: Sequence[TimedSequences]) -> float:
    """What one timed sequence costs, seconds: with it the granularities agree best.

    Least absolute deviation of log sums from their network's median, over the slopes that pairs of granularities show.
    It is negative where layers that follow each other in a longer sequence are slower than alone.
    """
    sums = [(timed.sums(), timed.counts) for timed in networks]
    slopes = np.concatenate([_slopes(*pair) for pair in sums]) if sums else np.empty(0)
    if not len(slopes):
        return 0.0
    candidates = np.append(np.quantile(slopes, np.linspace(0, 1, STEPS + 1)), 0.0)
    apart = np.zeros(len(candidates))
    for seconds, counts in sums:
        logs = np.log(np.maximum(seconds - candidates[:, None] * counts, LEAST * seconds))
        apart += np.abs(logs - np.median(logs, axis=1, keepdims=True)).sum(axis=1)
    return float(candidates[np.argmin(apart)])


def composed(timed: TimedSequences, call: float) -> ComposedTime:
    """The sum over the layers of what the median granularity says of each.

    A sequence's time goes to its layers in proportion to what each takes alone. So a sequence that was timed in a slow
    spell counts at its own layers only. Where no layer was timed alone, the median of the sums. The error follows from
    how far the sums are apart.
    """
    sums = timed.sums(call)
    logs = np.log(sums)
    deviation = NORMAL_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))
    error = OF_MEDIAN * deviation / float(np.sqrt(len(logs)))
    single = timed.granularity == 1
    alone = np.zeros(int((timed.first + timed.layers).max()))
    alone[timed.first[single]] = timed.seconds[single]
    if not (alone > 0).all():
        return ComposedTime(float(np.exp(np.median(logs))), error)
    before = np.concatenate([[0.0], np.cumsum(alone)])
    ratios = timed.without(call) / (before[timed.first + timed.layers] - before[timed.first])
    sizes, place = np.unique(timed.granularity, return_inverse=True)
    table = np.full((len(sizes), len(alone)), np.nan)
    for row, first, layers, ratio in zip(place, timed.first, timed.layers, ratios, strict=True):
        table[row, first : first + layers] = ratio
    return ComposedTime(float(np.nanmedian(table, axis=0) @ alone), error)


def repaired(seconds: FloatArray, elsewhere: FloatArray, network: Sequence[str]) -> FloatArray:
    """Times of sequences, those that failed replaced by what other machines predict, shape (sequences,).

    `seconds`, `elsewhere`: on this machine, and a typical time on others; not a number where unknown.
    `network`: each sequence's. A sequence failed where it is `FAILED` times faster than half of its network's
        sequences; it is replaced at the machine's speed in half of the time of the others.
    """
    result, names = seconds.copy(), np.array([str(name) for name in network])
    for name in set(network):
        mine = np.flatnonzero((names == name) & np.isfinite(seconds) & np.isfinite(elsewhere))
        if not len(mine):
            continue
        ratio, weight = np.log(seconds[mine] / elsewhere[mine]), elsewhere[mine]
        failed = ratio < np.median(ratio) - np.log(FAILED)
        if failed.any():
            usual = weighted_quantile(ratio[~failed], weight[~failed])
            result[mine[failed]] = weight[failed] * np.exp(usual)
    return result


def carried(residuals: FloatArray, scatter: float) -> float:
    """What a network's residuals on other machines, in log time, say of its next one: their mean, shrunk.

    The positive part of James and Stein's estimator (1961, Estimation with quadratic loss) with the scatter of all
    networks or this one's, whichever is larger: nothing of a mean within its error, nearly all of one far beyond it.
    """
    count = len(residuals)
    if not count:
        return 0.0
    alone = float(np.var(residuals, ddof=1)) if count > 1 else 0.0
    mean = float(np.mean(residuals))
    return mean * max(0.0, 1.0 - max(scatter**2, alone) / (count * mean**2)) if mean else 0.0


def _slopes(seconds: FloatArray, counts: FloatArray) -> FloatArray:
    first, second = np.triu_indices(len(seconds), 1)
    apart = counts[first] - counts[second]
    there = apart != 0
    return np.asarray((seconds[first] - seconds[second])[there] / apart[there])
