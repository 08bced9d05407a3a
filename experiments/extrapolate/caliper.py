r"""Profiles of Caliper: .cali and JSON split; one profile over its ranks, or a folder with one profile a run.

Hatchet and Thicket read the same files (llnl.gov Caliper, https://software.llnl.gov/Caliper). A region is the path of
its names; its time is the mean over ranks that the file holds (avg, or sum over count), else the longest.

Records of a .cali file: nodes of a tree of attributes and values, and snapshots that name them.

``__rec=node,id=,attr=,data=,parent=`` defines a node; ``__rec=ctx,ref=,attr=,data=`` a snapshot; ``__rec=globals,...``
what holds for the run. Values in one field stand between ``=``, and ``\`` escapes ``,`` ``=`` and itself.

Source: Caliper, doc/sphinx/OutputFormats and src/reader (https://github.com/LLNL/Caliper), and what files look like.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import (
    read_json,
    read_text,
    require_mapping,
    unknown_name,
    whole_number,
    whole_of,
)
from slipstick.experiments.extrapolate.readings import Readings, Row, readings
from slipstick.experiments.extrapolate.series_fields import as_list, as_mapping, is_number, numeric_names

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
        number, attribute = (whole_of(fields.get(name, [""])[0], f"{where}: {name}") for name in ("id", "attr"))
        parent = whole_of(fields["parent"][0], f"{where}: parent") if "parent" in fields else None
        if parent is not None and parent >= BUILT_IN and parent not in self.nodes:
            raise InputError(f"{where}: parent = {parent}: no such node before this line")
        if len(self.nodes) >= MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES:,} nodes")
        self.nodes[number] = _Node(attribute, fields.get("data", [""])[0], parent)

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


MAX_FILES = 10_000
MAX_RECORDS = 2_000_000
_TIMES = (
    r"avg#(inclusive#)?(sum#)?time\.duration(\.ns)?",
    r"(inclusive#)?(sum#)?time\.duration(\.ns)?",
    r"sum#(inclusive#)?(sum#)?time\.duration(\.ns)?",
    r"max#(inclusive#)?(sum#)?time\.duration(\.ns)?",
    r"(exclusive |inclusive )?time|avg\w*time\w*|time \(E\)|time \(I\)|Avg time/rank|Total time",
)
"""Names of attributes that are a time, the best first; seconds, or nanoseconds where the name ends so."""


@dataclass(frozen=True)
class Profile:
    """Times by region of one run, and the numbers that describe the run (ranks, problem size)."""

    times: Mapping[str, float]
    numbers: Mapping[str, float]
    metric: str


def read_caliper(path: Path, metric: str | None = None) -> Readings:
    """One profile: a series needs several runs, so that its regions stand at one point.

    Raises InputError where the file is no profile of Caliper or holds no time.
    """
    return _readings([(path, read_profile(path, metric))], path)


def read_caliper_folder(folder: Path, metric: str | None = None) -> Readings:
    """A folder of profiles, one a run; the parameters are the numbers of a run that differ (jobsize, problem size).

    Raises InputError where a file is no profile, or no number of the runs differs.
    """
    paths = sorted(itertools.islice(folder.glob("*.cali"), MAX_FILES + 1))
    if len(paths) > MAX_FILES:
        raise InputError(f"{folder}: more than {MAX_FILES:,} profiles")
    return _readings([(path, read_profile(path, metric)) for path in paths], folder)


def _readings(profiles: Sequence[tuple[Path, Profile]], where: Path) -> Readings:
    shared = numeric_names([profile.numbers for _, profile in profiles])
    varying = [name for name in shared if len({profile.numbers[name] for _, profile in profiles}) > 1]
    known = [name for name in ("jobsize", "mpi.world.size", "world_size", "num_ranks", "ranks") if name in varying]
    names = known[:1] or [name for name in varying if not re.search(r"date|time|seed|user|id$", name)][:1]
    if not names and len(profiles) > 1:
        raise InputError(f"{where}: no number of the runs differs (numbers: {', '.join(shared[:12]) or 'none'})")
    rows: list[Row] = []
    for _, profile in profiles:
        point = tuple(profile.numbers[name] for name in names) or (1.0,)
        rows += [(region, point, seconds) for region, seconds in profile.times.items()]
    metrics = sorted({profile.metric for _, profile in profiles})
    others = [name for name in varying if name not in names]
    notes = [f"time: {', '.join(metrics)}"]
    if others:
        notes.append(f"differs as well: {', '.join(others[:6])}")
    return readings(iter(rows), names or ["run"], where, tuple(notes))


def read_profile(path: Path, metric: str | None = None) -> Profile:
    """A profile from .cali or JSON split, whichever the content is.

    Raises InputError where it is neither, or holds no time.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        return _from_json(require_mapping(read_json(path), path, "the document"), path, metric)
    records, numbers = _records(text, path)
    return _profile(records, numbers, path, metric)


