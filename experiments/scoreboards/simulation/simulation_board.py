"""Scoreboard: is an event simulation worth it? Simulated, by closed form, and by a mean, on measured times.

Every part predicts what was held out three ways from the same numbers: by simulation, by a closed form of the same
thing, and by the mean of what is known (no waiting, or what others measured). Where the closed form is as good, it is
the default, and docs/simulation.md says so.

Pipelines of threads of this host, whose stages sleep for times drawn from a seed: what a job simulates, for real.

Queues with as many places as the buffers, semaphores for shared resources and barriers for copies that wait for each
other are those of Python; what is measured beside the drawn times is what the simulation leaves out (wake-ups, clocks,
the interpreter). The simulation is not told the draws: it gets the seeds of its own.

``python -m slipstick.experiments.scoreboards.simulation.simulation_board OUT.csv`` measures all again (10 minutes).
"""

from __future__ import annotations

import math
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.frames import csv_frame, write_csv
from slipstick.estimators.cpu.xeon_phi_study import MEASURED_THREADS, SIZES, TABLE_IV_S
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.fitting.least_squares import fit_least_squares
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.schedules.trace_replay import replay
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import simulate
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.job import Job, with_numbers
from slipstick.estimators.simulation.queueing import StationVisit, closed_network
from slipstick.estimators.simulation.stage import Stage
from slipstick.estimators.simulation.thread_simulation import SharedMemory, simulate_round
from slipstick.experiments.jobs.job_file import JobQuestion
from slipstick.experiments.jobs.job_fit import fit_job
from slipstick.experiments.scoring.score import Board, Data, MissingError, Scored
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph
from slipstick.workloads.importers.traces.trace_graph import TraceGraph
from slipstick.workloads.runs.requests import Request, arriving

if TYPE_CHECKING:
    import pandas as pd


STEPS, REPEATS = 120, 2
"""Steps of a run, and runs of each job."""


@dataclass(frozen=True)
class MeasuredPipeline:
    """A job that ran: its family, the job, and seconds of each of its runs."""

    family: str
    job: Job
    seconds: tuple[float, ...]


def planned() -> list[tuple[str, Job]]:
    """Families and their jobs, drawn from one seed: buffers, shared resources, stragglers at a barrier."""
    generator, jobs = np.random.default_rng(2026), list[tuple[str, Job]]()
    for number in range(12):
        workers = int(generator.integers(2, 7))
        step = float(generator.uniform(25e-3, 50e-3))
        decode = Stage(
            "decode",
            step * workers * float(generator.uniform(0.6, 1.2)),
            workers,
            buffer=int(generator.integers(1, 5)),
            variation=float(generator.uniform(0.2, 1.2)),
            order="free",
        )
        last = Stage("step", step, variation=float(generator.choice([0.0, 0.3])))
        jobs.append(("finite buffers", Job(f"buffers {number}", Pipeline((decode, last), "step"), STEPS)))
    for number in range(10):
        cores = int(generator.integers(2, 4))
        step = float(generator.uniform(25e-3, 50e-3))
        load, decode = (
            Stage(
                name,
                step * cores / 2 * float(generator.uniform(0.6, 1.1)),
                int(generator.integers(2, 5)),
                buffer=2,
                variation=float(generator.uniform(0.2, 1.0)),
                resource="cores",
                order="free",
            )
            for name in ("load", "decode")
        )
        stages = (load, decode, Stage("step", step))
        jobs.append(("shared resource", Job(f"shared {number}", Pipeline(stages, "step", {"cores": cores}), STEPS)))
    for number in range(12):
        copies = int(generator.integers(3, 17))
        share = float(generator.choice([0.0, 0.02, 0.05]))
        stage = Stage(
            "step",
            float(generator.uniform(25e-3, 50e-3)),
            variation=float(generator.uniform(0.05, 0.4)),
            together=True,
            slow_share=share,
            slow_factor=3.0,
        )
        jobs.append(("stragglers", Job(f"barrier {number}", Pipeline((stage,), "step"), STEPS, copies=copies)))
    return jobs


