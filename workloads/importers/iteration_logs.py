"""Logs of training iterations from files: CSV, JSON, training logs, and traces with ProfilerStep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, table_rows, unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.common.units import SECONDS, is_rate, named_unit, refuse_rate, time_columns
from slipstick.workloads.runs.event_steps import profile_steps
from slipstick.workloads.runs.iterations import Iterations
from slipstick.workloads.runs.lengths import read_lengths
from slipstick.workloads.runs.step_profiles import StepProfile, load_steps

LENGTH_COLUMNS = {"seq_len": "length", "length": "length", "sequence_length": "length", "tokens": "tokens"}
"""Names that a length is looked for under, first come first served, and what it is."""
MOST_ITERATIONS = 2_000_000
SHORTEST_ITERATION, LONGEST_ITERATION = 1e-9, 1e9
"""Seconds: a cycle of a clock, and thirty years."""
LARGEST_LENGTH = 1e12
LOG_LIMIT_BYTES = 512_000_000


@checked
def read_log(
    path: str | os.PathLike[str],
    parameter: str | None = None,
    column: str | None = None,
    *,
    lengths: str | os.PathLike[str] | None = None,
) -> Iterations:
    r"""Read the iterations of a log, in the form that the file has.

    Parameters
    ----------
    path
        .csv (.gz): a header and a row each; .json (.gz): a list of objects, or an object whose `iterations` is one; a
        Kineto trace (.pt.trace.json(.gz), or any JSON with traceEvents): its ProfilerStep spans, with the shares of
        their operations as profiles; a log of MLPerf training (":::MLLOG" lines), of Megatron-LM or of the Hugging
        Face Trainer (trainer_state.json); a profile of a TPU or of JAX
        (.xplane.pb, .trace.json.gz); recorded .jsonl steps.
    parameter, column
        Columns; else the first of `LENGTH_COLUMNS` and the first that says a time (or ends in a unit). Where
        no length is logged, the duration stands for it: it orders iterations by what they cost.
    lengths
        A .csv with the length of each iteration (column `parameter`, else seq_len), for a log that holds none.

    Raises
    ------
    InputError
        Names the file, the line and the column; where the log holds lengths itself, or not one time for each length.

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
    if lengths is not None:
        return _with_lengths(read_log(path, None, column), lengths, parameter or "seq_len")
    from slipstick.workloads.importers.formats.registry import identify
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, printed_instead
    from slipstick.workloads.importers.xla.xplane import profiled_steps

    path = Path(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".csv"):
        return _from_rows(path, parameter, column)
    if name.endswith(".jsonl"):
        return _from_steps(list(load_steps(path)), path)
    if (steps := profiled_steps(path)) is not None:
        return _from_steps(steps, path)
    if is_training_log(path):
        return _from_training_log(path)
    if not name.endswith(".json"):
        raise InputError(
            f"{path}: want a log that ends in .csv, .json, .jsonl or .xplane.pb (each also with .gz), or one of MLPerf "
            f"training, Megatron-LM or the Hugging Face Trainer{printed_instead(path)}"
        )
    kind = identify(path)
    if name.endswith(".trace.json") or (kind is not None and kind.key == "chrome-trace"):
        # by its first keys: a trace of a million events is read as a stream, never as one document
        return _from_trace(path)
    return _from_rows(path, parameter, column)


def _with_lengths(log: Iterations, path: str | os.PathLike[str], column: str) -> Iterations:
    """The log with the lengths of a file: those of its iterations, or of all from the first that its numbers count."""
    if log.proxy != "duration":
        raise InputError(f"{path}: {log.source} holds the {log.proxy} of each iteration itself; leave --lengths out")
    values = read_lengths(path, column, "steps").values.astype("float64")
    before = max(0, log.first - 1)
    if len(values) not in (len(log), before + len(log)):
        whole = f", or {before + len(log):,} with those before" if before else ""
        raise InputError(
            f"{path}: {len(values):,} lengths for {len(log):,} iterations ({log.first} .. {log.first + len(log) - 1}) "
            f"of {log.source}: want {len(log):,}{whole}"
        )
    if log.block > 1:
        raise InputError(
            f"{log.source}: holds means of up to {log.block:,} iterations, and lengths want the time of each "
            "(Megatron-LM: --log-interval 1)"
        )
    return replace(log, lengths=values[len(values) - len(log) :], proxy="length", profiles=None)


