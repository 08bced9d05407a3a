"""The laws of strong scaling: a share of the work for each worker, a serial part, and one overhead that grows.

Times are relative to the first value measured: u = workers / fewest workers, T(u) = u^-k + b + c g(u), so that it makes
no difference whether cores or nodes are counted. Amdahl 1967 is c = 0 and k = 1; Gunther 1993's universal scalability
law has g = u - 1, so a/p + b + c (p - 1) counts once.

Two laws have a border that nothing shows before it is crossed. A share c of the work that needs a bandwidth which s
workers use up (Williams et al. 2009, roofline) takes (1 - c)/u + c/min(u, s): g = max(1/s - 1/u, 0). Memory in
domains of s workers (NUMA) with pages spread over all n = ceil(u/s) of them sends a share (n - 1)/n of the accesses
elsewhere (Bolosky et al. 1989, Simple but effective techniques for NUMA memory management, Section 2), so that
g = (n - 1)/(n u).

Prior weights, and that coefficients are log-uniform, are fixed; where an overhead turns a curve, and where a border
lies, is log-uniform too (`estimators/tuned/tuned_scaling.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import PRIORS, Priors
from slipstick.estimators.extrapolation.laws.terms import PowerTerm, SharedIssue, Term

NAMES = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power", "bandwidth", "domains")
"""Overheads by their place: none, log2 u, u - 1, sqrt(u) - 1; none, but another power of u; those of borders."""
OVERHEADS = tuple(NAMES.index(name) for name in ("amdahl-log", "usl", "amdahl-sqrt"))
"""Laws that may turn upward."""
FIXED = np.array([-np.inf, -np.inf, 1.0, np.inf])[:, None]
"""ln b, ln c, k and ln s where they are not free."""
TURNING = np.isin(np.arange(len(NAMES)), OVERHEADS)
POWER, BANDWIDTH, DOMAINS = (NAMES.index(name) for name in ("power", "bandwidth", "domains"))
GOLDEN, PLASTIC = (np.sqrt(5.0) - 1.0) / 2.0, 0.7548776662466927
"""The real roots of x^2 + x = 1 and of x^3 + x^2 = 1."""
MOST_ROUNDS = 6
SHARP = 12.0
"""Fewer curves than this with a say: more are drawn where those lie."""


def _growth(u: FloatArray) -> FloatArray:
    """g(u) of each law without a border, shape (len(u), laws); 0 of those with one."""
    grown = np.zeros((len(u), len(NAMES)))
    for law, growth in zip(OVERHEADS, (np.log2(u), u - 1.0, np.sqrt(u) - 1.0), strict=True):
        grown[:, law] = growth
    return grown


Places = npt.NDArray[np.intp]


@lru_cache(maxsize=8)
def lattice(points: int, dimensions: int = 2) -> FloatArray:
    """Points that fill the unit square or cube evenly, shape (dimensions, points).

    A lattice by the golden ratio, and in three dimensions by the plastic number (Roberts 2018, The unreasonable
    effectiveness of quasirandom sequences). Source: Niederreiter 1992, Random Number Generation and Quasi-Monte Carlo
    Methods, Section 5 (Kronecker sequences): each coordinate by itself is cut into as many parts as there are points.
    """
    order = np.arange(points)
    steps = (GOLDEN,) if dimensions == 2 else (PLASTIC, PLASTIC**2)
    return np.stack([(order + 0.5) / points, *((order * step + 0.5) % 1.0 for step in steps)])


@dataclass(frozen=True)
class Box:
    """A law with the range of each of its free coordinates: ln b, ln c, k, ln s; None where one is fixed.

    `law`: the place of its name in `NAMES`.
    `share`: prior probability.
    `serial`, `overhead`: ranges of ln b and ln c; None: the coefficient is 0.
    `exponent`: range of k; None: k is 1.
    `border`: range of ln s; None: there is none.
    """

    law: int
    share: float
    serial: tuple[float, float] | None = None
    overhead: tuple[float, float] | None = None
    exponent: tuple[float, float] | None = None
    border: tuple[float, float] | None = None
    issue: bool = False

    @property
    def _all(self) -> tuple[tuple[float, float] | None, ...]:
        return self.serial, self.overhead, self.exponent, self.border

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """Those of the free coordinates, in their order."""
        return tuple(one for one in self._all if one is not None)

    @property
    def free(self) -> list[int]:
        """The places of the free coordinates."""
        return [place for place, one in enumerate(self._all) if one is not None]

    def coordinates(self, count: int) -> FloatArray:
        """Points that fill the box evenly, shape (free coordinates, points)."""
        free = self.ranges
        low, high = np.array(free).reshape(-1, 2, 1).transpose(1, 0, 2)
        points = (1, max(count // 4, 8), count, 2 * count)[len(free)]
        unit = lattice(points, max(len(free), 2))[: len(free)]
        return np.asarray(low + unit * (high - low))

    def around(self, middle: FloatArray, deviation: FloatArray, count: int) -> Box:
        """The part of the box within 4 standard deviations of a point, at least 2 distances of `count` curves."""
        ranges, share = [], self.share
        for (low, high), centre, spread in zip(self.ranges, middle.tolist(), deviation.tolist(), strict=True):
            reach = max(4.0 * spread, 2.0 * (high - low) / count ** (1.0 / len(middle)))
            part = max(low, centre - reach), min(high, centre + reach)
            share *= (part[1] - part[0]) / (high - low)
            ranges.append(part)
        taken = [ranges.pop(0) if one is not None else None for one in self._all]
        return Box(self.law, share, taken[0], taken[1], taken[2], taken[3], self.issue)


@dataclass(frozen=True, eq=False)
class Curves:
    """Scaling curves, each with the logarithm of its prior probability; every array has shape (curves,).

    `serial`, `overhead`, `exponent`, `border`: b, c, k and s; an infinite s where the law has none.
    `box`: which of the boxes each was drawn from; curves of one box lie together.
    """

    serial: FloatArray
    overhead: FloatArray
    exponent: FloatArray
    border: FloatArray
    log_prior: FloatArray
    box: Places
    boxes: tuple[Box, ...]

    @cached_property
    def law(self) -> Places:
        """Place of the law of each in `NAMES`."""
        return np.array([box.law for box in self.boxes])[self.box]

    @cached_property
    def issue(self) -> FloatArray:
        """1 where the work of one worker follows the machine's cycles per instruction, else 0."""
        return np.array([float(box.issue) for box in self.boxes])[self.box]

    def log_times(self, u: FloatArray, issue: FloatArray | None = None) -> FloatArray:
        """ln T(u), shape (len(u), curves).

        `issue`: ln of the cycles per instruction at u over those at u = 1, where the machine is known.
        """
        whole, work = self._overheads(u), self._work(u, issue)
        whole += self.serial
        whole += work
        if u.min() < 1.0:
            np.maximum(whole, LEAST * work, out=whole)
        return np.asarray(np.log(whole, out=whole))

    def _work(self, u: FloatArray, issue: FloatArray | None = None) -> FloatArray:
        """u^-k, shape (len(u), curves): most laws have k = 1."""
        logs = np.log(u)[:, None]
        if issue is not None:
            return np.asarray(np.exp(-self.exponent * logs + self.issue * issue[:, None]))
        work = np.repeat(np.exp(-logs), len(self.box), axis=1)
        for law, some in self._runs:
            if law == POWER:
                work[:, some] = np.exp(-self.exponent[some] * logs)
        return work

    def _overheads(self, u: FloatArray) -> FloatArray:
        """c g(u), shape (len(u), curves)."""
        grown, growth, at = np.zeros((len(u), len(self.box))), _growth(u), u[:, None]
        for law, some in self._runs:
            if law in OVERHEADS:
                np.multiply(growth[:, law, None], self.overhead[some], out=grown[:, some])
            elif law == BANDWIDTH:
                shared = np.maximum(1.0 / self.border[some] - 1.0 / at, 0.0)
                np.multiply(shared, self.overhead[some], out=grown[:, some])
            elif law == DOMAINS:
                domains = np.maximum(np.ceil(at / self.border[some]), 1.0)
                np.multiply((domains - 1.0) / (domains * at), self.overhead[some], out=grown[:, some])
        return grown

    def turned(self, u: FloatArray, share: float) -> npt.NDArray[np.bool_]:
        """Which curves an overhead has lengthened by more than a share at u, shape (len(u), curves).

        Those of borders do not count.
        """
        rest = self._work(u) + self.serial
        return np.asarray((self._overheads(u) > share * rest) & TURNING[self.law])

    @cached_property
    def starts(self) -> Places:
        """Where the curves of each box begin, and where the last end, shape (boxes + 1,)."""
        return np.searchsorted(self.box, np.arange(len(self.boxes) + 1))

    @cached_property
    def _runs(self) -> tuple[tuple[int, slice], ...]:
        """Laws with the places of their curves that lie together."""
        ends = itertools.pairwise(self.starts.tolist())
        drawn = ((box.law, *each) for box, each in zip(self.boxes, ends, strict=True))
        runs = [(law, list(some)) for law, some in itertools.groupby(drawn, key=lambda each: each[0])]
        return tuple((law, slice(some[0][1], some[-1][2])) for law, some in runs)

    def within(self, box: int) -> slice:
        """The places of the curves of one box."""
        return slice(int(self.starts[box]), int(self.starts[box + 1]))

    def free(self, box: int) -> FloatArray:
        """Free coordinates of the curves of one box, shape (coordinates, curves)."""
        one, some = self.boxes[box], self.within(box)
        rows = [] if one.serial is None else [np.log(self.serial[some])]
        if one.overhead is not None:
            rows.append(np.log(self.overhead[some]))
        if one.exponent is not None:
            rows.append(self.exponent[some])
        if one.border is not None:
            rows.append(np.log(self.border[some]))
        return np.array(rows)

    def only(self, kept: Places) -> Curves:
        """The curves at some places."""
        return Curves(**{name: getattr(self, name).take(kept) for name in COLUMNS}, boxes=self.boxes)


