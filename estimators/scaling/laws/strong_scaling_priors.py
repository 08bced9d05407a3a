"""Priors of the average over laws of strong scaling (`estimators/scaling/laws/marginal_likelihood.py`).

version: 3
chosen on: public codes left out one by one, and random series and closed forms of seeds below 1,000
    (docs/notes/extrapolation.md); the weights of the laws and the form of the priors are fixed beforehand: every law
    alike, coefficients log-uniform. How far bands stretch is fitted: `fitted/scaling.json`.
refit: none by a command; change a value and score it with ``slipstick validate scaling``.
scored on the same data: the codes yes, the random series and closed forms of other seeds.
"""

from __future__ import annotations

LAWS = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power", "bandwidth", "domains")
WEIGHTS = dict.fromkeys(LAWS, 1.0 / len(LAWS))
"""Prior probability of each law; fixed beforehand, all alike."""
CURVES = 128
"""How many curves are drawn of a law of two free coordinates before any are drawn where the points leave them: chosen
beside the same integrals with sixteen times as many (docs/notes/extrapolation.md)."""
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
EXPONENT, SUPERLINEAR = (0.6, 1.3), 0.2
"""Range of the power, and the probability that it is above 1: of 0.2 and 0.4 the one with the smaller loss without any
of ten codes."""
RUN_NOISE, RUNS = 0.02, 1.0
"""Prior belief about the noise of one run, and how many repeats it counts as."""
DEPARTURES = ((0.0, 0.40), (0.01, 0.15), (0.02, 0.15), (0.05, 0.15), (0.10, 0.10), (0.20, 0.05))
UNREPEATED = ((0.003, 0.10), (0.01, 0.20), (0.02, 0.20), (0.05, 0.20), (0.10, 0.20), (0.20, 0.10))
"""Standard deviations from the law beside the noise of runs, and where nothing repeats, with probabilities: halved and
doubled the loss was larger, without any of ten codes."""
DRIFTS = ((0.05, 0.15), (0.15, 0.15))
"""The same a doubling of the distance from the last point."""
OUTLIER, OUTLIER_SIZE = 0.02, 0.5
"""Probability that a point is an outlier, and by how much."""
