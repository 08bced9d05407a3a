"""What a training step draws: the factors of metered GPUs on the step's flop and bytes."""

from __future__ import annotations

import math

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.power.energy import MATRIX_ENERGY, pooled_power
from slipstick.estimators.power.power_cap import (
    BusyPower,
    at_rated_cap,
    cap_watts,
    rated_watts,
    refuse_idle_cap,
    slower_watts,
)
from slipstick.estimators.power.voltage import knee
from slipstick.estimators.training.training_step import PRECISIONS, TrainingStepTime
from slipstick.hwmodels.machine import Machine


def step_watts(machine: Machine, time: TrainingStepTime, flop: float, precision: str) -> tuple[float, float] | None:
    """Mean power of a device in a step [W], and the factor of its 80 % band; None where no factors were fitted.

    Training was metered on older GPUs alone and servers on newer ones: the factors are pooled over both. A cap that was
    set is not passed.

    `flop`: of the model in one step on one device.
    `precision`: of the layers' products: bf16, fp8, mxfp8 or nvfp4.
    """
    model, half = pooled_power(machine, "training")
    if half is None:
        return None
    energy = MATRIX_ENERGY.get(PRECISIONS[precision], MATRIX_ENERGY["float8"])
    moved = time.parts["elementwise"] * machine.bandwidth(machine.main_memory)
    try:
        watts = model.watts(
            at_rated_cap(machine), np.array([time.seconds]), np.array([flop * energy]), np.array([moved])
        )
        return min(float(watts[0]), cap_watts(machine)), math.exp(half)
    except InputError:
        return None


def lower_watts(machine: Machine, time: TrainingStepTime, watts: float, clock: float, seconds: float) -> float:
    """Mean power of a device [W] at a clock below the machine's: never more than at it.

    `time`, `watts`: a step at the machine's clock, and its mean power [W].
    `clock`, `seconds`: the lower one [Hz], and the step there.
    """
    rated, idle = rated_watts(machine)
    read, stretch = time.parts["elementwise"] / time.seconds, seconds / time.seconds
    return float(slower_watts(watts, idle, rated, read, clock / machine.clock, knee(machine) / machine.clock, stretch))


def clock_left(machine: Machine, time: TrainingStepTime, watts: float) -> float:
    """The clock that a cap leaves over the machine's own, at most 1.

    `machine`: with the cap that was set; its clock is that of the step.
    `time`, `watts`: a step under the board's rated cap, and its mean power [W].
    Raises InputError where the cap is not above idle power.
    """
    refuse_idle_cap(machine, cap_watts(machine))
    rated, idle = rated_watts(machine)
    read = time.parts["elementwise"] / time.seconds
    power = BusyPower.of(watts, min(idle, watts), rated, read)
    return float(power.clock(cap_watts(machine), knee(machine) / machine.clock))
