"""The parts of a study's file: values, ranges to draw from, a calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict, Record
from slipstick.common.renamed_arguments import renamed

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
    ranges: FrozenDict[SampledRange]


def with_todays_keys(document: Mapping[str, Any], path: object) -> dict[str, Any]:
    """A study's document, and its [fit], under today's keys: older ones are taken, with a line on standard error.

    Raises InputError where both names of a key stand there.
    """
    made = dict(document)
    if isinstance(made.get("fit"), Mapping):
        made["fit"] = _renamed(made["fit"], f"{path}: fit.")
    return _renamed(made, f"{path}: ")


def _renamed(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    made = dict[str, Any]()
    for key, value in part.items():
        new = renamed(key, {"measured"}, where)
        if new != key and new in part:
            raise InputError(f"{where}{key} and {new} are one field: give {new}")
        made[new] = value
    return made


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
