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
lies, is log-uniform too (`estimators/scaling/laws/strong_scaling_priors.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.scaling.laws.importance_sampling import ImportanceSampler, Places, Ranges
from slipstick.estimators.scaling.laws.priors import PRIORS, Priors
from slipstick.estimators.scaling.laws.terms import PowerTerm, SharedIssue, Term
from slipstick.estimators.symbolic.lambdified import FloatArray

NAMES = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power", "bandwidth", "domains")
"""Overheads by their place: none, log2 u, u - 1, sqrt(u) - 1; none, but another power of u; those of borders."""
OVERHEADS = tuple(NAMES.index(name) for name in ("amdahl-log", "usl", "amdahl-sqrt"))
"""Laws that may turn upward."""
TURNING = np.isin(np.arange(len(NAMES)), OVERHEADS)
POWER, BANDWIDTH, DOMAINS = (NAMES.index(name) for name in ("power", "bandwidth", "domains"))


def _growth(u: FloatArray) -> FloatArray:
    """g(u) of each law without a border, shape (len(u), laws); 0 of those with one."""
    grown = np.zeros((len(u), len(NAMES)))
    for law, growth in zip(OVERHEADS, (np.log2(u), u - 1.0, np.sqrt(u) - 1.0), strict=True):
        grown[:, law] = growth
    return grown


@dataclass(frozen=True, eq=False)
class Curves:
    """Scaling curves.

    `coordinates`: ln b, ln c, k and ln s, shape (4, curves).
    `log_prior`: logarithm of the prior probability that each stands for, shape (curves,).
    `law`: the place of its law in `NAMES`, shape (curves,).
    `issue`: whether the work of one worker follows the machine's cycles per instruction, shape (curves,).
    """

    coordinates: FloatArray
    log_prior: FloatArray
    law: Places
    issue: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, boxes: ImportanceSampler, coordinates: FloatArray, log_prior: FloatArray) -> Curves:
        """Those with coordinates within boxes."""
        return cls(coordinates, log_prior, boxes.law[boxes.box], boxes.issue[boxes.box])

    @classmethod
    def joined(cls, parts: Sequence[Curves]) -> Curves:
        """Several sets of curves as one."""
        return cls(
            np.concatenate([part.coordinates for part in parts], axis=1),
            np.concatenate([part.log_prior for part in parts]),
            np.concatenate([part.law for part in parts]),
            np.concatenate([part.issue for part in parts]),
        )

    @cached_property
    def serial(self) -> FloatArray:
        """b, shape (curves,)."""
        return np.asarray(np.exp(self.coordinates[0]))

    @cached_property
    def overhead(self) -> FloatArray:
        """c, shape (curves,)."""
        return np.asarray(np.exp(self.coordinates[1]))

    @cached_property
    def border(self) -> FloatArray:
        """s, shape (curves,); beyond all numbers of workers where the law has none."""
        return np.asarray(np.exp(self.coordinates[3]))

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
        logs, exponent = np.log(u)[:, None], self.coordinates[2]
        if issue is not None:
            return np.asarray(np.exp(-exponent * logs + self.issue * issue[:, None]))
        work = np.repeat(1.0 / u[:, None], len(exponent), axis=1)
        some = self._of[POWER]
        work[:, some] = np.exp(-exponent[some] * logs)
        return work

    def _overheads(self, u: FloatArray) -> FloatArray:
        """c g(u), shape (len(u), curves)."""
        grown, at = _growth(u).take(self.law, axis=1), u[:, None]
        some = self._of[BANDWIDTH]
        grown[:, some] = np.maximum(1.0 / self.border[some] - 1.0 / at, 0.0)
        some = self._of[DOMAINS]
        domains = np.maximum(np.ceil(at / self.border[some]), 1.0)
        grown[:, some] = (domains - 1.0) / (domains * at)
        grown *= self.overhead
        return grown

    @cached_property
    def _of(self) -> dict[int, Places]:
        """The places of the curves of laws whose terms are not those of most."""
        return {law: np.flatnonzero(self.law == law) for law in (POWER, BANDWIDTH, DOMAINS)}

    def turned(self, u: FloatArray, share: float) -> npt.NDArray[np.bool_]:
        """Which curves an overhead has lengthened by more than a share at u, shape (len(u), curves).

        Those of borders do not count.
        """
        rest = self._work(u) + self.serial
        return np.asarray((self._overheads(u) > share * rest) & TURNING[self.law])

    def only(self, kept: Places) -> Curves:
        """The curves at some places."""
        where, logs = self.coordinates.take(kept, axis=1), self.log_prior.take(kept)
        return Curves(where, logs, self.law.take(kept), self.issue.take(kept))


SAID = 0.01
"""Laws of a smaller posterior probability stand in the average, not in the formula."""
LEAST = 0.05
"""Below the first value measured an overhead counts backwards: at least this share of the work remains."""


@lru_cache(maxsize=8)
def prior_curves(issues: tuple[bool, ...] = (False,), priors: Priors = PRIORS) -> Curves:
    """Curves of all laws drawn from their priors; `issues`: with and without the machine's cycles per instruction."""
    boxes = prior_boxes(issues, priors)
    return Curves.of(boxes, *boxes.evenly())


@lru_cache(maxsize=8)
def prior_boxes(issues: tuple[bool, ...], priors: Priors) -> ImportanceSampler:
    """Each law with and without a serial part."""
    low, high = priors.exponent
    powers = (((low, 1.0), 1.0 - priors.superlinear), ((1.0, high), priors.superlinear))
    serials = ((_logs(priors.serial), 1.0 - priors.no_serial), (None, priors.no_serial))
    parts: list[tuple[int, bool, float, Ranges]] = []
    for law, name in enumerate(NAMES):
        overhead = _logs(priors.overhead[name]) if name in priors.overhead else None
        exponents = powers if law == POWER else ((None, 1.0),)
        border = _logs(priors.border) if law in (BANDWIDTH, DOMAINS) else None
        for (serial, one), (exponent, other) in itertools.product(serials, exponents):
            for issue in issues:
                share = priors.weights[name] * one * other / len(issues)
                parts.append((law, issue, share, (serial, overhead, exponent, border)))
    return ImportanceSampler.whole(parts, priors.curves)


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
