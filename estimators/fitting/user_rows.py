"""A few rows that a user measured: what they say of what is unknown, which to measure, and whether to believe them.

What is unknown are coordinates z, normal with mean 0 and variance 1 before the rows. A measured log time scatters
around the model's by a Student t law, so that a row that no coordinates explain loses its say instead of moving all.
The most likely z is found by damped steps (Levenberg, Quarterly of Applied Mathematics 2, 1944), none longer than one
standard deviation, each taken only where the probability grows. Rows are chosen one after the other, each for the
largest fall of the mean variance over all targets (sequential A-optimal design; Fedorov, Theory of Optimal Experiments,
1972).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.formatting import ratio_shown
from slipstick.estimators.base.estimate import REPEAT

FREEDOM = 4.0
"""Degrees of freedom of the noise's t law."""
LONGEST = 1.0
"""Standard deviations that one step goes at most."""
STEPS, TRIES = 12, 6
COARSE = 4.0
"""The noise with which the search begins, over the noise."""
GAINED = 1e-3
"""A step that gains less log probability is the last one."""
FAR = 4.0
"""Standard deviations off what the others say at which a row is taken for a slip: one normal row of 16,000 lies so far.
A judgement; no refit chose it."""
ENOUGH = 3
"""Of fewer rows none is a slip: two that differ do not say which of them is right."""
UNIT = 60.0
"""The least factor between two units in which times are written: minutes for seconds."""
DEVIATION = 1.4826
"""A normal standard deviation over its median deviation (Rousseeuw and Croux, JASA 88, 1993)."""


def slips_of_repeats(points: Sequence[Hashable], logs: FloatArray) -> dict[int, str]:
    """Words on rows far off the other measurements of the same point, by place: no model has a say, and none counts.

    `points`: what each row measured; equal where it was measured again.
    `logs`: of measured times, shape (rows,).
    """
    words = dict[int, str]()
    for point in dict.fromkeys(points):
        places = [place for place, other in enumerate(points) if other == point]
        off = logs[places] - np.median(logs[places])
        far = FAR * max(DEVIATION * float(np.median(np.abs(off))), REPEAT)
        for place, apart in zip(places if len(places) >= ENOUGH else (), off, strict=False):
            if abs(apart) > far:
                words[place] = f"x{ratio_shown(float(np.exp(apart)))} of the median of its repeats: it does not count"
    return words


def agree(logs: FloatArray) -> bool:
    """Whether measurements of one point, their log times, differ by no more than runs do."""
    return bool(np.ptp(logs) <= FAR * np.sqrt(2.0) * REPEAT)


def lone_rows(
    logs: FloatArray, scatter: float, *, sorted_rows: bool, repeated: Collection[int] = ()
) -> tuple[dict[int, str], list[int]]:
    """Words on rows far off those beside them and off every other, by place, and the places of rows that count.

    A trend over sizes accuses none, nor do two that agree. Of those named, the ones between two that agree with each
    other do not count, nor those whose point was measured again, nor those off by a unit of time or more, to within two
    standard deviations.

    `logs`: of measured over modelled, shape (rows,).
    `scatter`: least standard deviation that rows may show about the model; more where the median difference from one
        row to the next says so.
    `sorted_rows`: whether rows are sorted by one size; if not, all others stand beside a row.
    `repeated`: places of rows whose point another row has measured, too.
    """
    words, kept = dict[int, str](), list(range(len(logs)))
    for place, log in enumerate(logs if len(logs) >= ENOUGH else ()):
        others = np.delete(logs, place)
        far = FAR * max(DEVIATION * float(np.median(np.abs(np.diff(others)))) / np.sqrt(2.0), scatter)
        beside = others[max(place - 1, 0) : place + 1] if sorted_rows else others
        apart = float(log - np.median(beside))
        if min(abs(apart), float(np.abs(others - log).min())) > far:
            between = sorted_rows and len(beside) > 1 and float(np.ptp(beside)) <= far
            if between or place in repeated or abs(apart) >= np.log(UNIT) - far / 2:
                kept.remove(place)
            verb = "counts all the same" if place in kept else "does not count"
            words[place] = (
                f"x{ratio_shown(float(np.exp(apart)))} of what the rows beside it say: it {verb} (another unit?)"
            )
    return words, kept


