"""Extrapolation in several parameters: terms searched as in one, a band from points left out, a verdict.

>>> from slipstick.estimators.scaling.surfaces import extrapolate_surface
>>> grid = [(p, n) for p in (1, 2, 4, 8) for n in (100, 200, 400, 800)]
>>> found = extrapolate_surface(grid, [1e-6 * n**2 / p for p, n in grid], ["threads", "n"], [(32, 3200)])
>>> round(found.answers[0].time, 3), found.answers[0].law.text((32, 3200))
(0.32, '1e-06 n^2/threads')
"""

from slipstick.estimators.scaling.surfaces.surface_answers import (
    SurfaceAnswer,
    SurfacePrediction,
    extrapolate_surface,
)
from slipstick.estimators.scaling.surfaces.surface_law import Surface

__all__ = ["Surface", "SurfaceAnswer", "SurfacePrediction", "extrapolate_surface"]
