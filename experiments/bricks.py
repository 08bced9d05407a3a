"""Models composed from measured bricks, and the framework's overhead calibrated model by model left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from estimators.calibration import Calibration, calibrate
from estimators.composite import Composite
from estimators.estimate import Measurement
from estimators.operation.measured import MeasuredTimes, measured_key
from estimators.schedule.critical_path import CriticalPath
from estimators.schedule.sequential import Sequential
from hwmodels.files import InputError, unknown_name
from hwmodels.machine import Machine
from hwmodels.records import Table
from workloads.bricks import find_bricks, quotient
from workloads.workload import Workload

PARAMETERS = ("operation.scale", "operation.overhead")
SCHEDULES = {"sequential": Sequential(), "critical-path": CriticalPath()}


def composed(workload: Workload, granularity: int) -> Workload:
    """The workload as bricks of at most `granularity` layers."""
    return quotient(workload, find_bricks(workload, granularity))


def composer(seconds: Mapping[str, float], machine: Machine, schedule: str = "sequential") -> Composite:
    """Measured bricks under a schedule.

    Raises
    ------
    InputError
        Where the schedule is unknown.
    """
    if schedule not in SCHEDULES:
        raise unknown_name("schedule", schedule, list(SCHEDULES))
    table = MeasuredTimes(Table(dict(seconds)), machine.fingerprint, source="measured bricks")
    return Composite(table, SCHEDULES[schedule], "DLBricks (Li et al. 2020)")


@dataclass(frozen=True)
class ModelScore:
    """One model: its latency composed without it in the calibration, and measured; seconds."""

    name: str
    layers: int
    plain: float
    calibrated: float
    measured: float
    low: float
    high: float


def leave_one_model_out(
    models: Mapping[str, Workload], granularity: int, seconds: Mapping[str, float], machine: Machine
) -> list[ModelScore]:
    """Every model with the overhead fitted to the others; a model without all its bricks measured is left out.

    Raises
    ------
    InputError
        Where fewer than four models are complete.
    """
    plain = composer(seconds, machine)
    complete: dict[str, tuple[Workload, Measurement]] = {}
    for name, workload in models.items():
        whole = measured_key(composed(workload, len(workload)).operations[0])
        bricks = composed(workload, granularity)
        if whole in seconds and all(measured_key(op) in seconds for op in bricks):
            complete[name] = bricks, Measurement(bricks, machine, seconds[whole], protocol="warm")
    if len(complete) < 4:
        raise InputError(f"{len(complete)} models have all their bricks measured: want at least 4")
    scores = []
    for name, (bricks, measured) in complete.items():
        others = [own for other, (_, own) in complete.items() if other != name]
        fit: Calibration = calibrate(plain, others, PARAMETERS, source=f"{len(others)} other models")
        answer = fit.estimate(bricks, machine)
        low, high = answer.interval() or (np.nan, np.nan)
        alone = plain.estimate(bricks, machine).time
        scores.append(ModelScore(name, len(bricks), alone, answer.time, measured.value, low, high))
    return scores
