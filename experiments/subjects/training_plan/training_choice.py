"""The plan of a training: the fastest layouts, each an estimate, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstick.estimators.core.estimate import Estimate
from slipstick.estimators.named.training.fitting import fit_of
from slipstick.estimators.named.training.trained_model import answer_of
from slipstick.estimators.named.training.trained_step import TrainedStep
from slipstick.estimators.schedule.pipelines.training_known import StepCalibration
from slipstick.estimators.schedule.pipelines.training_parts import PARTS
from slipstick.hwmodels.answer import Answer, Provenance
from slipstick.hwmodels.columns import Column, in_seconds


def row_of(step: TrainedStep) -> dict[str, Any]:
    """A step as a row of a table: the quantities of its estimate, under the keys of a plan, and seconds by part."""
    known = answer_of(step).quantities

    def value(name: str) -> float | None:
        return known[name].value if name in known else None

    time, memory, power = known["time"], known["memory"], known.get("power")
    return {
        "layout": step.layout.text(),
        "devices": step.layout.devices,
        "step_s": time.value,
        "low_s": time.low,
        "high_s": time.high,
        "tokens_per_s": value("tokens"),
        "mfu": value("mfu"),
        "memory_gb": memory.value / 1e9,
        "low_memory_gb": None if memory.low is None else memory.low / 1e9,
        "high_memory_gb": None if memory.high is None else memory.high / 1e9,
        "fits": fit_of(step.stages, step.of.capacity),
        "power_W": value("power"),
        "low_power_W": None if power is None else power.low,
        "high_power_W": None if power is None else power.high,
        "energy_J_per_token": value("energy"),
        "cost_usd_per_million_tokens": value("cost"),
        "largest_part": step.time.bound,
        **{f"{name}_s": step.time.parts[name] for name in PARTS},
    }


@dataclass(frozen=True)
class TrainingPlan(Answer):
    """The best layouts, fastest first.

    Parameters
    ----------
    flop
        Model flop of a token.
    peak
        Flop/s of a device in the precision of the layers' products, by which MFU counts.
    bound
        Seconds below which no layout of these devices comes.
    joined
        Devices that the machine's links join by its file; beyond them the last link's rate is assumed to hold.
    capacity
        Bytes of a device's main memory.
    fitted, doubtful, short, refused
        Layouts that fit in memory; that may not; that do not; those that do not divide.
    tight
        The fastest layout that may not fit, where it is faster than the best; None where there is none.
    calibration
        Factors fitted to measured steps of one's own; None without them.
    remarks
        Where the question leaves the runs that the terms were fitted to; none where measured steps calibrate them.
    grown
        The measured layout of most devices with more data ranks, so that it fills the devices; None where it cannot.
    """

    model: str
    machine: str
    devices: int
    batch: int
    sequence: int
    precision: str
    flop: float
    peak: float
    bound: float
    joined: int
    best: tuple[TrainedStep, ...]
    capacity: float
    fitted: int
    doubtful: int
    short: int
    refused: int
    calibration: StepCalibration | None = None
    grown: TrainedStep | None = None
    tight: TrainedStep | None = None
    remarks: tuple[str, ...] = ()

    @property
    def provenance(self) -> Provenance:
        """ "calibrated" where measured steps moved the law."""
        return "estimated" if self.calibration is None else "calibrated"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The best layouts as answers, what `estimate` says of each."""
        return tuple(map(answer_of, self.best))

    def rows(self) -> list[dict[str, Any]]:
        """The best layouts."""
        return [row_of(step) for step in self.best]

    @property
    def declared(self) -> tuple[Column, ...]:
        """Parts of a step are seconds; dollars and joules are a token's."""
        return (
            *in_seconds(PARTS),
            Column("largest_part", "largest part"),
            Column("energy_J_per_token", "energy a token", "J", better="less"),
            Column("cost_usd_per_million_tokens", "$ a million tokens", better="less"),
        )
