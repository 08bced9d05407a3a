"""Draws of fitted parameters from what the measurements say, inside their bounds: no covariance stretched beyond them.

The density is exp(-S / 2 s^2) over the parameters' own scales, S the loss of the fit at a point and s its residual
scatter: flat in the logarithm of a parameter whose lower bound is positive, flat in the others. It is sampled by
importance: Student's t around the fit proposes, weights put right, and the proposal is fitted to the weighted draws
again (Oh and Berger, J. Stat. Comput. Simul. 41, 1992). Where a ridge defeats that, walkers do it (Goodman and Weare,
CAMCoS 5, 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.objective import Objective

PROPOSALS = 2000
ROUNDS = 4
FREEDOM = 5.0
ENOUGH = 0.10
"""Share of effective draws among the proposed ones that is good enough."""
WALKERS, STEPS, BURN_IN = 40, 150, 75
SEED = 20_260_221


@dataclass(frozen=True)
class Coordinates:
    """Parameters on their own scales: logarithms where the lower bound is positive; held ones stay out.

    `free`: places of the parameters that are drawn.
    `logs`: for each of those, whether its logarithm is the coordinate.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    free: tuple[int, ...]
    logs: Mask

    @classmethod
    def of(cls, objective: Objective, fit: Fit) -> Coordinates:
        """Of a fit; held parameters are those of `Fit.held`."""
        free = tuple(i for i, name in enumerate(fit.names) if name not in fit.held)
        return cls(np.array(fit.values), objective.low, objective.high, free, objective.low[list(free)] > 0)

    def centre(self) -> FloatArray:
        """The fitted values of the free parameters, logarithms where they are positive, shape (free,)."""
        values = self.values[list(self.free)]
        return np.where(self.logs, np.log(np.where(self.logs, values, 1.0)), values)

    def parameters(self, points: FloatArray) -> FloatArray:
        """Points of shape (n, free) as parameters of shape (n, all)."""
        whole = np.tile(self.values, (len(points), 1))
        with np.errstate(over="ignore"):
            whole[:, list(self.free)] = np.where(self.logs, np.exp(np.where(self.logs, points, 0.0)), points)
        return whole

    def inside(self, parameters: FloatArray) -> FloatArray:
        """Which rows of parameters lie within all bounds."""
        return np.asarray(np.all((parameters >= self.low) & (parameters <= self.high), axis=1))

    def scale(self, fit: Fit) -> FloatArray:
        """Covariance of the coordinates, linearised; open directions get the width of the bounds."""
        values = self.values[list(self.free)]
        table = np.asarray(fit.covariance)[np.ix_(self.free, self.free)]
        slope = np.where(self.logs, 1 / np.where(values != 0, values, 1.0), 1.0)
        table = table * np.outer(slope, slope)
        low, high = self.low[list(self.free)], self.high[list(self.free)]
        widest = np.where(self.logs, np.log(np.maximum(high, 1e-300) / np.where(self.logs, low, 1.0)), high - low)
        widest = np.where(np.isfinite(widest), widest, 10 * np.abs(values) + 1e-12)
        if not np.all(np.isfinite(table)):
            return np.asarray(np.diag((widest / 4) ** 2))
        errors = np.sqrt(np.diag(table))
        shrink = np.minimum(1.0, widest / np.maximum(errors, 1e-300))
        return np.asarray(table * np.outer(shrink, shrink))


