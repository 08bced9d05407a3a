"""Where curves are drawn: over the whole ranges of a law's coordinates first, then where the points leave them.

A curve has four coordinates: ln b, ln c, k and ln s (`scaling/laws/scaling_laws.py`); a law leaves some of them free.
Whole
ranges are filled evenly. Where few of their curves have a say, others are drawn from Student's t distribution with two
degrees of freedom about the mean and by the covariance of those few, cut at the ends of the ranges: coordinates hang
together (what the serial part takes the overhead need not), and heavy tails miss nothing that the few did not show.
Each curve counts as it is likely beforehand over how likely it was to be drawn (adaptive importance sampling: Oh and
Berger 1992; Cappe et al. 2008, Adaptive importance sampling in general mixture classes), and the draws are points of a
lattice rather than random numbers. Two degrees of freedom have quantiles in closed form, t sqrt(2 / (1 - t^2)) for a
probability of (1 + t) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask

Places = npt.NDArray[np.intp]
Ranges = tuple[tuple[float, float] | None, ...]
"""Of ln b, ln c, k and ln s; None where one is fixed."""
FIXED = np.array([-750.0, -750.0, 1.0, 700.0])
"""ln b, ln c, k and ln s where they are not free: two zeros, 1, and a border beyond everything."""
GOLDEN, PLASTIC = (np.sqrt(5.0) - 1.0) / 2.0, 0.7548776662466927
"""The real roots of x^2 + x = 1 and of x^3 + x^2 = 1."""
UNBOUND = 1e6
"""A deviation beside which the length of a coordinate that is not free is nothing."""
EDGE = 1e-12


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


@lru_cache(maxsize=512)
def _spread(points: int, free: tuple[bool, ...]) -> FloatArray:
    """Such points in the rows of free coordinates, 0 in the others, shape (4, points)."""
    rows, some = np.zeros((len(free), points)), np.flatnonzero(free)
    rows[some] = lattice(points, max(len(some), 2))[: len(some)]
    return rows


@dataclass(frozen=True, eq=False)
class ImportanceSampler:
    """Laws with the ranges of their coordinates, and where in these curves are drawn; arrays end in (boxes,).

    `law`, `issue`: place of the law's name in `NAMES`, and whether the work follows the machine's cycles per
        instruction.
    `share`: prior probability of all curves of the ranges.
    `low`, `high`: the ranges, shape (4, boxes); a coordinate that is not free has a length of 1, of which only the
        begin is used.
    `free`: which coordinates are free, shape (4, boxes).
    `middle`, `lower`: mean and Cholesky factor of the covariance, shapes (4, boxes) and (4, 4, boxes).
    `counts`: how many curves are drawn.
    """

    law: Places
    issue: Mask
    share: FloatArray
    low: FloatArray
    high: FloatArray
    free: Mask
    middle: FloatArray
    lower: FloatArray
    counts: Places

    @classmethod
    def whole(cls, parts: list[tuple[int, bool, float, Ranges]], curves: int) -> ImportanceSampler:
        """Whole ranges: of each the law, whether cycles per instruction count, its probability, and the ranges.

        `curves`: how many are drawn of two free coordinates.
        """
        free = np.array([[one is not None for one in ranges] for *_, ranges in parts]).T
        ends = np.array([[one or (fixed, fixed + 1) for one, fixed in zip(r, FIXED, strict=True)] for *_, r in parts])
        low, high = ends.transpose(2, 1, 0)
        lower = np.zeros((4, 4, len(parts)))
        lower[np.arange(4), np.arange(4)] = np.where(free, (high - low) / np.sqrt(12.0), UNBOUND)
        counts = np.array([1, max(curves // 4, 8), curves, 2 * curves])[free.sum(axis=0)]
        laws, issues, shares, _ = zip(*parts, strict=True)
        middle = (low + high) / 2.0
        return cls(np.array(laws), np.array(issues), np.array(shares), low, high, free, middle, lower, counts)

    @cached_property
    def box(self) -> Places:
        """Which box each curve is drawn from, shape (curves,)."""
        return np.repeat(np.arange(len(self.law)), self.counts)

    @cached_property
    def deviations(self) -> FloatArray:
        """Standard deviation of each coordinate where those before it are given, shape (4, boxes)."""
        return np.diagonal(self.lower).T

    @cached_property
    def _unit(self) -> FloatArray:
        masks = map(tuple, self.free.T.tolist())
        return np.concatenate([_spread(*one) for one in zip(self.counts.tolist(), masks, strict=True)], axis=1)

    def evenly(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates, shape (4, curves), of curves that fill the ranges evenly, and ln of their prior probability."""
        low, high = self.low[:, self.box], self.high[:, self.box]
        return low + self._unit * (high - low), np.log(self.share / self.counts)[self.box]

    def drawn(self) -> tuple[FloatArray, FloatArray]:
        """The same of curves about the means, their prior probability over the number drawn where they are."""
        box, unit, inverse = self.box, self._unit, 1.0 / self.deviations
        slopes = self.lower * inverse[:, None]
        lengths = (self.high - self.low) * inverse
        chances = self.share / self.counts / (2.0 * lengths).prod(axis=0)
        begins = (self.low - self.middle) * inverse
        cuts = np.array([begins, begins + lengths]).take(box, axis=2)
        where, deviations, away = self.middle.take(box, axis=1), self.deviations.take(box, axis=1), np.empty_like(unit)
        for place, each in enumerate(away):
            cut = cuts[:, place]
            hanging = [(other, slopes[place, other]) for other in range(place) if slopes[place, other].any()]
            for other, slope in hanging:
                cut -= slope.take(box) * away[other]
            cut /= np.sqrt(2.0 + cut * cut)
            np.subtract(cut[1], cut[0], out=cut[1])
            np.multiply(cut[1], unit[place], out=each)
            each += cut[0]
            np.maximum(1.0 - each * each, EDGE, out=cut[0])
            each *= np.sqrt(2.0 / cut[0])
            where[place] += deviations[place] * each
            for other, _ in hanging:
                where[place] += self.lower[place, other].take(box) * away[other]
        left, volume = cuts.prod(axis=1)
        return where, np.log(volume * (2.0 ** len(away) / left) ** 1.5 * chances.take(box))

    def around(self, some: Places, middle: FloatArray, covariance: FloatArray) -> ImportanceSampler:
        """Some of the boxes about means, shape (4, some), with covariances, (4, 4, some), and as many curves as before.

        What curves told is not known to less than half of the distance between them.
        """
        free, low = self.free[:, some], self.low[:, some]
        distance = np.sqrt(3.0) * self.deviations[:, some] / self.counts[some] ** (1.0 / free.sum(axis=0))
        squares = covariance * (free[:, None] & free)
        squares[np.arange(4), np.arange(4)] += np.where(free, distance**2, UNBOUND**2)
        lower = np.asarray(np.linalg.cholesky(squares.transpose(2, 0, 1)).transpose(1, 2, 0), dtype=np.float64)
        middle = np.where(free, middle, low)
        ranges = low, self.high[:, some], free
        return ImportanceSampler(
            self.law[some], self.issue[some], self.share[some], *ranges, middle, lower, self.counts[some]
        )
