"""Choice among laws and the band of an extrapolation in several parameters (`estimators/scaling/surfaces`).

version: 2
chosen on: hommexx and the published laws named "tuning" (docs/notes/extrapolation.md).
refit: none by a command; change a value and score it with ``slipstick validate surfaces``.
scored on the same data: hommexx and the tuning laws yes; relearn125 and the other laws are held out.
"""

from __future__ import annotations

BASE, MISSES, DISAGREEMENT, SHORTFALL, SCATTER = 0.01, 0.3, 0.62, 1.75, 2.8
"""Weights of the parts of the band: relative standard deviations at twice the data."""
GROWTH = 0.45
"""Power of log2(ratio) with which the band grows."""
UNTRIED = 0.35
"""The same of each doubling beyond what points left out tried: half a power that nothing shows, ln(2) / 2."""
WORST = 1.0
"""Log errors beyond count as this."""
SHARPNESS, FLOOR, WINNERS_FLOOR = 4.0, 0.03, 0.01
"""Candidates weigh (error^2 + floor^2)^-(sharpness / 2); the last is the floor among laws that search found."""
CLEAN, CLEANEST = 6.0, 0.002
"""As in one parameter: where one shape is very good, the floor below which shapes count alike falls with its error."""
SEARCH_BAR, POWERS_BAR = 0.6, 0.3
"""A law found by search replaces the usual shapes where its error on points left out is below this times theirs."""
SLICE_POINTS = {"problem_size": 7}
"""A target beyond the data in one parameter of these kinds alone, at measured levels of the others, has the time of the
series along it where that has so many points. Chosen on hommexx and the tuning laws: five noisy sizes or thread counts
need the others."""
