"""How far bands of strong scaling stretch (`slipstick validate --refit scaling`): codes whose later values were known.

Public measurements alone choose: every code counts alike, and the choice for a code never sees it; that is what the
board `scaling` scores. Random series, whose truth is known, are judged and choose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt

from slipstick.estimators.fitting.fitted_file import FittedFile, digest
from slipstick.estimators.fitting.scores import LEVEL, weighted_quantile
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, PRIORS, Inflation, has_repeats
from slipstick.estimators.scaling.strong_scaling import points_of, strong
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.scaling.code_series import CodeCase, code_cases
from slipstick.experiments.scoreboards.scaling.series_collection import MORE, every_series
from slipstick.experiments.scoring.score import Data

PLAIN = replace(PRIORS, inflation=Inflation(1.0, 1.0))


def wanted(case: CodeCase) -> FloatArray:
    """The stretch with which each band ends at the truth, shape (targets,)."""
    average = strong(case.known, case.to, priors=PLAIN).belief.average
    off = np.log(case.truth) - average.median
    low, high = (end - average.median for end in average.quantiles(0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return np.asarray(off / np.where(off < 0, low, high))


def inflations(cases: Sequence[CodeCase]) -> dict[str, Inflation]:
    """The inflation without each code, and that of all of them under the name ""; each code counts alike."""
    needed = [wanted(case) for case in cases]
    size = [len(each) for each in needed]
    code = np.repeat([case.code for case in cases], size)
    repeated = np.repeat([has_repeats(points_of(case.known).repeats) for case in cases], size)
    names, place, count = np.unique(code, return_inverse=True, return_counts=True)
    every, weights = np.concatenate(needed), 1.0 / count[place]

    def quantile(some: npt.NDArray[np.bool_]) -> float:
        return round(weighted_quantile(every[some], weights[some], LEVEL), 3) if some.any() else 1.0

    return {
        without: Inflation(quantile(repeated & (code != without)), quantile(~repeated & (code != without)))
        for without in ("", *map(str, names))
    }


def refit() -> FittedFile:
    """The inflation of all codes; facts hold that without each.

    Raises MissingError where the public series are missing.
    """
    cases = code_cases(every_series(Data()))
    made = inflations(cases)
    facts = {"inflation": asdict(made.pop("")), "left out": {code: asdict(one) for code, one in made.items()}}
    files = [path for pair in MORE for path in pair]
    rows = {name: digest(path) for name in files if (path := training_file(name)) is not None}
    note = "Every code's later values from its first ones; a code counts as one, however many series it has."
    return FittedFile(FITTED_NAME, rows, sum(len(case.to) for case in cases), {}, (), note, facts)
