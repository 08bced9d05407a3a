"""Laws of growth: surfaces, many regions, what to measure next and whether more threads gain."""

from .estimators.scaling import extrapolate_many as extrapolate_many
from .estimators.scaling.surfaces import extrapolate_surface as extrapolate_surface
from .estimators.scaling.laws.terms import AMDAHL as AMDAHL
from .estimators.scaling.laws.terms import USL as USL
from .estimators.scaling.speedup import advise as advise
from .estimators.scaling.speedup import gains as gains