def _from_rows(path: Path, length: str | None, time: str | None) -> Iterations:
    columns: tuple[str | None, str] | None = None
    numbers: tuple[list[float], list[float]] = [], []
    for where, row in table_rows(path, "iterations", LOG_LIMIT_BYTES, MOST_ITERATIONS):
        columns = columns or _columns(list(row), length, time, path)
        for column, values in zip(columns, numbers, strict=True):
            if column:
                values.append(number_of(row.get(column), f"{where}: {column}", 0))
    if columns is None:
        raise InputError(f"{path}: has no rows; want one for each iteration")
    return _iterations(*numbers, columns, path)


def _columns(names: Sequence[str], length: str | None, time: str | None, path: Path) -> tuple[str | None, str]:
    """The columns of length (None where there is none) and time."""
    for wanted in (length, time):
        if wanted is not None and wanted not in names:
            raise unknown_name(f"column of {path}", wanted, names)
    if length is None:
        length = next((name for name in LENGTH_COLUMNS if name in names), None)
    if time is not None:
        refuse_rate(time, path)
    named = [time] if time else time_columns(names) or [n for n in names if named_unit(n)[1] and not is_rate(n)]
    if not named:
        raise InputError(
            f"{path}: no column of times (columns: {', '.join(names)}); name one, or call it time_s: seconds"
        )
    return length, named[0]


def _iterations(
    lengths: Sequence[float], times: Sequence[float], columns: tuple[str | None, str], path: Path
) -> Iterations:
    column, time = columns
    seconds = np.array(times) * SECONDS[named_unit(time)[1]]
    if column is None:
        return _durations(seconds, path)
    _check(np.array(lengths), f"{path}: iteration", column, 0.0, LARGEST_LENGTH, "")
    _check(seconds, f"{path}: iteration", "time", SHORTEST_ITERATION, LONGEST_ITERATION, " s")
    return Iterations(np.array(lengths), seconds, proxy=LENGTH_COLUMNS.get(column, "length"), source=path.name)


def _durations(seconds: FloatArray, path: Path, source: str = "", profiles: FloatArray | None = None) -> Iterations:
    """Iterations of which only times are known."""
    _check(seconds, f"{path}: iteration", "time", SHORTEST_ITERATION, LONGEST_ITERATION, " s")
    return Iterations(seconds, seconds, proxy="duration", profiles=profiles, source=source or path.name)


def _check(values: FloatArray, where: str, name: str, low: float, high: float, unit: str) -> None:
    """Every reader's numbers pass here: sums, ratios and squares of what is within stay finite."""
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if len(wrong):
        at = int(wrong[0])
        raise InputError(f"{where} {at}: {name} = {values[at]:g}{unit}: want {low:g} to {high:g}{unit}")


def _from_trace(path: Path) -> Iterations:
    from slipstick.workloads.importers.traces.chrome_trace import read_events

    return _from_steps(profile_steps(read_events(path)), path)


def _from_training_log(path: Path) -> Iterations:
    """Every step of a log of training; steps that were logged together have their mean."""
    from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

    log = read_training_log(path)
    counts = [each.count for each in log.steps]
    if not counts or sum(counts) > MOST_ITERATIONS:
        raise InputError(f"{path}: {sum(counts):,} steps: want 1 to {MOST_ITERATIONS:,}")
    seconds = np.repeat([each.seconds for each in log.steps], counts)
    first = log.numbers[0] - counts[0] + 1 if log.numbers else 0
    source = f"{path.name} (from {log.steps_from})"
    return replace(_durations(seconds, path, source), first=first, block=max(counts))


def _from_steps(steps: list[StepProfile], path: Path) -> Iterations:
    """Steps of a profile; their duration stands for the length, the shares of their operations are their profiles."""
    if not steps:
        raise InputError(f"{path}: holds no steps; profile with a schedule, or log iterations as CSV")
    seconds = np.array([step.duration for step in steps])
    _check(seconds, f"{path}: step", "time", SHORTEST_ITERATION, LONGEST_ITERATION, " s")
    names = sorted({name for step in steps for name in step.operations})
    shares: FloatArray = np.zeros((len(steps), len(names)))
    for row, step in enumerate(steps):
        for column, name in enumerate(names):
            if name in step.operations:
                shares[row, column] = step.operations[name].time / step.duration
    return _durations(seconds, path, profiles=shares if names else None)
