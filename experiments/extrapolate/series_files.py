"""Series from the files people have: tidy CSV, Extra-P, benchmark tools' JSON, CUBE profiles.

Files of benchmark tools: hyperfine, asv, pytest-benchmark, Google Benchmark; and CUBE profiles.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError, errors_at
from slipstick.common.readers import (
    decimal_mark,
    number_of,
    parse_json,
    pointed,
    read_csv_rows,
    read_number,
    read_text,
    require_mapping,
    table_rows,
    unknown_name,
    with_e,
)
from slipstick.common.units import LONGEST, SECONDS, named_unit, parse_clock, parse_quantity, refuse_rate, time_columns
from slipstick.estimators.scaling.laws.repeats import Statistic
from slipstick.experiments.extrapolate.caliper import read_caliper, read_caliper_folder
from slipstick.experiments.extrapolate.extra_p import read_extrap_json, read_extrap_lines, read_extrap_text
from slipstick.experiments.extrapolate.readings import Readings, Row, readings
from slipstick.experiments.extrapolate.series_fields import (
    as_list,
    as_mapping,
    field_of,
    is_number,
    numeric_names,
    optional_mapping,
)
from slipstick.experiments.extrapolate.slurm_jobs import read_slurm
from slipstick.workloads.importers.formats.look import look
from slipstick.workloads.importers.formats.registry import GOOGLE, elsewhere, identify
from slipstick.workloads.importers.serving.llama_bench import read_llama_bench

MAX_PROFILES = 10_000


def read_hyperfine(fields: Mapping[str, Any], path: object) -> Readings:
    """hyperfine --export-json with --parameter-scan or --parameter-list; seconds.

    Several commands at the same parameters are regions.
    Raises InputError where no parameter is a number.
    """
    listed = as_list(fields["results"], f"{path}: results")
    entries = [as_mapping(entry, f"{path}: results[{i}]") for i, entry in enumerate(listed)]
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
            point = tuple(number_of(given[name], f"{where}: {name}") for name in numeric)
            words = [programs[i]] if programs else []
            region = ", ".join([*words, *(f"{name}={given.get(name)}" for name in texts)])
            for seconds in done[i]:
                yield region, point, number_of(seconds, where)

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
            point = tuple(number_of(params[name], f"{where}: {name}") for name in numeric)
            for seconds in as_list(stats.get("data") or [field_of(stats, "median", where)], where):
                yield f"{base}[{rest}]" if rest else base, point, number_of(seconds, where)

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
        rows.append(("/".join(words), arguments, number_of(field_of(entry, "real_time", where), where) * SECONDS[unit]))
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
            rows.append((region, (number,), number_of(seconds, f"{path}: results.{name}")))
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
            yield from ((name, point, seconds) for name, seconds in totals.items())

    return readings(rows(), names, folder, ("times are those of the slowest location, without callees",))


_Rows: TypeAlias = list[tuple[int, dict[str, str]]]
"""Rows of a CSV, each with its line."""
REGION_COLUMNS = ("region", "series", "callpath", "benchmark", "name")
CPU_COLUMNS = ("cpu_time_s", "busiest_time_s")
"""CPU times beside the wall time, as `slipstick measure scaling` writes them: taken where --column names one."""
IGNORED_COLUMNS = ("rep", "repeat", "repetition", "run", "iteration", *CPU_COLUMNS)
MEASURED_HERE = {"rep", "time_s", "cpu_time_s"}
"""Columns of `slipstick measure scaling`: its repeats are one program on one host, so the least of them counts."""
LEAST_IDENTITIES, LARGE_IDENTITY = 3, 10_000
_PARTED = re.compile(r"\d{1,3}(,\d{3})*(\.\d+)?")
_IDENTITY = re.compile(r"(^|_)(job|id|uuid|pid|jobid)($|_)|jobid", re.IGNORECASE)
EXIT_COLUMNS = {"exitcode", "exitstatus", "exitval", "exitvalue", "returncode"}
"""What people call the code that a run ended with, letters alone: 0 where it did not fail."""


def read(path: str | os.PathLike[str], time: str | None = None) -> Readings:
    """Measurements from a file, its format found by its content.

    Known: CSV and TSV (also packed), Slurm's sacct and seff, Extra-P text, JSON and JSON Lines, hyperfine, asv,
    pytest-benchmark, Google Benchmark and llama-bench, Caliper (.cali, JSON split), folders of .cali or .cubex
    profiles.

    Parameters
    ----------
    time
        The column (CSV) or metric (Extra-P, CUBE) that holds the time; found if None.

    Raises
    ------
    InputError
        Where the file cannot be read, or holds no times, or the column is one of rates.
    """
    with errors_at(str(path)):
        return _read(Path(path), time)


def _read(path: Path, time: str | None) -> Readings:
    if time is not None and not time_columns([time]):
        refuse_rate(time, path)
    if path.is_dir():
        cali = next(iter(path.glob("*.cali")), None)
        return read_cube_folder(path, time) if cali is None else read_caliper_folder(path, time)
    kind = identify(path)
    if kind is not None and kind.key in _BY_CONTENT:
        return _BY_CONTENT[kind.key](path, time)
    if kind is not None:
        raise elsewhere(path, "series")
    seen = look(path)
    if not seen.first.strip():
        raise InputError(f"{path}: is empty, want run times (CSV, JSON, ...)")
    if seen.json:
        return read_json_file(path, time)
    if seen.text and (len(seen.columns) > 1 or path.name.removesuffix(".gz").lower().endswith((".csv", ".tsv"))):
        return read_csv(path, time)
    if path.name.removesuffix(".gz").lower().endswith(".txt"):
        return read_extrap_text(path, time)  # says which word is none of its own
    raise elsewhere(path, "series")


def read_llama_series(path: Path, metric: str | None = None) -> Readings:
    """Tests of llama-bench: seconds over tokens, depth, threads and batch, prompts and generation apart.

    Raises InputError where a metric is named: the times are always avg_ns.
    """
    if metric is not None:
        raise unknown_name("column of llama-bench:", metric, ["none; times are avg_ns"])
    names = ("tokens", "depth_tokens", "threads", "batch")
    rows = [
        (
            f"{run.model} {'generation' if not run.prompt else 'prompt and generation' if run.generated else 'prompt'}",
            (float(run.prompt + run.generated), float(run.depth), float(run.threads), float(run.batch)),
            run.seconds,
        )
        for run in read_llama_bench(path)
    ]
    return readings(iter(rows), names, path, ("time: avg_ns",))


_AGGREGATE = re.compile(r"_(mean|median|stddev|cv|BigO|RMS|min|max)$")


def read_json_file(path: Path, metric: str | None = None) -> Readings:
    """A JSON document of a tool, known by its keys; Google Benchmark's CSV as well.

    Raises InputError where the layout is unknown, or a field is wrong.
    """
    text = read_text(path)
    if (start := text.find(GOOGLE)) >= 0 and not text.lstrip().startswith("{"):
        rows = csv.DictReader(text[start:].splitlines())
        kept = [row for row in rows if not _AGGREGATE.search(row["name"] or "")]
        return read_google_benchmark({"benchmarks": kept}, path)
    fields = require_mapping(parse_json(text, path), path, "file")
    if "measurements" in fields and "parameters" in fields:
        return read_extrap_json(fields, path, metric)
    entries = fields.get("benchmarks")
    if isinstance(entries, list):
        stats = bool(entries) and isinstance(entries[0], Mapping) and "stats" in entries[0]
        return (read_pytest_benchmark if stats else read_google_benchmark)(fields, path)
    if "result_columns" in fields:
        return read_asv(fields, path)
    if isinstance(fields.get("results"), list):
        return read_hyperfine(fields, path)
    named = ", ".join(" ".join(str(name).split())[:60] for name in list(fields)[:8])  # a key may hold lines
    raise InputError(
        f"{path}: no known layout (fields: {named}); known: Extra-P, hyperfine, asv, pytest-benchmark, Google Benchmark"
    )


def read_hyperfine_csv(path: Path, metric: str | None = None) -> Readings:
    """hyperfine --export-csv: the medians, over the columns parameter_NAME.

    Raises InputError where no parameter is a number.
    """
    column = metric or "median"
    entries = [
        {
            "command": row.get("command", ""),
            "parameters": {name.removeprefix("parameter_"): row[name] for name in row if name.startswith("parameter_")},
            "median": read_number(row[column], path, line, column, 0.0),
        }
        for line, row in read_csv_rows(path, ("command", column))
    ]
    return read_hyperfine({"results": entries}, path)


_BY_CONTENT: Mapping[str, Callable[[Path, str | None], Readings]] = {
    "caliper": read_caliper,
    "caliper-json": read_caliper,
    "extrap": read_extrap_text,
    "extrap-json": read_json_file,
    "extrap-lines": read_extrap_lines,
    "llama-bench": read_llama_series,
    "slurm": read_slurm,
    "hyperfine-csv": read_hyperfine_csv,
    **dict.fromkeys(("asv", "hyperfine", "pytest-benchmark", "google-benchmark"), read_json_file),
    **dict.fromkeys(("times", "table", "iterations"), lambda path, time: read_csv(path, time)),
}


def read_csv(path: str | os.PathLike[str], time: str | None = None) -> Readings:
    """A tidy CSV file: a time column, parameter columns, perhaps a region column or others of text.

    Rows that differ in text are no repeats of each other: each combination is a region. Text that is another one in
    every row (a date, a host of each job) tells nothing apart, and is left out.

    The time column is named, or one called time, runtime, ... ; its unit stands in its name (time_ms, "time [ms]"),
    else it is seconds. Cells may carry units ("12 ms"), then all of them must. A file with the columns `parameter` and
    `value` names its parameter in the rows.
    Raises InputError where there are no rows, no names of columns, no time column, or no parameter with numbers.
    """
    rows = list(read_csv_rows(path)) if not look(path).json else [
        (number, {name: "" if value is None else str(value) for name, value in row.items()})
        for number, (_, row) in enumerate(table_rows(path), 1)
    ]  # fmt: skip
    if not rows:
        raise InputError(f"{path}: no rows below the header")
    header = [name for name in rows[0][1] if not _numbers_rows(name, [row.get(name) for _, row in rows])]
    if different := next((line for line, row in rows if row.keys() != rows[0][1].keys()), 0):
        raise InputError(f"{path}: row {different}: other fields than those of row 1")
    rows, failed = _without_failed(rows, header, path)
    failed += ("a column without a name numbers the rows: left out",) * (len(header) < len(rows[0][1]))
    if all(is_number(name) for name in header):
        raise InputError(
            f"{path}: line 1: want the names of the columns, such as threads,time_s; got {', '.join(header)}"
        )
    time_column = time or _time_column(header, path)
    if time_column not in header:
        raise unknown_name(f"column of {path}:", time_column, header)
    rows = _pointed(rows, time_column, path)
    region_column = next((name for name in REGION_COLUMNS if name in header and name != time_column), None)
    times, notes = _times(rows, time_column, path)
    skip = {time_column, region_column, *IGNORED_COLUMNS, *_exit_columns(header)}
    candidates = [name for name in header if name not in skip and not time_columns([name])]
    numeric = [name for name in candidates if is_number(rows[0][1][name])]
    regions, more = _regions(rows, region_column, [name for name in candidates if name not in numeric])
    notes = (*notes, *failed, *more)
    if "parameter" in header and "value" in header and time_column != "value":
        names = sorted({row["parameter"] for _, row in rows})
        if len(names) > 1:
            # each series names its own parameter; the first one stands for all
            notes = (*notes, f"several parameters are named ({', '.join(names[:5])})")
        points = _column(rows, "value", path)[:, None]
        return Readings((names[0],), points, times, regions, notes, _statistic(header, time_column))
    identities = [name for name in numeric if _is_identity(name, [row[name] for _, row in rows])]
    if 0 < len(identities) < len(numeric):
        numeric = [name for name in numeric if name not in identities]
        notes = (*notes, f"{', '.join(identities)}: numbers of jobs, left out")
    if not numeric:
        raise InputError(f"{path}: no parameter column with numbers (columns: {', '.join(header)})")
    points = np.stack([_column(rows, name, path) for name in numeric], axis=1)
    return Readings(tuple(numeric), points, times, regions, notes, _statistic(header, time_column))


def _regions(rows: _Rows, region: str | None, texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The region of each row, none where nothing tells rows apart, and in words which columns of text did."""
    apart = [region] if region else []
    labels = [
        name for name in texts if len(rows) >= LEAST_IDENTITIES and len({row[name] for _, row in rows}) == len(rows)
    ]
    for name in texts:
        if name not in labels and _groups(rows, [*apart, name]) > _groups(rows, apart):
            apart.append(name)
    textual = [name for name in apart if name != region]
    notes = (
        *([f"a region is what has the same text in {', '.join(apart)}"] if textual else []),
        *([f"{', '.join(labels)}: another text in every row, left out"] if labels else []),
    )
    return tuple(", ".join(row[name] for name in apart) for _, row in rows) if apart else (), notes


