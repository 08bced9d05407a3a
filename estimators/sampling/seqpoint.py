"""SeqPoint and its rivals by name: choose iterations on one machine that stand for the run on any.

Source of SeqPoint: Pati, Aga, Sinclair, Jayasena, "SeqPoint: Identifying Representative Iterations of Sequence-based
Neural Networks", ISPASS 2020, Section V-C and Figure 10.

What SeqPoint is compared with: single iterations, consecutive ones, clusters, and samples drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.sampling.iteration_choice import Projection, RepresentativeSet
from slipstick.estimators.sampling.length_groups import ByLength, by_length, iteration_noise, times_by_length
from slipstick.workloads.runs.iterations import Iterations

__all__ = ["METHODS", "Projection", "RepresentativeSet", "select", "seqpoint", "values_from"]


def seqpoint(
    iterations: Iterations, threshold: int = 10, bins: int = 5, error: float = 0.01, most: int = 1000
) -> RepresentativeSet:
    """SeqPoint, Figure 10: bins of equal width over the range of lengths, in each the length closest to its mean time.

    Below `threshold` unique lengths all of them stand for themselves, weighted by frequency. Else the range is cut into
    `bins` bins, in each the length whose runtime is closest to the mean of the bin's iterations becomes its SeqPoint,
    weighted by the iterations in the bin, and one bin is added until the projected total is within `error` of the
    run's, or there are `most`: then the number of bins that came closest stands. A length that occurs several times
    has the mean of its iterations; the one closest to it is the one to run.

    Raises
    ------
    InputError
        Where the iterations have no times, or a setting is out of range.

    Examples
    --------
    >>> import slipstick as ss
    >>> run = ss.runs.Iterations(lengths=[5, 5, 7, 9], times=[1.0, 1.0, 1.4, 1.8])
    >>> ss.seqpoint(run).weights.tolist()  # few lengths stand for themselves
    [2.0, 1.0, 1.0]
    """
    if threshold < 1 or bins < 1 or not 0 < error < 1 or most < bins:
        raise InputError(
            f"seqpoint: threshold = {threshold}, bins = {bins}, error = {error:g}, most = {most}: "
            "want threshold and bins >= 1, 0 < error < 1 and most >= bins"
        )
    lengths = by_length(iterations)
    unique = len(lengths.values)
    if unique < threshold:
        return _chosen(iterations, lengths, np.arange(unique), np.arange(unique), lengths.counts.astype(np.float64))
    whole = iterations.total
    best: tuple[float, Any] | None = None
    for count in range(bins, min(most, unique) + 1):
        edges = np.linspace(lengths.values[0], lengths.values[-1], count + 1)[1:-1]
        starts = np.unique(np.concatenate([[0], np.searchsorted(lengths.values, edges)]))
        starts = starts[starts < unique]
        members = np.add.reduceat(lengths.counts, starts)
        means = np.add.reduceat(lengths.counts * lengths.times, starts) / members
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, unique)))
        points = _nearest(np.abs(lengths.times - means[group]), starts, group)
        off = abs(float(members @ lengths.times[points]) / whole - 1)
        if best is None or off < best[0]:
            best = off, (group, points, members)
        if off <= error:
            break
    if best is None:
        raise InputError("seqpoint: no iterations")
    group, points, members = best[1]
    return _chosen(iterations, lengths, group, points, members.astype(np.float64))


def _nearest(distance: FloatArray, starts: IntArray, group: IntArray) -> IntArray:
    """The first entry of each group with the least distance."""
    least = np.minimum.reduceat(distance, starts)
    hits = np.flatnonzero(distance == least[group])
    return hits[np.unique(group[hits], return_index=True)[1]]


def _chosen(
    iterations: Iterations, lengths: ByLength, group: IntArray, points: IntArray, weights: FloatArray
) -> RepresentativeSet:
    """The selection of some unique lengths; `group` is the bin of every unique length."""
    groups = group[lengths.cells]
    times = iterations.known_times
    noise = iteration_noise(iterations, groups, len(points))
    indices = lengths.closest[points]
    return RepresentativeSet(
        method="seqpoint",
        indices=indices,
        weights=weights,
        groups=np.arange(len(points)),
        sizes=np.bincount(groups, minlength=len(points)),
        lengths=lengths.values[points],
        times=times[indices],
        whole=iterations.total,
        noise=noise,
    )


def values_from(selection: RepresentativeSet, chosen_on: Iterations, measured: Iterations) -> tuple[FloatArray, str]:
    """The representatives' values in another log, and how they were found, in words.

    By index where both logs hold the same iterations in the same order; else by length, the mean of all iterations of
    that length.
    Raises InputError where the other log has no iteration of a representative's length.
    """
    times = measured.known_times
    same = len(measured) == len(chosen_on) and (
        chosen_on.proxy == "duration" or bool(np.array_equal(measured.lengths, chosen_on.lengths))
    )
    if same:
        return times[selection.indices], "by index"
    if chosen_on.proxy == "duration":
        raise InputError(
            f"{measured.source}: {len(measured)} iterations for {len(chosen_on)}, and no lengths to find them by"
        )
    lengths = by_length(measured)
    place = np.minimum(np.searchsorted(lengths.values, selection.lengths), len(lengths.values) - 1)
    missing = selection.lengths[lengths.values[place] != selection.lengths]
    if len(missing):
        raise InputError(f"{measured.source}: has no iteration of length {', '.join(f'{v:g}' for v in missing[:8])}")
    return lengths.times[place], "by length"


def select(method: str, iterations: Iterations, **settings: Any) -> RepresentativeSet:
    """Representative iterations by the name of a method; settings are those of its function.

    Raises
    ------
    InputError
        Where the method or a setting is unknown or out of range, or the iterations have no times.

    Examples
    --------
    >>> run = Iterations(np.arange(1.0, 101.0), times=np.arange(1.0, 101.0))
    >>> five = select("seqpoint", run)
    >>> five.lengths.tolist(), five.weights.tolist()
    ([10.0, 30.0, 50.0, 70.0, 90.0], [20.0, 20.0, 20.0, 20.0, 20.0])
    """
    if method not in METHODS:
        raise unknown_name("method of selection", method, list(METHODS))
    from inspect import signature

    known = list(signature(METHODS[method]).parameters)[1:]
    for name in settings:
        if name not in known:
            raise unknown_name(f"setting of method {method!r}", name, known)
    return METHODS[method](iterations, **settings)


MOST_CELLS = 2000
"""k-means runs on unique lengths, or on so many cells of neighbouring ones."""


def frequent(iterations: Iterations) -> RepresentativeSet:
    """One iteration of the most frequent length (the shortest of equals)."""
    lengths = by_length(iterations)
    return _single("frequent", iterations, int(lengths.closest[np.argmax(lengths.counts)]))


def median(iterations: Iterations) -> RepresentativeSet:
    """One iteration of the median length, counted over iterations."""
    lengths = by_length(iterations)
    middle = np.searchsorted(np.cumsum(lengths.counts), (len(iterations) + 1) // 2)
    return _single("median", iterations, int(lengths.closest[middle]))


def worst(iterations: Iterations) -> RepresentativeSet:
    """One iteration of the length that projects the run worst: the bound of an arbitrary choice."""
    lengths = by_length(iterations)
    off = np.abs(lengths.times * len(iterations) / iterations.total - 1)
    return _single("worst", iterations, int(lengths.closest[np.argmax(off)]))


def prior(iterations: Iterations, size: int = 50, warm_up: int = 50) -> RepresentativeSet:
    """`size` consecutive iterations after a warm-up (Zhu et al., IISWC 2018); fewer where the run is shorter.

    Its interval supposes that they are like a random sample of the run, which is what the method supposes.
    Raises InputError where `size` is below 1 or `warm_up` is negative.
    """
    if size < 1 or warm_up < 0:
        raise InputError(f"prior: size = {size}, warm_up = {warm_up}: want size >= 1 and warm_up >= 0")
    first = min(warm_up, max(0, len(iterations) - size))
    indices = np.arange(first, min(first + size, len(iterations)))
    return _drawn("prior", iterations, indices, np.zeros(len(iterations), dtype=np.int64), 1)


def uniform(iterations: Iterations, size: int = 15, seed: int = 0) -> RepresentativeSet:
    """`size` iterations at random."""
    _check_size("uniform", size, iterations)
    indices = np.sort(np.random.default_rng(seed).choice(len(iterations), size, replace=False))
    return _drawn("uniform", iterations, indices, np.zeros(len(iterations), dtype=np.int64), 1)


def stratified(
    iterations: Iterations,
    size: int | None = None,
    seed: int = 0,
    error: float = 0.01,
    level: float = 0.9,
    weighting: Literal["stratum", "calibrated"] = "calibrated",
) -> RepresentativeSet:
    """Random iterations from strata of similar length, more where times scatter more (Neyman's optimal allocation).

    Strata hold equal shares of the run's time, two draws each or more. Where the lengths are durations themselves (a
    proxy), scatter is taken as proportional to the time. Without `size` there are as many as hold the
    half-width of the interval at `level` to `error` of the total, by the scatter seen around a line in each stratum.

    Weights are the iterations of a stratum over its draws; calibrated, they are moved least (in squares) so that they
    also reproduce three totals of the run exactly: iterations, length, and time as a smooth function of length (Deville
    and Saerndal, JASA 87, 1992). What another machine does to the cost of an iteration, of a step or of all alike then
    cancels.
    Raises InputError where `error` or `level` lies outside (0, 1).
    """
    if not (0 < error < 1 and 0 < level < 1):
        raise InputError(f"stratified: error = {error:g}, level = {level:g}: want both between 0 and 1")
    times, lengths = iterations.known_times, iterations.lengths
    order = np.argsort(lengths)
    if size is None:
        size = _enough(iterations, order, error, level)
    _check_size("stratified", size, iterations)
    strata = _strata(order, times, max(1, size // 2))
    number = int(strata.max()) + 1
    sizes = np.bincount(strata, minlength=number)
    mean = np.bincount(strata, times, number) / sizes
    noise = iteration_noise(iterations, strata, number)
    spread = mean if noise is None else mean * np.maximum(noise, 1e-6)
    draws = _neyman(sizes, spread, size)
    generator = np.random.default_rng(seed)
    ends = np.cumsum(sizes)
    # iterations of a stratum lie together in `order`
    drawn = [
        generator.choice(order[a : a + n], m, replace=False) for a, n, m in zip(ends - sizes, sizes, draws, strict=True)
    ]
    indices = np.sort(np.concatenate(drawn))
    chosen = _drawn("stratified", iterations, indices, strata, number)
    return _calibrated(chosen, iterations) if weighting == "calibrated" else chosen


def k_means(iterations: Iterations, size: int = 15, seed: int = 0) -> RepresentativeSet:
    """One iteration for each of `size` clusters of execution profiles: the one nearest to the cluster's centre.

    Profiles are the iterations' own; where there are none, length and time, each over its standard deviation.
    """
    from sklearn.cluster import KMeans

    _check_size("k-means", size, iterations)
    times = iterations.known_times
    cells, number = _cells(iterations.lengths)
    counts = np.bincount(cells, minlength=number)
    profiles = iterations.profiles
    if profiles is None:
        profiles = np.column_stack([iterations.lengths, times])
    columns = np.column_stack([np.bincount(cells, column, number) / counts for column in profiles.T])
    spread = columns.std(axis=0)
    columns = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    size = min(size, number)
    fitted = KMeans(size, random_state=seed, n_init=4).fit(columns, sample_weight=counts)
    distance = np.linalg.norm(columns - fitted.cluster_centers_[fitted.labels_], axis=1)
    cell_time = np.bincount(cells, times, number) / counts
    indices = []
    for cluster in range(size):
        members = np.flatnonzero(fitted.labels_ == cluster)
        nearest = members[np.argmin(distance[members])]
        candidates = np.flatnonzero(cells == nearest)
        indices.append(candidates[np.argmin(np.abs(times[candidates] - cell_time[nearest]))])
    groups = fitted.labels_.astype(np.int64)[cells]
    order = np.argsort(iterations.lengths[indices], kind="stable")
    chosen = np.array(indices, dtype=np.int64)[order]
    return RepresentativeSet(
        method="k-means",
        indices=chosen,
        weights=np.bincount(groups, minlength=size)[order].astype(np.float64),
        groups=order,
        sizes=np.bincount(groups, minlength=size),
        lengths=iterations.lengths[chosen],
        times=times[chosen],
        whole=iterations.total,
        noise=iteration_noise(iterations, groups, size),
    )


def _single(method: str, iterations: Iterations, index: int) -> RepresentativeSet:
    indices = np.array([index])
    return RepresentativeSet(
        method=method,
        indices=indices,
        weights=np.array([float(len(iterations))]),
        groups=np.array([0]),
        sizes=np.array([len(iterations)]),
        lengths=iterations.lengths[indices],
        times=iterations.known_times[indices],
        whole=iterations.total,
        drawn="single",
    )


def _drawn(method: str, iterations: Iterations, indices: IntArray, strata: IntArray, number: int) -> RepresentativeSet:
    groups = strata[indices]
    sizes = np.bincount(strata, minlength=number)
    times = iterations.known_times
    return RepresentativeSet(
        method=method,
        indices=indices,
        weights=(sizes / np.maximum(np.bincount(groups, minlength=number), 1))[groups],
        groups=groups,
        sizes=sizes,
        lengths=iterations.lengths[indices],
        times=times[indices],
        whole=iterations.total,
        drawn="random",
        noise=iteration_noise(iterations, strata, number),
    )


def _calibrated(selection: RepresentativeSet, iterations: Iterations) -> RepresentativeSet:
    """Weights moved least so that they reproduce the totals of 1, length and smooth time.

    Where that needs a weight below 0, the smooth time is given up, then the length.
    """
    smooth = times_by_length(iterations, iterations.lengths, cells=16)
    every = np.column_stack(
        [np.ones(len(smooth)), iterations.lengths / (iterations.lengths.max() or 1.0), smooth / smooth.max()]
    )
    for used in (3, 2):
        columns, totals = every[selection.indices, :used], every[:, :used].sum(axis=0)
        weighted = selection.weights[:, np.newaxis] * columns
        moves = np.linalg.lstsq(weighted.T @ columns, totals - weighted.sum(axis=0), rcond=1e-12)[0]
        weights = selection.weights * (1 + columns @ moves)
        if weights.min() > 0:
            return replace(selection, weights=weights, predictors=columns)
    return selection


def _enough(iterations: Iterations, order: IntArray, error: float, level: float) -> int:
    """Draws that hold the half-width of the interval to `error` of the total, by the noise of one iteration."""
    count, times = len(iterations), iterations.known_times
    strata = _strata(order, times, min(20, max(1, count // 8)))
    number = int(strata.max()) + 1
    noise = iteration_noise(iterations, strata, number)
    if noise is None:
        raise InputError("stratified: lengths are durations and no repeats are known, so the noise is not: give a size")
    relative = float(np.sqrt(np.average(noise**2, weights=np.bincount(strata, times, number))))
    wanted = (NormalDist().inv_cdf(0.5 + level / 2) * relative / error) ** 2
    # all iterations measured leave no error: a finite population
    return min(count, math.ceil(max(8.0, wanted / (1 + wanted / count))))


def _strata(order: IntArray, times: FloatArray, number: int) -> IntArray:
    """Stratum of each iteration: runs in ascending length of about equal time (Mahalanobis' equal aggregates)."""
    before = np.cumsum(times[order])
    before = np.concatenate([[0.0], before[:-1]]) / before[-1]
    strata = np.empty(len(order), dtype=np.int64)
    strata[order] = np.unique((before * number).astype(np.int64), return_inverse=True)[1]
    return strata


def _neyman(sizes: IntArray, spread: FloatArray, size: int) -> IntArray:
    """Draws from each stratum in proportion to size x spread, at least two (or all of it), at most all of it."""
    least = np.minimum(sizes, 2 if size >= 2 * len(sizes) else 1)
    draws = least.copy()
    share = sizes * spread
    for _ in range(size - int(draws.sum())):
        # Wright's exact integer allocation: the next draw goes where it lowers the variance most
        gain = np.where(draws < sizes, share**2 / (draws * (draws + 1.0)), -1.0)
        draws[np.argmax(gain)] += 1
    return draws


def _cells(lengths: FloatArray) -> tuple[IntArray, int]:
    unique, cells = np.unique(lengths, return_inverse=True)
    if len(unique) <= MOST_CELLS:
        return cells.astype(np.int64), len(unique)
    return cells.astype(np.int64) * MOST_CELLS // len(unique), MOST_CELLS


def _check_size(method: str, size: int, iterations: Iterations) -> None:
    if not 1 <= size <= len(iterations):
        raise InputError(f"{method}: size = {size}: want 1 to {len(iterations)} (the iterations of the run)")


METHODS: dict[str, Callable[..., RepresentativeSet]] = {
    "seqpoint": seqpoint,
    "frequent": frequent,
    "median": median,
    "worst": worst,
    "prior": prior,
    "k-means": k_means,
    "uniform": uniform,
    "stratified": stratified,
}