SAID = 0.01
"""Laws of a smaller posterior probability stand in the average, not in the formula."""
COLUMNS = ("serial", "overhead", "exponent", "border", "log_prior", "box")
LEAST = 0.05
"""Below the first value measured an overhead counts backwards: at least this share of the work remains."""


def together(boxes: tuple[Box, ...], count: int) -> Curves:
    """Curves from the prior within many boxes."""
    drawn = [box.coordinates(count) for box in boxes]
    numbers = [one.shape[1] for one in drawn]
    ends = np.cumsum(numbers)
    columns = np.repeat(FIXED, ends[-1], axis=1)
    for box, one, end in zip(boxes, drawn, ends.tolist(), strict=True):
        columns[box.free, end - one.shape[1] : end] = one
    serial, overhead, exponent, border = columns
    for logs in (serial, overhead, border):
        np.exp(logs, out=logs)
    prior = np.log(np.array([box.share for box in boxes]) / numbers)
    places = np.repeat(np.arange(len(boxes)), numbers)
    return Curves(serial, overhead, exponent, border, prior[places], places, boxes)


def joined(parts: Sequence[Curves]) -> Curves:
    """Several sets of curves as one."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS[:-1]}
    starts = np.cumsum([0, *(len(part.boxes) for part in parts[:-1])])
    places = np.concatenate([part.box + start for part, start in zip(parts, starts, strict=True)])
    return Curves(**columns, box=places, boxes=tuple(box for part in parts for box in part.boxes))


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
        border = _logs(priors.border) if law in (BANDWIDTH, DOMAINS) else None
        for (serial, one), (exponent, other) in itertools.product(serials, exponents):
            for issue in issues:
                share = priors.weights[name] * one * other / len(issues)
                boxes.append(Box(law, share, serial, overhead, exponent, border, issue))
    return tuple(boxes)


def _logs(ends: tuple[float, float]) -> tuple[float, float]:
    return float(np.log(ends[0])), float(np.log(ends[1]))


def terms(shares: FloatArray, unit: float, issue: SharedIssue | None, priors: Priors = PRIORS) -> tuple[Term, ...]:
    """What the sum that is printed is made of: the terms of the laws with a say, and powers between which theirs lie.

    `shares`: posterior probability of each law in `NAMES`.
    `unit`: logarithms count in it.
    """
    low, high = priors.exponent
    spoken = dict(zip(NAMES, shares >= SAID, strict=True))
    shared: tuple[Term, ...] = (issue,) if issue is not None else ()
    between = (low, (low + 1.0) / 2.0, (1.0 + high) / 2.0, high) if spoken["power"] else ()
    overheads = (("amdahl-log", PowerTerm(0.0, 1, unit)), ("usl", PowerTerm(1.0)), ("amdahl-sqrt", PowerTerm(0.5)))
    powers = tuple(PowerTerm(-exponent) for exponent in (1.0, *between))
    return (*shared, *powers, *(term for name, term in overheads if spoken[name]), PowerTerm())