def _groups(rows: _Rows, columns: Sequence[str]) -> int:
    return len({tuple(row[name] for name in columns) for _, row in rows})


def _exit_columns(header: Sequence[str]) -> list[str]:
    return [name for name in header if re.sub("[^a-z]", "", name.lower()) in EXIT_COLUMNS]


def _without_failed(rows: _Rows, header: Sequence[str], path: object) -> tuple[_Rows, tuple[str, ...]]:
    """The rows of runs that did not fail, by a column of exit codes, and how many are left out."""
    codes = _exit_columns(header)
    done = [row for row in rows if all(row[1][name] in ("", "0") for name in codes)]
    if not done:
        raise InputError(f"{path}: all {len(rows)} runs failed ({', '.join(codes)} is not 0)")
    left_out = f"{len(rows) - len(done)} of {len(rows)} runs left out: they failed ({', '.join(codes)} is not 0)"
    return done, (left_out,) if len(done) < len(rows) else ()


def _pointed(rows: _Rows, time_column: str, path: object) -> _Rows:
    """The rows with the numbers of a locale as Python writes them where commas part cells, of times and thousands.

    There a cell with a comma is more often a list than a number.
    """
    parted = [name for name in rows[0][1] if all(_PARTED.fullmatch(row[name]) for _, row in rows)]
    chosen = dict.fromkeys([time_column, *parted])
    mark = decimal_mark(((line, row[name], False) for line, row in rows for name in chosen), path)
    return [(line, {**row, **{name: pointed(row[name], mark) for name in chosen}}) for line, row in rows]


