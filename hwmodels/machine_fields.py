"""Every field that a machine file may have, with unit, range, default and meaning, read off the records themselves.

``python -m tools.machine_fields`` writes their table between the marks of docs/machine-files.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipstick.common.columns import Column
from slipstick.common.formatting import typed_shown
from slipstick.common.records import unit_at
from slipstick.hwmodels.compute import Engine
from slipstick.hwmodels.link import Dies, Link
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_inheritance import WORD
from slipstick.hwmodels.memory import Level
from slipstick.hwmodels.power import Power
from slipstick.hwmodels.runtime import Runtime

PARTS = {record.__name__: record for record in (Dies, Engine, Level, Link, Power, Runtime)}
NOUNS = {"object": "a mapping by name", "array": "a list", "string": "a text", "integer": "a whole number"}


@dataclass(frozen=True)
class MachineField:
    """One field: its dotted path (NAME: a name of one's own), what is wanted there, its unit, default and meaning."""

    path: str
    wanted: str
    unit: str
    default: str
    meaning: str


EXTENDS = MachineField(
    WORD,
    "a text",
    "",
    "none",
    "The shipped machine, or the file in this one's folder, whose fields hold where this file states none.",
)


def machine_fields() -> tuple[MachineField, ...]:
    """All fields of a machine file: what it extends, then in the order of the records."""
    return (EXTENDS, *_fields(Machine, "", ()))


def _fields(record: Any, above: str, place: tuple[str, ...]) -> Iterator[MachineField]:
    schema = record.model_json_schema()
    meanings = _meanings(record)
    for name, entry in schema["properties"].items():
        required = name in schema.get("required", ())
        known = next(one for one in entry.get("anyOf", [entry]) if one.get("type") != "null")
        unit = unit_at(Machine, (*place, name)) or _unit_of_entries(record, name)
        part = PARTS.get(_reference(known) or _reference(known.get("additionalProperties")))
        default = "required" if required else "" if part else _text(entry.get("default"))
        yield MachineField(above + name, _wanted(known), unit, default, meanings.get(name, ""))
        if part:
            several = known.get("type") == "object"
            path, inside = (f"{above}{name}.NAME.", (name, "NAME")) if several else (f"{above}{name}.", (name,))
            yield from _fields(part, path, (*place, *inside))


def _unit_of_entries(record: Any, name: str) -> str:
    """The unit of what a list or mapping holds, as the note of its type says it."""
    match = re.search(r"Unit\(name='([^']+)'", str(record.model_fields[name].annotation))
    return match[1].removesuffix("1") if match else ""


def _reference(entry: Any) -> str:
    return str(entry.get("$ref", "")).rpartition("/")[2] if isinstance(entry, Mapping) else ""


def _wanted(entry: Mapping[str, Any]) -> str:
    if "enum" in entry:
        return ", ".join(entry["enum"])
    noun = NOUNS.get(str(entry.get("type")), "a number" if "type" in entry else "fields")
    least, above = entry.get("minimum"), entry.get("exclusiveMinimum")
    bounds = f" >= {least:g}" if least is not None else f" > {above:g}" if above is not None else ""
    return noun + bounds


def _text(default: Any) -> str:
    if default in (None, "", [], {}):
        return "none"
    return ", ".join(map(str, default)) if isinstance(default, list) else str(default)


def _meanings(record: Any) -> dict[str, str]:
    """What the record's docstring says of each parameter."""
    _, _, text = (inspect.getdoc(record) or "").partition("Parameters\n----------\n")
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            names = line.split(", ")
        for name in names if line.startswith(" ") else ():
            meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    return meanings


def unit_of_name(name: str) -> str:
    """The base unit of a number by its dotted name: ``Hz`` of ``machine.clock``; "" where it is a plain number."""
    space, _, path = name.partition(".")
    if space != "machine":
        return ""
    return unit_at(Machine, path.split("."))


def named_shown(name: str, value: float) -> str:
    """A number that somebody typed, by its dotted name: ``machine.clock`` 1.53e9 is ``1.53 GHz``.

    >>> named_shown("machine.memory.HBM3.bandwidth", 1.728e12), named_shown("run.batch", 1024.0)
    ('1.728 TB/s', '1,024')
    """
    return typed_shown(value, unit_of_name(name))


def axis(name: str, head: str = "") -> Column:
    """The column of a number that a question varies, by its dotted name."""
    return Column(name, head or name, unit_of_name(name), typed=True)
