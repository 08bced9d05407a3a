"""What public codes say of the average over laws (`slipstick validate --refit scaling`), each left out in turn.

Public measurements alone choose: every code counts alike, and what is learned for a code never sees it; that is what
the board `scaling` scores. Random and planted series, whose truth is known, are judged and choose nothing.

Three numbers come of the codes' later values, predicted from their first ones: the quantile of the average that
answers, and how far its normal scores stretch to either side (docs/notes/extrapolation.md has what ten codes do not
tell: how often each law holds, how large overheads are, and whether bands err otherwise far away, of few points or
without repeats).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_file import FittedFile, digest
from slipstick.estimators.fitting.model_averaging import Average
from slipstick.estimators.fitting.scores import LEVEL, weighted_quantile
from slipstick.estimators.scaling.averaged_scaling import averaged
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, PRIORS, Recalibration
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.scaling.code_series import CodeCase, code_cases
from slipstick.experiments.scoreboards.scaling.series_collection import MORE, every_series
from slipstick.experiments.scoring.score import Data

ANSWERS = np.linspace(0.3, 0.7, 41)
"""Quantiles that may answer."""
END = 1.2815515655446004
"""Normal score of the end of an 80 % band."""


@dataclass(frozen=True, eq=False)
class LaterValues:
    """Later values of codes beside the average that nothing recalibrates.

    `codes`: shape (targets,).
    `scores`: normal scores of the truths, shape (targets,).
    `errors`: |ln(quantile / truth)| of each quantile of `ANSWERS`, shape (quantiles, targets).
    """

    codes: npt.NDArray[np.str_]
    scores: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, cases: Sequence[CodeCase]) -> LaterValues:
        """Those of cases."""
        plain = replace(PRIORS, codes=Recalibration())
        rows = []
        for case in cases:
            average: Average = averaged(case.known, case.to, priors=plain).belief.average
            truth = np.log(case.truth)
            errors = np.abs(np.array(average.quantiles(*ANSWERS)) - truth)
            rows.append((np.full(len(truth), case.code), average.score(truth), errors))
        return cls(*(np.concatenate(column, axis=-1) for column in zip(*rows, strict=True)))

    def recalibration(self, without: str = "") -> Recalibration:
        """What all codes but one say; the average as it is where there is no other."""
        kept = self.codes != without
        if not kept.any():
            return Recalibration()
        _, code, count = np.unique(self.codes[kept], return_inverse=True, return_counts=True)
        weights = 1.0 / count[code]
        answer = float(ANSWERS[np.argmin(self.errors[:, kept] @ weights)])
        share = 0.5 + LEVEL / 2
        ends = [weighted_quantile(side * self.scores[kept], weights, share) / END for side in (-1.0, 1.0)]
        return Recalibration(*(round(one, 3) for one in (answer, *ends)))


def refit() -> FittedFile:
    """What all codes say; facts hold what they say without each.

    Raises MissingError where the public series are missing.
    """
    cases = code_cases(every_series(Data()))
    later = LaterValues.of(cases)
    without = {str(code): asdict(later.recalibration(code)) for code in np.unique(later.codes)}
    facts = {"all": asdict(later.recalibration()), "left out": without}
    files = [path for pair in MORE for path in pair]
    rows = {name: digest(path) for name in files if (path := training_file(name)) is not None}
    note = "Every code's later values from its first ones; a code counts as one."
    return FittedFile(FITTED_NAME, rows, len(later.codes), {}, (), note, facts)