def posterior_draws(objective: Objective, fit: Fit, count: int = 400, loss: str = "linear") -> FloatArray | None:
    """Parameters of shape (count, parameters); None where no scatter is known, or nothing is free.

    `loss`: that of the fit.
    """
    scatter = fit.residual_std
    coordinates = Coordinates.of(objective, fit)
    if scatter is None or not coordinates.free:
        return None
    if scatter == 0:
        return np.tile(np.array(fit.values), (count, 1))
    density = _Density(objective, coordinates, scatter, loss, objective.loss_at(np.array([fit.values]), loss)[0])
    generator = np.random.default_rng(SEED)
    centre, table = coordinates.centre(), coordinates.scale(fit)
    for _ in range(ROUNDS):
        points, weights = _proposed(density, centre, table, generator)
        effective = 0.0 if not weights.any() else weights.sum() ** 2 / np.sum(weights**2)
        if effective >= ENOUGH * PROPOSALS:
            chosen = generator.choice(len(points), size=count, p=weights / weights.sum())
            return coordinates.parameters(points[chosen])
        if effective < 2 * len(centre) + 4:
            table = table * 0.25
            continue
        share = weights / weights.sum()
        centre = share @ points
        table = np.atleast_2d(np.cov(points.T, aweights=share)) * 1.5
    return coordinates.parameters(_walked(density, coordinates, fit, generator, count))


@dataclass(frozen=True, eq=False)
class _Density:
    """The logarithm of the density at points of the coordinates."""

    objective: Objective
    coordinates: Coordinates
    scatter: float
    loss: str
    least: float

    def __call__(self, points: FloatArray) -> FloatArray:
        parameters = self.coordinates.parameters(points)
        inside = self.coordinates.inside(parameters)
        density = np.full(len(points), -np.inf)
        if inside.any():
            losses = self.objective.loss_at(parameters[inside], self.loss)
            density[inside] = -(losses - self.least) / (2 * self.scatter**2)
        return np.where(np.isnan(density), -np.inf, density)


def _proposed(
    density: _Density, centre: FloatArray, table: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Points of a multivariate t, and their weights (the largest is 1)."""
    size = len(centre)
    errors = np.sqrt(np.diag(table))
    errors = np.where(errors > 0, errors, 1e-12)
    correlation = table / np.outer(errors, errors)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    values = np.maximum(values, 1e-10)
    normal = generator.standard_normal((PROPOSALS, size))
    stretch = np.sqrt(FREEDOM / generator.chisquare(FREEDOM, PROPOSALS))
    points = centre + errors * ((normal * np.sqrt(values)) @ vectors.T) * stretch[:, None]
    squares = np.sum(normal**2, axis=1) * stretch**2
    proposal = -0.5 * (FREEDOM + size) * np.log1p(squares / FREEDOM)
    logs = density(points) - proposal
    best = np.max(logs)
    return points, np.exp(logs - best) if np.isfinite(best) else np.zeros(PROPOSALS)


def _walked(
    density: _Density, coordinates: Coordinates, fit: Fit, generator: np.random.Generator, count: int
) -> FloatArray:
    """Stretch moves of an ensemble that begins close to the fit."""
    centre = coordinates.centre()
    size = len(centre)
    errors = 0.1 * np.sqrt(np.diag(coordinates.scale(fit)))
    walkers = centre + errors * generator.standard_normal((WALKERS, size))
    logs = density(walkers)
    walkers[~np.isfinite(logs)] = centre
    logs = density(walkers)
    half = WALKERS // 2
    kept = []
    for step in range(BURN_IN + STEPS):
        for half_moved, others in ((slice(None, half), slice(half, None)), (slice(half, None), slice(None, half))):
            partners = walkers[others][generator.integers(0, half, half)]
            stretch = (1 + generator.random(half)) ** 2 / 2
            moved = partners + stretch[:, None] * (walkers[half_moved] - partners)
            there = density(moved)
            accepted = np.log(generator.random(half)) < (size - 1) * np.log(stretch) + there - logs[half_moved]
            walkers[half_moved] = np.where(accepted[:, None], moved, walkers[half_moved])
            logs[half_moved] = np.where(accepted, there, logs[half_moved])
        if step >= BURN_IN:
            kept.append(walkers.copy())
    everything = np.concatenate(kept)
    return np.asarray(everything[generator.integers(0, len(everything), count)])
