"""Priors and inflation of the average over laws of strong scaling (`estimators/extrapolation/laws/evidence.py`).

version: 1
chosen on: public codes left out one by one, and random series of seeds below 1,000
    (`experiments/evidence/validation/scaling/scaling_refit.py`); the weights of the laws and the form of the priors are
    fixed beforehand: Amdahl's law 0.4, each overhead and the power 0.15, coefficients log-uniform.
refit: ``slipstick validate scaling --refit`` repeats the choice.
scored on the same data: no figure of the boards: there each code's widths and inflation come of the other codes.
"""

from __future__ import annotations

WEIGHTS = {"amdahl": 0.4, "amdahl-log": 0.15, "usl": 0.15, "amdahl-sqrt": 0.15, "power": 0.15}
"""Prior probability of each law; fixed beforehand."""
CURVES = 192
"""How many curves are drawn of a law of two free coordinates: more change the answers by less than a percent."""
SERIAL, NO_SERIAL = (1e-3, 10.0), 0.1
"""Range of the serial part over the work of the first value, and the probability that there is none."""
OVERHEAD = {"amdahl-log": (1e-5, 0.3), "usl": (1e-5, 0.1), "amdahl-sqrt": (1e-5, 0.3)}
"""Ranges of the overheads."""
EXPONENT, SUPERLINEAR = (0.6, 1.3), 0.2
"""Range of the power, and the probability that it is above 1."""
RUN_NOISE, RUNS = 0.02, 1.0
"""Prior belief about the noise of one run, and how many repeats it counts as."""
DEPARTURES = ((0.0, 0.40), (0.01, 0.15), (0.02, 0.15), (0.05, 0.15), (0.10, 0.10), (0.20, 0.05))
UNREPEATED = ((0.003, 0.10), (0.01, 0.20), (0.02, 0.20), (0.05, 0.20), (0.10, 0.20), (0.20, 0.10))
"""Standard deviations from the law beside the noise of runs, and where nothing repeats, with probabilities."""
DRIFTS = ((0.05, 0.15), (0.15, 0.15))
"""The same a doubling of the distance from the last point."""
OUTLIER, OUTLIER_SIZE = 0.02, 0.5
"""Probability that a point is an outlier, and by how much."""
INFLATION = 1.0
"""How far the band stretches about the median."""
