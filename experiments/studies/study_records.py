"""The parts of a study's file: values, ranges to draw from, a calibration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slipstick.hwmodels.files.records import Record, Table

Value = str | float
Values = str | tuple[Value, ...]


class SampledRange(Record):
    """Bounds of a sampled quantity, with units where its field has one; counts are drawn whole."""

    low: Value
    high: Value
    scale: Literal["linear", "log"] = "linear"
    kind: Literal["real", "whole"] | None = None


class Sample(Record):
    """Points drawn from ranges: Sobol (quasi-random), Latin hypercube, or plainly random."""

    method: Literal["sobol", "latin-hypercube", "random"] = "sobol"
    count: int = Field(ge=1, le=10_000_000)
    seed: int = Field(default=0, ge=0)
    ranges: Table[SampledRange]


class Fitting(Record):
    """A calibration: a CSV of measurements and the parameters to fit to them.

    `loss`, `starts` and `intervals` are those of `calibration.calibrate` and of `slipstick calibrate`.
    """

    measured: str
    parameters: tuple[str, ...] = Field(min_length=1)
    workload: str | None = None
    machine: str | None = None
    source: str = ""
    loss: Literal["linear", "huber", "soft_l1", "cauchy"] = "linear"
    starts: int = Field(default=1, ge=1, le=1024)
    intervals: Literal["covariance", "profile", "bootstrap"] = "covariance"
