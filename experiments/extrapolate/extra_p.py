"""Files of Extra-P: text, JSON (both layouts), JSON Lines and Talpas."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, parse_json, read_text, require_mapping, unknown_name, whole_of
from slipstick.common.units import refuse_rate
from slipstick.experiments.extrapolate.readings import MAX_READINGS, MetricRows, Readings, readings, too_many
from slipstick.experiments.extrapolate.series_fields import as_list, as_point, field_of

MAX_LINES = 500_000
"""Of JSON Lines, where each line is a document of its own."""


def read_extrap_text(path: Path, metric: str | None = None) -> Readings:
    """Extra-P text: PARAMETER, POINTS, then METRIC, REGION and one DATA line a point (its repeats).

    Source: https://github.com/extra-p/extrap, docs/file-formats.md.
    Raises InputError where a line is malformed, or there are more DATA lines than POINTS.
    """
    parameters: list[str] = []
    points: list[tuple[float, ...]] = []
    counted = MetricRows(path)
    region, current, index = "", "time", 0
    for line, text in enumerate(read_text(path).splitlines(), 1):
        word, _, rest = re.sub(r"\s+", " ", text).strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "PARAMETER":
            parameters += rest.split()
        elif word == "POINTS":
            points += _extrap_points(rest, len(parameters), path, line)
        elif word == "METRIC":
            current, index = rest, 0
        elif word == "REGION":
            region, index = rest, 0
        elif word == "DATA":
            if index >= len(points):
                raise InputError(f"{path}: line {line}: more DATA lines than the {len(points)} POINTS")
            times = _numbers(rest, path, line)
            counted.add(current, region, points[index], len(times), times)
            index += 1
        else:
            raise unknown_name(
                f"word in {path} line {line}:", word, ["PARAMETER", "POINTS", "METRIC", "REGION", "DATA"]
            )
    chosen, notes = _metric(counted.rows, metric, path)
    return readings(iter(counted.rows[chosen]), parameters, path, notes)


def _extrap_points(text: str, count: int, path: object, line: int) -> list[tuple[float, ...]]:
    if not count:
        raise InputError(f"{path}: line {line}: POINTS before PARAMETER")
    if text.count("(") > MAX_READINGS:
        raise too_many(path)
    groups = re.findall(r"\(([^()]*)\)", text) if "(" in text else None
    numbers = [_numbers(group, path, line) for group in groups] if groups else [_numbers(text, path, line)]
    flat = list(itertools.chain.from_iterable(numbers))
    if len(flat) % count:
        raise InputError(f"{path}: line {line}: {len(flat)} coordinates for {count} parameters")
    return [tuple(flat[i : i + count]) for i in range(0, len(flat), count)]


def _numbers(text: str, path: object, line: int) -> list[float]:
    words = text.split(maxsplit=MAX_READINGS)
    if len(words) > MAX_READINGS:
        raise too_many(path)
    return [number_of(word, f"{path}: line {line}: a number") for word in words]


def _metric(rows: Mapping[str, Any], metric: str | None, path: object) -> tuple[str, tuple[str, ...]]:
    """The metric that is a time: the named one, the only one, or one called time."""
    if not rows:
        raise InputError(f"{path}: holds no measurements")
    if metric is not None:
        if metric not in rows:
            raise unknown_name(f"metric of {path}:", metric, list(rows))
        return metric, ()
    named = [name for name in rows if "time" in name.lower()]
    if len(rows) == 1 or len(named) == 1:
        chosen = named[0] if named else next(iter(rows))
        refuse_rate(chosen, path)
        return chosen, (f"metric {chosen!r} is taken to be a time in seconds",)
    raise InputError(f"{path}: several metrics ({', '.join(list(rows)[:10])}): name the time with --column")


def read_extrap_json(fields: Mapping[str, Any], path: object, metric: str | None) -> Readings:
    """Extra-P 4 JSON: parameters, measurements[callpath][metric] = [{point, values}]; or the older layout with ids."""
    if "callpaths" in fields:
        return _extrap_json_ids(fields, path, metric)
    parameters = [str(name) for name in as_list(fields["parameters"], f"{path}: parameters")]
    counted = MetricRows(path)
    for region, metrics in require_mapping(fields["measurements"], path, "measurements").items():
        for name, entries in require_mapping(metrics, path, f"measurements.{region}").items():
            where = f"{path}: measurements.{region}.{name}"
            for entry in as_list(entries, where):
                point = as_point(field_of(entry, "point", where), len(parameters), where)
                values = as_list(field_of(entry, "values", where), where)
                counted.add(name, region, point, len(values), (number_of(value, where) for value in values))
    chosen, notes = _metric(counted.rows, metric, path)
    return readings(iter(counted.rows[chosen]), parameters, path, notes)


def _extrap_json_ids(fields: Mapping[str, Any], path: object, metric: str | None) -> Readings:
    def named(field: str) -> dict[int, str]:
        entries = as_list(fields.get(field), f"{path}: {field}")
        return {
            whole_of(field_of(e, "id", f"{path}: {field}"), f"{path}: {field}: id"): str(
                field_of(e, "name", f"{path}: {field}")
            )
            for e in entries
        }

    parameters, regions, metrics = (named(field) for field in ("parameters", "callpaths", "metrics"))
    points: dict[int, tuple[float, ...]] = {}
    for entry in as_list(fields.get("coordinates"), f"{path}: coordinates"):
        where = f"{path}: coordinates"
        pairs = as_list(field_of(entry, "parameter_value_pairs", where), where)
        ordered = sorted(
            pairs, key=lambda pair: whole_of(field_of(pair, "parameter_id", where), f"{where}: parameter_id")
        )
        values = [number_of(field_of(pair, "parameter_value", where), where) for pair in ordered]
        points[whole_of(field_of(entry, "id", where), f"{where}: id")] = as_point(values, len(parameters), where)
    counted = MetricRows(path)
    for entry in as_list(fields["measurements"], f"{path}: measurements"):
        where = f"{path}: measurements"
        ids = [
            whole_of(field_of(entry, key, where), f"{where}: {key}")
            for key in ("coordinate_id", "callpath_id", "metric_id")
        ]
        tables: tuple[Mapping[int, object], ...] = (points, regions, metrics)
        for number, known, what in zip(ids, tables, ("point", "callpath", "metric"), strict=True):
            if number not in known:
                raise InputError(f"{where}: no {what} has the id {number}")
        time = number_of(field_of(entry, "value", where), where)
        counted.add(metrics[ids[2]], regions[ids[1]], points[ids[0]], 1, (time,))
    chosen, notes = _metric(counted.rows, metric, path)
    return readings(iter(counted.rows[chosen]), [parameters[key] for key in sorted(parameters)], path, notes)


def read_extrap_lines(path: Path, metric: str | None = None) -> Readings:
    """Extra-P JSON Lines: {"params": {name: number}, "callpath": ..., "metric": ..., "value": seconds} a line.

    Talpas: the same with "parameters", fields parted by semicolons.

    Raises InputError where a line has no parameters, or others than the lines before; where there are more than
    `MAX_LINES` lines or too many measurements.
    """
    parameters: list[str] = []
    counted = MetricRows(path)
    content = read_text(path)
    if content.count("\n") >= MAX_LINES:
        raise InputError(f"{path}: more than {MAX_LINES:,} lines of JSON")
    for line, text in enumerate(content.splitlines(), 1):
        if not text.strip():
            continue
        where = f"{path}: line {line}"
        talpas = '"parameters"' in text  # whose fields semicolons may part
        entry = parse_json(text.replace(";", ",") if talpas else text, where)
        name = "parameters" if talpas else "params"
        params = require_mapping(field_of(entry, name, where), where, name)
        parameters = parameters or list(params)
        if not parameters:
            raise InputError(f"{where}: params: want at least one parameter")
        if set(params) != set(parameters):
            raise InputError(f"{where}: parameters {sorted(params)}, but {sorted(parameters)} before")
        point = tuple(number_of(params[name], f"{where}: {name}") for name in parameters)
        value = field_of(entry, "value", where)
        repeats = value if isinstance(value, list) else [value]
        region, name = str(entry.get("callpath", "")), str(entry.get("metric", "time"))
        counted.add(name, region, point, len(repeats), (number_of(one, where) for one in repeats))
    chosen, notes = _metric(counted.rows, metric, path)
    return readings(iter(counted.rows[chosen]), parameters, path, notes)
