"""Pipelines of threads of this host, whose stages sleep for times drawn from a seed: what a job simulates, for real.

Queues with as many places as the buffers, semaphores for shared resources and barriers for copies that wait for each
other are those of Python; what is measured beside the drawn times is what the simulation leaves out (wake-ups, clocks,
the interpreter). The simulation is not told the draws: it gets the seeds of its own.

``python -m slipstick.experiments.scoreboards.simulation.own_pipelines OUT.csv`` measures all again (10 minutes).
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.frames import csv_frame, write_csv
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.job import Job
from slipstick.estimators.simulation.stage import Stage

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
