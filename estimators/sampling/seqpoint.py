"""SeqPoint and its rivals by name: choose iterations on one machine that stand for the run on any.

Source of SeqPoint: Pati, Aga, Sinclair, Jayasena, "SeqPoint: Identifying Representative Iterations of Sequence-based
Neural Networks", ISPASS 2020, Section V-C and Figure 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.sampling import selection_baselines
from slipstick.estimators.sampling.iteration_choice import IntArray, Projection, RepresentativeSet
from slipstick.estimators.sampling.length_groups import ByLength, by_length, iteration_noise
from slipstick.workloads.runs.iterations import FloatArray, Iterations

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


METHODS: dict[str, Callable[..., RepresentativeSet]] = {
    "seqpoint": seqpoint,
    "frequent": selection_baselines.frequent,
    "median": selection_baselines.median,
    "worst": selection_baselines.worst,
    "prior": selection_baselines.prior,
    "k-means": selection_baselines.k_means,
    "uniform": selection_baselines.uniform,
    "stratified": selection_baselines.stratified,
}


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
