"""One stage of a pipeline: how long it works on an output, by how many, and what fits behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.schedule.pipelines.recurrence import Floats
from slipstick.hwmodels.files.readers import InputError


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline.

    `service` [s] is the mean time to make one output, or the times of successive outputs (repeated when they run
    out, for schedules that change); `variation` the coefficient of variation of a log-normal factor on it (0:
    deterministic). `workers` work side by side, `gather` inputs make one output, `buffer` outputs fit behind the
    stage, `start_up` [s] passes before the workers are ready, `resource` names a shared resource of the pipeline
    that every service holds.
    """

    name: str
    service: float | tuple[float, ...]
    workers: int = 1
    gather: int = 1
    buffer: int = 1
    variation: float = 0.0
    start_up: float = 0.0
    resource: str | None = None

    def __post_init__(self) -> None:
        for what in ("workers", "gather", "buffer"):
            size = getattr(self, what)
            if size < 1:
                raise InputError(f"stage {self.name!r}: {what} is {size}; it must be at least 1")
        for what, value in (("service", min(self.times)), ("variation", self.variation), ("start_up", self.start_up)):
            if not (value >= 0 and math.isfinite(value)):
                raise InputError(f"stage {self.name!r}: {what} is {value}; it must be finite and at least 0")

    @property
    def times(self) -> tuple[float, ...]:
        """The given service times [s] as a tuple."""
        return self.service if isinstance(self.service, tuple) else (self.service,)

    @property
    def mean(self) -> float:
        """Mean service time [s] of one output."""
        return sum(self.times) / len(self.times)

    def draw(self, outputs: int, generator: np.random.Generator) -> Floats:
        """Service times [s] of the first `outputs` outputs."""
        times = np.resize(np.array(self.times, dtype=np.float64), outputs)
        if self.variation == 0:
            return times
        spread = math.log1p(self.variation**2)
        return times * generator.lognormal(-spread / 2, math.sqrt(spread), outputs)
