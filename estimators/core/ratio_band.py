"""How sure the ratio of two answers of one model is: what both miss alike cancels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.estimate import quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.tuned.tuned_ratios import NEAR, OTHER_MACHINE, OTHER_SIZES, SAME_OPERATIONS

DISAGREES = "the measured time ("
"""How a line begins that says that a measured time is far from the model's."""


@dataclass(frozen=True)
class RatioBand:
    """The law of the band of a ratio.

    Fitted parameters are the same in both answers: of their uncertainty only the part counts that moves the ratio. What
    the model misses is much the same for the same operations, the less so the farther the two times are apart. And two
    machines that the model finds alike still differ by more than it knows.

    `kept`: how far a ratio may go (in log) before its two times err independently.
    `level`: probability of the band.
    `degrees_of_freedom`, `residual_freedom`: of the fit and of the scatter around it; see `Spread`.
    """

    kept: float = SAME_OPERATIONS
    level: float = 0.8
    degrees_of_freedom: float | None = None
    residual_freedom: float | None = None

    def half(
        self,
        log_ratio: npt.ArrayLike,
        change: npt.ArrayLike,
        parameter: npt.ArrayLike = 0.0,
        residual: npt.ArrayLike = 0.0,
        residual_today: npt.ArrayLike = 0.0,
    ) -> FloatArray:
        """Half of the band in log, shape (points,).

        `log_ratio`: of the two times, shape (points,).
        `change`: the largest |log(new / today)| of the machine's fields that the model reads.
        `parameter`: standard deviation of the log ratio over draws of the fitted parameters.
        `residual`, `residual_today`: scatter of measurements around the model, of each of the two times, in log.
        """
        apart = np.sqrt(1 - np.exp(-np.abs(np.asarray(log_ratio)) / self.kept))
        other = OTHER_MACHINE * np.sqrt(1 - np.exp(-np.asarray(change) / NEAR))
        width = quantile(self.level, self.degrees_of_freedom)
        tail = quantile(self.level, self.residual_freedom or self.degrees_of_freedom)
        missed = np.hypot(np.hypot(residual, residual_today) * apart, other)
        return np.asarray(np.hypot(width * np.asarray(parameter), tail * missed))


@dataclass(frozen=True)
class Held:
    """How sure answers are that a measured time holds: standard deviations of log times.

    `scatter`: of the model alone at the measured point; None where that is not known.
    `repeats`: of another run of what was measured.
    """

    scatter: float | None
    repeats: float


def kept_for(names: tuple[str, ...]) -> float:
    """`RatioBand.kept` (log ratio of seconds) where these names vary: of the same operations, or of other sizes."""
    return SAME_OPERATIONS if all(name.startswith("machine.") for name in names) else OTHER_SIZES


SPEEDS = ("machine.clock", "machine.power.cap")
"""Numbers of one board of which less is never faster. Of others (bandwidth, peaks) a change stands for another board,
which was measured to be slower where its model finds it equal."""


def one_way(
    free: Mapping[str, FloatArray], names: Sequence[str], today: Mapping[str, float], ratios: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Below and above what no ratio of times lies, each of shape (points,): 1, where clock and cap go one way alone.

    `free`: values of each point by name, shape (points,).
    `names`: all that varies.
    `today`: today's values of the machine's numbers that the time reads.
    `ratios`: of the times, shape (points,); they lie within.
    """
    known = [name for name in names if name in today]  # others that are the machine's have no effect
    if any(not name.startswith("machine.") for name in names) or any(name not in SPEEDS for name in known):
        return np.zeros(len(ratios)), np.full(len(ratios), np.inf)
    less = np.all([np.asarray(free[name]) <= today[name] for name in known], axis=0) if known else True
    more = np.all([np.asarray(free[name]) >= today[name] for name in known], axis=0) if known else True
    return np.where(less, np.minimum(ratios, 1.0), 0.0), np.where(more, np.maximum(ratios, 1.0), np.inf)
