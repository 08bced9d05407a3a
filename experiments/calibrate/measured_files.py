"""What a user measured, by what ``--measured`` names: one reader for each kind of file, the same for every verb.

A time in words and a training log, a trace or a list of iterations are times of the question itself; a server's
benchmark, llama-bench and tables of steps or of operations are measurements of parts, which move the laws of those.

One run that a user metered without a power limit: a CSV with its seconds and its mean watts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.common.records import FrozenDict
from slipstick.common.units import time_columns
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.base.ratio_band import DISAGREES
from slipstick.estimators.power.power_limit_run import PowerLimitRun
from slipstick.estimators.training.training_estimator import MeasuredTraining
from slipstick.estimators.user_measured.measured_serving import (
    MeasuredRuns,
    MeasuredSteps,
    MeasuredTokens,
    TimedServerRun,
)
from slipstick.estimators.user_measured.measured_time import MOST_SIZES, MeasuredTime, TimedRow, of_repeats
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measured_steps import holds_steps, read_measured_steps
from slipstick.experiments.calibrate.measured_training import holds_training, read_known
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.formats.look import look
from slipstick.workloads.importers.formats.registry import Format, identify
from slipstick.workloads.importers.iteration_logs import (
    LENGTH_COLUMNS,
    LOG_LIMIT_BYTES,
    MOST_ITERATIONS,
    read_log,
)

COLUMNS = ("time_s", "power_W")
MOST_ROWS, LONGEST, MOST_WATTS = 1000, 1e9, 1e6

if TYPE_CHECKING:
    from slipstick.workloads.importers.serving.vllm_bench import ServedRun


def holds_run(path: str | os.PathLike[str]) -> bool:
    """Whether a CSV holds the time and the power of a run, and nothing else."""
    return look(path).columns == set(COLUMNS)


def read_run(path: str | os.PathLike[str]) -> PowerLimitRun:
    """A run measured without a limit, as the estimator of it under limits.

    `path`: a CSV of one line: `time_s` (seconds) and `power_W` (mean watts of the device).
    Raises InputError, which names the file, the line and the column.
    """
    rows = list(read_csv_rows(path, required=list(COLUMNS), limit_rows=MOST_ROWS))
    if len(rows) != 1:
        raise InputError(f"{path}: {len(rows)} lines: want one run, its time_s and power_W")
    ((line, cells),) = rows
    time = read_number(cells["time_s"], path, line, "time_s", 1e-9, LONGEST)
    return PowerLimitRun(time, read_number(cells["power_W"], path, line, "power_W", 1e-3, MOST_WATTS))


NAMESPACES = ("run.", "machine.", "workload.")
STEPS = ("iteration", "iter", "step", "index")
ENDS = ("_s", "_ms", "_us")
"""Of columns that are times."""
GROUPS = 12
"""Of like lengths, in which the steps of a run stand for the law of their time."""
RUNS, LOCAL, TRACE, MEGATRON = "vllm-bench", "llama-bench", "chrome-trace", "megatron"


def read_known_answer(known: str, machine: Machine, engine: str = "") -> Fitted | None:
    """What was measured of a question or of a server; None for a table of single operations.

    `known`: a time ("23.4ms"), MODEL:TYPE=TOKENS_PER_S of llama.cpp, or a file: a training log (trainer_state.json,
        what Megatron-LM prints, MLPerf's log), a Chrome trace with ProfilerStep, iterations with their times (CSV,
        JSON), the JSON of `vllm bench serve` or of SGLang's bench_serving, what llama-bench prints, steps of a server,
        or the time and power of a run without a power limit.
    `machine`: that it was measured on, as it stands.
    `engine`: of steps of a server that name none.
    Raises InputError where a file cannot be read, is of another machine, or holds nothing that was measured.
    """
    if (typed := known_time(known)) is not None:
        typed.only((), "the time of this question")
        return MeasuredTime(typed.seconds, source=typed.text)
    if "=" in known and not Path(known).exists():
        return _tokens(known, machine)
    kind = identify(known)
    if kind is not None and kind.key == RUNS:
        return MeasuredRuns(runs_of(known), Path(known).name)
    if kind is not None and kind.key == LOCAL:
        return _tokens(known, machine)
    columns = look(known).columns
    if holds_steps(known):
        return MeasuredSteps(read_measured_steps(known, machine, engine))
    if holds_training(known):
        return MeasuredTraining(tuple(read_known(known)))
    if holds_run(known):
        return read_run(known)
    if {"kind", "time_s"} <= columns:
        return None
    if {"matrix", "time_s"} <= columns:
        raise InputError(
            f"{known}: times of matrices: slipstick spmv predict MATRIX --measured {known} reads them; here the time "
            f"of this question, such as 910us"
        )
    return _logged(known, machine, kind)


def _logged(path: str, machine: Machine, kind: Format | None) -> MeasuredTime:
    """The median step of a run."""
    from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

    if kind is not None and kind.target in ("counters", "matrix", "model", "graph"):
        raise InputError(f"{path}: {kind.name}: holds no time of a step")
    if kind is not None and kind.target == "series":
        _refuse_scaling(path)
    if kind is not None and kind.key == TRACE:
        _require_recorded_on(path, machine)
    times = read_log(path).times
    if times is None:
        raise InputError(f"{path}: holds no times")
    layout = kind is not None and kind.key == MEGATRON and "devices" in read_training_log(path).settings
    ran = tuple(read_known(path)) if layout else ()
    return MeasuredTime(**of_repeats(Path(path).name, times.tolist()), steps=ran, rows=_rows(path))


def _rows(path: str) -> tuple[TimedRow, ...]:
    """Times of a CSV with the numbers beside each; of a run whose lengths vary from step to step, by length."""
    if not Path(path).name.removesuffix(".gz").endswith(".csv"):
        return ()
    times, rows = (
        read_log(path).times,
        list(read_csv_rows(path, limit_bytes=LOG_LIMIT_BYTES, limit_rows=MOST_ITERATIONS)),
    )
    columns = look(path).columns
    timed = {*STEPS, *time_columns(columns)}
    lengths = set() if len(rows) <= MOST_SIZES and not columns & {*STEPS} else {*LENGTH_COLUMNS}
    made = []
    for (line, row), seconds in zip(rows, [] if times is None else times.tolist(), strict=True):
        numbers = {}
        for name, text in row.items():
            if name in timed or name.endswith(ENDS):
                continue
            with suppress(ValueError):
                numbers[name] = float(text)
            if name.startswith(NAMESPACES) and name not in numbers:
                raise InputError(f"{path}: line {line}: {name} = {text[:40]!r}: want a number in SI units")
        made.append(TimedRow(FrozenDict(numbers), seconds, line))
    first = made[0].numbers if made else FrozenDict[float]()
    varied = {name for name in lengths for row in made if row.numbers.get(name, first.get(name)) != first.get(name)}
    return _by_length(made, sorted(varied)) if varied else tuple(made)


def _by_length(rows: Sequence[TimedRow], lengths: Sequence[str]) -> tuple[TimedRow, ...]:
    """The steps of a run in groups of like lengths: the median time of each at the medians of its numbers.

    `lengths`: columns that say how long the input of a step is.
    """
    first = lengths[0]
    rows = [row for row in rows if first in row.numbers]
    names = [name for name in rows[0].numbers if all(name in row.numbers for row in rows)]
    groups = np.array_split(sorted(range(len(rows)), key=lambda at: rows[at].numbers[first]), min(GROUPS, len(rows)))
    words = {first: "seq_len" if LENGTH_COLUMNS[first] == "length" else first}
    return tuple(
        TimedRow(
            FrozenDict({words.get(name, name): median_low(rows[at].numbers[name] for at in group) for name in names}),
            float(np.median([rows[at].seconds for at in group])),
        )
        for group in groups
    )


def _refuse_scaling(path: str) -> None:
    """Times over threads or nodes are no steps of one run: their median is the time of no question."""
    from slipstick.estimators.scaling.series import counts_workers

    columns, ends = look(path).columns, ENDS
    counted = [name for name in sorted(columns) if counts_workers(name) and not name.endswith(ends)]
    if not counted or columns & {*STEPS, *LENGTH_COLUMNS}:  # rows of one run: a column may say which rank they are of
        return
    rows = [row for _, row in read_csv_rows(path, limit_bytes=LOG_LIMIT_BYTES, limit_rows=MOST_ITERATIONS)]
    for name in counted:
        if len({row[name] for row in rows if name in row}) > 1:
            raise InputError(
                f"{path}: times over {name}, which are no steps of one run: slipstick extrapolate {path} --to N asks "
                f"beyond them; --measured wants the time of this question, such as 23.4ms"
            )


def _require_recorded_on(path: str, machine: Machine) -> None:
    from slipstick.workloads.importers.timeline import read_timeline
    from slipstick.workloads.importers.traces.kineto_graph import device_name

    name = device_name(read_timeline(path))
    recorded = machine_of_device(name) if name else None
    if recorded is not None and recorded.stated.name != machine.stated.name:
        raise InputError(f"{path}: was recorded on {name} ({recorded.name}), not on {machine.name}")


def _tokens(known: str, machine: Machine) -> MeasuredTokens:
    """One run of llama.cpp: a rate in words, or llama-bench's generation."""
    from slipstick.experiments.calibrate.measured_serving import AnchorRun, require_possible

    run = AnchorRun.parse(known)
    require_possible(run, machine)
    return MeasuredTokens(run, machine)


