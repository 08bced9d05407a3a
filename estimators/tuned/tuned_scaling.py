"""Priors and inflation of the average over laws of strong scaling (`estimators/extrapolation/laws/evidence.py`).

version: 1
chosen on: public codes left out one by one, and random series of seeds below 1,000
    (`experiments/evidence/validation/scaling/refit.py`); the weights of the laws and the form of the priors are
    fixed beforehand: Amdahl's law 0.4, each overhead and the power 0.15, coefficients log-uniform.
refit: ``python -m slipstick.experiments.evidence.validation.scaling.refit`` repeats the choice;
    ``slipstick validate scaling`` scores it.
scored on the same data: no figure of the boards: there each code's widths and inflation come of the other codes.
"""

from __future__ import annotations

WEIGHTS = {"amdahl": 0.4, "amdahl-log": 0.15, "usl": 0.15, "amdahl-sqrt": 0.15, "power": 0.15}
"""Prior probability of each law; fixed beforehand."""
CURVES = 192
"""How many curves are drawn of a law of two free coordinates: more change the answers by less than a percent."""
SERIAL, NO_SERIAL = (1e-3, 10.0), 0.1
"""Range of the serial part over the work of the first value, and the probability that there is none."""
OVERHEADS = {
    "narrow": {"amdahl-log": (1e-4, 0.1), "usl": (0.3e-4, 0.03), "amdahl-sqrt": (1e-4, 0.1)},
    "wide": {"amdahl-log": (1e-5, 0.3), "usl": (1e-5, 0.1), "amdahl-sqrt": (1e-5, 0.3)},
}
"""Ranges of the overheads that may be chosen."""
EXPONENT = (0.6, 1.3)
"""Range of the power."""
RUN_NOISE, RUNS = 0.02, 1.0
"""Prior belief about the noise of one run, and how many repeats it counts as."""
DEPARTURES = ((0.0, 0.40), (0.01, 0.15), (0.02, 0.15), (0.05, 0.15), (0.10, 0.10), (0.20, 0.05))
UNREPEATED = ((0.003, 0.10), (0.01, 0.20), (0.02, 0.20), (0.05, 0.20), (0.10, 0.20), (0.20, 0.10))
"""Standard deviations from the law beside the noise of runs, and where nothing repeats, with probabilities."""
DRIFTS = ((0.05, 0.15), (0.15, 0.15))
"""The same a doubling of the distance from the last point."""
OUTLIER, OUTLIER_SIZE = 0.02, 0.5
"""Probability that a point is an outlier, and by how much."""
# begin: written by python -m slipstick.experiments.evidence.validation.scaling.refit
CHOSEN = ("wide", 0.4, 1.0, 1.05)
LEFT_OUT: dict[str, tuple[str, float, float, float]] = {
    "castep": ("wide", 0.4, 0.5, 1.15),
    "gol": ("wide", 0.4, 1.0, 1.05),
    "grenedalf": ("wide", 0.4, 1.0, 1.0),
    "gromacs": ("wide", 0.4, 0.5, 1.15),
    "nhxx_summit": ("wide", 0.4, 1.0, 1.1),
    "opensbli": ("wide", 0.4, 1.0, 1.0),
    "qe": ("narrow", 0.2, 1.0, 1.0),
    "sem_beluga": ("wide", 0.2, 0.5, 1.15),
    "sudoku": ("wide", 0.4, 1.0, 1.05),
    "vasp": ("wide", 0.4, 0.5, 1.15),
}
# end
