"""What holds for a machine that nobody measured, learned on measured ones that are left out in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.formula_model import FormulaLaw, expected, plain_fit
from slipstick.estimators.gpu.transfer.pooling_constants import SHARE, SHARE_WIDTH
from slipstick.estimators.gpu.transfer.transfer_bands import Scatter, scatter
from slipstick.estimators.symbolic.lambdified import FloatArray


@dataclass(frozen=True, eq=False)
class LeaveOneOutDevice:
    """A measured machine predicted from others; arrays of one shape (rows,), log seconds.

    `plain`: by the parameters that the others give it.
    `factor`: what the others take over their own fits at the nearest shapes.
    `scale`: how large errors of the target machine are against those of this one.
    """

    plain: FloatArray
    factor: FloatArray
    measured: FloatArray
    scale: float = 1.0


def repeats(trials: Sequence[LeaveOneOutDevice]) -> float:
    """The share of residuals at the nearest shapes that repeats, between 0 and 1, drawn towards `SHARE`.

    Rows of one machine err alike: a machine counts, not its rows.
    Raises InputError where a trial has no rows.
    """
    if any(not len(trial.measured) for trial in trials):
        raise InputError("a machine without measured rows cannot score its forecast")
    if not trials:
        return SHARE
    plain, factor, measured = (
        np.concatenate([getattr(trial, name) for trial in trials]) for name in ("plain", "factor", "measured")
    )
    law = FormulaLaw(
        "share",
        (expected("share", SHARE, SHARE_WIDTH, high=1.0),),
        lambda numbers, _: np.asarray(np.exp(plain + numbers["share"] * factor)),
    )
    alike = [str(at) for at, trial in enumerate(trials) for _ in trial.measured]
    return plain_fit(law, np.exp(measured), alike)["share"]


def left(trials: Sequence[LeaveOneOutDevice], share: float, tails: float) -> Scatter:
    """How far measured times scatter around the forecast with that share; `tails` as in `bands.scatter`.

    Raises InputError where there is no trial.
    """
    predicted = [trial.plain + share * trial.factor for trial in trials]
    errors = [(trial.measured - log) * trial.scale for trial, log in zip(trials, predicted, strict=True)]
    return scatter(errors, [np.exp(log) for log in predicted], tails)
