"""How sure the ratio of two answers of one model is: what both miss alike cancels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import ratio_shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import quantile
from slipstick.hwmodels.machine import Machine

DISAGREES = "the measured time ("
"""How a line begins that says that a measured time is far from the model's."""
FAR = 2.0
"""Bands away from which a measured time is said to disagree: 80 % bands twice as wide hold 99 %."""


def disagreement(source: str, factor: float, half: float) -> tuple[str, ...]:
    """That a measured time lies far outside a model's band, in a line; nothing where it does not.

    `source`: of the time, in words.
    `factor`: measured over the model's answer; `half`: half of the model's 80 % band of log time.
    """
    away = abs(math.log(factor)) / half
    if away < FAR:
        return ()
    return (
        f"{DISAGREES}{source}) is x{ratio_shown(factor)} of the model's answer, {away:.2g} of its bands away: was it "
        "one execution at this size, data type and machine?",
    )


NEAR = 0.05
"""Log change of a field at which 63 % of the variance between two machines is there: one that differs by less is nearly
the same. A judgement."""
SAME_OPERATIONS = 2.0
"""`RatioBand.kept` of the same operations on a changed machine: residuals of equal shapes on related GPUs correlate by
0.6 to 0.9 (docs/notes/gpu-operations.md). A judgement."""


@dataclass(frozen=True)
class RatioBand:
    """The law of the band of a ratio.

    Fitted parameters are the same in both answers: of their uncertainty only the part counts that moves the ratio. So
    is what no answer knows of the machine, such as the library that runs there (`Spread.common`). What else the model
    misses is much the same for the same operations, the less so the farther the two times are apart. And two machines
    that the model finds alike still differ by more than it knows.

    `other`: standard deviation of the log ratio of two machines that the model finds as fast.
    `kept`: log ratio of the times over which their errors part by 1 - 1/e in variance.
    `level`: probability of the band.
    `degrees_of_freedom`, `residual_freedom`: of the fit and of the scatter around it; see `Spread`.
    """

    other: float
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
        common: npt.ArrayLike = 0.0,
        common_today: npt.ArrayLike = 0.0,
    ) -> FloatArray:
        """Half of the band in log, shape (points,).

        `log_ratio`: of the two times, shape (points,).
        `change`: the largest |log(new / today)| of the machine's fields that the model reads.
        `parameter`: standard deviation of the log ratio over draws of the fitted parameters.
        `residual`, `residual_today`: scatter of measurements around the model, of each of the two times, in log.
        `common`, `common_today`: the part of it that all answers for the machine have alike, the more so the larger
            their share in each of the two times.
        """
        apart = np.sqrt(1 - np.exp(-np.abs(np.asarray(log_ratio)) / self.kept))
        other = self.other * np.sqrt(1 - np.exp(-np.asarray(change) / NEAR))
        width = quantile(self.level, self.degrees_of_freedom)
        tail = quantile(self.level, self.residual_freedom or self.degrees_of_freedom)
        unshared = np.hypot(_without(residual, common), _without(residual_today, common_today))
        parted = np.subtract(common, common_today)
        missed = np.sqrt((unshared * apart) ** 2 + parted**2 + other**2)
        return np.asarray(np.hypot(width * np.asarray(parameter), tail * missed))


@dataclass(frozen=True)
class MeasuredUncertainty:
    """How sure answers are that a measured time holds: standard deviations of log times.

    `scatter`: of the model alone at the measured point; None where that is not known.
    `repeats`: of another run of what was measured.
    `common`: the part of `scatter` that all answers for the machine have alike.
    `seconds`, `machine`: what was measured, and on which machine.
    `at_sizes`: where several sizes were measured, `repeats` at others, shape (points,), by free names with their
        values, and whether all sizes among these names were measured at several.
    """

    scatter: float | None
    repeats: float
    common: float = 0.0
    seconds: float = math.nan
    machine: Machine | None = None
    at_sizes: Callable[[Mapping[str, npt.ArrayLike]], tuple[FloatArray, bool]] | None = None


def _without(residual: npt.ArrayLike, common: npt.ArrayLike) -> FloatArray:
    """What is left of a standard deviation without a part of it."""
    left: FloatArray = np.sqrt(np.maximum(np.square(residual) - np.square(common), 0.0))
    return left


CAP = "machine.power.cap"
SPEEDS = ("machine.clock", CAP)
"""Numbers of one board of which less is never faster. Of others (bandwidth, peaks) a change stands for another board,
which was measured to be slower where its model finds it equal."""


@dataclass(frozen=True)
class Today:
    """Today's values of the machine's numbers that vary and that the time reads: what ratios are relative to.

    `values`: by name, ``machine.PATH``.
    `rated`: cap [W] of the board, above which none raises a clock; infinite where the time is not that under a cap.
    `others`: whether numbers that do not vary were others there: that is as far as a machine can be.
    """

    values: FrozenDict[float] = FrozenDict()
    rated: float = math.inf
    others: bool = False

    def change(self, free: Mapping[str, FloatArray], count: int) -> FloatArray:
        """The largest |log(value / today's)|, of each of `count` points; `free`: their values by name."""
        largest = np.full(count, math.inf if self.others else 0.0)
        for name, value in self.values.items():
            if value > 0:
                there, here = np.maximum(self._felt(name, free[name]), 1e-300), self._felt(name, value)
                largest = np.maximum(largest, np.abs(np.log(there / here)))
        return largest

    def one_way(
        self, free: Mapping[str, FloatArray], names: Sequence[str], ratios: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Below and above what no ratio of times lies, each (points,): 1, where clock and cap go one way alone.

        `free`: values of each point by name, shape (points,).
        `names`: all that varies.
        `ratios`: of the times, shape (points,); they lie within.
        """
        known = [name for name in names if name in self.values]  # others that are the machine's have no effect
        if any(not name.startswith("machine.") for name in names) or any(name not in SPEEDS for name in known):
            return np.zeros(len(ratios)), np.full(len(ratios), np.inf)
        pairs = [(self._felt(name, free[name]), self._felt(name, self.values[name])) for name in known]
        less = np.all([there <= here for there, here in pairs], axis=0) if known else True
        more = np.all([there >= here for there, here in pairs], axis=0) if known else True
        return np.where(less, np.minimum(ratios, 1.0), 0.0), np.where(more, np.maximum(ratios, 1.0), np.inf)

    def _felt(self, name: str, values: npt.ArrayLike) -> FloatArray:
        """What the board feels of values: of a power cap no more than its own."""
        return np.minimum(values, self.rated) if name == CAP else np.asarray(values, dtype=np.float64)