def _numbers_rows(name: str, cells: Sequence[str | None]) -> bool:
    """Whether a column without a name counts the rows, as pandas writes the index of a frame."""
    unnamed = re.fullmatch(r"(Unnamed: \d+)?", name) is not None
    return unnamed and any(all(cell == str(first + i) for i, cell in enumerate(cells)) for first in (0, 1))


def _is_identity(name: str, cells: Sequence[str]) -> bool:
    """Whether a column numbers the rows: whole numbers, none twice, named so, or large and close to each other."""
    if len(cells) < LEAST_IDENTITIES or len(set(cells)) < len(cells) or not all(cell.isdigit() for cell in cells):
        return False
    numbers = [float(cell) for cell in cells]
    close = min(numbers) >= LARGE_IDENTITY and max(numbers) < 2 * min(numbers)
    return bool(_IDENTITY.search(name)) or close


def _statistic(columns: Sequence[str], time: str) -> Statistic:
    """Which of the repeats counts: of CPU times and of files of `measure scaling` the least, else the median."""
    return "least" if time in CPU_COLUMNS or set(columns) >= MEASURED_HERE else "median"


def _time_column(header: Sequence[str], path: object) -> str:
    columns = time_columns(name for name in header if name not in CPU_COLUMNS)
    if len(columns) == 1:
        return columns[0]
    if columns:
        raise InputError(f"{path}: several columns look like times ({', '.join(columns)}): name one with --column")
    raise InputError(f"{path}: no column looks like a time (columns: {', '.join(header)}): name one with --column")