def runs_of(path: str) -> tuple[TimedServerRun, ...]:
    """Runs of a server's benchmark that say how long a further token took, the first of them.

    Raises InputError where the file is no benchmark, or none of its runs does.
    """
    from slipstick.experiments.calibrate.measured_serving import MOST_SIMULATED, traffic_of
    from slipstick.workloads.importers.serving.vllm_bench import read_vllm_bench
    from slipstick.workloads.language_catalog import shipped_name

    kind = identify(path)
    if kind is not None and kind.key != RUNS:
        raise InputError(f"{path}: {kind.name}: says nothing of a server (want the JSON of vllm bench serve)")
    runs = read_vllm_bench(Path(path))
    made = [
        TimedServerRun(
            run.tpot,
            traffic_of(run),
            shipped_name(run.model) if run.model else None,
            run.tensor,
            FrozenDict({FIRST[name]: run.times[f"ttft {name}"] for name in FIRST if f"ttft {name}" in run.times}),
            _contradiction(run, where),
            where,
        )
        for number, run in enumerate(runs)
        for where in (Path(path).name + (f", run {number}" if len(runs) > 1 else ""),)
        if run.tpot is not None and run.output_tokens >= FEWEST_TOKENS
    ]
    if not made:
        raise InputError(f"{path}: no run has a mean_tpot_ms or median_tpot_ms: nothing says how long a step took")
    return tuple(made[:MOST_SIMULATED])


