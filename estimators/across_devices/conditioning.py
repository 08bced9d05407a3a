"""Parameters of a machine after a few rows were measured on it: the most likely ones under a heavy-tailed noise.

The log parameters are ``mean + roots z`` with z normal; a measured log time scatters around the model's by a Student t
law, so that a row that no parameters explain loses its say instead of moving every parameter. The most likely z is
found by damped steps (Levenberg, Quarterly of Applied Mathematics 2, 1944), none longer than one standard deviation,
each taken only where the probability grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.across_devices.kernel_class import MODEL, PREFIX
from slipstick.estimators.across_devices.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.tuned.tuned_anchors import FREEDOM, LEAST_NOISE, NOISE

FEW, REPEATED = 3, 0.03
"""Fewer rows cannot be held against each other, and count as the sources' own; no time is known better."""
STEP = 1e-3
"""Of a log parameter, for derivatives."""
LONGEST = 1.0
"""Standard deviations that one step goes at most."""
STEPS, TRIES = 12, 6
COARSE = 4.0
"""The noise with which the search begins, over the noise."""
GAINED = 1e-3
"""A step that gains less log probability is the last one."""


@dataclass(frozen=True, eq=False)
class AnchorModel:
    """Measured rows of one machine as a function of the coordinates z of its parameters.

    Parameters
    ----------
    names
        Class and parameter of each entry.
    mean, roots
        Log parameters are normal around `mean`, with covariance ``roots @ roots.T``.
    forms
        The measured rows, by class.
    factors
        Logarithm of what each row takes besides its parameters, shape (rows,).
    noise
        Scale of each row's noise in log time, shape (rows,).
    """

    names: tuple[tuple[str, str], ...]
    mean: FloatArray
    roots: FloatArray
    forms: tuple[tuple[str, RowFormula], ...]
    measured: FloatArray
    factors: FloatArray
    noise: FloatArray

    @classmethod
    def of(
        cls,
        names: tuple[tuple[str, str], ...],
        mean: FloatArray,
        roots: FloatArray,
        scatter: Mapping[str, float],
        anchors: Sequence[OperationTimes],
        factors: FloatArray,
    ) -> AnchorModel:
        """From rows of classes that `scatter` (the median-like scatter of the sources' fits) knows."""
        forms = tuple((form.name, RowFormula.of(MODEL, [form])) for form in anchors)
        scale, least = (NOISE, LEAST_NOISE) if sum(map(len, anchors)) >= FEW else (1.0, REPEATED)
        noise = np.concatenate([np.full(len(f), max(scale * scatter[f.name], least)) for f in anchors])
        return cls(names, mean, roots, forms, np.log(joined_times(anchors)), factors, noise)

    def at(self, coordinates: FloatArray) -> FloatArray:
        """Log seconds of the rows, factors included, shape (rows,)."""
        return np.asarray(self._times((self.mean + self.roots @ coordinates)[None])[0])

    def likeliest(self, keep: FloatArray, start: FloatArray | None = None) -> FloatArray:
        """The coordinates of the highest probability.

        Parameters
        ----------
        keep
            Which rows count, booleans of shape (rows,).
        start
            Where to begin; the mean where None.
        """
        if start is None:  # wide noise first: where all rows are far off, a narrow one takes them all for outliers
            start = replace(self, noise=COARSE * self.noise).likeliest(keep, np.zeros(self.roots.shape[1]))
        point, damping = start, 1e-2
        here, slope = self.linear(point)
        cost = self._cost(here, point, keep)
        for _ in range(STEPS):
            error, noise = (self.measured - here)[keep], self.noise[keep]
            weight = (FREEDOM + 1) / (FREEDOM + (error / noise) ** 2) / noise**2
            normal = slope[keep].T @ (weight[:, None] * slope[keep]) + np.eye(len(point))
            descent = slope[keep].T @ (weight * error) - point
            for _ in range(TRIES):
                step = np.linalg.solve(normal + damping * np.eye(len(point)), descent)
                step *= min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-12))
                there = self.at(point + step)
                better = self._cost(there, point + step, keep)
                if better < cost:
                    break
                damping *= 5
            else:
                return point
            point, gained, cost, damping = point + step, cost - better, better, max(damping / 5, 1e-4)
            if gained < GAINED:
                return point
            here, slope = self.linear(point)
        return point

    def left(self, coordinates: FloatArray) -> FloatArray:
        """Covariance of the coordinates that the rows leave, at the most likely ones."""
        here, slope = self.linear(coordinates)
        error = self.measured - here
        weight = (FREEDOM + 1) / (FREEDOM + (error / self.noise) ** 2) / self.noise**2
        return np.asarray(np.linalg.inv(slope.T @ (weight[:, None] * slope) + np.eye(len(coordinates))), dtype=float)

    def _cost(self, modelled: FloatArray, point: FloatArray, keep: FloatArray) -> float:
        """Minus log probability."""
        error = ((self.measured - modelled) / self.noise)[keep]
        return float(point @ point / 2 + (FREEDOM + 1) / 2 * np.log1p(error**2 / FREEDOM).sum())

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log seconds, and their derivatives by the coordinates."""
        point = self.mean + self.roots @ coordinates
        moved = point + np.concatenate([np.zeros((1, len(point))), STEP * np.eye(len(point))])
        times = self._times(moved)
        return times[0], ((times[1:] - times[0]) / STEP).T @ self.roots

    def _times(self, points: FloatArray) -> FloatArray:
        """Log seconds of the rows at several log parameters, shape (points, rows)."""
        columns = np.exp(points)[..., None]
        parts = []
        for name, formula in self.forms:
            values = {f"{PREFIX}{p}": columns[:, i] for i, (owner, p) in enumerate(self.names) if owner == name}
            parts.append(formula.evaluate(values))
        return np.asarray(np.log(np.concatenate(parts, axis=-1)) + self.factors)
