"""A workload on a board of TPUs: its batch shared out over all cores, one step behind the infeed."""

from __future__ import annotations

from dataclasses import replace

from slipstick.estimators.composition.clipped_at_peak import ClippedAtPeak
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.schedules.infeed import InfeedOverlap
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.hwmodels.machine import Machine

FITTED_TO = "Cloud TPU v2-8"
SCATTER = 0.3
"""Fully connected networks left out scatter by 0.06 to 0.1 (`slipstick validate tpu`); other networks are beyond what
it was fitted to: a judgement."""
ELSEWHERE = 0.45


def tpu_step(fitted: Calibration, machine: Machine) -> Calibration:
    """The estimator of any network on a board of TPUs, with the numbers fitted to fully connected ones.

    `fitted`: of the estimator "tpu".
    """
    operation: TpuOperations = replace(fitted.estimator.operation, work_of="all_cores")
    schedule: InfeedOverlap = fitted.estimator.schedule
    estimator = ClippedAtPeak(operation, schedule, "training step shared out over the cores of a TPU board")
    spread = SCATTER if machine.name == FITTED_TO else ELSEWHERE
    return Calibration(estimator, (), residual_std=spread, source=fitted.source)