@dataclass(frozen=True, eq=False)
class UserRows(ABC):
    """Measured rows as a function of the unknown coordinates.

    `measured`: log seconds, shape (rows,).
    `noise`: scale of each row's noise in log time, shape (rows,).
    `freedom`: degrees of freedom of its t law; without end it is normal.
    """

    measured: FloatArray
    noise: FloatArray
    freedom: float = field(default=FREEDOM, kw_only=True)

    @property
    @abstractmethod
    def size(self) -> int:
        """How many coordinates there are."""

    @abstractmethod
    def at(self, coordinates: FloatArray) -> FloatArray:
        """Log seconds of the rows, shape (rows,)."""

    @abstractmethod
    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log seconds of the rows, and their derivatives by the coordinates, shape (rows, size)."""

    def likeliest(self, keep: Mask, start: FloatArray | None = None) -> FloatArray:
        """The coordinates of the highest probability.

        `keep`: which rows count, shape (rows,).
        `start`: where to begin; the mean where None.
        """
        if start is None:  # wide noise first: where all rows are far off, a narrow one takes them all for outliers
            start = replace(self, noise=COARSE * self.noise).likeliest(keep, np.zeros(self.size))
        point, damping = start, 1e-2
        here, slope = self.linear(point)
        cost = self._cost(here, point, keep)
        for _ in range(STEPS):
            weight, error = self._weights(here)[keep], (self.measured - here)[keep]
            normal = slope[keep].T @ (weight[:, None] * slope[keep]) + np.eye(len(point))
            descent = slope[keep].T @ (weight * error) - point
            for _ in range(TRIES):
                step = np.linalg.solve(normal + damping * np.eye(len(point)), descent)
                step *= min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-12))
                better = self._cost(self.at(point + step), point + step, keep)
                if better < cost:
                    break
                damping *= 5
            else:
                return point
            point, gained, cost, damping = point + step, cost - better, better, max(damping / 5, 1e-4)
            if gained < GAINED:
                return point
            here, slope = self.linear(point)
        return point

    def left(self, coordinates: FloatArray) -> FloatArray:
        """Covariance of the coordinates that the rows leave, at the most likely ones."""
        here, slope = self.linear(coordinates)
        normal = slope.T @ (self._weights(here)[:, None] * slope) + np.eye(len(coordinates))
        left = np.linalg.inv(normal)
        return np.asarray((left + left.T) / 2, dtype=float)

    def _weights(self, modelled: FloatArray) -> FloatArray:
        """Of rows, 1 / variance."""
        off = (self.measured - modelled) / self.noise
        robust = 1.0 if np.isinf(self.freedom) else (self.freedom + 1) / (self.freedom + off**2)
        return np.asarray(robust / self.noise**2 * np.ones_like(off), dtype=float)

    def _cost(self, modelled: FloatArray, point: FloatArray, keep: Mask) -> float:
        """Minus log probability."""
        error = ((self.measured - modelled) / self.noise)[keep]
        if np.isinf(self.freedom):
            return float((point @ point + error @ error) / 2)
        return float(point @ point / 2 + (self.freedom + 1) / 2 * np.log1p(error**2 / self.freedom).sum())


@dataclass(frozen=True)
class Choice:
    """A row that is worth measuring.

    `place`: its number among those offered.
    `spread`: standard deviation of its log time as it is known now.
    `left`: mean standard deviation of the log times of all targets once this one and those before it are measured.
    """

    place: int
    spread: float
    left: float


def chosen(
    slope: FloatArray,
    noise: FloatArray,
    count: int,
    targets: FloatArray | None = None,
    weight: FloatArray | None = None,
) -> list[Choice]:
    """The rows to measure, the most informative first, whatever they will show.

    `slope`: derivatives of the offered rows' log times by the coordinates, shape (offered, coordinates).
    `noise`: standard deviation of a measured row about what the coordinates say, shape (offered,).
    `targets`: derivatives of what is wanted to be known, shape (targets, coordinates); the offered rows where None.
    `weight`: of the targets, shape (targets,); all alike where None.
    """
    wanted = slope if targets is None else targets
    share = np.ones(len(wanted)) if weight is None else weight
    known = np.eye(slope.shape[1])
    made: list[Choice] = []
    for _ in range(min(count, len(slope))):
        variance = np.einsum("ij,ij->i", slope @ known, slope)
        fall = share @ (wanted @ known @ slope.T) ** 2 / (variance + noise**2)
        fall[[one.place for one in made]] = -1.0
        best = int(np.argmax(fall))
        spread = float(np.sqrt(variance[best]))
        gain = known @ slope[best]
        known = known - np.outer(gain, gain) / (variance[best] + noise[best] ** 2)
        left = np.sqrt(np.maximum(np.einsum("ij,ij->i", wanted @ known, wanted), 0.0))
        made.append(Choice(best, spread, float(np.average(left, weights=share))))
    return made


def left_out_errors(
    model: UserRows,
    best: FloatArray,
    shares: Sequence[float],
    believed: Callable[[Mask], FloatArray] | None = None,
    folds: int = 24,
) -> FloatArray:
    """Log(measured / predicted) of each row by the others, at every share of the way to what they say.

    `best`: the most likely coordinates by all rows.
    `shares`: of the way from the mean.
    `believed`: how far rows take what the others say: from which rows are left out, shape (rows,), the share of each of
        these; all of it where None.
    `folds`: rows beyond are left out together.

    Returns
    -------
    ndarray, shape (shares, rows)
    """
    count, mean = len(model.measured), model.at(np.zeros(model.size))
    errors = np.empty((len(shares), count))
    for fold in range(min(count, folds)):
        out = np.arange(count) % folds == fold
        point = model.likeliest(~out, best) if not out.all() else np.zeros_like(best)
        taken = 1.0 if believed is None or out.all() else believed(out)
        for place, share in enumerate(shares):
            moved = mean[out] + taken * (model.at(share * point)[out] - mean[out])
            errors[place, out] = model.measured[out] - moved
    return errors
