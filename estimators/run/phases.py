"""Phases of a run: steps that do the same things for the same time.

Three ways, as TPUPoint has them (Section IV-A): k-means and DBSCAN over the features of all steps after the run,
and a linear scan that needs three steps of memory while it goes on. The published scan compares sets of operations
and so is blind to time; a scan that compares total durations stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwmodels.files import InputError
from workloads.step_profiles import Operation, StepProfile, StepTable

Labels = npt.NDArray[np.int64]
Similarity = Callable[[StepProfile, StepProfile], float]

NOISE = -1
"""Label of the steps that DBSCAN leaves unlabelled; they are counted as one phase, as the paper does for its Fig. 8."""


def operation_similarity(one: StepProfile, other: StepProfile) -> float:
    """The published similarity of two steps (TPUPoint, Equation 1): |A n B| / min(|A|, |B|) of their sets of
    operations, durations ignored.
    """
    smaller = min(len(one.operations), len(other.operations))
    if smaller == 0:
        return 1.0 if len(one.operations) == len(other.operations) else 0.0
    return len(one.operations.keys() & other.operations.keys()) / smaller


def duration_similarity(one: StepProfile, other: StepProfile) -> float:
    """Similarity that knows time: the sum of the smaller over the sum of the larger total durations, the whole step
    as one more operation.

    This is the weighted Jaccard (Ruzicka) similarity; a step that takes twice the time in every operation has 0.5.
    """
    smaller, larger = min(one.duration, other.duration), max(one.duration, other.duration)
    for name in one.operations.keys() | other.operations.keys():
        a = one.operations[name].time if name in one.operations else 0.0
        b = other.operations[name].time if name in other.operations else 0.0
        smaller += min(a, b)
        larger += max(a, b)
    return smaller / larger if larger else 1.0


@dataclass
class LinearScan:
    """Online linear scan: each step is compared with its phase when it ends, nothing else is kept.

    `remembered` phases keep a mean profile each, so that a later step can return to one (0, as published: every
    change opens a new phase). With `confirm` = 2 a step that fits nowhere opens a phase only if the next step is
    like it; alone, it stays in the running phase when it does the same operations (a hiccup) and opens one of its
    own when it does not (a checkpoint). The step in hand, the one before and the waiting one are all the steps in
    memory.
    """

    similarity: Similarity = operation_similarity
    threshold: float = 0.7
    remembered: int = 0
    confirm: int = 1
    phases: int = 0
    """Phases opened so far."""
    _current: int = -1
    _previous: StepProfile | None = None
    _waiting: StepProfile | None = None
    _means: dict[int, tuple[int, StepProfile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise InputError(f"threshold {self.threshold}: a similarity above 0 and up to 1 is needed")
        if self.confirm not in (1, 2):
            raise InputError(f"confirm {self.confirm}: known are 1 (at once) and 2 (by the next step)")

    def observe(self, step: StepProfile) -> list[int]:
        """Take the next step; returns the labels of the steps that are settled by it, in order (none while one
        waits, then two).
        """
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            if self.similarity(step, waiting) >= self.threshold:
                first = self._open(waiting)
                return [first, self._join(first, step)]
            return [self._settle(waiting), *self.observe(step)]
        phase = self._match(step)
        if phase is not None:
            return [self._join(phase, step)]
        if self._previous is not None and self.confirm == 2:
            self._waiting = step
            return []
        return [self._open(step)]

    def finish(self) -> list[int]:
        """The label of a step that still waits, if any."""
        waiting, self._waiting = self._waiting, None
        return [] if waiting is None else [self._settle(waiting)]

    def labels(self, steps: Iterable[StepProfile]) -> Labels:
        """Labels of a whole run."""
        found: list[int] = []
        for step in steps:
            found.extend(self.observe(step))
        return np.array([*found, *self.finish()], dtype=np.int64)

    def _match(self, step: StepProfile) -> int | None:
        """The phase that the step belongs to: the running one if it fits, else the most similar remembered one that
        fits.
        """
        if self._previous is None:
            return None
        if (
            self.similarity(step, self._means[self._current][1] if self.remembered else self._previous)
            >= self.threshold
        ):
            return self._current
        scores = {phase: self.similarity(step, mean) for phase, (_, mean) in self._means.items()}
        best = max(scores, key=scores.__getitem__, default=None)
        return best if best is not None and scores[best] >= self.threshold else None

    def _settle(self, step: StepProfile) -> int:
        """Label a step that the next one did not confirm."""
        running = self._means[self._current][1] if self.remembered else self._previous
        if (
            running is not None
            and operation_similarity(step, running) >= 1
            and len(step.operations) <= len(running.operations)
        ):
            return self._current
        return self._open(step)

    def _open(self, step: StepProfile) -> int:
        self.phases += 1
        return self._join(self.phases - 1, step)

    def _join(self, phase: int, step: StepProfile) -> int:
        self._current, self._previous = phase, step
        if self.remembered:
            count, mean = self._means.pop(phase, (0, step))
            self._means[phase] = (count + 1, _running_mean(mean, step, count))
            while len(self._means) > self.remembered:
                self._means.pop(next(iter(self._means)))
        return phase


def _running_mean(mean: StepProfile, step: StepProfile, count: int) -> StepProfile:
    """The mean profile after one more step; its weight on the past is bounded, so that slow drift is followed."""
    if count == 0:
        return step
    weight = 1 / (min(count, 20) + 1)
    operations = {}
    for name in mean.operations.keys() | step.operations.keys():
        known = mean.operations.get(name) or step.operations[name]
        a = mean.operations[name].time if name in mean.operations else 0.0
        b = step.operations[name].time if name in step.operations else 0.0
        operations[name] = Operation(known.count, a + (b - a) * weight, known.place)
    return StepProfile(step.step, step.start, mean.duration + (step.duration - mean.duration) * weight, operations)


def published_scan(threshold: float = 0.7) -> LinearScan:
    """The linear scan as published: sets of operations, consecutive steps, 70 %."""
    return LinearScan(operation_similarity, threshold)


def duration_scan(threshold: float = 0.7, remembered: int = 32) -> LinearScan:
    """The linear scan that knows time and recognises earlier phases."""
    return LinearScan(duration_similarity, threshold, remembered, confirm=2)


@dataclass(frozen=True, eq=False)
class Clustering:
    """Labels of all steps, and the curve by which their number was chosen: `measure` for every tried value of
    `parameter`.
    """

    method: str
    labels: Labels
    parameter: str
    chosen: int
    tried: tuple[int, ...]
    measure: str
    curve: tuple[float, ...]
    settings: dict[str, float] = field(default_factory=dict)


def step_features(table: StepTable, dimensions: int = 100) -> npt.NDArray[np.float64]:
    """Features of the steps: count and total duration of each operation, reduced to at most `dimensions` by
    principal components.

    The paper gives no scaling. Counts are divided by the mean number of invocations of a step and durations by the
    mean total duration, so both halves weigh the same and a column weighs by its share.
    """
    counts, times = table.counts.toarray(), table.times.toarray()
    features = np.hstack([block / mean for block in (counts, times) if (mean := block.sum(axis=1).mean()) > 0])
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
    """
    from sklearn.cluster import KMeans

    features = step_features(table)
    distinct = len(np.unique(features.round(12), axis=0))
    counts = tuple(k for k in tried if k <= distinct) or (1,)
    fits = {k: KMeans(k, n_init=4, random_state=seed).fit(features) for k in counts}
    curve = tuple(float(fit.inertia_) for fit in fits.values())
    chosen = counts[elbow(counts, curve)] if clusters is None else clusters
    if chosen not in fits:
        raise InputError(
            f"{chosen} clusters: tried were {', '.join(map(str, counts))} (there are {distinct} distinct steps)"
        )
    return Clustering(
        "k-means", fits[chosen].labels_.astype(np.int64), "clusters", chosen, counts, "sum of squares", curve
    )


def density(table: StepTable, tried: Sequence[int] = range(5, 201, 25), minimum: int | None = None) -> Clustering:
    """DBSCAN over the step features for every minimum number of samples in `tried`; the elbow of the noise share
    chooses, or `minimum`.

    The paper gives no neighbourhood radius; here it is the elbow of the sorted distances to the fourth neighbour
    (Ester et al., 1996), and reported in `settings["radius"]`.
    """
    from sklearn.cluster import DBSCAN
    from sklearn.neighbors import NearestNeighbors

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
