"""Phases of a run: steps that do the same things for the same time.

Three ways, as TPUPoint has them (Section IV-A): k-means and DBSCAN over the features of all steps after the run,
and a linear scan that needs three steps of memory while it goes on. The published scan compares sets of operations
and so is blind to time; a scan that compares total durations stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.workloads.runs.step_profiles import Operation, StepProfile, StepTable

MOST_NAMES = 256
"""Operations of the mean profile of a phase, or four times those of a step where these are more: the longest."""
MOST_FEATURES = 20_000_000
"""Numbers of all steps together that are reduced: 160 MB."""
MOST_FITTED = 400_000
"""Numbers that k-means is fitted to, evenly spread over the steps: 6 s; the other steps join the nearest centre."""
MOST_PAIRS = 25_000_000
"""Pairs of steps that DBSCAN compares: 5,000 steps, 400 MB."""
NOISE = -1
"""Label of the steps that DBSCAN leaves unlabelled; they are counted as one phase, as the paper does for its Fig. 8."""


def operation_similarity(one: StepProfile, other: StepProfile) -> float:
    """The published similarity of two steps, a share from 0 to 1 (TPUPoint, Equation 1): |A n B| / min(|A|, |B|) of
    their sets of operations, durations ignored.
    """
    smaller = min(len(one.operations), len(other.operations))
    if smaller == 0:
        return 1.0 if len(one.operations) == len(other.operations) else 0.0
    return len(one.operations.keys() & other.operations.keys()) / smaller


def duration_similarity(one: StepProfile, other: StepProfile) -> float:
    """Similarity that knows time, a share from 0 to 1: the sum of the smaller over the sum of the larger total
    durations, the whole step as one more operation.

    This is the weighted Jaccard (Ruzicka) similarity; a step that takes twice the time in every operation has 0.5.
    """
    smaller, larger = min(one.duration, other.duration), max(one.duration, other.duration)
    for name in one.operations.keys() | other.operations.keys():
        a = one.operations[name].time if name in one.operations else 0.0
        b = other.operations[name].time if name in other.operations else 0.0
        smaller += min(a, b)
        larger += max(a, b)
    return smaller / larger if larger else 1.0


class Scan(Protocol):
    """What finds phases while the run goes on."""

    def observe(self, step: StepProfile) -> list[int]:
        """Take the next step; returns the labels of the steps that are settled by it, in order."""
        ...

    def finish(self) -> list[int]:
        """The labels of the steps that still wait."""
        ...


def scan_labels(scan: Scan, steps: Iterable[StepProfile]) -> IntArray:
    """Labels of a whole run by a scan."""
    result: list[int] = []
    for step in steps:
        result.extend(scan.observe(step))
    return np.array([*result, *scan.finish()], dtype=np.int64)


@dataclass
class PublishedScan:
    """The online linear scan as published (TPUPoint, Section IV-A): a step whose set of operations is less similar to
    the step before it than `threshold` opens a new phase.
    """

    threshold: float = 0.7
    phases: int = 0
    """Phases opened so far."""
    _previous: StepProfile | None = None

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def observe(self, step: StepProfile) -> list[int]:
        """See `Scan.observe`; every step is settled at once."""
        if self._previous is None or operation_similarity(self._previous, step) < self.threshold:
            self.phases += 1
        self._previous = step
        return [self.phases - 1]

    def finish(self) -> list[int]:
        """Nothing waits."""
        return []


@dataclass
class DurationScan:
    """An online linear scan that knows time, and recognises phases that come back.

    Kept are three steps (the one that is judged and its two neighbours) and the mean profile of `remembered`
    phases. What is judged is the median of the three in every operation: a hiccup of the machine in one step is no
    phase, while a step with operations of its own (a checkpoint) is judged alone, and one at a border with the
    neighbour that does the same. It joins the most similar phase by `duration_similarity`, or opens one where none
    reaches `threshold`. At the default a step that takes twice the time in everything is just another phase.
    """

    threshold: float = 0.5
    remembered: int = 32
    phases: int = 0
    """Phases opened so far."""
    _window: list[StepProfile] = field(default_factory=list)
    _means: dict[int, tuple[int, StepProfile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)
        if self.remembered < 1:
            raise InputError(f"remembered = {self.remembered}: want at least 1 phase")

    def observe(self, step: StepProfile) -> list[int]:
        """See `Scan.observe`; a step is settled when the next one is known."""
        self._window.append(step)
        if len(self._window) == 1:
            return []
        label = self._label(self._window[-2], [*self._window[:-2], step])
        self._window = self._window[-2:]
        return [label]

    def finish(self) -> list[int]:
        """The last step's label."""
        if not self._window:
            return []
        last, before = self._window[-1], self._window[:-1]
        self._window = []
        return [self._label(last, before)]

    def _label(self, step: StepProfile, neighbours: list[StepProfile]) -> int:
        alike = [other for other in neighbours if max(foreign_share(step, other), foreign_share(other, step)) <= 0.5]
        judged = _quiet(step, alike)
        scores = {phase: duration_similarity(judged, mean) for phase, (_, mean) in self._means.items()}
        best = max(scores, key=scores.__getitem__, default=None)
        if best is None or scores[best] < self.threshold:
            best = self.phases
            self.phases += 1
        count, mean = self._means.pop(best, (0, judged))
        self._means[best] = (count + 1, _running_mean(mean, judged, count))
        while len(self._means) > self.remembered:  # the one not met for longest
            self._means.pop(next(iter(self._means)))
        return best