def _profile(
    records: Sequence[tuple[str, Mapping[str, float]]], numbers: Mapping[str, float], path: Path, metric: str | None
) -> Profile:
    known = list(dict.fromkeys(name for _, values in records for name in values))
    if metric and metric not in known:
        raise unknown_name(f"metric of {path}:", metric, known)
    chosen = metric or next((name for pattern in _TIMES for name in known if re.fullmatch(pattern, name)), None)
    if chosen is None:
        raise InputError(f"{path}: no attribute is a time (attributes: {', '.join(known[:20])})")
    unit = 1e-9 if chosen.endswith(".ns") else 1.0
    gathered: dict[str, list[float]] = {}
    for region, values in records:
        if region and chosen in values and np.isfinite(values[chosen]):
            gathered.setdefault(region, []).append(values[chosen] * unit)
    return Profile({region: float(np.mean(each)) for region, each in gathered.items()}, numbers, chosen)


def _from_json(document: Mapping[str, Any], path: Path, metric: str | None) -> Profile:
    """JSON split: `data` rows, their `columns`, and `nodes` of the path with their parents."""
    columns = [str(name) for name in as_list(document.get("columns"), f"{path}: columns")]
    nodes = [as_mapping(node, path) for node in as_list(document.get("nodes"), f"{path}: nodes")]
    kinds = [
        as_mapping(one, path) for one in as_list(document.get("column_metadata") or [], f"{path}: column_metadata")
    ]
    place = next((i for i, name in enumerate(columns) if name in ("path", "source.function#callpath.address")), None)
    if place is None:
        place = next((i for i, kind in enumerate(kinds[: len(columns)]) if kind.get("is_value") is False), None)
    if place is None:
        raise InputError(f"{path}: columns: no path among {', '.join(columns[:12])}")
    records = []
    for number, row in enumerate(as_list(document.get("data"), f"{path}: data")):
        cells = as_list(row, f"{path}: data[{number}]")
        if len(cells) != len(columns):
            raise InputError(f"{path}: data[{number}]: {len(cells)} values for {len(columns)} columns")
        values = {
            name: float(cell)
            for name, cell in zip(columns, cells, strict=True)
            if isinstance(cell, (int, float)) and not isinstance(cell, bool)
        }
        records.append((_label(cells[place], nodes, f"{path}: data[{number}]"), values))
    numbers = {name: float(value) for name, value in document.items() if is_number(value)}
    return _profile(records, numbers, path, metric)


def _label(node: object, nodes: Sequence[Mapping[str, Any]], where: str) -> str:
    words: list[str] = []
    while node is not None:
        if type(node) is not int or not 0 <= node < len(nodes) or len(words) > MAX_DEPTH:
            raise InputError(f"{where}: path = {str(node)[:40]!r}: want the number of one of {len(nodes)} nodes")
        words.append(str(nodes[node].get("label", ""))[:200])
        node = nodes[node].get("parent")
    return "/".join(reversed(words))


def _records(text: str, path: Path) -> tuple[list[tuple[str, Mapping[str, float]]], dict[str, float]]:
    """Regions with their values, and the numbers of the run, of a .cali file."""

    cali = Cali(path)
    for line, record in enumerate(text.splitlines(), 1):
        if record.strip():
            cali.add(record, line)
        if line > MAX_RECORDS:
            raise InputError(f"{path}: more than {MAX_RECORDS:,} records")
    return cali.records, cali.numbers
