"""Logs of training iterations from files: CSV, JSON, and Kineto traces with ProfilerStep."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.estimators.run.iteration_choice import Selection
from slipstick.hwmodels.files.old_names import formerly
from slipstick.hwmodels.files.readers import (
    InputError,
    atomic_write,
    read_csv_rows,
    read_json,
    read_number,
    require_mapping,
    unknown_name,
)
from slipstick.workloads.runs.event_steps import profile_steps
from slipstick.workloads.runs.iterations import FloatArray, Iterations
from slipstick.workloads.runs.step_profiles import StepProfile, load_steps

LENGTH_COLUMNS = {"seq_len": "length", "length": "length", "sequence_length": "length", "tokens": "tokens"}
"""Names that a length is looked for under, first come first served, and what it is."""
TIME_COLUMNS = ("time_s", "seconds", "duration_s", "cpu_s", "wall_s", "took_s")
MOST_ITERATIONS = 2_000_000
LONGEST_ITERATION = 1e9
"""Seconds: thirty years."""
LARGEST_LENGTH = 1e12
LOG_LIMIT_BYTES = 512_000_000


@formerly(length="parameter", time="column")
def read_log(path: str | os.PathLike[str], parameter: str | None = None, column: str | None = None) -> Iterations:
    r"""Iterations from a log, by the form of the file.

    Parameters
    ----------
    path
        .csv (.gz): a header and a row each; .json (.gz): a list of objects, or an object whose `iterations` is one; a
        Kineto trace (.pt.trace.json(.gz), or any JSON with traceEvents): its ProfilerStep spans, with the shares of
        their operations as profiles; a log of MLPerf training (":::MLLOG" lines); a profile of a TPU or of JAX
        (.xplane.pb, .trace.json.gz); recorded .jsonl steps.
    parameter, column
        Columns; else the first of `LENGTH_COLUMNS` and of `TIME_COLUMNS` (or one that ends in _s) that is there. Where
        no length is logged, the duration stands for it: it orders iterations by what they cost.

    Raises
    ------
    InputError
        Names the file, the line and the column.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.csv")
    ...     _ = path.write_text("length,time_s\n5,1.0\n7,1.4\n")
    ...     ss.read_log(path).times.tolist()
    [1.0, 1.4]
    """
    from slipstick.workloads.importers.mllog.mllog_reader import is_mllog
    from slipstick.workloads.importers.xla.profiles import profiled_steps

    path = Path(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".csv"):
        return _from_csv(path, parameter, column)
    if name.endswith(".jsonl"):
        return _from_steps(list(load_steps(path)), path)
    if (steps := profiled_steps(path)) is not None:
        return _from_steps(steps, path)
    if is_mllog(path):
        return _from_mllog(path)
    if not name.endswith(".json"):
        raise InputError(
            f"{path}: want a log that ends in .csv, .json, .jsonl or .xplane.pb (each also with .gz), or one of MLPerf "
            "training"
        )
    if name.endswith(".trace.json"):
        return _from_trace(path)
    document = read_json(path, LOG_LIMIT_BYTES)
    if isinstance(document, Mapping) and "traceEvents" in document:
        return _from_trace(path)
    return _from_rows(document, path, parameter, column)


def simulated_log(
    workload_name: str,
    machine_name: str,
    lengths: FloatArray,
    estimator_name: str | None = None,
    settings: Sequence[str] = (),
) -> Iterations:
    """Iterations of these lengths with the times that an estimator gives for a workload on a machine.

    The workload's length is its symbol `seq_len`; `settings` are `namespace.name=value` as for the other verbs.

    Raises
    ------
    InputError
        Where a name is unknown, or the workload has no sequence length.
    """
    from slipstick.experiments.question.question import question

    query = question(workload_name, machine_name, estimator_name, settings)
    if "seq_len" not in query.workload.symbols:
        raise InputError(f"workload {query.workload.name!r}: has no symbol seq_len, so all its iterations are alike")
    unique, place = np.unique(lengths, return_inverse=True)
    compiled = query.estimator.compile(query.workload, query.machine, ("workload.seq_len",), query.run)
    times = np.asarray(compiled({"workload.seq_len": unique}))
    source = f"{query.workload.name} on {query.machine.name}, simulated"
    return Iterations(np.asarray(lengths, dtype=np.float64), times[place], source=source)


def write_log(path: str | os.PathLike[str], iterations: Iterations) -> None:
    """A CSV that `read_log` reads back: iteration, seq_len (or the proxy's name) and time_s where known."""
    name = "seq_len" if iterations.proxy == "length" else iterations.proxy
    with atomic_write(path) as stream:
        times = iterations.times
        stream.write(f"iteration,{name}" + ("" if times is None else ",time_s") + "\n")
        for index, value in enumerate(iterations.lengths):
            stream.write(f"{index},{value:g}" + ("" if times is None else f",{float(times[index])!r}") + "\n")


def _from_csv(path: Path, length: str | None, time: str | None) -> Iterations:
    lengths: list[float] = []
    times: list[float] = []
    columns: tuple[str | None, str] | None = None
    for line, row in read_csv_rows(path, limit_bytes=LOG_LIMIT_BYTES, limit_rows=MOST_ITERATIONS):
        if columns is None:
            columns = _columns(list(row), length, time, path)
        times.append(read_number(row[columns[1]], path, line, columns[1], 0, LONGEST_ITERATION))
        if columns[0]:
            lengths.append(read_number(row[columns[0]], path, line, columns[0], 0, LARGEST_LENGTH))
    if columns is None:
        raise InputError(f"{path}: has no rows; want one for each iteration")
    scale = next((scale for end, scale in (("_ms", 1e-3), ("_us", 1e-6)) if columns[1].endswith(end)), 1.0)
    return _iterations(lengths, [scale * value for value in times], columns[0], path)


def _from_rows(document: Any, path: Path, length: str | None, time: str | None) -> Iterations:
    rows = document.get("iterations") if isinstance(document, Mapping) else document
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: want a list of iterations, or an object whose 'iterations' is one")
    if len(rows) > MOST_ITERATIONS:
        raise InputError(f"{path}: {len(rows)} iterations: more than {MOST_ITERATIONS}")
    columns = _columns(list(require_mapping(rows[0], path, "iterations[0]")), length, time, path)

    def number(index: int, name: str) -> float:
        value = require_mapping(rows[index], path, f"iterations[{index}]").get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise InputError(f"{path}: iterations[{index}].{name} = {str(value)[:40]!r}: want a number >= 0")
        return float(value)

    times = [number(index, columns[1]) for index in range(len(rows))]
    lengths = [number(index, columns[0]) for index in range(len(rows))] if columns[0] else []
    return _iterations(lengths, times, columns[0], path)


def _columns(names: Sequence[str], length: str | None, time: str | None, path: Path) -> tuple[str | None, str]:
    """The columns of length (None where there is none) and time."""
    for wanted in (length, time):
        if wanted is not None and wanted not in names:
            raise unknown_name(f"column of {path}", wanted, names)
    if length is None:
        length = next((name for name in LENGTH_COLUMNS if name in names), None)
    if time is None:
        named = [
            name for name in (*TIME_COLUMNS, *(n for n in names if n.endswith(("_s", "_ms", "_us")))) if name in names
        ]
        if not named:
            raise InputError(
                f"{path}: no column of times (columns: {', '.join(names)}); name one, or call it time_s: seconds"
            )
        time = named[0]
    return length, time


def _iterations(lengths: Sequence[float], times: Sequence[float], column: str | None, path: Path) -> Iterations:
    seconds = np.array(times)
    if seconds.min() <= 0:
        raise InputError(f"{path}: iteration {int(np.argmin(seconds))}: time = {seconds.min():g} s: want times > 0")
    if column is None:
        return Iterations(seconds, seconds, proxy="duration", source=path.name)
    return Iterations(np.array(lengths), seconds, proxy=LENGTH_COLUMNS.get(column, "length"), source=path.name)


def _from_trace(path: Path) -> Iterations:
    from slipstick.workloads.importers.traces.chrome_trace import read_events

    return _from_steps(profile_steps(read_events(path)), path)


def _from_mllog(path: Path) -> Iterations:
    """Every step of a log of MLPerf training; steps that were logged together have their mean."""
    from slipstick.workloads.importers.mllog.mllog_reader import read_mllog

    log = read_mllog(path)
    counts = [each.count for each in log.steps]
    if not counts or sum(counts) > MOST_ITERATIONS:
        raise InputError(f"{path}: {sum(counts):,} steps: want 1 to {MOST_ITERATIONS:,}")
    seconds = np.repeat([each.seconds for each in log.steps], counts)
    return Iterations(seconds, seconds, proxy="duration", source=f"{path.name} (from {log.steps_from})")


def _from_steps(steps: list[StepProfile], path: Path) -> Iterations:
    """Steps of a profile; their duration stands for the length, the shares of their operations are their profiles."""
    if not steps:
        raise InputError(f"{path}: holds no steps; profile with a schedule, or log iterations as CSV")
    seconds = np.array([step.duration for step in steps])
    names = sorted({name for step in steps for name in step.operations})
    shares: FloatArray = np.zeros((len(steps), len(names)))
    for row, step in enumerate(steps):
        for column, name in enumerate(names):
            if name in step.operations:
                shares[row, column] = step.operations[name].time / step.duration
    return Iterations(seconds, seconds, proxy="duration", profiles=shares if names else None, source=path.name)


def write_representatives(path: str | os.PathLike[str], selection: Selection, proxy: str) -> None:
    """JSON that a profiler's wrapper can use: which iterations or lengths to run, and what each stands for."""
    document = {
        "method": selection.method,
        "proxy": proxy,
        "iterations": int(selection.sizes.sum()),
        "representatives": [
            {"iteration": int(index), "length": float(length), "weight": float(weight)}
            for index, length, weight in zip(selection.indices, selection.lengths, selection.weights, strict=True)
        ],
    }
    with atomic_write(path) as stream:
        json.dump(document, stream, indent=1)
        stream.write("\n")
