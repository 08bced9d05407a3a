"""What the average over laws says of series whose later times are known, beside Amdahl's law by least squares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.base.sureness import NEAR
from slipstick.estimators.fitting import scores
from slipstick.estimators.scaling.averaged_scaling import averaged
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.laws.priors import PRIORS, Priors
from slipstick.estimators.scaling.series import ENOUGH_POINTS, Series, verdicts

Law: TypeAlias = Callable[[FloatArray], FloatArray]
"""Times by numbers of workers."""
Known: TypeAlias = tuple[str, Series, FloatArray, FloatArray]
"""Group, known series, and later numbers of workers with their true times, shape (targets,)."""
DRAWN = "random series"
"""The data set of series that are drawn."""
UNUSED = "seeds never used"


@dataclass(frozen=True, eq=False)
class Forecasts:
    """One row a series and target; arrays of shape (answers,), times in one unit.

    `group`: the code, or the law that was drawn.
    `ratio`: of the target to the last value.
    `word`, `probability`: the verdict; 0 where it has no probability.
    `amdahl`, `last`: times by Amdahl's law, and the last one that was known.
    """

    group: npt.NDArray[np.str_]
    ratio: FloatArray
    truth: FloatArray
    ours: FloatArray
    low: FloatArray
    high: FloatArray
    word: npt.NDArray[np.str_]
    probability: FloatArray
    amdahl: FloatArray
    last: FloatArray

    @classmethod
    def of(cls, cases: Iterable[Known], priors: Mapping[str, Priors] | None = None) -> Forecasts:
        """The answers of cases, by priors of each group where there are some; none of too few points."""
        rows = []
        for group, series, to, truth in cases:
            if len(series) < ENOUGH_POINTS:
                continue
            answer = averaged(series, to, priors=(priors or {}).get(group, PRIORS))
            certainty, count = answer.certainty(), len(to)
            judged = verdicts(series, certainty, to, answer.value)
            words, stated = [one.word for one in judged], [one.probability or 0.0 for one in judged]
            simple = extrapolate(series, to, "strong", family="amdahl", level=None).value
            times = truth, answer.value, certainty.low, certainty.high
            rows.append(([group] * count, to / series.x[-1], *times, words, stated, simple, [series.y[-1]] * count))
        return cls(*(np.concatenate(column) for column in zip(*rows, strict=True)))

    def only(self, some: Mask) -> Forecasts:
        """Some of the answers."""
        return Forecasts(*(getattr(self, name)[some] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.truth)

    def error(self, name: str = "ours", share: float = 0.5) -> float:
        """A quantile of the relative errors of ours, of Amdahl's law or of the last time, in percent."""
        return 100 * scores.relative_quantile(share, getattr(self, name), self.truth)

    @property
    def off(self) -> FloatArray:
        """Relative errors of ours."""
        return scores.relative_errors(self.ours, self.truth)

    @property
    def near(self) -> Mask:
        """Which answers are within 20 %."""
        return np.asarray(self.off <= NEAR)

    @property
    def trusted(self) -> Mask:
        """Which answers have the verdict "trust"."""
        return np.asarray(self.word == "trust")

    @property
    def covered(self) -> float:
        """Share of the truths inside the 80 % band."""
        return scores.coverage(self.low, self.high, self.truth)

    @property
    def width(self) -> float:
        """Median of high over low."""
        return scores.width(self.low, self.high)

    def over_groups(self, figure: Callable[[Forecasts], float]) -> float:
        """A figure of each group, every group counting alike."""
        return float(np.mean([figure(part) for part in self.by_group().values()]))

    def by_group(self) -> dict[str, Forecasts]:
        """The answers of each group."""
        return {str(group): self.only(self.group == group) for group in np.unique(self.group)}


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))
