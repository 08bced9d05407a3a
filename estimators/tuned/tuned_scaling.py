"""Priors and inflation of the average over laws of strong scaling (`estimators/extrapolation/laws/evidence.py`).

version: 2
chosen on: public codes left out one by one, and random series and closed forms of seeds below 1,000
    (`experiments/evidence/validation/scaling/refit.py`); the weights of the laws and the form of the priors are
    fixed beforehand: every law alike, coefficients log-uniform.
refit: ``python -m slipstick.experiments.evidence.validation.scaling.refit`` repeats the choice;
    ``slipstick validate scaling`` scores it.
scored on the same data: no figure of the boards: there each code's widths and inflation come of the other codes.
"""

from __future__ import annotations

LAWS = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power", "bandwidth", "domains")
WEIGHTS = dict.fromkeys(LAWS, 1.0 / len(LAWS))
"""Prior probability of each law; fixed beforehand, all alike."""
CURVES = 192
"""How many curves are drawn of a law of two free coordinates: more change the answers by less than a percent."""
SERIAL, NO_SERIAL = (1e-3, 10.0), 0.1
"""Range of the serial part over the work of the first value, and the probability that there is none."""
TURNS = (1.0, 1000.0)
"""Where an overhead turns the curve upward, or a border lies, in the fewest workers measured: evenly in the logarithm,
because nobody knows beforehand. 1/u + c g(u) turns where c g'(u) = 1/u^2."""
LN_2 = 0.6931471805599453
OVERHEADS = {
    "amdahl-log": (LN_2 / TURNS[1], LN_2 / TURNS[0]),
    "usl": (TURNS[1] ** -2, TURNS[0] ** -2),
    "amdahl-sqrt": (2 * TURNS[1] ** -1.5, 2 * TURNS[0] ** -1.5),
    "bandwidth": (0.1, 1.0),
    "domains": (0.03, 1.0),
}
"""Ranges of c: those at which the curve turns within `TURNS`; the share of the work that a bandwidth bounds; and what
all accesses to other domains together would add to the work."""
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
CHOSEN = (0.2, 1.0, 1.0)
LEFT_OUT: dict[str, tuple[float, float, float]] = {
    "castep": (0.2, 1.0, 1.0),
    "gol": (0.2, 1.0, 1.05),
    "grenedalf": (0.2, 1.0, 1.0),
    "gromacs": (0.2, 1.0, 1.0),
    "nhxx_summit": (0.2, 1.0, 1.1),
    "opensbli": (0.2, 1.0, 1.0),
    "qe": (0.2, 1.0, 1.0),
    "sem_beluga": (0.2, 1.0, 1.0),
    "sudoku": (0.2, 1.0, 1.1),
    "vasp": (0.2, 1.0, 1.0),
}
# end
