"""Laws of growth: surfaces, many regions, what to measure next and whether more threads gain."""

from .estimators.extrapolation import extrapolate_many as extrapolate_many
from .estimators.extrapolation.surfaces import extrapolate_surface as extrapolate_surface
from .estimators.extrapolation.laws.families import AMDAHL as AMDAHL
from .estimators.extrapolation.laws.families import USL as USL
from .estimators.extrapolation.speedup import advise as advise
from .estimators.extrapolation.speedup import gains as gains
