"""What the product answers for measured rows, under any calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slipstick.estimators.operation.serving.engines import ServingCalibration
from slipstick.estimators.operation.serving.step_time import StepTime
from slipstick.estimators.schedule.serving.closed_loop import Steady, steady
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.experiments.evidence.validation.serving.silicon import Case
from slipstick.experiments.evidence.validation.serving.step_fit import BUDGET, shares_of
from slipstick.experiments.serve.oracle import CONTEXT_BYTES, MEMORY_SHARE

FloatArray = npt.NDArray[np.float64]


def answer(case: Case, calibration: ServingCalibration) -> Steady:
    """The closed loop's steady state of one row."""
    pace = calibration.pace(case.engine, case.version, case.machine_name, case.kind)
    step = StepTime.on(case.machine, shares_of(case), calibration.parameters, pace)
    left = MEMORY_SHARE * step.device.capacity - step.shares.held_bytes - CONTEXT_BYTES
    tokens = int(max(left, 0) / step.shares.token_cache_bytes) * case.layout.data
    longest = int(case.load.input_tokens + case.load.output_tokens) + 1
    mixing = "separate" if case.engine == "sglang" else "mixed"
    rules = Scheduler(BUDGET, 4096, 16, max(tokens, longest), "mixed" if mixing == "mixed" else "separate")
    return steady(step.seconds, rules, case.load, case.layout.replicas, case.layout.data)


def answers(cases: Sequence[Case], calibration: ServingCalibration) -> list[Steady]:
    """The steady state of each row."""
    return [answer(case, calibration) for case in cases]
