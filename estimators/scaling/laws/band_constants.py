"""The laws and the band of an extrapolation of sizes (`estimators/scaling`).

version: 1
chosen on: the tuning sources of scaling series, 1,949 predictions of six codes, groups weighed by the root of their
    count (docs/notes/extrapolation.md): hommexx for sizes among them. The bars
    of the two gentle steeper laws also on public bandwidths, kernels and training steps.
refit: none by a command; change a value and score it with ``slipstick validate scaling``.
scored on the same data: yes for the sources of the data folder; sources given as ``scored`` were not used.
"""

from __future__ import annotations

BASE, MISSES, DISAGREEMENT, SHORTFALL, BENDING = 0.055, 0.10, 0.80, 0.85, 0.305
"""Weights of the parts of the band, as the first lines of `intervals` name them: relative standard deviations at twice
the last value."""
BELOW = 1.0
"""Weight of what earlier values were missed by, for targets below the first one."""
GROWTH = 0.35
"""Power of log2(ratio) with which the band grows."""
SKEW = 0.35
"""The band reaches exp(SKEW) times the scale up, exp(-SKEW) times it down."""
PLAUSIBLE = 0.03
"""Families that disagree count by how close their earlier error comes to this."""
NEAREST_RATIO = 1.2
"""Targets nearer to the data have the band of this ratio."""
WORST = 1.5
"""Log errors of values below the first beyond this count as this."""
LEVELS = (0.0, 0.50, 0.68, 0.80, 0.90, 0.95)
QUANTILES = (0.0, 0.52, 0.92, 1.52, 2.6, 3.8)
"""Half-widths over the scale, at each of `LEVELS`."""
# How laws are weighed, and what a steeper one must show to replace the others (`laws/`).
ORIGINS, FIRST_ORIGIN = 4, 3
"""Rolling-origin steps at most, and the fewest points that a step fits."""
ERROR_CAP = 1.0
"""Log errors of a step beyond this count as this."""
SHARPNESS, FLOOR = 2.0, 0.10
"""Weights are (error^2 + floor^2)^(-sharpness / 2)."""
CLEAN, CLEANEST = 6.0, 0.002
"""The floor is `CLEAN` times the least error where that is lower, and never below `CLEANEST`."""
KNOT_SUPPORT, MAX_KNOTS = 3, 24
"""Points from a change point on that a fit must have (a bend is more than one measurement), and change points tried."""
WORK_PENALTY, SIZE_PENALTY, BANDWIDTH_PENALTY = 1.0, 0.1, 0.1
"""Ridge on a change point's share of the last time: Amdahl with bends, sizes, a shared bandwidth."""
USUAL_BAR = 0.35
"""A law that may only replace others must have an error below this share of theirs: USL and laws without an own bar."""
BARS = {"nlogn": 0.35, "n^1.5": 0.75, "n^2": 0.5, "n^2.5": 0.35, "n^3": 0.35}
"""The same of laws steeper than a size with bends. The gentle ones also stand for a bend still under way and need
little evidence; the steepest do much harm where they are wrong, and n log n hardly differs from a line: they need
much."""
