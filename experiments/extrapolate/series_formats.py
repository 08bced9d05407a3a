"""Files of benchmark tools: hyperfine, asv, pytest-benchmark, Google Benchmark; and CUBE profiles."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import require_mapping, unknown_name
from slipstick.experiments.extrapolate.measurement_table import SECONDS, Readings, Row, readings
from slipstick.experiments.extrapolate.series_fields import (
    as_list,
    as_mapping,
    as_number,
    field_of,
    is_number,
    numeric_names,
    optional_mapping,
)

MAX_PROFILES = 10_000


def read_hyperfine(fields: Mapping[str, Any], path: object) -> Readings:
    """hyperfine --export-json with --parameter-scan or --parameter-list; seconds.

    Several commands at the same parameters are regions.
    Raises InputError where no parameter is a number.
    """
    entries = as_list(fields["results"], f"{path}: results")
    every = [
        {name: str(value) for name, value in _hyperfine_parameters(entry, f"{path}: results[{i}]").items()}
        for i, entry in enumerate(entries)
    ]
    names = sorted({name for given in every for name in given})
    numeric = [name for name in names if all(is_number(given.get(name)) for given in every)]
    texts = [n for n in names if n not in numeric]
    programs = _programs([str(entry.get("command", "")) for entry in entries], every)

    def rows() -> Iterator[Row]:
        for i, given in enumerate(every):
            where = f"{path}: results[{i}]"
            point = tuple(as_number(given[name], f"{where}: {name}") for name in numeric)
            words = [programs[i]] if programs else []
            region = ", ".join([*words, *(f"{name}={given.get(name)}" for name in texts)])
            for seconds in done[i]:
                yield region, point, as_number(seconds, where)

    if not numeric:
        raise InputError(f"{path}: no numeric parameter: run hyperfine with --parameter-scan or --parameter-list")
    runs = [_hyperfine_runs(entry, f"{path}: results[{i}]") for i, entry in enumerate(entries)]
    done = [[seconds for seconds, code in each if code == 0] for each in runs]
    failed = [code for each in runs for _, code in each if code != 0]
    total = sum(map(len, runs))
    if failed and len(failed) == total:
        raise InputError(
            f"{path}: all {total} runs failed (exit codes {_codes(failed)}): no times of the program's work"
        )
    left_out = f"{len(failed)} of {total} runs left out: they failed (exit codes {_codes(failed)})"
    return readings(rows(), numeric, path, (left_out,) if failed else ())


def _hyperfine_parameters(entry: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The parameters of a command; hyperfine before 1.11 names one `parameter`."""
    alone = {} if entry.get("parameter") is None else {"parameter": entry["parameter"]}
    return optional_mapping(entry, "parameters", where) or alone


def _hyperfine_runs(entry: Mapping[str, Any], where: str) -> list[tuple[Any, Any]]:
    """Times and exit codes (None: ended by a signal) of the runs of a command; files without codes hold none that
    failed.
    """
    times = as_list(entry.get("times") or [field_of(entry, "median", where)], f"{where}: times")
    codes = as_list(entry.get("exit_codes") or [0] * len(times), f"{where}: exit_codes")
    if not entry.get("times"):  # the median of all runs: of those that failed as well
        codes = [next((code for code in codes if code != 0), 0)]
    if len(codes) != len(times):
        raise InputError(f"{where}: {len(codes)} exit_codes for {len(times)} times")
    return list(zip(times, codes, strict=True))


def _codes(codes: Sequence[Any]) -> str:
    return ", ".join("none, by a signal" if code is None else str(code)[:20] for code in dict.fromkeys(codes))


