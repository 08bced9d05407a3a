"""A layout of training with its step time, memory and power; the plan that lists the fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipstick.estimators.schedule.pipelines.training_known import StepCalibration
from slipstick.estimators.schedule.pipelines.training_parts import PARTS
from slipstick.estimators.schedule.pipelines.training_step import TrainingStepTime
from slipstick.experiments.subjects.training_plan.fitting import fit_of, fullest
from slipstick.hwmodels.columns import Column, in_seconds
from slipstick.workloads.language.memory_band import StageMemory
from slipstick.workloads.language.training_layout import TrainingLayout

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TrainingChoice:
    """A layout, its step time by part, and the memory of its first, second and last stage.

    `half` is half of the 80 % band of the log time.
    `watts` are the mean power of a device and the factor of its 80 % band; None where it is unknown.
    `loading` are the seconds in which the step's input is loaded, which no step is below.
    """

    layout: TrainingLayout
    time: TrainingStepTime
    stages: tuple[StageMemory, ...]
    half: float
    watts: tuple[float, float] | None = None
    loading: float = 0.0

    @property
    def width(self) -> float:
        """Factor of the 80 % band of the step."""
        return math.exp(self.half)

    @property
    def memory(self) -> StageMemory:
        """Of the fullest stage."""
        return fullest(self.stages)

    def _power(self, rate: float, cap: float | None) -> dict[str, float | None]:
        """Watts of all devices with their band, joules of a token."""
        if self.watts is None:
            return dict.fromkeys(("power_W", "low_power_W", "high_power_W", "energy_J_per_token"))
        each, width = self.watts
        number = self.layout.devices
        return {
            "power_W": each * number,
            "low_power_W": each / width * number,
            "high_power_W": min(each * width, cap or math.inf) * number,
            "energy_J_per_token": each * number / rate,
        }

    def row(self, plan: TrainingPlan) -> dict[str, Any]:
        """As a row of a table, with the 80 % band of the step."""
        seconds, width = self.time.seconds, self.width
        busy = seconds - self.time.parts["input"]
        tokens = plan.batch * plan.sequence
        return {
            "layout": self.layout.text(),
            "devices": self.layout.devices,
            "step_s": seconds,
            "low_s": max(busy / width, self.loading),
            "high_s": max(busy * width, self.loading),
            "tokens_per_s": tokens / seconds,
            "mfu": plan.flop * tokens / (seconds * self.layout.devices * plan.peak),
            "memory_gb": self.memory.counted.total / 1e9,
            "low_memory_gb": self.memory.low / 1e9,
            "high_memory_gb": self.memory.high / 1e9,
            "fits": fit_of(self.stages, plan.capacity),
            **self._power(tokens / seconds, plan.cap),
            "cost_usd_per_million_tokens": (
                plan.price * self.layout.devices / 3600 / (tokens / seconds) * 1e6 if plan.price is not None else None
            ),
            "largest_part": self.time.bound,
            **{f"{name}_s": self.time.parts[name] for name in PARTS},
        }


@dataclass(frozen=True)
class TrainingPlan:
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
    cap, price
        Watts that a device may draw, and what its hour costs [$]; None where the machine does not state them.
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
    best: tuple[TrainingChoice, ...]
    capacity: float
    fitted: int
    doubtful: int
    short: int
    refused: int
    calibration: StepCalibration | None = None
    grown: TrainingChoice | None = None
    tight: TrainingChoice | None = None
    remarks: tuple[str, ...] = ()
    cap: float | None = None
    price: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The best layouts."""
        return [choice.row(self) for choice in self.best]

    @property
    def declared(self) -> tuple[Column, ...]:
        """Parts of a step are seconds; dollars and joules are a token's."""
        return (
            *in_seconds(PARTS),
            Column("largest_part", "largest part"),
            Column("energy_J_per_token", "energy a token", "J", better="less"),
            Column("cost_usd_per_million_tokens", "$ a million tokens", better="less"),
        )

    def _repr_html_(self) -> str:
        from html import escape

        row = self.rows()[0]
        head = f"{row['layout']}: {row['step_s']:.4g} s a step ({row['low_s']:.4g} .. {row['high_s']:.4g}, 80 %)"
        return f"<p><b>{escape(self.model)} on {escape(self.machine)}</b>: {escape(head)}</p>" + str(
            self.to_frame().to_html(index=False)
        )

    def to_frame(self) -> pd.DataFrame:
        """The same as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())
