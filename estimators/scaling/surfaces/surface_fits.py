"""One candidate fitted: coefficients >= 0 on relative residuals, and what the points nearest to a target add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.nonnegative_terms import nearest_terms
from slipstick.estimators.scaling.surfaces.surface_law import Product, values_of

NEAR = 0.35
"""Points count as near to a target within so many standard deviations of the logarithms of each parameter."""
MOST_NEIGHBOURS = 1000
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class SurfaceFit:
    """Products with coefficients, fitted to points."""

    products: tuple[Product, ...]
    coefficients: FloatArray
    near: Nearby

    @classmethod
    def of(cls, products: tuple[Product, ...], x: FloatArray, y: FloatArray) -> SurfaceFit:
        """Fit products to times y (seconds, shape (points,)) at points x, shape (points, parameters)."""
        matrix = values_of(products, x)
        coefficients = nearest_terms(matrix, y)
        residuals = np.log(np.maximum(y, TINY) / np.maximum(matrix @ coefficients, TINY))
        return cls(products, coefficients, Nearby.of(x, residuals))

    def __call__(self, x: FloatArray) -> FloatArray:
        """Times at points, the nearest residuals included."""
        return np.asarray(values_of(self.products, x) @ self.coefficients * np.exp(self.near(x)))


@dataclass(frozen=True, eq=False)
class Nearby:
    """The part of the residuals that neighbours share: a correction of log time near the edge of the data.

    It is shrunk by how well neighbours predict a residual that is left out: structure that the law missed is carried
    on, noise is not.
    """

    logs: FloatArray
    scale: FloatArray
    residuals: FloatArray
    share: float

    @classmethod
    def of(cls, x: FloatArray, residuals: FloatArray) -> Nearby:
        """From points (points, parameters) and log(measured / fitted)."""
        if len(x) > MOST_NEIGHBOURS:
            some = np.linspace(0, len(x) - 1, MOST_NEIGHBOURS).astype(int)
            x, residuals = x[some], residuals[some]
        scale = np.log(x).std(axis=0)
        scale[scale == 0] = 1.0
        logs = np.log(x) / scale
        weights = _kernel(logs, logs)
        np.fill_diagonal(weights, 0.0)
        known = weights.sum(axis=1) > 1e-6
        predicted = (weights @ residuals)[known] / weights.sum(axis=1)[known]
        square = float(predicted @ predicted)
        share = float(np.clip(predicted @ residuals[known] / square, 0.0, 1.0)) if square > 1e-20 else 0.0
        return cls(logs, scale, residuals, share)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The correction of log time at points; beyond the data, that of its edge."""
        inside = np.clip(np.log(x) / self.scale, self.logs.min(axis=0), self.logs.max(axis=0))
        weights = _kernel(inside, self.logs)
        return np.asarray(self.share * (weights @ self.residuals) / weights.sum(axis=1))


def _kernel(one: FloatArray, other: FloatArray) -> FloatArray:
    square = ((one[:, None, :] - other[None]) ** 2).sum(axis=-1)
    nearest = square.min(axis=1, keepdims=True)
    # far from every point the nearest one decides, instead of 0 / 0
    return np.asarray(np.exp(-np.maximum(square - np.maximum(nearest - 50.0, 0.0), 0.0) / (2 * NEAR**2)) + TINY)
