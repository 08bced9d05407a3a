"""The laws of strong scaling: a share of the work for each worker, a serial part, and one overhead that grows.

Times are relative to the first value measured: u = workers / fewest workers, T(u) = u^-k + b + c g(u), so that it makes
no difference whether cores or nodes are counted. Amdahl 1967 is c = 0 and k = 1; Gunther 1993's universal scalability
law has g = u - 1, so a/p + b + c (p - 1) counts once. Prior weights, and that coefficients are log-uniform, are fixed;
the widths of the priors are learned (`estimators/tuned/tuned_scaling.py`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import PRIORS, Priors
from slipstick.estimators.extrapolation.laws.terms import PowerTerm, SharedIssue, Term

NAMES = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power")
"""Overheads by their place: none, log2 u, u - 1, sqrt(u) - 1; and none with another power of u than -1."""
POWER = NAMES.index("power")
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
MOST_ROUNDS = 4
SHARP = 4.0
"""Fewer curves than this with a say: more are drawn where those lie."""


def growth(u: FloatArray) -> FloatArray:
    """g(u) of each law, shape (laws, len(u))."""
    nothing = np.zeros_like(u)
    return np.stack([nothing, np.log2(u), u - 1.0, np.sqrt(u) - 1.0, nothing])


Places = npt.NDArray[np.intp]


@lru_cache(maxsize=8)
def lattice(points: int) -> FloatArray:
    """Points that fill the unit square evenly, shape (points, 2): a lattice by the golden ratio.

    Source: Niederreiter 1992, Random Number Generation and Quasi-Monte Carlo Methods, Section 5 (Kronecker sequences):
    each coordinate by itself is cut into as many parts as there are points.
    """
    order = np.arange(points)
    return np.column_stack([(order + 0.5) / points, (order * GOLDEN + 0.5) % 1.0])


@dataclass(frozen=True)
class Box:
    """A law with the range of each of its free coordinates: ln b, ln c, k; None where one is fixed.

    Parameters
    ----------
    law
        The place of its name in `NAMES`.
    share
        Prior probability.
    serial, overhead
        Ranges of ln b and ln c; None: the coefficient is 0.
    exponent
        Range of k; None: k is 1.
    """

    law: int
    share: float
    serial: tuple[float, float] | None = None
    overhead: tuple[float, float] | None = None
    exponent: tuple[float, float] | None = None
    issue: bool = False

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """Those of the free coordinates, in their order."""
        return tuple(one for one in (self.serial, self.overhead, self.exponent) if one is not None)

    def coordinates(self, count: int) -> FloatArray:
        """Points that fill the box evenly, shape (points, free coordinates)."""
        free = self.ranges
        low, high = np.array(free).reshape(-1, 2).T
        unit = lattice((1, max(count // 4, 8), count)[len(free)])[:, : len(free)]
        return np.asarray(low + unit * (high - low))

    def curves(self, place: int, count: int) -> Curves:
        """Curves from the prior within the box."""
        drawn = self.coordinates(count)
        columns = list(drawn.T)
        points = len(drawn)
        serial, overhead = (
            np.zeros(points) if one is None else np.exp(columns.pop(0)) for one in (self.serial, self.overhead)
        )
        exponent = np.ones(points) if self.exponent is None else columns.pop(0)
        prior = np.full(points, np.log(self.share / points))
        whole = np.full(points, self.law), np.full(points, place), np.full(points, float(self.issue))
        return Curves(whole[0], serial, overhead, exponent, prior, whole[1], whole[2])

    def around(self, middle: FloatArray, deviation: FloatArray, count: int) -> Box:
        """The part of the box within 4 standard deviations of a point, at least the distance of two curves."""
        ranges, share = [], self.share
        for (low, high), centre, spread in zip(self.ranges, middle, deviation, strict=True):
            reach = max(4.0 * spread, 1.5 * (high - low) / count ** (1.0 / len(middle)))
            part = max(low, centre - reach), min(high, centre + reach)
            share *= (part[1] - part[0]) / (high - low)
            ranges.append(part)
        taken = [ranges.pop(0) if one is not None else None for one in (self.serial, self.overhead, self.exponent)]
        return Box(self.law, share, taken[0], taken[1], taken[2], self.issue)


@dataclass(frozen=True, eq=False)
class Curves:
    """Scaling curves, each with the logarithm of its prior probability; every array has shape (curves,).

    Parameters
    ----------
    law
        Place of the law in `NAMES`.
    serial, overhead, exponent
        b, c and k.
    box
        Which box each was drawn from.
    issue
        Whether the work of one worker follows the machine's cycles per instruction.
    """

    law: Places
    serial: FloatArray
    overhead: FloatArray
    exponent: FloatArray
    log_prior: FloatArray
    box: Places
    issue: FloatArray
    boxes: tuple[Box, ...] = ()

    def log_times(self, u: FloatArray, issue: FloatArray | None = None) -> FloatArray:
        """ln T(u), shape (curves, len(u)).

        Parameters
        ----------
        issue
            ln of the cycles per instruction at u over those at u = 1, where the machine is known.
        """
        logs = -self.exponent[:, None] * np.log(u)
        if issue is not None:
            logs = logs + self.issue[:, None] * issue
        work = np.exp(logs)
        whole = work + self.serial[:, None] + self.overhead[:, None] * growth(u)[self.law]
        return np.asarray(np.log(np.maximum(whole, LEAST * work)))

    def free(self, box: int) -> FloatArray:
        """Free coordinates of the curves of one box, shape (curves, coordinates)."""
        one, some = self.boxes[box], self.box == box
        columns = [] if one.serial is None else [np.log(self.serial[some])]
        if one.overhead is not None:
            columns.append(np.log(self.overhead[some]))
        if one.exponent is not None:
            columns.append(self.exponent[some])
        return np.column_stack(columns)

    def only(self, kept: Places) -> Curves:
        """The curves at some places."""
        return Curves(**{name: getattr(self, name)[kept] for name in COLUMNS}, boxes=self.boxes)


SAID = 0.01
"""Laws of a smaller posterior probability stand in the average, not in the formula."""
COLUMNS = ("law", "serial", "overhead", "exponent", "log_prior", "box", "issue")
LEAST = 0.05
"""Below the first value measured an overhead counts backwards: at least this share of the work remains."""


def together(boxes: tuple[Box, ...], count: int) -> Curves:
    """The curves of many boxes."""
    parts = [box.curves(i, count) for i, box in enumerate(boxes)]
    return Curves(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}, boxes=boxes)


@lru_cache(maxsize=8)
def prior_curves(issues: tuple[bool, ...] = (False,), priors: Priors = PRIORS) -> Curves:
    """Curves of all laws drawn from their priors; `issues`: with and without the machine's cycles per instruction."""
    return together(prior_boxes(issues, priors), priors.curves)


