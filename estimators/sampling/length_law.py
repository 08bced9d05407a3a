"""What a training step takes by its length, read off a log: lines, a new one where a library changes its kernels.

What does not grow with the length (dispatch, launches, the optimizer) is kept apart from what does, so that a log of
one machine says how its steps would change on another: the first part hangs on the host's clock, the second on
what the machine computes and moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown, shown
from slipstick.workloads.runs.iterations import Iterations

LEAST, MOST = 3, 4
"""Distinct lengths that a piece has at least, and pieces at most."""
EXACT = 2e-3
"""Relative scatter that logged times have at least: rounding makes no piece."""
GROWN = 0.01
"""Share of the longest step that an estimator's times grow by at least where their growth is compared."""
MOST_LENGTHS = 100
"""Distinct lengths that are looked at for the begin of a piece; of more, groups are."""


@dataclass(frozen=True, eq=False)
class LengthLaw:
    """Seconds of a step: ``intercept + slope x length`` of the piece that the length lies in.

    `begins`, `intercepts`, `slopes`: of each piece: its first length, seconds, seconds for a unit of length.
    `scatter`: relative standard deviation of the median times around them.
    """

    begins: FloatArray
    intercepts: FloatArray
    slopes: FloatArray
    scatter: float

    @classmethod
    def of(cls, log: Iterations) -> Self:
        """The number of pieces with the least Bayesian information criterion; each length counts by its median time.

        Raises InputError where the log has no times, or fewer than three distinct lengths.
        """
        if log.times is None:
            raise InputError("law of a step in its length: the log has no times")
        lengths, place = np.unique(log.lengths, return_inverse=True)
        if len(lengths) < LEAST:
            raise InputError(f"law of a step in its length: {len(lengths)} distinct lengths, want at least {LEAST}")
        order = np.argsort(place, kind="stable")
        groups = np.split(log.times[order], np.cumsum(np.bincount(place))[:-1])
        times = np.array([np.median(group) for group in groups])
        count = len(lengths)
        ends = np.unique(np.round(np.linspace(0, count, min(count, MOST_LENGTHS) + 1)).astype(int))
        costs = {(a, b): _line(lengths[a:b], times[a:b])[2] for a in ends for b in ends if b - a >= LEAST}
        best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
        chosen: tuple[int, ...] = (0,)
        least = np.inf
        for pieces in range(1, MOST + 1):
            reached: dict[int, tuple[float, tuple[int, ...]]] = {}
            for (a, b), cost in costs.items():
                if a in best and best[a][0] + cost < reached.get(b, (np.inf, ()))[0]:
                    reached[b] = (best[a][0] + cost, (*best[a][1], a))
            best = reached
            if count not in best:
                break
            squares, begins = best[count]
            criterion = count * np.log(squares / count + EXACT**2) + 3 * pieces * np.log(count)
            if criterion < least:
                least, chosen = criterion, begins
        bounds = [*chosen, count]
        lines = [_line(lengths[a:b], times[a:b]) for a, b in pairwise(bounds)]
        freedom = max(1, count - 2 * len(lines))
        scatter = float(np.sqrt(sum(line[2] for line in lines) / freedom))
        intercepts, slopes = (np.array([line[part] for line in lines]) for part in (0, 1))
        return cls(lengths[list(chosen)], intercepts, slopes, scatter)

    def seconds(self, lengths: FloatArray) -> FloatArray:
        """Seconds of steps of these lengths."""
        piece = np.maximum(np.searchsorted(self.begins, lengths, side="right") - 1, 0)
        return np.asarray(self.intercepts[piece] + self.slopes[piece] * lengths)

    @property
    def fixed(self) -> float:
        """Seconds that do not grow with the length: where the line of the shortest lengths meets length 0."""
        return float(np.clip(self.intercepts[0], 0.0, self.seconds(self.begins[:1])[0]))

    def text(self, unit: str) -> str:
        """The law in words."""
        pieces = [
            f"{shown(intercept, 's')} + {shown(slope, 's')} x {unit}"
            + (f" from {begin:g}" if len(self.begins) > 1 else "")
            for begin, intercept, slope in zip(self.begins, self.intercepts, self.slopes, strict=True)
        ]
        return f"a step takes {', '.join(pieces)}; medians scatter {share_shown(self.scatter)} around it"

    def elsewhere(self, lengths: FloatArray, here: FloatArray, there: FloatArray, host: float = 1.0) -> FloatArray:
        """Seconds of steps on another machine, shape (lengths,).

        What grows with the length changes as an estimator's times of the same network do; what does not, as the host.

        `here`, `there`: the estimator's seconds of these lengths on the machine of the log, and on the other one.
        `host`: factor on what does not grow: clock here over clock there, where the processor is the machine.
        """
        whole = there / here
        one, other = (times - LengthLaw.of(Iterations(lengths, times)).fixed for times in (here, there))
        grew = here[-1] - here[0]
        if grew < GROWN * here[-1]:
            grown = whole
        else:  # where a floor hides how much the estimator's times grow, the ratio of two small numbers is none
            ends = (*whole, (there[-1] - there[0]) / grew)
            grown = np.clip(np.where(one > 0, other / np.where(one > 0, one, 1.0), whole), min(ends), max(ends))
        return np.asarray(self.fixed * host + (self.seconds(lengths) - self.fixed) * grown)


def _line(lengths: FloatArray, times: FloatArray) -> tuple[float, float, float]:
    """Intercept and slope by least squares of relative residuals, and their sum of squares."""
    design = np.stack([1 / times, lengths / times], axis=1)
    (intercept, slope), *_ = np.linalg.lstsq(design, np.ones(len(times)), rcond=None)
    return float(intercept), float(slope), float(((design @ (intercept, slope) - 1) ** 2).sum())
