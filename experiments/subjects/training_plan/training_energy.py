"""What a training step draws: the factors of metered GPUs on the step's flop and bytes."""

from __future__ import annotations

import math

import numpy as np

from slipstick.estimators.operation.gpu.tiled import MATRIX_ENERGY
from slipstick.estimators.operation.power.energy import pooled_power
from slipstick.estimators.schedule.pipelines.training_step import PRECISIONS, StepTime
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine import Machine


def step_watts(machine: Machine, time: StepTime, flop: float, precision: str) -> tuple[float, float] | None:
    """Mean power of a device in a step [W], and the factor of its 80 % band; None where no factors were fitted.

    The factors come from serving, where no training step was metered: the band is that of serving.

    Parameters
    ----------
    flop
        Of the model in one step on one device.
    precision
        Of the layers' products: bf16, fp8, mxfp8 or nvfp4.
    """
    model, half = pooled_power(machine)
    if half is None:
        return None
    energy = MATRIX_ENERGY.get(PRECISIONS[precision], MATRIX_ENERGY["float8"])
    moved = time.parts["elementwise"] * machine.bandwidth(machine.main_memory)
    try:
        watts = model.watts(machine, np.array([time.seconds]), np.array([flop * energy]), np.array([moved]))
    except InputError:
        return None
    return float(watts[0]), math.exp(half)
