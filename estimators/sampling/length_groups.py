"""Iterations grouped by length: unique lengths, and how iterations scatter around a line in their group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.workloads.runs.iterations import Iterations


@dataclass(frozen=True, eq=False)
class ByLength:
    """Unique lengths, ascending.

    `values`, `counts`, `times`: shape (unique,): the length, its iterations, and their mean time.
    `closest`: shape (unique,): the iteration of that length whose time is closest to the mean, the first of equals.
    `cells`: shape (iterations,): which of the unique lengths each iteration has.
    """

    values: FloatArray
    counts: IntArray
    times: FloatArray
    closest: IntArray
    cells: IntArray


def by_length(iterations: Iterations) -> ByLength:
    """One row for each unique length.

    Raises InputError where the iterations have no times.
    """
    times = iterations.known_times
    order = np.argsort(iterations.lengths)
    lengths, times = iterations.lengths[order], times[order]
    starts = np.flatnonzero(np.concatenate([[True], lengths[1:] != lengths[:-1]]))
    counts = np.diff(np.append(starts, len(lengths)))
    means = np.add.reduceat(times, starts) / counts
    group = np.repeat(np.arange(len(starts)), counts)
    distance = np.abs(times - means[group])
    candidates = np.where(distance == np.minimum.reduceat(distance, starts)[group], order, len(order))
    cells = np.empty(len(order), dtype=np.int64)
    cells[order] = group
    return ByLength(lengths[starts], counts, means, np.minimum.reduceat(candidates, starts), cells)


def iteration_noise(iterations: Iterations, groups: IntArray, count: int) -> FloatArray | None:
    """Relative standard deviation of one iteration around what its length predicts, for each of `count` groups.

    The larger of what the iterations scatter around a line in the length and of what is known of repeats. Where
    lengths are durations they predict the times by themselves, so only repeats show it; None where there are none.
    """
    if iterations.proxy == "duration":
        return None if iterations.noise is None else np.full(count, iterations.noise, dtype=np.float64)
    scatter = line_noise(iterations.lengths, iterations.known_times, groups, count)
    noise: FloatArray = np.maximum(scatter, iterations.noise or 0.0)
    return noise


def line_noise(lengths: FloatArray, times: FloatArray, groups: IntArray, count: int) -> FloatArray:
    """Relative standard deviation of times around a line in the length, for each of `count` groups.

    Groups of fewer than four iterations take the pooled value of all; 0 where nothing scatters.
    """
    size = np.bincount(groups, minlength=count).astype(np.float64)
    full = np.maximum(size, 1.0)

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(groups, values, count) / full

    length_mean, time_mean = mean(lengths), mean(times)
    dx, dy = lengths - length_mean[groups], times - time_mean[groups]
    xx, xy, yy = mean(dx * dx), mean(dx * dy), mean(dy * dy)
    explained = np.divide(xy * xy, xx, out=np.zeros(count), where=xx > 0)
    scale = np.where(time_mean > 0, time_mean, 1.0)
    squares = np.maximum(yy - explained, 0.0) / scale**2 * full
    # rounding of the sums leaves about 1e-16 of the time where nothing scatters
    squares[squares < full * 1e-20] = 0.0
    freedom = np.maximum(size - 2, 0.0)
    pooled = float(squares[size > 3].sum() / max(freedom[size > 3].sum(), 1.0))
    variance = np.divide(squares, freedom, out=np.full(count, pooled), where=size > 3)
    noise: FloatArray = np.sqrt(variance)
    return noise


def times_by_length(base: Iterations, lengths: FloatArray, cells: int = 32) -> FloatArray:
    """What the run `base` says about iterations of other lengths: mean times of its cells of length, joined by lines.

    Cells hold equal numbers of iterations; beyond the outermost cells the last line goes on, but not below a tenth of
    the shortest cell's time.
    """
    order = np.argsort(base.lengths)
    number = min(cells, max(1, len(base) // 4))
    cell = np.arange(len(order)) * number // len(order)
    counts = np.bincount(cell)
    x = np.bincount(cell, base.lengths[order]) / counts
    y = np.bincount(cell, base.known_times[order]) / counts
    joined = np.unique(x, return_inverse=True)[1]
    x, y = np.unique(x), np.bincount(joined, y) / np.bincount(joined)
    if len(x) < 2:
        return np.full(len(lengths), y[0])
    inside = np.interp(lengths, x, y)
    low = y[0] + (y[1] - y[0]) / (x[1] - x[0]) * (lengths - x[0])
    high = y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (lengths - x[-1])
    times: FloatArray = np.where(lengths < x[0], low, np.where(lengths > x[-1], high, inside))
    return times.clip(min=0.1 * float(y.min()))