def _contradiction(run: ServedRun, where: str) -> str:
    """What of a run's own numbers cannot hold together; "" where all may."""
    first, users, further = run.times.get("ttft mean", run.times.get("ttft median")), run.users, run.output_tokens - 1
    if first is None or run.tpot is None:
        return ""
    latency = first + run.tpot * further
    whole = run.times.get("e2el mean", run.times.get("e2el median"))
    if whole is not None and not latency / APART < whole < latency * APART:
        return (
            f"{DISAGREES}{where}) contradicts itself: a first token of {shown(first, 's')} and {further:,.0f} of "
            f"{shown(run.tpot, 's')} make {shown(latency, 's')}, and it says {shown(whole, 's')} a request"
        )
    most = users * run.output_tokens / latency if users else math.inf
    if run.output_rate > APART * most:
        return (
            f"{DISAGREES}{where}) contradicts itself: {users:,} users whose requests take {shown(latency, 's')} get at "
            f"most {most:,.0f} tokens/s, and it says {run.output_rate:,.0f}"
        )
    return ""


APART = 1.2
"""Factor between what numbers of one file say of each other, beyond which they contradict."""
FIRST = {"median": "p50", "mean": "mean"}
"""Statistics of a first token, the surer first: a mean holds the burst with which a benchmark begins."""
FEWEST_TOKENS = 2
"""Of an output whose further tokens have a time."""
