"""The laws of scaling: the work of each worker, a serial part, and one overhead that grows.

Times are relative to the first value measured: u = workers / fewest workers, T(u) = u^-k + b + c g(u), so that it makes
no difference whether cores or nodes are counted. Amdahl 1967 is c = 0 and k = 1; Gunther 1993's universal scalability
law has g = u - 1, so a/p + b + c (p - 1) counts once. Shares of the work that differ by chance make the slowest of u
workers late by some sqrt(2 ln u) deviations (David and Nagaraja 2003, Order Statistics, Section 10.5), and by more
where shares of fewer grains differ more: g = sqrt(2 ln u) u^-k, k from 1 down to 1/2.

Two laws have a border that nothing shows before it is crossed. A share c of the work that needs a bandwidth which s
workers use up (Williams et al. 2009, roofline) takes (1 - c)/u + c/min(u, s): g = max(1/s - 1/u, 0). Memory in
domains of s workers (NUMA) with pages spread over all n = ceil(u/s) of them sends a share (n - 1)/n of the accesses
elsewhere (Bolosky et al. 1989, Simple but effective techniques for NUMA memory management, Section 2), so that
g = (n - 1)/(n u). Shares that come to fit a cache from s workers on need c less of their time:
g = -1/(u (1 + (s/u)^2)).

Of weak scaling and of collectives the work of each worker is that of the first value: T(u) = 1 + c g(u), with g one of
log2 u, u - 1, u^k - 1 with k from 1/2 to 3/2, and 1 - 1/u, what each sends to a number of others that ends to grow
(Thakur, Rabenseifner, Gropp 2005, Section 4). Times that fall are Amdahl's there too.

Prior weights, and that coefficients are log-uniform, are fixed; where an overhead turns a curve, and where a border
lies, is log-uniform too (`estimators/scaling/laws/strong_scaling_priors.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.scaling.laws.importance_sampling import ImportanceSampler, Places, Ranges
from slipstick.estimators.scaling.laws.priors import PRIORS, Priors
from slipstick.estimators.scaling.laws.terms import PowerTerm, SharedIssue, Term

STRONG = ("amdahl", "amdahl-log", "usl", "amdahl-sqrt", "power", "imbalance", "cache", "bandwidth", "domains")
"""Overheads by their place: none, log2 u, u - 1, sqrt(u) - 1; none, but another power of u; waiting for the slowest;
those of borders."""
GROWING = ("constant", "constant-log", "constant-linear", "constant-power", "saturating")
"""Of constant work, and no overhead, or one of log2 u, u - 1, another power of u less 1, or 1 - 1/u."""
NAMES = (*STRONG, *GROWING)
WEAK = ("amdahl", *GROWING)
OVERHEADS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "amdahl-log": np.log2,
    "usl": lambda u: u - 1.0,
    "amdahl-sqrt": lambda u: np.sqrt(u) - 1.0,
    "constant-log": np.log2,
    "constant-linear": lambda u: u - 1.0,
    "saturating": lambda u: 1.0 - 1.0 / u,
}
"""g(u) of laws of which nothing else is free."""
POWER, IMBALANCE, CACHE, BANDWIDTH, DOMAINS, STEEP = (
    NAMES.index(name) for name in ("power", "imbalance", "cache", "bandwidth", "domains", "constant-power")
)
STEADY = np.array([name in GROWING for name in NAMES])
"""Laws of constant work."""


def _growth(u: FloatArray) -> FloatArray:
    """g(u) of each law of which nothing else is free, shape (len(u), laws); 0 of the others."""
    none = np.zeros_like(u)
    return np.stack([OVERHEADS[name](u) if name in OVERHEADS else none for name in NAMES], axis=1)


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
    issue: Mask

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
            work = np.exp(-exponent * logs + self.issue * issue[:, None])
            return np.where(STEADY[self.law], 1.0, work)
        work = np.repeat(1.0 / u[:, None], len(exponent), axis=1)
        some = self._of[POWER]
        work[:, some] = np.exp(-exponent[some] * logs)
        work[:, STEADY[self.law]] = 1.0
        return work

    def _overheads(self, u: FloatArray) -> FloatArray:
        """c g(u), shape (len(u), curves)."""
        grown, at = _growth(u).take(self.law, axis=1), u[:, None]
        some = self._of[IMBALANCE]
        late = np.sqrt(2.0 * np.log(np.maximum(at, 1.0)))
        grown[:, some] = late * np.exp(-self.coordinates[2][some] * np.log(at))
        some = self._of[STEEP]
        grown[:, some] = np.exp(self.coordinates[2][some] * np.log(at)) - 1.0
        some = self._of[CACHE]
        grown[:, some] = -at / (at * at + self.border[some] ** 2)
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
        return {law: np.flatnonzero(self.law == law) for law in (POWER, IMBALANCE, CACHE, BANDWIDTH, DOMAINS, STEEP)}

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
    serials = ((_logs(priors.serial), 1.0 - priors.no_serial), (None, priors.no_serial))
    parts: list[tuple[int, bool, float, Ranges]] = []
    names = WEAK if priors.constant_work else STRONG
    for name in names:
        law = NAMES.index(name)
        overhead = _logs(priors.overhead[name]) if name in priors.overhead else None
        exponent = {POWER: priors.exponent, IMBALANCE: priors.lateness, STEEP: priors.steepness}.get(law)
        border = _logs(priors.border) if law in (CACHE, BANDWIDTH, DOMAINS) else None
        for serial, one in serials if not STEADY[law] else ((None, 1.0),):
            for issue in issues:
                share = one / len(names) / len(issues)
                parts.append((law, issue, share, (serial, overhead, exponent, border)))
    return ImportanceSampler.whole(parts, priors.curves)


def _logs(ends: tuple[float, float]) -> tuple[float, float]:
    return float(np.log(ends[0])), float(np.log(ends[1]))


def terms(shares: FloatArray, unit: float, issue: SharedIssue | None, priors: Priors = PRIORS) -> tuple[Term, ...]:
    """What the sum that is printed is made of: the terms of the laws with a say, and powers between which theirs lie.

    `shares`: posterior probability of each law in `NAMES`.
    `unit`: logarithms count in it.
    """
    spoken = {name for name, share in zip(NAMES, shares, strict=True) if share >= SAID}
    shared: tuple[Term, ...] = (issue,) if issue is not None else ()
    low = min(priors.exponent[0], priors.lateness[0])
    powers = [-1.0] if spoken & {*STRONG, "saturating"} else []
    powers += [-low, -(low + 1.0) / 2.0] if spoken & {"power", "imbalance"} else []
    powers += [-2.0] if "cache" in spoken else []
    powers += [0.5] if spoken & {"amdahl-sqrt", "constant-power"} else []
    powers += [1.0] if spoken & {"usl", "constant-linear", "constant-power"} else []
    powers += [1.5] if "constant-power" in spoken else []
    logarithm = (PowerTerm(0.0, 1, unit),) if spoken & {"amdahl-log", "constant-log"} else ()
    return (*shared, *map(PowerTerm, powers), *logarithm, PowerTerm())
