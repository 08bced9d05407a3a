"""One stage of a pipeline: how long it works on an output, by how many, and what fits behind it."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError

if TYPE_CHECKING:
    import simpy

Distribution: TypeAlias = Literal["log-normal", "exponential", "gamma"]
Order: TypeAlias = Literal["kept", "free"]
DRAWN = 100_000
"""Outputs of which the expected longest is made: 10 ms."""
LEAST_VARIATION = 1e-6
"""Less is none: a gamma distribution has one over its square as a parameter."""
MOST = {"variation": 100.0, "uneven": 100.0, "scatter": 10.0, "slow_factor": 1e6, "slow_share": 1.0}
"""Beyond these the mean of any number of runs is decided by one of them, and 1e200 is no number when squared."""


@runtime_checkable
class Process(Protocol):
    """Your own way of working on an output, as a SimPy process: what fails, warms up or takes a resource of its own.

    A frozen dataclass with this method; its plain numbers are numbers of the job, ``job.STAGE.NAME``.
    """

    def work(
        self, env: simpy.Environment, seconds: float, random: np.random.Generator
    ) -> Generator[simpy.Event, Any, Any]:
        """Work on one output, which is done when this ends.

        Parameters
        ----------
        env
            The clock of the run: ``yield env.timeout(seconds)``.
        seconds
            That the stage's service and variation give this output.
        random
            Drawn from the run's seed, for this stage alone.
        """
        ...


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline.

    `service`: mean seconds of one output, or the times of successive outputs (repeated when they run out).
    `workers`: that work side by side.
    `gather`: inputs of one output.
    `buffer`: outputs that fit behind the stage; None for any number.
    `variation`: coefficient of variation of one output's time around its mean; 0 is deterministic.
    `start_up`: seconds before the workers are ready.
    `resource`: a shared resource of which every service holds one unit.
    `distribution`: of the variation; an exponential one has a variation of 1.
    `order`: kept: outputs leave in the order of their inputs; free: as they are done.
    `together`: the copies of a job start each output together and end it together (a collective).
    `slow_share`, `slow_factor`: share of outputs that take so many times as long (a slow file, a straggler).
    `uneven`: coefficient of variation between copies, drawn once a run: some are slower throughout.
    `process`: what works on an output in place of a wait of its seconds.
    `scatter`: standard deviation of the log of the mean, drawn once a run for all copies: how sure the mean itself is.
    """

    name: str
    service: float | tuple[float, ...]
    workers: int = 1
    gather: int = 1
    buffer: int | None = 1
    variation: float = 0.0
    start_up: float = 0.0
    resource: str | None = None
    distribution: Distribution = "log-normal"
    order: Order = "kept"
    together: bool = False
    slow_share: float = 0.0
    slow_factor: float = 1.0
    uneven: float = 0.0
    scatter: float = 0.0
    process: Process | None = None

    def __post_init__(self) -> None:
        if not self.times:
            raise InputError(f"stage {self.name!r}: service is empty; want a time, or several")
        if 0 < self.variation < LEAST_VARIATION:
            raise InputError(f"stage {self.name!r}: variation is {self.variation:g}; want 0 or >= {LEAST_VARIATION:g}")
        for what in ("workers", "gather", "buffer"):
            size = getattr(self, what)
            if size is not None and size < 1:
                raise InputError(f"stage {self.name!r}: {what} is {size}; it must be at least 1")
        numbers = ("variation", "start_up", "uneven", "scatter", "slow_factor", "slow_share")
        for what, value in (("service", min(self.times)), *((name, getattr(self, name)) for name in numbers)):
            if not (value >= 0 and math.isfinite(value)):
                raise InputError(f"stage {self.name!r}: {what} is {value}; it must be finite and at least 0")
        for what, most in MOST.items():
            if getattr(self, what) > most:
                raise InputError(f"stage {self.name!r}: {what} is {getattr(self, what):g}; it must be at most {most:g}")
        if self.distribution == "exponential" and self.variation not in (0.0, 1.0):
            raise InputError(f"stage {self.name!r}: an exponential distribution varies by 1, not {self.variation}")

    @property
    def times(self) -> tuple[float, ...]:
        """The given service times [s] as a tuple."""
        return self.service if isinstance(self.service, tuple) else (self.service,)

    @property
    def mean(self) -> float:
        """Mean service time [s] of one output, slow ones among them."""
        return sum(self.times) / len(self.times) * (1 + self.slow_share * (self.slow_factor - 1))

    def longest(self, copies: int) -> float:
        """Expected seconds of the longest of so many copies' outputs, each copy with a speed of its own (`uneven`).

        Order statistics (H. A. David, H. N. Nagaraja, Order Statistics, 2003, section 3.1) of `DRAWN` outputs: the
        chance that the longest lies among the first i of n is (i / n) ** copies.
        """
        varies = self.variation or self.uneven or self.slow_share or self.distribution == "exponential"
        if copies == 1 or not varies:
            return self.mean
        generator = np.random.default_rng(0)
        times = self.draw(DRAWN, generator)
        times = np.sort(times * log_normal(self.uneven, DRAWN, generator) if self.uneven else times)
        return float(times @ np.diff((np.arange(DRAWN + 1) / DRAWN) ** copies))

    def draw(self, outputs: int, generator: np.random.Generator) -> FloatArray:
        """Service times [s] of the first `outputs` outputs."""
        times = np.resize(np.array(self.times, dtype=np.float64), outputs)
        if self.distribution == "exponential":
            times = times * generator.exponential(1.0, outputs)
        elif self.variation and self.distribution == "gamma":
            times = times * generator.gamma(1 / self.variation**2, self.variation**2, outputs)
        elif self.variation:
            times = times * log_normal(self.variation, outputs, generator)
        if self.slow_share:
            times = np.where(generator.random(outputs) < self.slow_share, times * self.slow_factor, times)
        return times


def log_normal(variation: float, count: int, generator: np.random.Generator) -> FloatArray:
    """Factors of mean 1 and of this coefficient of variation."""
    spread = math.log1p(variation**2)
    return generator.lognormal(-spread / 2, math.sqrt(spread), count)
