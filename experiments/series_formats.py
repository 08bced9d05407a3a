"""Files of other tools: Extra-P text, JSON, JSON Lines; hyperfine, asv, pytest-benchmark, Google Benchmark; CUBE."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.series import SECONDS, Readings
from hwmodels.files import InputError, check_depth, read_json, read_text, require_mapping, unknown_name

MAX_READINGS = 2_000_000
MAX_PROFILES = 10_000
Row = tuple[str, tuple[float, ...], float]
"""Region, point, seconds."""


def readings(rows: Iterator[Row], parameters: Sequence[str], path: object, notes: tuple[str, ...] = ()) -> Readings:
    """Rows as columns; regions are dropped where there is only one.

    Raises
    ------
    InputError
        Where there are none, or too many.
    """
    found = list(itertools.islice(rows, MAX_READINGS + 1))
    if not found or not parameters:
        raise InputError(f"{path}: holds no times over a parameter")
    if len(found) > MAX_READINGS:
        raise InputError(f"{path}: more than {MAX_READINGS} measurements")
    regions = tuple(region for region, _, _ in found)
    return Readings(
        tuple(parameters),
        np.array([point for _, point, _ in found], dtype=np.float64).reshape(len(found), len(parameters)),
        np.array([seconds for *_, seconds in found], dtype=np.float64),
        regions if len(set(regions)) > 1 else (),
        notes,
    )


def read_json_file(path: Path, metric: str | None = None) -> Readings:
    """A JSON file of a tool that its keys tell."""
    try:
        document = read_json(path)
    except InputError:
        if _is_json_lines(path):
            return read_extrap_lines(path, metric)
        raise
    fields = require_mapping(document, path, "file")
    if "result_columns" in fields:
        return _asv(fields, path)
    if "measurements" in fields and "parameters" in fields:
        return _extrap_json(fields, path, metric)
    if isinstance(fields.get("results"), list):
        return _hyperfine(fields, path)
    if isinstance(fields.get("benchmarks"), list):
        first = fields["benchmarks"][0] if fields["benchmarks"] else {}
        if isinstance(first, Mapping) and "stats" in first:
            return _pytest_benchmark(fields, path)
        return _google_benchmark(fields, path)
    raise InputError(
        f"{path}: no known layout (fields: {', '.join(list(fields)[:8])}); known: Extra-P, hyperfine, asv, "
        f"pytest-benchmark, Google Benchmark"
    )


def read_extrap_text(path: Path, metric: str | None = None) -> Readings:
    """Extra-P text: PARAMETER, POINTS, then METRIC, REGION and one DATA line a point (its repeats).

    Source: https://github.com/extra-p/extrap, docs/file-formats.md.
    """
    parameters: list[str] = []
    points: list[tuple[float, ...]] = []
    rows: dict[str, list[Row]] = {}
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
            rows.setdefault(current, []).extend((region, points[index], t) for t in _numbers(rest, path, line))
            index += 1
        else:
            raise unknown_name(
                f"word in {path} line {line}:", word, ["PARAMETER", "POINTS", "METRIC", "REGION", "DATA"]
            )
    chosen, notes = _metric(rows, metric, path)
    return readings(iter(rows[chosen]), parameters, path, notes)


def _extrap_points(text: str, count: int, path: object, line: int) -> list[tuple[float, ...]]:
    if not count:
        raise InputError(f"{path}: line {line}: POINTS before PARAMETER")
    groups = re.findall(r"\(([^()]*)\)", text) if "(" in text else None
    numbers = [_numbers(group, path, line) for group in groups] if groups else [_numbers(text, path, line)]
    flat = list(itertools.chain.from_iterable(numbers))
    if len(flat) % count:
        raise InputError(f"{path}: line {line}: {len(flat)} coordinates for {count} parameters")
    return [tuple(flat[i : i + count]) for i in range(0, len(flat), count)]


def _numbers(text: str, path: object, line: int) -> list[float]:
    try:
        return [float(word) for word in text.split()]
    except ValueError:
        raise InputError(f"{path}: line {line}: {text[:60]!r}: want numbers") from None


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
        return chosen, (f"metric {chosen!r} is taken to be a time in seconds",)
    raise InputError(f"{path}: several metrics ({', '.join(list(rows)[:10])}): name the time with --time")


def _extrap_json(fields: Mapping[str, Any], path: object, metric: str | None) -> Readings:
    """Extra-P 4 JSON: parameters, measurements[callpath][metric] = [{point, values}]; or the older layout with ids."""
    if "callpaths" in fields:
        return _extrap_json_ids(fields, path, metric)
    parameters = [str(name) for name in fields["parameters"]]
    rows: dict[str, list[Row]] = {}
    for region, metrics in require_mapping(fields["measurements"], path, "measurements").items():
        for name, entries in require_mapping(metrics, path, f"measurements.{region}").items():
            where = f"{path}: measurements.{region}.{name}"
            for entry in _list(entries, where):
                point = _point(_get(entry, "point", where), len(parameters), where)
                values = _list(_get(entry, "values", where), where)
                rows.setdefault(name, []).extend((region, point, _float(v, where)) for v in values)
    chosen, notes = _metric(rows, metric, path)
    return readings(iter(rows[chosen]), parameters, path, notes)


def _extrap_json_ids(fields: Mapping[str, Any], path: object, metric: str | None) -> Readings:
    def named(field: str) -> dict[int, str]:
        entries = _list(fields.get(field), f"{path}: {field}")
        return {int(_get(e, "id", f"{path}: {field}")): str(_get(e, "name", f"{path}: {field}")) for e in entries}

    parameters, regions, metrics = (named(field) for field in ("parameters", "callpaths", "metrics"))
    points: dict[int, tuple[float, ...]] = {}
    for entry in _list(fields.get("coordinates"), f"{path}: coordinates"):
        where = f"{path}: coordinates"
        pairs = _list(_get(entry, "parameter_value_pairs", where), where)
        ordered = sorted(pairs, key=lambda pair: int(_get(pair, "parameter_id", where)))
        values = [_float(_get(pair, "parameter_value", where), where) for pair in ordered]
        points[int(_get(entry, "id", where))] = _point(values, len(parameters), where)
    rows: dict[str, list[Row]] = {}
    for entry in _list(fields["measurements"], f"{path}: measurements"):
        where = f"{path}: measurements"
        ids = [int(_get(entry, key, where)) for key in ("coordinate_id", "callpath_id", "metric_id")]
        tables: tuple[Mapping[int, object], ...] = (points, regions, metrics)
        for number, known, what in zip(ids, tables, ("point", "callpath", "metric"), strict=True):
            if number not in known:
                raise InputError(f"{where}: no {what} has the id {number}")
        row = (regions[ids[1]], points[ids[0]], _float(_get(entry, "value", where), where))
        rows.setdefault(metrics[ids[2]], []).append(row)
    chosen, notes = _metric(rows, metric, path)
    return readings(iter(rows[chosen]), [parameters[key] for key in sorted(parameters)], path, notes)


def read_extrap_lines(path: Path, metric: str | None = None) -> Readings:
    """Extra-P JSON Lines: {"params": {name: number}, "callpath": ..., "metric": ..., "value": seconds} a line."""
    parameters: list[str] = []
    rows: dict[str, list[Row]] = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        if not text.strip():
            continue
        where = f"{path}: line {line}"
        try:
            entry = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"{where}: not JSON") from None
        check_depth(entry, where)
        params = require_mapping(_get(entry, "params", where), where, "params")
        parameters = parameters or list(params)
        if set(params) != set(parameters):
            raise InputError(f"{where}: parameters {sorted(params)}, but {sorted(parameters)} before")
        point = tuple(_float(params[name], f"{where}: {name}") for name in parameters)
        value = _get(entry, "value", where)
        repeats = value if isinstance(value, list) else [value]
        region, name = str(entry.get("callpath", "")), str(entry.get("metric", "time"))
        rows.setdefault(name, []).extend((region, point, _float(one, where)) for one in repeats)
    chosen, notes = _metric(rows, metric, path)
    return readings(iter(rows[chosen]), parameters, path, notes)


def _is_json_lines(path: Path) -> bool:
    lines = [line for line in read_text(path).splitlines()[:100] if line.strip()]
    return len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines)


def _hyperfine(fields: Mapping[str, Any], path: object) -> Readings:
    """hyperfine --export-json with --parameter-scan or --parameter-list; seconds."""
    entries = _list(fields["results"], f"{path}: results")
    names = sorted({name for entry in entries for name in _mapping(entry, path).get("parameters") or {}})
    numeric = [n for n in names if all(_is_number((e.get("parameters") or {}).get(n)) for e in entries)]
    texts = [n for n in names if n not in numeric]

    def rows() -> Iterator[Row]:
        for i, entry in enumerate(entries):
            where = f"{path}: results[{i}]"
            given = entry.get("parameters") or {}
            point = tuple(_float(given[name], f"{where}: {name}") for name in numeric)
            region = ", ".join(f"{name}={given.get(name)}" for name in texts)
            for seconds in _list(entry.get("times") or [_get(entry, "median", where)], where):
                yield region, point, _float(seconds, where)

    if not numeric:
        raise InputError(f"{path}: no numeric parameter: run hyperfine with --parameter-scan or --parameter-list")
    return readings(rows(), numeric, path)


def _pytest_benchmark(fields: Mapping[str, Any], path: object) -> Readings:
    """pytest-benchmark --benchmark-json: params of parametrised benchmarks; seconds."""
    entries = [_mapping(entry, path) for entry in fields["benchmarks"]]
    numeric = _numeric_names([entry.get("params") or {} for entry in entries])

    def rows() -> Iterator[Row]:
        for i, entry in enumerate(entries):
            where = f"{path}: benchmarks[{i}]"
            params = entry.get("params") or {}
            stats = _mapping(_get(entry, "stats", where), where)
            rest = ", ".join(f"{key}={value}" for key, value in params.items() if key not in numeric)
            base = str(entry.get("name", "")).partition("[")[0]
            point = tuple(_float(params[name], f"{where}: {name}") for name in numeric)
            for seconds in _list(stats.get("data") or [_get(stats, "median", where)], where):
                yield f"{base}[{rest}]" if rest else base, point, _float(seconds, where)

    if not numeric:
        raise InputError(f"{path}: no benchmark has a numeric parameter (pytest.mark.parametrize)")
    return readings(rows(), numeric, path)


def _google_benchmark(fields: Mapping[str, Any], path: object) -> Readings:
    """Google Benchmark --benchmark_format=json: the arguments stand in the name (BM_sort/1024, BM_run/threads:8)."""
    found = []
    for i, entry in enumerate(fields["benchmarks"]):
        where = f"{path}: benchmarks[{i}]"
        entry = _mapping(entry, where)
        if entry.get("run_type") == "aggregate" or entry.get("error_occurred"):
            continue
        unit = str(entry.get("time_unit", "ns"))
        if unit not in SECONDS:
            raise unknown_name(f"time unit of {where}:", unit, list(SECONDS))
        arguments: dict[str, float] = {}
        words: list[str] = []
        for word in str(entry.get("run_name") or _get(entry, "name", where)).split("/"):
            key, colon, value = word.rpartition(":")
            if _is_number(value) and (colon or words):
                arguments[key or f"argument{1 + sum(k.startswith('argument') for k in arguments)}"] = float(value)
            else:
                words.append(word)
        found.append(("/".join(words), arguments, _float(_get(entry, "real_time", where), where) * SECONDS[unit]))
    if not found:
        raise InputError(f"{path}: holds no benchmark runs")
    numeric = _numeric_names([arguments for _, arguments, _ in found])
    if not numeric:
        raise InputError(f"{path}: no argument stands in every benchmark's name (BM_sort/1024)")
    return readings(((name, tuple(a[n] for n in numeric), t) for name, a, t in found), numeric, path)


def _asv(fields: Mapping[str, Any], path: object) -> Readings:
    """A result file of asv: results[benchmark] = [result list, parameter lists, ...] in the order of result_columns."""
    columns = [str(name) for name in _list(fields["result_columns"], f"{path}: result_columns")]
    rows: list[Row] = []
    for name, entry in require_mapping(fields.get("results"), path, "results").items():
        values = dict(zip(columns, _list(entry, f"{path}: results.{name}"), strict=False))
        results, lists = values.get("result"), values.get("params") or []
        numeric = [p for p in lists if isinstance(p, list) and all(_is_number(v) for v in p)]
        if not isinstance(results, list) or len(numeric) != 1 or ".mem_" in name or ".track_" in name:
            continue
        if np.prod([len(p) for p in lists]) != len(results):
            raise InputError(f"{path}: results.{name}: {len(results)} results for {[len(p) for p in lists]} parameters")
        for chosen, seconds in zip(itertools.product(*lists), results, strict=True):
            if seconds is None:
                continue
            rest = [str(v) for v, p in zip(chosen, lists, strict=True) if p is not numeric[0]]
            number = float(next(v for v, p in zip(chosen, lists, strict=True) if p is numeric[0]))
            region = f"{name}({', '.join(rest)})" if rest else str(name)
            rows.append((region, (number,), _float(seconds, f"{path}: results.{name}")))
    return readings(iter(rows), ["param"], path, ("asv names parameters in benchmarks.json: here it is 'param'",))


def read_cube_folder(folder: Path, metric: str | None = None) -> Readings:
    """A folder of CUBE profiles, one folder a run: PREFIX.p8.n100.r1/profile.cubex.

    A region's time is its own (exclusive) time where it is longest among the locations (processes, threads).

    Needs the package pycubexr. Source of the naming: https://github.com/extra-p/extrap, docs/file-formats.md.
    """
    profiles = sorted(itertools.islice(folder.glob("*/*.cubex"), MAX_PROFILES + 1))
    if not profiles:
        raise InputError(f"{folder}: holds no */*.cubex profiles")
    if len(profiles) > MAX_PROFILES:
        raise InputError(f"{folder}: more than {MAX_PROFILES} profiles")
    try:
        import pycubexr  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError(f"{folder}: reading CUBE profiles needs the package pycubexr (pip install pycubexr)") from None
    runs = [
        dict(re.findall(r"([A-Za-z_]+)(\d+(?:\.\d+)?)", profile.parent.name.partition(".")[2])) for profile in profiles
    ]
    names = _numeric_names([{key: value for key, value in run.items() if key != "r"} for run in runs])

    def rows() -> Iterator[Row]:
        for profile, run in zip(profiles, runs, strict=True):
            point = tuple(float(run[name]) for name in names)
            totals: dict[str, float] = {}
            try:
                with pycubexr.CubexParser(str(profile)) as cube:
                    values = cube.get_metric_values(metric=cube.get_metric_by_name(metric or "time"))
                    for node in cube.all_cnodes():
                        name = cube.get_region(node).name
                        longest = float(np.max(values.cnode_values(node, convert_to_exclusive=True)))
                        totals[name] = totals.get(name, 0.0) + longest
            except Exception as error:  # the parser raises whatever a broken file makes it stumble over
                raise InputError(f"{profile}: cannot be read as a CUBE profile ({type(error).__name__})") from None
            yield from ((name, point, seconds) for name, seconds in totals.items() if seconds > 0)

    return readings(rows(), names, folder, ("times are those of the slowest location, without callees",))


def _numeric_names(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names that every point gives a number for, in the order of the first."""
    if not points:
        return []
    return [name for name in points[0] if all(_is_number(point.get(name)) for point in points)]


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _float(value: object, where: str) -> float:
    if not _is_number(value):
        raise InputError(f"{where}: {str(value)[:40]!r} is no number")
    return float(value)  # type: ignore[arg-type]


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: want a list, got {str(value)[:40]!r}")
    return value


def _mapping(value: object, where: object) -> Mapping[str, Any]:
    return require_mapping(value, where, "entry")


def _get(entry: object, key: str, where: str) -> Any:
    if not isinstance(entry, Mapping) or key not in entry:
        raise InputError(f"{where}: no field {key!r}")
    return entry[key]


def _point(values: object, count: int, where: str) -> tuple[float, ...]:
    numbers = values if isinstance(values, list) else [values]
    if len(numbers) != count:
        raise InputError(f"{where}: {len(numbers)} coordinates for {count} parameters")
    return tuple(_float(number, where) for number in numbers)
