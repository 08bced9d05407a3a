"""By what factor measured times over sizes differ from the estimated ones, at sizes between and beyond them.

Times at several sizes move the level, and with it the slope over sizes or any smooth course, as far as the rows bear it
out: candidates of each are weighed by their evidence, and averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict

NOISES = {0.01: 0.2, 0.02: 0.3, 0.04: 0.3, 0.08: 0.15, 0.16: 0.05}
"""Standard deviations of the log of a row's time, and how likely each is before the rows are seen."""
COURSES = ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.1), (0.3, 0.3))
"""Standard deviations of what rows may show beside a level: a slope over the log of a size, and a smooth course."""
SMOOTH = 1.5
"""Logs of a size over which a smooth course changes."""


@dataclass(frozen=True, eq=False)
class SizeLaw:
    """Log of measured over estimated time as a function of sizes: Gaussian processes, averaged by their evidence.

    `names`: of the sizes.
    `points`: their logs at the measured rows from the middle of these on, shape (rows, names); `middle`: that middle.
    `logs`: measured over estimated there, shape (rows,).
    `candidates`: level, slope, course and noise, each a standard deviation, with the weight of the candidate.
    """

    names: tuple[str, ...]
    points: FloatArray
    middle: FloatArray
    logs: FloatArray
    candidates: tuple[tuple[tuple[float, float, float, float], float], ...]

    @classmethod
    def fitted(cls, rows: Sequence[Mapping[str, float]], logs: Sequence[float], scatter: float) -> SizeLaw:
        """From sizes by name and the log factor of each row; `scatter`: standard deviation of what the model misses."""
        names = tuple(sorted(rows[0]))
        points = np.log([[row[name] for name in names] for row in rows])
        middle, off = points.mean(axis=0), np.asarray(logs, dtype=float)
        far = max(scatter, float(np.abs(off).max()))  # a level that the model does not expect is the rows' to show
        made = cls(names, points - middle, middle, off, ())
        weighed = []
        for (slope, course), level, (noise, share) in product(COURSES, {0.0, scatter, far}, NOISES.items()):
            if level or not slope:
                one = level, slope, course, noise
                covariance = made.covariance(one, made.points) + noise**2 * np.eye(len(off))
                root = np.linalg.cholesky(covariance)
                evidence = -float(np.sum(np.linalg.solve(root, off) ** 2) / 2 + np.log(np.diag(root)).sum())
                weighed.append((one, evidence + math.log(share)))
        most = max(evidence for _, evidence in weighed)
        whole = sum(math.exp(evidence - most) for _, evidence in weighed)
        return replace(made, candidates=tuple((one, math.exp(each - most) / whole) for one, each in weighed))

    def covariance(self, candidate: tuple[float, float, float, float], points: FloatArray) -> FloatArray:
        """Of log factors at points and at the rows, shape (points, rows)."""
        level, slope, course, _ = candidate
        apart = np.sum((points[:, None] - self.points[None]) ** 2, axis=2)
        return np.asarray(
            level**2 + slope**2 * points @ self.points.T + course**2 * np.exp(-apart / (2 * SMOOTH**2)), dtype=float
        )

    def at(self, sizes: Mapping[str, npt.ArrayLike]) -> tuple[FloatArray, FloatArray]:
        """The log factor at sizes, and its standard deviation with the noise of another run, as the sizes broadcast."""
        arrays = np.broadcast_arrays(*(np.asarray(sizes[name], dtype=float) for name in self.names))
        points = np.stack([np.log(array.ravel()) for array in arrays], axis=1) - self.middle
        mean, square = np.zeros(len(points)), np.zeros(len(points))
        for one, weight in self.candidates:
            level, slope, course, noise = one
            within = self.covariance(one, self.points) + noise**2 * np.eye(len(self.logs))
            across = self.covariance(one, points)
            middle = across @ np.linalg.solve(within, self.logs)
            prior = level**2 + slope**2 * np.sum(points**2, axis=1) + course**2
            left = np.maximum(prior - np.sum(across * np.linalg.solve(within, across.T).T, axis=1), 0.0) + noise**2
            mean, square = mean + weight * middle, square + weight * (left + middle**2)
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        return mean.reshape(arrays[0].shape), deviation.reshape(arrays[0].shape)

    def holds(self, sizes: Mapping[str, float]) -> bool:
        """Whether a row was measured at these sizes."""
        point = np.log([sizes[name] for name in self.names]) - self.middle
        return bool(np.any(np.all(np.abs(self.points - point) < 1e-9, axis=1)))

    def text(self) -> str:
        """What the rows bear out, in words."""
        if len(self.logs) == 1:
            return "at 1 size"
        shares = {"no change": 0.0, "a level": 0.0, "a slope over sizes": 0.0, "a course of its own": 0.0}
        for (level, slope, course, _), weight in self.candidates:
            words = "a course of its own" if course else "a slope over sizes" if slope else "a level"
            shares[words if level else "no change"] += weight
        best = max(shares, key=lambda name: shares[name])
        return f"at {len(self.logs)} sizes, which bear out {best} ({shares[best]:.0%})"


@dataclass(frozen=True)
class OverSizes:
    """The factor of a law of sizes at arrays of free quantities.

    `here`: the law's sizes where they are not free.
    """

    law: SizeLaw
    here: FrozenDict[float]

    def named(self, free: Iterable[str]) -> dict[str, str]:
        """What the law calls those of the free names that are its sizes."""
        called = {one: one if one in self.here else one.partition(".")[2] for one in free}
        return {one: name for one, name in called.items() if name in self.here}

    def _at(self, values: Mapping[str, npt.ArrayLike]) -> tuple[FloatArray, FloatArray]:
        sizes: dict[str, npt.ArrayLike] = {**self.here}
        return self.law.at(sizes | {name: values[free] for free, name in self.named(values).items()})

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Measured over estimated, in the shape to which the arrays broadcast."""
        return np.exp(self._at(values)[0])

    def deviation(self, values: Mapping[str, npt.ArrayLike]) -> tuple[FloatArray, bool]:
        """Standard deviation of its log with the noise of another run, and whether all sizes here are the law's."""
        others = [one for one in values if not one.startswith("machine.")]
        return self._at(values)[1], len(self.named(others)) == len(others)