def _times(rows: Sequence[tuple[int, dict[str, str]]], column: str, path: object) -> tuple[FloatArray, tuple[str, ...]]:
    unit = named_unit(column)[1]
    plain = [is_number(row[column]) for _, row in rows]
    clock = [] if any(plain) else [parse_clock(row[column]) for _, row in rows]
    if any(plain) and not all(plain):
        first, other = plain.index(True), plain.index(False)
        where = f"{path}: line {rows[other][0]}: {column}"
        if not rows[other][1][column]:
            raise InputError(f"{where} is empty")
        raise InputError(
            f"{path}: {column}: some times carry a unit ({rows[other][1][column]!r}, line {rows[other][0]}), others "
            f"none ({rows[first][1][column]!r}, line {rows[first][0]})"
        )
    seconds = np.empty(len(rows))
    for i, (line, row) in enumerate(rows):
        where, spelt = f"{path}: line {line}: {column}", clock[i] if clock and all(clock) else None
        try:
            written = float(str(with_e(row[column]))) * SECONDS[unit] if plain[i] else parse_quantity(row[column], "s")
        except ValueError as error:
            if spelt is None:
                raise InputError(f"{where}{f': {error}' if row[column] else ' is empty'}") from None
            written = spelt
        seconds[i] = number_of(spelt or written, where, 1e-12, LONGEST, "s")
    if all(plain):
        return seconds, () if unit else (f"{column} is taken to be in seconds",)
    return seconds, (f"{column}: hours, minutes and seconds",) if clock and all(clock) else ()


def _column(rows: Sequence[tuple[int, dict[str, str]]], column: str, path: object) -> FloatArray:
    try:
        return np.array([with_e(row[column]) for _, row in rows], dtype=np.float64)
    except ValueError:
        line, row = next((line, row) for line, row in rows if not is_number(row[column]))
        raise InputError(f"{path}: line {line}: {column} = {row[column][:40]!r} is no number") from None
