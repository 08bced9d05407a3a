"""A measuring of threads as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number
from slipstick.common.writer import atomic_write
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement

SCHEMA = "slipstick-threads-1"
MAX_COUNTS = 10_000
TEXTS = ("network", "machine", "family", "fingerprint", "protocol")
PAIRS = ("contention", "training")


def save(measured: ThreadMeasurement, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    with atomic_write(path) as stream:
        json.dump({"schema": SCHEMA, **asdict(measured)}, stream, indent=1, allow_nan=False)


def from_fields(document: Mapping[str, Any], path: object) -> ThreadMeasurement:
    """The measuring in a document that was read from a file.

    Raises InputError where a field is missing or of another kind.
    """
    if document.get("schema") != SCHEMA:
        raise InputError(f"{path}: schema = {str(document.get('schema'))[:40]!r}, want {SCHEMA!r}")
    values: dict[str, Any] = {}
    for field in fields(ThreadMeasurement):
        if field.name not in document:
            raise InputError(f"{path}: no field {field.name!r}")
        value = document[field.name]
        where = f"{path}: {field.name}"
        if field.name in TEXTS:
            values[field.name] = str(value)[:1000]
        elif field.name in PAIRS:
            values[field.name] = tuple(_pair(entry, where) for entry in _list(value, where))
        elif field.name == "cycles_per_instruction":
            values[field.name] = tuple(_number(entry, where) for entry in _list(value, where)) or (1.0,)
        else:
            values[field.name] = _number(value, where)
    values["cores"] = _count(values["cores"], f"{path}: cores")
    return ThreadMeasurement(**values)


def _pair(entry: Any, where: str) -> tuple[int, float]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError(f"{where}: want pairs [threads, seconds]")
    return _count(_number(entry[0], where), where), _number(entry[1], where)


def _count(value: float, where: str) -> int:
    number = whole_number(f"{value:.0f}") if value == round(value) else None
    if not number:
        raise InputError(f"{where} = {value:g}: want a whole number >= 1")
    return number


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_COUNTS:
        raise InputError(f"{where}: want a list of at most {MAX_COUNTS}")
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {str(value)[:40]!r} is no number")
    return float(value)
