"""A user's measurements: a CSV of times with what was set in each run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.readers import read_csv_rows, read_number, unknown_columns, unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.schedule_model import check_run_number
from slipstick.experiments.question.settings import machine_change, number_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import workload_kind

SPACES = ("run", "machine", "workload")
PLAIN = ("group", "protocol")
MAX_ROWS, LONGEST = 100_000, 1e10
"""Of a file; seconds of a run, three centuries."""


def read_measurements(
    path: str, workload: Workload, machine: Machine, quantity: str | None = None
) -> tuple[Measurement, ...]:
    """Measurements of one workload on one machine.

    The CSV has a column ``time_s`` and columns named as settings are: ``run.threads``, ``machine.clock``,
    ``workload.batch``; ``group`` says what is held out together, ``protocol`` how it was measured. Requests to a
    language model may be measured by a server's benchmark: a JSON of ``vllm bench serve --save-result``.

    `quantity`: what was measured, a time: "ttft" is a column ``ttft_s``; None for ``time_s``.
    Raises InputError where a column or a value cannot be used; the message names file, line and column.
    """
    if path.endswith(".json") and workload_kind(workload) == "requests":
        return benchmarked(path, workload, machine, quantity)
    column_of_time = f"{quantity or 'time'}_s"
    plain = (column_of_time, *PLAIN)
    measurements: list[Measurement] = []
    seen: dict[tuple[str, ...], int] = {}
    problems = Problems(path)
    for index, (line, row) in enumerate(read_csv_rows(path, required=(column_of_time,), limit_rows=MAX_ROWS)):
        settable = [name for name in row if name.partition(".")[0] in SPACES and "." in name]
        if not index:
            names = [*plain, "run.NAME", "machine.NAME", "workload.NAME"]
            problems += unknown_columns((name for name in row if name not in settable), names)
        with problems, errors_at(f"{path}: line {line}"):
            settings: dict[str, dict[str, float]] = {space: {} for space in SPACES}
            for column in settable:
                (space, _, name), text = column.partition("."), row[column]
                value = machine_change(column, text, machine) if space == "machine" else number_of(column, text)
                settings[space][name] = value
            time = read_number(row[column_of_time], path, line, column_of_time, low=1e-12, high=LONGEST)
            key = tuple(text for column, text in row.items() if column != column_of_time)
            if key in seen and len(row) > 1 and "group" not in row:
                raise InputError(
                    f"the same settings as line {seen[key]}; average repeats, or distinguish them by a column 'group'"
                )
            seen[key] = line
            sized = workload.bind(**settings["workload"])
            for name, value in settings["run"].items():
                if name not in workload.symbols:
                    check_run_number(name, value)
            changes = {
                name: int(value) if isinstance(machine.get(name), int) else value
                for name, value in settings["machine"].items()
            }
            measurements.append(
                Measurement(
                    sized,
                    machine.using(changes) if changes else machine,
                    time,
                    FrozenDict(settings["run"]),
                    protocol=row.get("protocol", ""),
                    group=row.get("group", ""),
                )
            )
    problems.refuse()
    if not measurements:
        raise InputError(f"{path}: no measurements below the header")
    return tuple(measurements)


BENCHMARKED = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "latency": "e2el"}
"""Times of an answer, and what benchmarks of servers call them."""


def benchmarked(path: str, workload: Workload, machine: Machine, quantity: str | None) -> tuple[Measurement, ...]:
    """Mean times of the runs of a server's benchmark, each under its load.

    Raises InputError where the file is no such benchmark, or does not hold the quantity.
    """
    from slipstick.estimators.serving.server_config import run_of
    from slipstick.experiments.calibrate.measured_serving import traffic_of
    from slipstick.workloads.importers.serving.vllm_bench import read_vllm_bench

    if quantity is None or quantity not in BENCHMARKED:
        raise unknown_name("quantity of a benchmark", quantity or "output", list(BENCHMARKED))
    measurements = []
    runs = read_vllm_bench(Path(path))
    if len(runs) > MOST_RUNS:
        raise InputError(f"{path}: {len(runs):,} runs: want at most {MOST_RUNS}, since a fit simulates each many times")
    for number, run in enumerate(runs):
        value = run.times.get(f"{BENCHMARKED[quantity]} mean")
        if not value:
            raise InputError(
                f"{path}: run {number}: no mean {BENCHMARKED[quantity]} above 0 (--percentile-metrics of the bench)"
            )
        with errors_at(f"{path}: run {number}"):
            load = replace(traffic_of(run), num_requests=min(run.requests, MOST_REQUESTS))
        tokens = {"input_tokens": float(load.input_tokens), "output_tokens": float(load.output_tokens)}
        known = {name: value for name, value in {**run_of(load), **tokens}.items() if name in SAID}
        measurements.append(Measurement(workload, machine, value, FrozenDict(known), protocol=f"{run.backend} bench"))
    return tuple(measurements)


SAID = ("rate", "burstiness", "concurrency", "num_requests", "length_range", "input_tokens", "output_tokens")
"""Of a run, what its benchmark says."""
MOST_RUNS, MOST_REQUESTS = 50, 2_000
"""Of a benchmark, and simulated of one run."""
