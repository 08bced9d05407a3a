"""Fits of few positive numbers without groups, by the fitter of every law (`fit`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import FormulaLaw, LawRows, ParameterPrior

ROW = "row"
FAR = 30.0
"""Widths from what is expected at which a number ends."""


def expected(name: str, value: float, width: float, unit: str = "1", high: float | None = None) -> ParameterPrior:
    """What is expected of one number before any row.

    `value`, `high`: where it is expected and where it ends (where nobody expects it if None), in `unit`.
    `width`: standard deviation of its logarithm, dimensionless.
    """
    ends = value * np.exp(-FAR * width), value * np.exp(FAR * width) if high is None else high
    return ParameterPrior(name, unit, "", value, width, float(ends[0]), float(ends[1]), name)


def plain_fit(law: FormulaLaw, seconds: FloatArray, cluster: Sequence[str] | None = None) -> dict[str, float]:
    """The most probable numbers.

    `seconds`: measured, shape (rows,).
    `cluster`: rows of one name err alike; None where each errs by itself.

    Raises
    ------
    ValueError
        Where there is no row, or a time is not positive.
    """
    count = len(seconds)
    alike = [str(row) for row in range(count)] if cluster is None else list(cluster)
    made = fit(law, LawRows({ROW: np.arange(count, dtype=float)}, {}, alike, seconds, [law.name] * count))
    return {name: float(values[0]) for name, values in made.values(law, {}).items()}
