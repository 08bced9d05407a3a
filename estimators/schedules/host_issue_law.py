"""How long hosts take to issue an operation, as a law over hosts: what a network takes is the longer of two sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.fitting.fitted_model import Columns, FloatArray, Grouping, ParameterPrior

HOSTED = ("host",)
NAME = "host-issue"
SHARPNESS = 6.0
"""Of the p-norm that stands for the longer of two, so that both sides have slopes: 12 % above where they are equal."""


@dataclass(frozen=True)
class IssueLaw:
    """Seconds of an eager network: the longer of its kernels and of a host that issues them one by one.

    Columns: `device`, seconds of its kernels by the roofline of the data sheet; `operations`, how many are issued.
    """

    name: str = NAME
    parameters: Sequence[ParameterPrior] = (
        ParameterPrior("issue", "s", "of a host, for one operation", 15e-6, 0.8, 1e-6, 1e-3, "time", HOSTED),
        ParameterPrior("device", "1", "kernels over their roofline", 1.6, 0.4, 1.0, 20.0, "share", HOSTED),
    )
    levels: Sequence[Grouping] = (Grouping("host", 0.4),)

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        device = parameters["device"] * columns["device"]
        host = parameters["issue"] * columns["operations"]
        return np.asarray((device**SHARPNESS + host**SHARPNESS) ** (1 / SHARPNESS), dtype=float)
