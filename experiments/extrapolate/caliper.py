"""Profiles of Caliper: .cali and JSON split; one profile over its ranks, or a folder with one profile a run.

Hatchet and Thicket read the same files (llnl.gov Caliper, https://software.llnl.gov/Caliper). A region is the path of
its names; its time is the mean over ranks that the file holds (avg, or sum over count), else the longest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, read_text, require_mapping, unknown_name
from slipstick.experiments.extrapolate.measurement_table import Readings, Row, readings
from slipstick.experiments.extrapolate.series_fields import as_list, as_mapping, is_number, numeric_names

MAX_FILES = 10_000
MAX_RECORDS = 2_000_000
MAX_DEPTH = 1000
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
        rows += [(region, point, seconds) for region, seconds in profile.times.items() if seconds > 0]
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
    chosen = metric if metric in known else None
    if metric and chosen is None:
        raise unknown_name(f"metric of {path}:", metric, known)
    chosen = chosen or next((name for pattern in _TIMES for name in known if re.fullmatch(pattern, name)), None)
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
    from slipstick.experiments.extrapolate.caliper_records import Cali

    cali = Cali(path)
    for line, record in enumerate(text.splitlines(), 1):
        if record.strip():
            cali.add(record, line)
        if line > MAX_RECORDS:
            raise InputError(f"{path}: more than {MAX_RECORDS:,} records")
    return cali.records, cali.numbers
