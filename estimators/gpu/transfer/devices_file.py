"""A calibration across devices as JSON: every machine's fits, the machines themselves, and measured rows.

Of each machine, class and source at most `device_fits.KEPT` rows are kept, for what the fit leaves over there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, of_schema, read_json, require_mapping, unknown_name
from slipstick.common.records import FrozenDict, of_kind, validated
from slipstick.common.writer import write_json
from slipstick.estimators.base.machine_family import MOST_WORDS
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.kernel_class import KernelClass, MachineFit, Scatter, technology
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.symbolic.formula import declared
from slipstick.hwmodels.machine import Machine

SCHEMA = "slipstick-device-calibration-2"
LARGEST_SPREAD = 10.0
"""Of log time: a factor of e^10."""


def to_dict(calibration: DeviceCalibration) -> dict[str, Any]:
    """The calibration as plain JSON values."""
    document = summary(calibration)
    for one in calibration.classes:
        for entry, fit in zip(document["classes"][one.name], one.fits, strict=True):
            entry["rows"] = [_form(form) for form in one.rows.get(fit.machine, ())]
    return document


def summary(calibration: DeviceCalibration) -> dict[str, Any]:
    """The same without the measured rows of fitted machines."""
    anchored = {form.machine.name: form.machine for form in calibration.anchors}
    return {
        "schema": SCHEMA,
        "estimator": "tiled-roofline",
        "source": calibration.source,
        "fingerprint": calibration.fingerprint,
        "machines": [
            machine.model_dump(mode="json", exclude_defaults=True)
            for machine in {**calibration.machines, **anchored}.values()
        ],
        "classes": {
            one.name: [
                {
                    "machine": fit.machine,
                    "library": fit.library,
                    "measurements": fit.count,
                    "median_log_error": fit.scatter,
                    "parameters": dict(fit.values),
                }
                for fit in one.fits
            ]
            for one in calibration.classes
        },
        "scatters": {
            one.name: [[each.short, each.long] for each in one.scatters] for one in calibration.classes if one.scatters
        },
        "typical_sources": sorted({source for one in calibration.classes for source in one.typical}),
        "anchors": [_form(form) for form in calibration.anchors],
    }


def save(calibration: DeviceCalibration, path: str | os.PathLike[str]) -> None:
    """Write the JSON file, whole or not at all."""
    write_json(path, to_dict(calibration))


def load_device_calibration(path: str | os.PathLike[str]) -> DeviceCalibration:
    """The calibration of a file.

    Raises
    ------
    InputError
        Where the file is none, or a machine, parameter or number of it cannot be used.
    """
    fields = of_schema(read_json(path), SCHEMA, path)
    entries = [validated(Machine, entry, f"{path}: machines") for entry in _list(fields, "machines", path)]
    machines = {entry.name: entry for entry in entries}
    typical = frozenset(map(str, _list(fields, "typical_sources", path)))
    entries_of = require_mapping(fields.get("classes"), path, "classes")
    scatters = require_mapping(fields.get("scatters", {}), path, "scatters")
    classes = tuple(
        replace(
            _class(name, _list(entries_of, name, path), typical, machines, path),
            scatters=_scatters(scatters, name, path) if name in scatters else (),
        )
        for name in entries_of
    )
    if not any(one.fits for one in classes):
        raise InputError(f"{path}: classes: no fit of any machine")
    anchors = tuple(_rows(entry, machines, path) for entry in _list(fields, "anchors", path))
    fitted = {fit.machine for one in classes for fit in one.fits}
    return DeviceCalibration(
        classes,
        FrozenDict({name: machine for name, machine in machines.items() if name in fitted}),
        anchors,
        str(fields.get("fingerprint", "")),
        str(fields.get("source", "")),
    )


def _form(form: OperationTimes) -> dict[str, Any]:
    """Rows of one form."""
    return {
        "machine": form.machine.name,
        "kind": form.op.kind,
        "dtype": form.op.dtype,
        "attributes": {name: _plain(value) for name, value in form.op.attributes.items()},
        "dims": {name: form.column(name).tolist() for name in form.op.dims},
        "time_s": form.times.tolist(),
        "source": form.source,
    }


def _class(
    name: str, entries: list[Any], typical: frozenset[str], machines: Mapping[str, Machine], path: object
) -> KernelClass:
    fits = tuple(_fit(entry, name, machines, path) for entry in entries)
    known = {parameter for fit in fits for parameter in fit.values}
    for fit in fits:
        for missing in sorted(known - set(fit.values)):
            raise InputError(f"{path}: classes.{name}: {fit.machine}: parameters: {missing!r} is missing")
    rows = {
        fit.machine: tuple(_rows(form, machines, path) for form in _list(entry, "rows", path))
        for fit, entry in zip(fits, entries, strict=True)
    }
    strange = [form for forms in rows.values() for form in forms if form.name != name]
    if strange:
        raise InputError(f"{path}: classes.{name}: rows of {strange[0].name}")
    return KernelClass(name, fits, rows, typical)


def _fit(entry: Any, name: str, machines: Mapping[str, Machine], path: object) -> MachineFit:
    fields = require_mapping(entry, path, f"classes.{name}")
    machine = _machine(fields, machines, path)
    values = {}
    bounds = declared(KernelParameters)
    for parameter, value in require_mapping(fields.get("parameters"), path, f"{name}.parameters").items():
        if parameter not in bounds:
            raise InputError(f"{path}: {unknown_name('parameter of a kernel', parameter, list(bounds))}")
        values[parameter] = number_of(value, f"{path}: {name}.{parameter}", 1e-30)
    scatter = number_of(fields.get("median_log_error"), f"{path}: {name}.median_log_error", 0.0, LARGEST_SPREAD)
    count = int(number_of(fields.get("measurements"), f"{path}: {name}.measurements", 1.0, 1e12))
    library = str(fields.get("library", machine.runtime.library))
    return MachineFit(machine.name, machine.family, technology(machine), FrozenDict(values), scatter, count, library)


def _scatters(fields: Mapping[str, Any], name: str, path: object) -> tuple[Scatter, ...]:
    pairs = _list(fields, name, path)
    if len(pairs) != MOST_WORDS + 1 or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"{path}: scatters.{name}: want {MOST_WORDS + 1} pairs of numbers")
    return tuple(
        Scatter(*(number_of(end, f"{path}: scatters.{name}", 0.0, LARGEST_SPREAD) for end in pair)) for pair in pairs
    )


def _rows(entry: Any, machines: Mapping[str, Machine], path: object) -> OperationTimes:
    fields = require_mapping(entry, path, "rows")
    dims = require_mapping(fields.get("dims"), path, "rows.dims")
    columns = {name: np.array([number_of(v, f"{path}: {name}", 0.0) for v in _list(dims, name, path)]) for name in dims}
    times = [number_of(v, f"{path}: time_s", 0.0) for v in _list(fields, "time_s", path)]
    if any(len(column) != len(times) for column in columns.values()):
        raise InputError(f"{path}: rows: dims and time_s: want lists of one length")
    attributes = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in require_mapping(fields.get("attributes", {}), path, "attributes").items()
    }
    machine = _machine(fields, machines, path)
    kind, dtype, source = (str(fields.get(name, "")) for name in ("kind", "dtype", "source"))
    return OperationTimes.of(machine, kind, dtype, columns, times, attributes, source)


def _machine(fields: Mapping[str, Any], machines: Mapping[str, Machine], path: object) -> Machine:
    name = fields.get("machine")
    if not isinstance(name, str):
        raise InputError(f"{path}: machine = {str(name)[:40]!r}: want a name")
    if name not in machines:
        raise InputError(f"{path}: {unknown_name('machine', name, sorted(machines))}")
    return machines[name]


def _list(fields: Mapping[str, Any], name: str, path: object) -> list[Any]:
    return of_kind(list[Any], fields.get(name), f"{path}: {name}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