def _programs(commands: Sequence[str], every: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commands with their parameters' names for values, where some differ at the same parameters; else none."""
    if len({tuple(sorted(given.items())) for given in every}) == len(set(zip(commands, map(str, every), strict=True))):
        return []
    variants = []
    for beside in (r"[\w.]", r"[\d.]"):  # "-t 4", or else "-t4"
        names = []
        for command, given in zip(commands, every, strict=True):
            for name, value in given.items():
                command = re.sub(rf"(?<!{beside}){re.escape(str(value))}(?!{beside})", f"{{{name}}}", command)
            names.append(command)
        variants.append(names)
    return min(variants, key=lambda names: len(set(names)))


def read_pytest_benchmark(fields: Mapping[str, Any], path: object) -> Readings:
    """pytest-benchmark --benchmark-json: params of parametrised benchmarks; seconds.

    Raises InputError where no parameter is a number.
    """
    entries = [as_mapping(entry, path) for entry in fields["benchmarks"]]
    every = [optional_mapping(entry, "params", f"{path}: benchmarks[{i}]") for i, entry in enumerate(entries)]
    numeric = numeric_names(every)

    def rows() -> Iterator[Row]:
        for i, entry in enumerate(entries):
            where = f"{path}: benchmarks[{i}]"
            params = every[i]
            stats = as_mapping(field_of(entry, "stats", where), where)
            rest = ", ".join(f"{key}={value}" for key, value in params.items() if key not in numeric)
            base = str(entry.get("name", "")).partition("[")[0]
            point = tuple(as_number(params[name], f"{where}: {name}") for name in numeric)
            for seconds in as_list(stats.get("data") or [field_of(stats, "median", where)], where):
                yield f"{base}[{rest}]" if rest else base, point, as_number(seconds, where)

    if not numeric:
        raise InputError(f"{path}: no benchmark has a numeric parameter (pytest.mark.parametrize)")
    return readings(rows(), numeric, path)


def read_google_benchmark(fields: Mapping[str, Any], path: object) -> Readings:
    """Google Benchmark --benchmark_format=json: the arguments stand in the name (BM_sort/1024, BM_run/threads:8).

    Raises InputError where there are no runs, no argument in every name, or the time unit is unknown.
    """
    rows = []
    failed = 0
    for i, entry in enumerate(fields["benchmarks"]):
        where = f"{path}: benchmarks[{i}]"
        entry = as_mapping(entry, where)
        if entry.get("error_occurred"):
            failed += 1
            continue
        if entry.get("run_type") == "aggregate":
            continue
        unit = str(entry.get("time_unit", "ns"))
        if unit not in SECONDS:
            raise unknown_name(f"time unit of {where}:", unit, list(SECONDS))
        arguments: dict[str, float] = {}
        words: list[str] = []
        for word in str(entry.get("run_name") or field_of(entry, "name", where)).split("/"):
            key, colon, value = word.rpartition(":")
            if is_number(value) and (colon or words):
                arguments[key or f"argument{1 + sum(k.startswith('argument') for k in arguments)}"] = float(value)
            else:
                words.append(word)
        rows.append(("/".join(words), arguments, as_number(field_of(entry, "real_time", where), where) * SECONDS[unit]))
    if not rows:
        raise InputError(f"{path}: holds no benchmark runs{f': all {failed} failed' if failed else ''}")
    numeric = numeric_names([arguments for _, arguments, _ in rows])
    if not numeric:
        raise InputError(f"{path}: no argument stands in every benchmark's name (BM_sort/1024)")
    notes = (f"{failed} of {failed + len(rows)} runs left out: they failed (error_occurred)",) if failed else ()
    return readings(((name, tuple(a[n] for n in numeric), t) for name, a, t in rows), numeric, path, notes)


def read_asv(fields: Mapping[str, Any], path: object) -> Readings:
    """A result file of asv: results[benchmark] = [result list, parameter lists, ...] in the order of result_columns.

    Raises InputError where results and parameters differ in number.
    """
    columns = [str(name) for name in as_list(fields["result_columns"], f"{path}: result_columns")]
    rows: list[Row] = []
    failed = 0
    for name, entry in require_mapping(fields.get("results"), path, "results").items():
        values = dict(zip(columns, as_list(entry, f"{path}: results.{name}"), strict=False))
        results, lists = values.get("result"), as_list(values.get("params") or [], f"{path}: results.{name}: params")
        numeric = [p for p in lists if isinstance(p, list) and all(is_number(v) for v in p)]
        if not isinstance(results, list) or len(numeric) != 1 or ".mem_" in name or ".track_" in name:
            continue
        if np.prod([len(p) for p in lists]) != len(results):
            raise InputError(f"{path}: results.{name}: {len(results)} results for {[len(p) for p in lists]} parameters")
        for chosen, seconds in zip(itertools.product(*lists), results, strict=True):
            if seconds is None:
                failed += 1
                continue
            rest = [str(v) for v, p in zip(chosen, lists, strict=True) if p is not numeric[0]]
            number = float(next(v for v, p in zip(chosen, lists, strict=True) if p is numeric[0]))
            region = f"{name}({', '.join(rest)})" if rest else str(name)
            rows.append((region, (number,), as_number(seconds, f"{path}: results.{name}")))
    left_out = f"{failed} of {failed + len(rows)} runs left out: they failed, or were skipped (null)"
    named = "asv names parameters in benchmarks.json: here it is 'param'"
    return readings(iter(rows), ["param"], path, (named, left_out) if failed else (named,))


def read_cube_folder(folder: Path, metric: str | None = None) -> Readings:
    """A folder of CUBE profiles, one folder a run: PREFIX.p8.n100.r1/profile.cubex.

    A region's time is its own (exclusive) time where it is longest among the locations (processes, threads).

    Needs the package pycubexr. Source of the naming: https://github.com/extra-p/extrap, docs/file-formats.md.
    Raises InputError where there are no profiles or too many, one cannot be read, or pycubexr is missing.
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
    names = numeric_names([{key: value for key, value in run.items() if key != "r"} for run in runs])

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
