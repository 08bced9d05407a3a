"""A question answered by a calibration that was kept as a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstick.estimators.across_devices.files import devices_file
from slipstick.estimators.across_devices.operation_times import OperationTimes
from slipstick.estimators.calibration import calibration_file
from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.named import thread_file
from slipstick.estimators.named.thread_calibration import carried_over, strategy
from slipstick.estimators.operation.measured import MeasuredTimes
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.question import registry
from slipstick.experiments.question.own import require_trusted
from slipstick.experiments.question.question import Question, parameter_values, set_parameters
from slipstick.experiments.question.settings import assignments
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError, read_json, require_mapping
from slipstick.hwmodels.machine import Machine


def calibrated(
    question: Question,
    machine: str,
    path: str,
    anchors: str | None,
    settings: Sequence[str],
    trusted: Collection[str] = (),
) -> Question:
    """The same question, answered by the calibration in a file.

    Parameters
    ----------
    path
        A file, or the name of a calibration that ships (`gpus`).
    on
        The machine's name or file: anchors were measured on it as it is, whatever the question changes.
    anchors
        A CSV of rows measured on that machine (`read_operation_times`); for a calibration across devices.
    settings
        Those of the question; ``estimator.NAME=value`` among them overrides what was fitted.
    trusted
        Estimators MODULE:ATTRIBUTE that the file may name: what the user named himself.

    Raises
    ------
    InputError
        Where a file cannot be used.
    """
    path = _shipped(path)
    fields = require_mapping(read_json(path), path, "file")
    made = (
        _for_machine(question, machine, path, anchors)
        if fields.get("schema") == devices_file.SCHEMA
        else _of_threads(question, fields, path)
        if fields.get("schema") == thread_file.SCHEMA
        else _plain(fields, path, anchors, trusted)
    )
    changes = assignments([text for text in settings if text.startswith("estimator.")], ("estimator",))["estimator"]
    return replace(question, estimator=set_parameters(made, parameter_values(made, changes)) if changes else made)


def _shipped(path: str) -> str:
    """The file of a calibration that ships, where a name is meant; else the path itself."""
    known = sorted(file.stem for file in registry.CALIBRATIONS.glob("*.json"))
    if Path(path).suffix or Path(path).exists():
        return path
    if Path(path).name not in known:
        raise InputError(f"{path}: no such file, and no calibration that ships (known: {', '.join(known)})")
    return str(registry.CALIBRATIONS / f"{Path(path).name}.json")


def _for_machine(question: Question, machine_name: str, path: str, anchors: str | None) -> Calibration:
    base = machine(machine_name)
    made = devices_file.load_device_calibration(path)
    rows = _anchors(anchors, machine_name, base) if anchors else []
    return replace(made, anchors=(*made.anchors, *rows)).for_machine(base, question.workload, question.run)


def _anchors(path: str, machine: str, base: Machine) -> list[OperationTimes]:
    rows = [
        form
        for form in read_operation_times(path, {machine: base}, {"machine": machine, "dtype": "float32"})
        if form.machine.name == base.name
    ]
    if not rows:
        raise InputError(f"{path}: no row was measured on {base.name!r}")
    return rows


def _of_threads(question: Question, fields: Mapping[str, Any], path: str) -> Calibration:
    """Strategy (b) where the question names an estimator of measured times, else (a)."""
    timed = isinstance(question.estimator.operation_formulas, MeasuredTimes)
    measured = thread_file.from_fields(fields, path)
    made = strategy(measured, "timed" if timed else "counted")
    network = str(question.workload.metadata.get("network", question.workload.name))
    return made if timed or network == measured.network else carried_over(made, network)


def _plain(fields: Mapping[str, Any], path: str, anchors: str | None, trusted: Collection[str]) -> Calibration:
    if anchors:
        raise InputError(f"--anchors {anchors}: {path} is no calibration across devices")
    name = str(fields.get("estimator"))
    require_trusted(name, trusted, path)
    return calibration_file.load_calibration(path, registry.estimator(name))