def ran(job: Job, seed: int) -> float:
    """Seconds from the first work to the last step of a job that sleeps."""
    generator = np.random.default_rng([97, seed])
    copies = [[stage.draw(count, generator) for stage, count in _counted(job)] for _ in range(job.copies)]
    if job.copies > 1:
        return _at_barriers([times[0] for times in copies])
    return _in_a_row(job, copies[0])


def _counted(job: Job) -> list[tuple[Stage, int]]:
    return list(zip(job.pipeline.stages, job.pipeline.items_for(job.steps), strict=True))


def _at_barriers(times: Sequence[FloatArray]) -> float:
    barrier = threading.Barrier(len(times) + 1)

    def work(mine: FloatArray) -> None:
        barrier.wait()
        for seconds in mine.tolist():
            time.sleep(seconds)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for _ in times[0]:
        barrier.wait()
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    return seconds


def _in_a_row(job: Job, times: Sequence[FloatArray]) -> float:
    stages = job.pipeline.stages
    buffers: list[queue.Queue[int]] = [queue.Queue(stage.buffer or 0) for stage in stages]
    pools = {name: threading.Semaphore(capacity) for name, capacity in job.pipeline.resources.items()}

    def work(place: int, outputs: queue.SimpleQueue[float]) -> None:
        stage = stages[place]
        while True:
            try:
                seconds = outputs.get_nowait()
            except queue.Empty:
                return
            if place:
                buffers[place - 1].get()
            if stage.resource is None:
                time.sleep(seconds)
            else:
                with pools[stage.resource]:
                    time.sleep(seconds)
            if place < len(stages) - 1:
                buffers[place].put(0)

    threads = []
    for place, (stage, mine) in enumerate(zip(stages, times, strict=True)):
        outputs: queue.SimpleQueue[float] = queue.SimpleQueue()
        for seconds in mine.tolist():
            outputs.put(seconds)
        threads += [threading.Thread(target=work, args=(place, outputs)) for _ in range(stage.workers)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def read_pipelines(path: Path) -> list[MeasuredPipeline]:
    """The jobs of a file that this module wrote, in the order in which they are planned."""
    table = csv_frame(path).set_index("job")[[f"run_{run}_s" for run in range(REPEATS)]]
    seconds = {str(name): tuple(map(float, row)) for name, row in zip(table.index, table.to_numpy(), strict=True)}
    return [MeasuredPipeline(family, job, seconds[job.name]) for family, job in planned() if job.name in seconds]


BUNDLED = Path(__file__).parent / "measured" / "pipelines.csv"
RUNS = 60
"""Simulated runs of each job."""


def own_pipelines(data: Data) -> Iterator[Scored]:
    """Threads of this host that sleep, queue and wait for each other; nothing is fitted."""
    path = (data.scored or BUNDLED.parent) / BUNDLED.name
    if not path.exists():
        raise MissingError(f"no {path.name} in {data.scored}")
    measured = read_pipelines(path)
    for family in dict.fromkeys(one.family for one in measured):
        yield _of_family(family, [one for one in measured if one.family == family])


def _of_family(family: str, measured: list[MeasuredPipeline]) -> Scored:
    seconds = np.array([one.seconds for one in measured])
    runs = np.array([[one.job.simulate(1000 + seed).time for seed in range(RUNS)] for one in measured])
    formula = np.array([one.job.ideal() for one in measured])
    over = np.log(seconds.mean(axis=1) / formula)
    others = (over.sum() - over) / (len(over) - 1)
    low, high = np.percentile(runs, [10, 90], axis=1)
    return Scored(
        family,
        "every job (nothing is fitted)",
        seconds[:, 0],
        runs.mean(axis=1),
        baselines={
            "formula": formula,
            "slowest stage": np.array([replace(one.job, copies=1).ideal() for one in measured]),
            "formula x mean of other jobs": formula * np.exp(others),
        },
        low=low,
        high=high,
        noise=tuple(100 * np.quantile(np.abs(seconds[:, 1] / seconds[:, 0] - 1), share) for share in (0.5, 0.9)),
        reason="threads of this host that sleep for drawn times; another run of each is the noise",
        groups=[one.job.name for one in measured],
    )


STORAGE = "infeed/mlperf_storage.csv.gz"
VARIATIONS = np.array([0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3])
ROUNDS = 60


def storage(data: Data) -> Iterator[Scored]:
    """Steps of accelerators that storage feeds and that wait for each other: more of them, from the fewest."""
    frame = _storage_steps(data)
    seconds, first = frame["step"].to_numpy(), frame["first_step"].to_numpy()
    chosen: dict[str, list[float]] = {"simulated": [], "expected longest": [], "growth of other systems": []}
    for system in frame["system"]:
        others = frame[frame["system"] != system]
        growth = np.log(others["step"] / others["first_step"]).to_numpy()
        for name in ("simulated", "expected longest"):
            fits = [_misfit(name, others, variation) for variation in VARIATIONS]
            chosen[name].append(float(VARIATIONS[int(np.argmin(fits))]))
        chosen["growth of other systems"].append(float(np.exp(growth.mean())))
    times = {
        name: first
        * np.array(
            [
                _growth(name, int(few), int(many), v)
                for few, many, v in zip(frame["first"], frame["accelerators"], chosen[name], strict=True)
            ]
        )
        for name in ("simulated", "expected longest")
    }
    yield Scored(
        "storage that feeds accelerators",
        "systems",
        seconds,
        times["simulated"],
        baselines={
            "expected longest": times["expected longest"],
            "as the fewest": first,
            "growth of other systems": first * np.array(chosen["growth of other systems"]),
        },
        noise=tuple(100 * np.quantile(frame["repeat"], share) for share in (0.5, 0.9)),
        reason="seconds of a step; how far accelerators differ at a step is fitted on the other systems",
        groups=list(frame["system"]),
    )


def _storage_steps(data: Data) -> pd.DataFrame:
    """A row for each count of accelerators beyond a system's fewest: step and repeat (s, share), and the fewest's."""
    frame = csv_frame(data.judged(STORAGE))
    frame = frame[frame["suspicious"].isna()]
    frame["step"] = frame["compute_s"] / frame["accelerator_utilisation"]
    keys = ["submitter", "system", "network", "accelerator"]
    table = frame.groupby([*keys, "accelerators"])["step"].agg(["mean", "std"]).reset_index()
    fewest = table.loc[table.groupby(keys)["accelerators"].idxmin()].set_index(keys)
    table["first"] = [fewest.loc[tuple(row), "accelerators"] for row in table[keys].to_numpy()]
    table["first_step"] = [fewest.loc[tuple(row), "mean"] for row in table[keys].to_numpy()]
    table = table[table["accelerators"] > table["first"]]
    return table.rename(columns={"mean": "step"}).assign(repeat=table["std"] / table["mean"]).reset_index(drop=True)


def _misfit(name: str, frame: pd.DataFrame, variation: float) -> float:
    pairs = zip(frame["first"], frame["accelerators"], frame["step"], frame["first_step"], strict=True)
    errors = [math.log(_growth(name, int(few), int(many), variation) * one / other) for few, many, other, one in pairs]
    return float(np.sum(np.square(errors)))


@lru_cache(maxsize=4096)
def _growth(name: str, few: int, many: int, variation: float) -> float:
    """How much longer a step takes that waits for `many` than one that waits for `few`."""
    stage = Stage("step", 1.0, variation=float(variation), together=True)
    if name == "expected longest":
        return stage.longest(many) / stage.longest(few)
    times = [Job("step", Pipeline((stage,), "step"), ROUNDS, copies=copies).simulate(5).time for copies in (many, few)]
    return times[0] / times[1]


TRACES, LOADED, WORKERS = "traces/kineto_tb", "*num_workers_0_*", 4


def loaders(data: Data) -> Iterator[Scored]:
    """A training step whose batches four workers load, from traces in which the loop loads them itself."""
    folder = data.judged_folder / TRACES
    graphs = {path: read_trace_graph(path) for path in sorted(folder.glob(LOADED))}
    there = [read_trace_graph(path) for path in sorted(folder.glob(LOADED.replace("0", str(WORKERS))))]
    rows = [(_with_workers(graph), replay(other).step) for graph in graphs.values() for other in there]
    if not rows:
        raise MissingError(f"no {LOADED} in {folder}")
    measured = np.array([seconds for _, seconds in rows])
    steps = sorted(measured.tolist())
    yield Scored(
        "a training loop that workers feed",
        "the traces with workers",
        measured,
        np.array([one[0] for one, _ in rows]),
        baselines={
            "slowest stage": np.array([one[1] for one, _ in rows]),
            "no change": np.array([one[2] for one, _ in rows]),
        },
        noise=100 * (steps[-1] / steps[0] - 1),
        reason="ResNet-50 on a V100: loading and the rest of each step as the loop without workers took them",
        groups=[path.name for path in graphs for _ in there],
    )


def _with_workers(graph: TraceGraph) -> tuple[float, float, float]:
    """Seconds of a step with workers, simulated and by the slowest stage, and without."""
    loading = graph.columns.service[graph.of_kind("loader")]
    steps = np.array(replay(graph).steps)
    rest = tuple((steps[: len(loading)] - loading[: len(steps)]).tolist())
    stages = (Stage("load", tuple(loading.tolist()), WORKERS, buffer=2 * WORKERS), Stage("step", rest))
    pipeline = Pipeline(stages, "step")
    return pipeline.simulate(60).step_time(skip=20), pipeline.step_time(), float(np.median(steps))


def memory_queue(data: Data) -> Iterator[Scored]:
    """Contention of threads at one memory (Viebke et al. 2019, Table IV): more threads from the fewer ones."""
    rows: list[tuple[float, float, float, float, float]] = []
    groups = []
    for size in SIZES:
        measured = np.array(TABLE_IV_S[size][0])
        threads = np.array(MEASURED_THREADS, dtype=np.float64)
        known = threads <= 60
        service = float(np.exp(np.mean(np.log(measured[known][1:] / threads[known][1:]))))
        line = np.polyfit(threads[known], measured[known], 1)
        for count, seconds in zip(threads[~known], measured[~known], strict=True):
            ran = simulate_round([("ask", 20 * int(count), 0.0, True)], int(count), SharedMemory(service))
            closed = count / closed_network([StationVisit(service)], int(count)).rate
            rows.append((seconds, ran.makespan / 20, closed, float(np.polyval(line, count)), measured[known][-1]))
            groups.append(size)
    table = np.array(rows)
    yield Scored(
        "threads at one memory",
        "more threads than 60",
        table[:, 0],
        table[:, 1],
        baselines={"closed network": table[:, 2], "line": table[:, 3], "as with 60 threads": table[:, 4]},
        reason="seconds that a thread waits for the memory; the service from 15 to 60 threads",
        groups=groups,
    )


SERVERS, BURSTY = "serving/community.csv.gz", "djangodevreng/dgx-spark-benchmarks"
KNOWN_RATE = 0.3
"""Requests a second up to which a server's measurements are known."""
FIGURES = ("ttft_p50_s", "ttft_p95_s", "e2e_p50_s", "e2e_p99_s")
MOST_PLACES = 256.0
"""Sequences that a scheduler decodes together."""
START = (0.03, 2e-3, 1e-4, 0.3)
LOW, HIGH = (1e-3, 1e-6, 1e-7, 0.0), (1.0, 0.5, 1e-2, 2.0)
"""Seconds of a step, of each sequence in it and of each token of a prompt, and how far lengths scatter."""


def server_percentiles(data: Data) -> Iterator[Scored]:
    """Percentiles of first tokens and of whole requests at higher rates, from those at lower ones."""
    rows: dict[str, list[dict[str, float]]] = {figure: [] for figure in FIGURES}
    groups: list[str] = []
    for name, known, more in _servers(data):
        law = _fitted_law(known)
        nearest = known[-1]
        for row in more:
            simulated, closed = _simulated(law, row), _closed(law, row)
            groups.append(name)
            for figure in FIGURES:
                rows[figure].append(
                    {
                        "measured": row[figure],
                        "simulated": simulated[figure],
                        "steady state": closed[figure],
                        "as at the highest known rate": nearest[figure],
                    }
                )
    for figure in FIGURES:
        table = {key: np.array([row[key] for row in rows[figure]]) for key in rows[figure][0]} if rows[figure] else {}
        if not table:
            continue
        measured, ours = table.pop("measured"), table.pop("simulated")
        yield Scored(
            f"a server's {figure.removesuffix('_s').replace('_', ' ')}",
            f"rates above {KNOWN_RATE:g}/s",
            measured,
            ours,
            baselines=table,
            reason="a step's law with three numbers and the scatter of lengths, fitted through the simulation",
            groups=groups,
        )


def _servers(data: Data) -> Iterator[tuple[str, list[dict[str, float]], list[dict[str, float]]]]:
    """Model, its rows at rates that are known, and at higher ones."""
    frame = csv_frame(data.judged(SERVERS))
    frame = frame[(frame["source"] == BURSTY) & (frame["loop"] == "open") & frame["suspicious"].isna()]
    frame = frame[(frame["input_tokens"] > 3000) & (frame["burstiness"] < 1)].dropna(subset=list(FIGURES))
    columns = ["input_tokens", "output_tokens", "request_rate_per_s", "burstiness", "prompts", *FIGURES]
    for (model, precision), part in frame.groupby(["model", "precision"]):
        part = part.sort_values("request_rate_per_s")
        rows = [{key: float(row[key]) for key in columns} for _, row in part.iterrows()]
        known = [row for row in rows if row["request_rate_per_s"] <= KNOWN_RATE]
        more = [row for row in rows if row["request_rate_per_s"] > KNOWN_RATE]
        if len(known) >= 2 and more:
            yield f"{model} {precision}", known, more


def _fitted_law(known: list[dict[str, float]]) -> tuple[float, ...]:
    def residuals(logs: FloatArray) -> FloatArray:
        law = (*np.exp(logs[:3]).tolist(), float(logs[3]))
        predicted = [_simulated(law, row) for row in known]
        return np.array(
            [math.log(one[name] / row[name]) for one, row in zip(predicted, known, strict=True) for name in FIGURES]
        )

    def slopes(logs: FloatArray) -> FloatArray:
        here, columns = residuals(logs), []
        for place in range(len(logs)):
            step = 0.1 if logs[place] + 0.1 <= ends[1][place] else -0.1
            moved = logs.copy()
            moved[place] += step
            columns.append((residuals(moved) - here) / step)
        return np.stack(columns, axis=1)

    start, *ends = (np.array([*np.log(one[:3]), one[3]]) for one in (START, LOW, HIGH))
    names = ("step", "sequence", "token", "scatter")
    fit = fit_least_squares(residuals, names, start, ends[0], ends[1], slopes, loss="soft_l1", tolerance=1e-3)
    return (*np.exp(fit.values[:3]).tolist(), float(fit.values[3]))


def _seconds(law: tuple[float, ...], batch: Batch) -> float:
    return law[0] + law[1] * batch.decodes + law[2] * batch.prompt


def _simulated(law: tuple[float, ...], row: dict[str, float]) -> dict[str, float]:
    generator, count = np.random.default_rng(4), int(row["prompts"])
    width = math.sqrt(math.log1p(law[3] ** 2))
    lengths = generator.lognormal(-(width**2) / 2, width, (2, count)) * [[row["input_tokens"]], [row["output_tokens"]]]
    read, made = np.clip(np.round(lengths), 1, 200_000).astype(int).tolist()
    requests = arriving(
        [Request(*one) for one in zip(read, made, strict=True)], row["request_rate_per_s"], 1 / row["burstiness"]
    )
    answer = simulate(requests, lambda batch: _seconds(law, batch), Scheduler(cache_tokens=10_000_000))
    first, whole = answer.quantiles("ttft", (0.5, 0.95)), answer.quantiles("latency", (0.5, 0.99))
    return dict(zip(FIGURES, (first["p50"], first["p95"], whole["p50"], whole["p99"]), strict=True))


def _closed(law: tuple[float, ...], row: dict[str, float]) -> dict[str, float]:
    """A steady state by Little's law: steps are shared by as many requests as are there on average, waits exponential.

    Beyond the rate that it can serve there is none: then half of all requests are there on average, or as many as the
    scheduler has places, and who comes when these are full waits for those before.
    """
    step, sequence, token, scatter = law
    rate, read, made, count = row["request_rate_per_s"], row["input_tokens"], row["output_tokens"], row["prompts"]
    idle, most = 1 - rate * (made * sequence + read * token), min(MOST_PLACES, count / 2)
    together = min(most, max(1.0, rate * made * step / idle)) if idle > 0 else most
    each = step + together * (sequence + token * read / made)
    late = made * each * max(0.0, count / MOST_PLACES - 1) if together == most else 0.0
    first, whole = token * read + 1.5 * each + late / 2, token * read + made * each + late / 2
    tail = math.log(20) / math.log(2)
    scattered = math.exp(2.326 * math.sqrt(math.log1p(scatter**2)))
    ends = (token * read + 1.5 * each * tail + 0.95 * late, token * read + made * each * scattered + late)
    return dict(zip(FIGURES, (first, ends[0], whole, ends[1]), strict=True))


PLANTED = 8
NAMES = ("decode.service", "decode.variation")


def planted(data: Data) -> Iterator[Scored]:
    """Jobs whose numbers are known, fitted through the simulation to the steps of one run; by formula beside it."""
    generator = np.random.default_rng(11)
    fitted: dict[str, list[tuple[float, ...]]] = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PLANTED):
            true = dict(zip(NAMES, generator.uniform((1.2, 0.2), (3.0, 1.0)).tolist(), strict=True))
            question = _planted_job(int(generator.integers(2, 5)), int(generator.integers(1, 5)))
            steps = with_numbers(question.job()[0], true).simulate(number).step_ends()
            path = Path(folder, f"{number}.csv")
            path.write_text("step_s\n" + "\n".join(map(str, np.diff(steps).tolist())) + "\n")
            made = fit_job(question, str(path), [f"job.{name}" for name in NAMES], runs=24)
            known, bands = made.calibration, made.calibration.percentiles(made.job, LEVEL)
            for name, value in zip(known.names, known.values, strict=True):
                fitted[name].append((true[name], value, known.formula[name], *bands[name]))
    for name, rows in fitted.items():
        table = np.array(rows).T
        yield Scored(
            f"planted {name}",
            "every job",
            table[0],
            table[1],
            baselines={"fitted to the slowest stage, where it tells": table[2]},
            low=table[3],
            high=table[4],
            reason="199 steps of one run, held up by its loaders; no closed form tells a variation: it stays as begun",
            groups=[f"job {number}" for number in range(PLANTED)],
        )


def _planted_job(workers: int, buffer: int) -> JobQuestion:
    decode = {"name": "decode", "service": 1.0, "variation": 0.5, "workers": workers, "buffer": buffer}
    stages = [decode, {"name": "step", "service": 1.0 / workers, "variation": 0.1}]
    return JobQuestion({"name": "planted", "steps": 200, "stages": stages}, "planted")


BOARD = Board(
    "Is simulating it better than a closed form, where stages, threads and requests wait for each other?",
    {
        "own pipelines": own_pipelines,
        "mlperf storage": storage,
        "loaders": loaders,
        "xeon phi": memory_queue,
        "servers": server_percentiles,
        "planted": planted,
    },
    closed={"xeon phi": "the rows are the paper's", "planted": "the jobs are drawn"},
)


def main(path: str) -> None:
    """Measure all of them into a file."""
    import pandas as pd

    rows = [
        {"family": family, "job": job.name}
        | {f"run_{run}_s": round(ran(job, REPEATS * number + run), 6) for run in range(REPEATS)}
        for number, (family, job) in enumerate(planned())
    ]
    write_csv(pd.DataFrame(rows), path)


if __name__ == "__main__":
    main(sys.argv[1])
