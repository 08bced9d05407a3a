"""What was fitted, by the file or the name of its calibration."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from slipstick.estimators.across_devices.files import devices_file
from slipstick.estimators.across_devices.operation_times import OperationTimes
from slipstick.estimators.calibration import calibration_file, job_calibration
from slipstick.estimators.contract.protocols import Fitted
from slipstick.estimators.named import thread_file
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.files.own_names import named_here
from slipstick.hwmodels.files.readers import InputError, read_json, require_mapping
from slipstick.hwmodels.machine import Machine


def read_calibration(
    path: str | os.PathLike[str],
    anchors: str | os.PathLike[str] | None = None,
    machine: str | Machine | None = None,
    trusted: Collection[str] = (),
) -> Fitted:
    """What was fitted, from its file: of one estimator, across devices, or of threads on a machine.

    Parameters
    ----------
    path
        A file, or the name of a calibration that ships ("gpus").
    anchors
        A CSV of rows measured on `machine` (`read_operation_times`); for a calibration across devices.
    machine
        As it was measured, whatever a question changes.
    trusted
        Estimators MODULE:ATTRIBUTE that the file may name: what the user named himself.

    Raises
    ------
    InputError
        Where a file cannot be used.

    Examples
    --------
    >>> import slipstick as ss
    >>> gpus = ss.read_calibration("gpus")
    >>> ss.question("gpt2", "H100", calibration=gpus).answer().interval() is not None
    True
    """
    path = _shipped(os.fspath(path))
    fields = require_mapping(read_json(path), path, "file")
    if fields.get("schema") == devices_file.SCHEMA:
        made = devices_file.load_device_calibration(path)
        return replace(made, anchors=(*made.anchors, *_anchors(str(anchors), machine))) if anchors else made
    if fields.get("schema") == thread_file.SCHEMA:
        return thread_file.from_fields(fields, path)
    if fields.get("schema") == job_calibration.SCHEMA:
        raise InputError(f"{path}: is the calibration of a simulated job: JOB.yaml --simulate --calibration {path}")
    if anchors:
        raise InputError(f"--anchors {anchors}: {path} is no calibration across devices")
    name = named_here(str(fields.get("estimator")), trusted, f"{path}: estimator")
    return calibration_file.load_calibration(path, registry.estimator(name))


def _shipped(path: str) -> str:
    """The file of a calibration that ships, where a name is meant; else the path itself."""
    known = sorted(file.stem for file in registry.CALIBRATIONS.glob("*.json"))
    if Path(path).suffix or Path(path).exists():
        return path
    if Path(path).name not in known:
        raise InputError(f"{path}: no such file, and no calibration that ships (known: {', '.join(known)})")
    return str(registry.CALIBRATIONS / f"{Path(path).name}.json")


def _anchors(path: str, named: str | Machine | None) -> list[OperationTimes]:
    if named is None:
        raise InputError(f"--anchors {path}: name the machine that they were measured on")
    base = machine_by_name(named) if isinstance(named, str) else named
    word = named if isinstance(named, str) else base.name
    result = [
        form
        for form in read_operation_times(path, {word: base}, {"machine": word, "dtype": "float32"})
        if form.machine.name == base.name
    ]
    if not result:
        raise InputError(f"{path}: no row was measured on {base.name!r}")
    return result
