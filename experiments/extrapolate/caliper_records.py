r"""Records of a .cali file: nodes of a tree of attributes and values, and snapshots that name them.

``__rec=node,id=,attr=,data=,parent=`` defines a node; ``__rec=ctx,ref=,attr=,data=`` a snapshot; ``__rec=globals,...``
what holds for the run. Values in one field stand between ``=``, and ``\`` escapes ``,`` ``=`` and itself.

Source: Caliper, doc/sphinx/OutputFormats and src/reader (https://github.com/LLNL/Caliper), and what files look like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number
from slipstick.experiments.extrapolate.series_fields import is_number

PROPERTIES = 10
"""The attribute that every file has for the properties of an attribute (8 is its name, 9 its type)."""
BUILT_IN = 12
"""Nodes with smaller numbers are in no file: the types, and the three attributes that every file has."""
NESTED = 0x100
"""Bit of the properties of an attribute whose values nest as regions do."""
MAX_DEPTH = 1000
MAX_NODES = 1_000_000
_COMMA = re.compile(r"((?:[^,\\]|\\.?)*)(?:,|$)", re.DOTALL)
_PARTS = re.compile(r"((?:[^=\\]|\\.?)*)(?:=|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")


@dataclass
class _Node:
    attribute: int
    data: str
    parent: int | None


@dataclass
class Cali:
    """What was read of a file so far."""

    path: Path
    nodes: dict[int, _Node] = field(default_factory=dict)
    records: list[tuple[str, Mapping[str, float]]] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)

    def add(self, record: str, line: int) -> None:
        """Take one record.

        Raises InputError where it is none, or refers to what is not there.
        """
        where = f"{self.path}: line {line}"
        fields = _fields(record)
        kind = fields.get("__rec", [""])[0]
        if kind == "node":
            self._node(fields, where)
        elif kind in ("ctx", "globals"):
            self._snapshot(fields, kind, where)
        else:
            raise InputError(f"{where}: __rec = {kind[:40]!r}: want node, ctx or globals")

    def _node(self, fields: Mapping[str, list[str]], where: str) -> None:
        number, attribute = self._whole(fields, "id", where), self._whole(fields, "attr", where)
        parent = self._whole(fields, "parent", where) if "parent" in fields else None
        if parent is not None and parent >= BUILT_IN and parent not in self.nodes:
            raise InputError(f"{where}: parent = {parent}: no such node before this line")
        if len(self.nodes) >= MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES:,} nodes")
        self.nodes[number] = _Node(attribute, fields.get("data", [""])[0], parent)

    def _whole(self, fields: Mapping[str, list[str]], name: str, where: str) -> int:
        text = fields.get(name, [""])[0]
        number = whole_number(text)
        if number is None:
            raise InputError(f"{where}: {name} = {text[:40]!r}: want a whole number")
        return number

    def _snapshot(self, fields: Mapping[str, list[str]], kind: str, where: str) -> None:
        region: list[str] = []
        values: dict[str, float] = {}
        for text in fields.get("ref", []):
            number = whole_number(text)
            if number is None or number not in self.nodes:
                raise InputError(f"{where}: ref = {text[:40]!r}: no such node before this line")
            for node in reversed(self._path(number, where)):
                name, nested = self._attribute(node.attribute)
                if nested:
                    region.append(node.data)
                elif is_number(node.data):
                    values[name] = float(node.data)
        attributes, data = fields.get("attr", []), fields.get("data", [])
        if len(attributes) != len(data):
            raise InputError(f"{where}: {len(data)} values in data for {len(attributes)} in attr")
        for text, value in zip(attributes, data, strict=True):
            number = whole_number(text)
            if number is not None and is_number(value):
                values[self._attribute(number)[0]] = float(value)
        if kind == "globals":
            self.numbers |= {name: value for name, value in values.items() if abs(value) < 1e30}
        else:
            self.records.append(("/".join(region), values))

    def _path(self, number: int, where: str) -> list[_Node]:
        result: list[_Node] = []
        at: int | None = number
        while at is not None and at in self.nodes:
            result.append(self.nodes[at])
            at = self.nodes[at].parent
            if len(result) > MAX_DEPTH:
                raise InputError(f"{where}: nodes nest deeper than {MAX_DEPTH}, or in a circle")
        return result

    def _attribute(self, number: int) -> tuple[str, bool]:
        """The name of an attribute, and whether its values are regions."""
        node = self.nodes.get(number)
        if node is None:
            return f"attribute {number}", False
        properties = self.nodes.get(node.parent if node.parent is not None else -1)
        bits = whole_number(properties.data) if properties and properties.attribute == PROPERTIES else None
        return node.data, bool(bits and bits & NESTED)


def _fields(record: str) -> dict[str, list[str]]:
    """Fields by name; several values of one field stand between = signs."""
    result: dict[str, list[str]] = {}
    for part in _COMMA.findall(record):
        name, _, rest = part.partition("=")
        if name:
            result[name] = [_ESCAPE.sub(r"\1", text) for text in _PARTS.findall(rest)[: -1 if rest else None]] or [""]
    return result
