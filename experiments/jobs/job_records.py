"""What a job's YAML file may say, field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator

from slipstick.common.records import Record
from slipstick.common.units import Duration, Seconds
from slipstick.estimators.simulation.stage import Distribution, Order

OperationTime: TypeAlias = Literal["whole", "host", "infeed", "device"]


class StageFile(Record):
    """One stage: its seconds as written, or those of a workload on a machine, or of a part of it; see `Stage`."""

    name: str = Field(pattern=r"^[^.=]+$", max_length=100)
    service: tuple[Seconds, ...] | None = None
    workload: str | None = None
    machine: str | None = None
    estimator: str | None = None
    dtype: str | None = None
    part: OperationTime = "whole"
    set: tuple[str, ...] = ()
    workers: int = Field(default=1, ge=1, le=1_000_000)
    gather: int = Field(default=1, ge=1)
    buffer: int | None = Field(default=1, ge=1)
    variation: float = Field(default=0.0, ge=0)
    distribution: Distribution = "log-normal"
    start_up: Seconds = 0.0
    resource: str | None = None
    order: Order = "kept"
    together: bool = False
    slow_share: float = Field(default=0.0, ge=0, le=1)
    slow_factor: float = Field(default=1.0, ge=0)
    uneven: float = Field(default=0.0, ge=0)
    scatter: float | None = Field(default=None, ge=0)
    process: str | None = None

    @field_validator("service", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, (list, tuple)) else [value]

    @field_validator("service")
    @classmethod
    def _takes_time(cls, value: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if value is not None and not any(value):
            raise ValueError("want at least one time > 0 s")
        return value


class CheckpointFile(Record):
    """After how many steps, and how long it takes."""

    every: int = Field(ge=1)
    time: Seconds


class FailuresFile(Record):
    """Mean time between failures of one copy, and what a restart takes."""

    between: Duration
    restart: Seconds = 0.0


class FormulaFile(Record):
    """A formula of the job's time in seconds, to be compared with.

    `seconds`: in the names job.steps, job.copies, job.population, job.resources.NAME, and job.STAGE.FIELD for numbers.
    `source`: whose it is.
    """

    seconds: str
    source: str


class JobFile(Record):
    """What the file says; see `Job`."""

    name: str
    about: str = ""
    steps: int = Field(default=100, ge=1)
    runs: int | None = Field(default=None, ge=1, le=10_000)
    copies: int = Field(default=1, ge=1, le=100_000)
    population: int | None = Field(default=None, ge=1, le=1_000_000)
    device: str | None = None
    resources: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    checkpoint: CheckpointFile | None = None
    failures: FailuresFile | None = None
    stages: tuple[StageFile, ...] = Field(min_length=1, max_length=100)
    vary: tuple[str, ...] = ()
    formula: FormulaFile | None = None
