"""Priors of the average over laws of scaling (`estimators/scaling/laws/marginal_likelihood.py`).

version: 5
chosen on: public codes left out one by one, and random series and closed forms of seeds below 1,000
    (docs/notes/extrapolation.md); the form of the priors is fixed beforehand: every law alike, coefficients
    log-uniform. Which quantile answers and how far bands stretch is fitted: `fitted/scaling.json`.
refit: none by a command; change a value and score it with ``slipstick validate scaling``.
scored on the same data: the codes yes, the random series and closed forms of other seeds.
"""

from __future__ import annotations

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
    "imbalance": (0.03, 1.0),
    "cache": (0.05, 0.7),
    "bandwidth": (0.1, 1.0),
    "domains": (0.03, 1.0),
    "constant-log": (0.003, 3.0),
    "constant-linear": (1e-5, 3.0),
    "constant-power": (1e-5, 3.0),
    "saturating": (0.01, 3.0),
}
"""Ranges of c: those at which the curve turns within `TURNS`; the relative deviation of shares of the work; the share
of the time that a cache saves; the share of the work that a bandwidth bounds; what all accesses to other domains
together would add to the work; and overheads over constant work."""
EXPONENT, LATENESS, STEEPNESS = (0.6, 1.0), (0.5, 1.0), (0.5, 1.5)
"""Ranges of the power of the work, of how waiting for the slowest falls, and of overheads over constant work."""
RUN_NOISE, RUNS = 0.02, 1.0
"""Prior belief about the noise of one run, and how many repeats it counts as."""
DEPARTURES = ((0.0, 0.40), (0.01, 0.15), (0.02, 0.15), (0.05, 0.15), (0.10, 0.10), (0.20, 0.05))
UNREPEATED = ((0.003, 0.10), (0.01, 0.20), (0.02, 0.20), (0.05, 0.20), (0.10, 0.20), (0.20, 0.10))
"""Standard deviations from the law beside the noise of runs, and where nothing repeats, with probabilities: halved and
doubled the loss was larger, without any of ten codes."""
DRIFTS = ((0.05, 0.15), (0.15, 0.15))
"""The same a doubling of the distance from the last point."""
GROWING = ((1.0, 0.10),)
"""Powers of the workers with which noise may grow: the variance of a mean over ever fewer grains of work."""
OUTLIER, OUTLIER_SIZE = 0.02, 0.5
"""Probability that a point is an outlier, and by how much."""