def prior_boxes(issues: tuple[bool, ...], priors: Priors) -> tuple[Box, ...]:
    """Each law with and without a serial part."""
    low, high = priors.exponent
    powers = (((low, 1.0), 1.0 - priors.superlinear), ((1.0, high), priors.superlinear))
    serials = ((_logs(priors.serial), 1.0 - priors.no_serial), (None, priors.no_serial))
    boxes = []
    for law, name in enumerate(NAMES):
        overhead = _logs(priors.overhead[name]) if name in priors.overhead else None
        exponents = powers if law == POWER else ((None, 1.0),)
        for (serial, one), (exponent, other) in itertools.product(serials, exponents):
            for issue in issues:
                share = priors.weights[name] * one * other / len(issues)
                boxes.append(Box(law, share, serial, overhead, exponent, issue))
    return tuple(boxes)


def _logs(ends: tuple[float, float]) -> tuple[float, float]:
    return float(np.log(ends[0])), float(np.log(ends[1]))


def terms(shares: FloatArray, unit: float, issue: SharedIssue | None, priors: Priors = PRIORS) -> tuple[Term, ...]:
    """What the sum that is printed is made of: the terms of the laws with a say, and powers between which theirs lie.

    Parameters
    ----------
    shares
        Posterior probability of each law in `NAMES`.
    unit
        Logarithms count in it.
    """
    low, high = priors.exponent
    spoken = dict(zip(NAMES, shares >= SAID, strict=True))
    shared: tuple[Term, ...] = (issue,) if issue is not None else ()
    between = (low, (low + 1.0) / 2.0, (1.0 + high) / 2.0, high) if spoken["power"] else ()
    overheads = (("amdahl-log", PowerTerm(0.0, 1, unit)), ("usl", PowerTerm(1.0)), ("amdahl-sqrt", PowerTerm(0.5)))
    powers = tuple(PowerTerm(-exponent) for exponent in (1.0, *between))
    return (*shared, *powers, *(term for name, term in overheads if spoken[name]), PowerTerm())