def foreign_share(step: StepProfile, other: StepProfile) -> float:
    """Share of a step's operation time in operations that the other step does not do."""
    total = sum(each.time for each in step.operations.values())
    foreign = sum(each.time for name, each in step.operations.items() if name not in other.operations)
    return foreign / total if total else 0.0


def _check_threshold(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise InputError(f"threshold = {threshold}: want a similarity above 0, at most 1")


def _quiet(step: StepProfile, alike: list[StepProfile]) -> StepProfile:
    """The step without hiccups: in every operation the median with two like neighbours, the lesser with one."""
    if not alike:
        return step
    group = [step, *alike]
    take = min if len(group) == 2 else median
    names = dict.fromkeys(name for each in group for name in each.operations)
    operations = {}
    for name in names:
        times = [each.operations.get(name) for each in group]
        time = float(take([0.0 if each is None else each.time for each in times]))
        known = next(each for each in times if each is not None)
        operations[name] = Operation(known.count, time, known.place)
    return StepProfile(step.step, step.start, float(take([each.duration for each in group])), operations)


def _running_mean(mean: StepProfile, step: StepProfile, count: int) -> StepProfile:
    """The mean profile after one more step; its weight on the past is bounded, so that slow drift is followed."""
    if count == 0:
        return step
    weight = 1 / (min(count, 20) + 1)
    operations: dict[str, Operation] = {}
    for name in mean.operations.keys() | step.operations.keys():
        known = mean.operations.get(name) or step.operations[name]
        a = mean.operations[name].time if name in mean.operations else 0.0
        b = step.operations[name].time if name in step.operations else 0.0
        operations[name] = Operation(known.count, a + (b - a) * weight, known.place)
    if len(operations) > max(MOST_NAMES, 4 * len(step.operations)):  # names that never come again
        kept = sorted(operations, key=lambda name: -operations[name].time)[: max(MOST_NAMES, len(step.operations))]
        operations = {name: operations[name] for name in kept}
    return StepProfile(step.step, step.start, mean.duration + (step.duration - mean.duration) * weight, operations)


@dataclass(frozen=True, eq=False)
class Clustering:
    """Labels of all steps, and the curve by which their number was chosen: `measure` for every tried value of
    `parameter`.
    """

    method: str
    labels: IntArray
    parameter: str
    chosen: int
    tried: tuple[int, ...]
    measure: str
    curve: tuple[float, ...]
    settings: dict[str, float] = field(default_factory=dict)


def step_features(table: StepTable, dimensions: int = 100) -> FloatArray:
    """Features of the steps: count and total duration of each operation, reduced to at most `dimensions` by
    principal components.

    The paper gives no scaling. Counts are divided by the mean number of invocations of a step and durations by the
    mean total duration, so both halves weigh the same and a column weighs by its share.
    Raises InputError where steps times operations are more numbers than `MOST_FEATURES`.
    """
    numbers = 2 * len(table.steps) * len(table.names)
    if numbers > MOST_FEATURES:
        raise InputError(
            f"{len(table.steps):,} steps x {len(table.names):,} operations, counted and timed: {numbers:,} numbers, "
            f"more than {MOST_FEATURES:,}; the scans (--method duration, published) take any number"
        )
    counts, times = table.counts.toarray(), table.times.toarray()
    known = [block / mean for block in (counts, times) if (mean := block.sum(axis=1).mean()) > 0]
    features = np.hstack(known) if known else np.zeros((len(table.steps), 1))  # without operations all are alike
    if min(features.shape) > dimensions:
        from sklearn.decomposition import PCA

        features = PCA(dimensions, svd_solver="randomized", random_state=0).fit_transform(features)
    return np.asarray(features, dtype=np.float64)


def elbow(x: Sequence[float], y: Sequence[float]) -> int:
    """Index of the elbow of a curve: the point farthest below the chord of its ends, both axes scaled to 1 (Satopaa
    et al., Kneedle, 2011).
    """
    across, down = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(across) < 3 or np.ptp(down) == 0:
        return 0
    across = (across - across[0]) / (across[-1] - across[0])
    down = (down - down.min()) / np.ptp(down)
    chord = down[0] + (down[-1] - down[0]) * across
    return int(np.argmax(chord - down))


def k_means(
    table: StepTable, tried: Sequence[int] = range(1, 16), clusters: int | None = None, seed: int = 0
) -> Clustering:
    """k-means over the step features for every k in `tried`; `clusters` of them, or as many as the elbow of the sum
    of squares shows.

    Raises InputError where `clusters` were not tried.
    """
    from sklearn.cluster import KMeans

    features = step_features(table)
    most = max(1, MOST_FITTED // features.shape[1])
    fitted = features[:: -(-len(features) // most)]
    distinct = len(np.unique(fitted.round(12), axis=0))
    counts = tuple(k for k in tried if k <= distinct) or (1,)
    fits = {k: KMeans(k, n_init=4, random_state=seed).fit(fitted) for k in counts}
    curve = tuple(float(fit.inertia_) for fit in fits.values())
    chosen = counts[elbow(counts, curve)] if clusters is None else clusters
    if chosen not in fits:
        raise InputError(
            f"{chosen} clusters: tried were {', '.join(map(str, counts))} (there are {distinct} distinct steps)"
        )
    return Clustering(
        "k-means", fits[chosen].predict(features).astype(np.int64), "clusters", chosen, counts, "sum of squares", curve
    )


def density(table: StepTable, tried: Sequence[int] = range(5, 201, 25), minimum: int | None = None) -> Clustering:
    """DBSCAN over the step features for every minimum number of samples in `tried`; the elbow of the noise share
    chooses, or `minimum`.

    The paper gives no neighbourhood radius; here it is the elbow of the sorted distances to the fourth neighbour
    (Ester et al., 1996), and reported in `settings["radius"]`.
    Raises InputError where `minimum` was not tried.
    """
    from sklearn.cluster import DBSCAN
    from sklearn.neighbors import NearestNeighbors

    pairs = len(table.steps) ** 2
    if pairs > MOST_PAIRS:
        raise InputError(
            f"{len(table.steps):,} steps are {pairs:,} pairs, more than dbscan's {MOST_PAIRS:,}: take another --method"
        )
    features = step_features(table)
    neighbours = min(5, len(features))
    distance = np.sort(NearestNeighbors(n_neighbors=neighbours).fit(features).kneighbors(features)[0][:, -1])[::-1]
    radius = float(distance[elbow(range(len(distance)), distance.tolist())])
    radius = radius if radius > 0 else float(np.finfo(float).tiny)
    samples = tuple(count for count in tried if count <= len(features)) or (1,)
    fits = {count: DBSCAN(eps=radius, min_samples=count).fit(features).labels_.astype(np.int64) for count in samples}
    curve = tuple(float(np.mean(labels == NOISE)) for labels in fits.values())
    if minimum is None:
        # noise grows with the minimum: the elbow is the last value before it grows fast, seen from the other end
        position = elbow(samples[::-1], curve[::-1])
        minimum = samples[::-1][position] if np.ptp(curve) > 0 else samples[-1]
    if minimum not in fits:
        raise InputError(
            f"minimum of {minimum} samples: tried were {', '.join(map(str, samples))} ({len(features)} steps)"
        )
    return Clustering(
        "dbscan", fits[minimum], "minimum samples", minimum, samples, "noise share", curve, {"radius": radius}
    )
