"""What was fitted, by the file or the name of its calibration."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown
from slipstick.common.opener import is_there
from slipstick.common.readers import read_json, require_mapping
from slipstick.common.renamed_arguments import checked
from slipstick.common.trusted_code import named_here
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.cpu import thread_file
from slipstick.estimators.fitting import calibration_file
from slipstick.estimators.gpu.transfer import devices_file
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, violations
from slipstick.estimators.simulation import job_calibration
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine

MOST_ROWS = 1000
"""Measured operations that move an answer."""
GPUS = "gpus"
"""The calibration that operations belong to where none is named."""


@checked
def read_calibration(
    path: str | os.PathLike[str] | None,
    measured: str | os.PathLike[str] | None = None,
    machine: str | Machine | None = None,
    allow_code: Collection[str] = (),
) -> Fitted | DeviceCalibration:
    """What was fitted, from its file: of one estimator, of threads on a machine, or a `DeviceCalibration`.

    Parameters
    ----------
    path
        A file, or the name of a calibration that ships ("gpus"); None for what ships and `measured` belong to.
    measured
        What was measured on `machine`: single operations (`read_operation_times`), for a calibration across devices;
        or anything that `read_known_answer` takes, a time of the question first of all ("23.4ms").
    machine
        As it was measured, whatever a question changes.
    allow_code
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
    if measured and (answers := read_known_answer(str(measured), _measured_on(str(measured), machine))) is not None:
        if path is not None:
            raise InputError(
                f"--measured {measured} moves what ships, not {path}: ask with --measured or with --calibration"
            )
        return answers
    shipped = path is None
    path = _shipped(os.fspath(GPUS if path is None else path))
    fields = require_mapping(read_json(path), path, "file")
    if fields.get("schema") == devices_file.SCHEMA:
        made = devices_file.load_device_calibration(path)
        rows = _anchors(str(measured), machine) if measured else ()
        made = replace(made, anchors=(*made.anchors, *rows))
        return MeasuredOperations(made, shipped=True) if shipped and measured else made
    if fields.get("schema") == thread_file.SCHEMA:
        return thread_file.from_fields(fields, path)
    if fields.get("schema") == job_calibration.SCHEMA:
        raise InputError(f"{path}: is the calibration of a simulated job: JOB.yaml --simulate --calibration {path}")
    if measured:
        raise InputError(f"--measured {measured}: {path} is no calibration across devices")
    if not isinstance(fields.get("estimator"), str):
        raise InputError(f"{path}: estimator: want the name of the estimator that was fitted; is it a calibration?")
    name = named_here(str(fields["estimator"]), allow_code, f"{path}: estimator")
    return calibration_file.load_calibration(path, registry.estimator(name))


def _shipped(path: str) -> str:
    """The file of a calibration that ships, where a name is meant; else the path itself."""
    known = sorted(file.stem for file in registry.CALIBRATIONS.glob("*.json"))
    if Path(path).suffix or is_there(path):
        return path
    if Path(path).name not in known:
        raise InputError(f"{path}: no such file, and no calibration that ships (known: {', '.join(known)})")
    return str(registry.CALIBRATIONS / f"{Path(path).name}.json")


def _measured_on(path: str, named: str | Machine | None) -> Machine:
    if named is None:
        raise InputError(f"--measured {path}: name the machine that they were measured on")
    return machine_by_name(named) if isinstance(named, str) else named


def _anchors(path: str, named: str | Machine | None) -> list[OperationTimes]:
    base = _measured_on(path, named)
    word = named if isinstance(named, str) else base.name
    result = [
        form
        for form in read_operation_times(path, {word: base}, {"machine": word, "dtype": "float32"})
        if form.machine.name == base.name
    ]
    if not result:
        raise InputError(f"{path}: no row was measured on {base.name!r}")
    if (rows := sum(map(len, result))) > MOST_ROWS:
        raise InputError(f"{path}: {rows:,} rows measured on {base.name!r}: want at most {MOST_ROWS:,}")
    if impossible := violations(result):
        worst = impossible[0]
        raise InputError(
            f"{path}: {worst.example}: {ratio_shown(worst.worst)} x faster than {base.name!r} can, by its "
            f"{worst.bound}: another machine, data type or shape?"
        )
    return result
