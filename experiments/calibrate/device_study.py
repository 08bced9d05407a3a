"""A study that calibrates across devices: measured operations of many machines, one machine left out at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Record, validated
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.device_fits import SAMPLE, fit_devices
from slipstick.estimators.gpu.transfer.operation_times import Anchor, OperationTimes, Violation, possible, violations
from slipstick.experiments.calibrate.leave_one_device_out_report import DeviceLeftOut, leave_devices_out
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.hwmodels.catalog import machine


class AnchorShape(Record):
    """An operation to be measured on a new machine: its class (``gemm.float32``) and dims."""

    operation: str = Field(pattern=r"^[a-z]+\.[a-z0-9]+$")
    dims: FrozenDict[float]


class DeviceFit(Record):
    """What is fitted, and how it is judged.

    `measured`: CSV files of single operations (`read_operation_times`), relative to the study.
    `leave_out`: what is held out in turn.
    `sample`: rows of a machine, class and file that a fit looks at.
    `anchors`: what would be measured first on a new machine: its gain is part of the table.
    `typical`: those of the files whose rows resemble the target's; all where left out.
    `impossible`: whether rows faster than the machine allows are kept (and warned of) or dropped.
    """

    measured: tuple[str, ...] = Field(min_length=1, max_length=100)
    leave_out: Literal["machine"]
    sample: int = Field(default=SAMPLE, ge=12, le=100_000)
    anchors: tuple[AnchorShape, ...] = Field(default=(), max_length=20)
    typical: tuple[str, ...] = Field(default=(), max_length=100)
    impossible: Literal["keep", "drop"] = "keep"
    source: str = ""


class DeviceStudy(Record):
    """The study file: ``slipstick calibrate STUDY.toml`` with ``leave_out = "machine"`` under [fit].

    `machines`: those of the measurements that count; all where left out. Names of the catalogue, or YAML files.
    """

    schema_: Literal["slipstick-study-1"] = Field(alias="schema")
    name: str = Field(min_length=1, max_length=100)
    description: str = ""
    machines: tuple[str, ...] = ()
    level: float = Field(default=DEFAULT_LEVEL, gt=0, lt=1)
    fit: DeviceFit


@dataclass(frozen=True)
class DeviceAnswer:
    """What calibrating across devices found."""

    calibration: DeviceCalibration
    left_out: list[DeviceLeftOut]
    violations: list[Violation]
    rows: int


def is_device_study(document: Mapping[str, Any]) -> bool:
    """Whether a study's document leaves machines out."""
    fit = document.get("fit")
    return isinstance(fit, Mapping) and "leave_out" in fit


def device_study(document: Mapping[str, Any], path: str | os.PathLike[str]) -> DeviceStudy:
    """A study from a document; one measured file may stand without a list.

    Raises InputError, which names the file, the field, the value and what is allowed.
    """
    fit = dict(document["fit"])
    if isinstance(fit.get("measured"), str):
        fit["measured"] = [fit["measured"]]
    return validated(DeviceStudy, {**document, "fit": fit}, str(path))


def calibrate_devices(study: DeviceStudy, folder: Path, progress: Callable[[str], None] | None = None) -> DeviceAnswer:
    """Read, check against physics, fit, and leave every machine out in turn.

    Raises InputError where a file cannot be used, or fewer than two machines have enough rows.
    """
    named = {name: machine(str(folder / name) if "." in name or "/" in name else name) for name in study.machines}
    forms: list[OperationTimes] = []
    for file in study.fit.measured:
        forms += read_operation_times(folder / file, named)
    if named:
        wanted = {described.name for described in named.values()}
        forms = [form for form in forms if form.machine.name in wanted]
    impossible = violations(forms)
    if study.fit.impossible == "drop":
        forms = possible(forms)
    source = study.fit.source or ", ".join(Path(file).name for file in study.fit.measured)
    count = sum(map(len, forms))
    made = fit_devices(forms, f"{source} ({count} measurements)", study.fit.sample, progress, _typical(study.fit))
    if len(made.machines) < 2:
        raise InputError(f"{study.name}: only {', '.join(made.machines)} has enough rows: leaving one out needs two")
    anchors = [Anchor(one.operation, one.dims) for one in study.fit.anchors]
    shown = (lambda name: progress(f"{name} left out")) if progress else None
    return DeviceAnswer(made, leave_devices_out(made, forms, anchors, study.level, progress=shown), impossible, count)


def _typical(fit: DeviceFit) -> list[str]:
    """Names of files as the measurements have them."""
    for name in fit.typical:
        if name not in fit.measured:
            raise unknown_name("file of fit.typical:", name, fit.measured)
    return [Path(name).name for name in fit.typical]
