"""Which candidates hold: each is fitted without the farthest points and evaluated at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import Direction, distances
from slipstick.estimators.scaling.surfaces.surface_candidates import SurfaceTerm
from slipstick.estimators.scaling.surfaces.surface_constants import CLEAN, CLEANEST, FLOOR, SHARPNESS, WINNERS_FLOOR
from slipstick.estimators.scaling.surfaces.surface_fits import TINY, SurfaceFit

ERROR_CAP = 1.0
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Weighed:
    """Candidates fitted to all points, with weights and what they missed.

    `names`, `fits`, `weights`, `errors`: one a candidate; errors are mean |log(predicted / measured)| of the points
        left out, or the root mean square at all points where none can be.
    `ahead`, `ahead_ratios`: log(predicted / measured) of the weighted answer, one a point left out, and how far each
        lay beyond the rest.
    `scatter`: root mean square of log(fitted / measured) of the weighted answer at all points.
    """

    names: tuple[str, ...]
    fits: tuple[SurfaceFit, ...]
    weights: FloatArray
    errors: FloatArray
    ahead: FloatArray
    ahead_ratios: FloatArray
    scatter: float

    def each(self, to: FloatArray) -> FloatArray:
        """Times by candidate, shape (candidates, targets)."""
        return np.stack([fit(to) for fit in self.fits])


def weigh(
    candidates: Sequence[SurfaceTerm],
    fits: tuple[SurfaceFit, ...],
    search: Callable[[FloatArray, FloatArray], Sequence[SurfaceTerm]],
    x: FloatArray,
    y: FloatArray,
    direction: Direction,
) -> Weighed:
    """Weigh candidates, whose fits to all points are given, for targets in one direction.

    What was found by search is judged by searching again without the points left out: a law chosen with their help
    would predict them too well.

    `x`, `y`: points, shape (points, parameters), and times in seconds, shape (points,).
    """
    masks = direction.left_out(x)
    ahead = [_ahead(candidates, search, x, y, out) for out in masks]
    if masks:
        errors = np.mean([np.minimum(np.abs(some), ERROR_CAP).mean(axis=1) for some in ahead], axis=0)
    else:
        errors = np.array([np.sqrt(np.mean(np.log(np.maximum(fit(x), TINY) / y) ** 2)) for fit in fits])
    weights = _weights(np.array([one.bar for one in candidates]), errors)
    together = [np.log(np.maximum(weights @ np.exp(np.minimum(some, 700.0)), TINY)) for some in ahead]
    ratios = [distances(x[~out], x[out]) for out in masks]
    fitted = np.log(np.maximum(weights @ np.stack([fit(x) for fit in fits]), TINY)) - np.log(y)
    return Weighed(
        tuple(one.name for one in candidates),
        fits,
        weights,
        errors,
        np.concatenate(together) if masks else np.empty(0),
        np.concatenate(ratios) if masks else np.empty(0),
        float(np.sqrt(np.mean(fitted**2))),
    )


def _ahead(
    candidates: Sequence[SurfaceTerm],
    search: Callable[[FloatArray, FloatArray], Sequence[SurfaceTerm]],
    x: FloatArray,
    y: FloatArray,
    out: Mask,
) -> FloatArray:
    """log(predicted / measured), shape (candidates, points left out)."""
    known, times, to = x[~out], y[~out], x[out]

    def logs(one: SurfaceTerm) -> FloatArray:
        return np.asarray(np.log(np.maximum(SurfaceFit.of(one.products, known, times)(to), TINY)))

    again = [(one.name, logs(one)) for one in search(known, times)]
    rows = []
    for one in candidates:
        same = [row for name, row in again if name == one.name]
        rows.append(np.mean(same, axis=0) if same else logs(one))
    return np.stack(rows) - np.log(y[out])


def _weights(bars: FloatArray, errors: FloatArray) -> FloatArray:
    """Weights (error^2 + floor^2)^(-sharpness/2): of the usual shapes, or of what is much better than all of them."""
    usual = bars == 1.0
    won = ~usual & (errors + ROUNDING < bars * errors[usual].min())
    least = float(errors[usual].min())
    floor = WINNERS_FLOOR if won.any() else min(max(CLEAN * least, CLEANEST), FLOOR)
    weights = np.where(won if won.any() else usual, (errors**2 + floor**2) ** (-SHARPNESS / 2), 0.0)
    return np.asarray(weights / weights.sum())
