"""Extrapolating a series beyond what was measured, with a band and a verdict.

>>> from slipstick.estimators.scaling import Series, extrapolate
>>> series = Series.of([1, 2, 4, 8, 16], [100.0, 51.0, 26.5, 14.2, 8.1], "threads")
>>> answer = extrapolate(series, [32])
>>> answer.kind, 4.0 < answer.value[0] < 6.0
('strong', True)
"""

from slipstick.estimators.scaling.extrapolate import extrapolate, extrapolate_many
from slipstick.estimators.scaling.prediction import Prediction, fit_line, fit_power
from slipstick.estimators.scaling.series import KINDS, Series, Verdict

__all__ = ["KINDS", "Prediction", "Series", "Verdict", "extrapolate", "extrapolate_many", "fit_line", "fit_power"]
