"""Recorded training runs with a known schedule: the ground truth for phases.

A small network is trained on this machine with `torch`, fed by a real `DataLoader` with worker processes. The
schedule says what every step is: training, evaluation, a checkpoint, training on larger inputs, training behind a
slow loader. Wall clock, since waiting is the subject; the protocol goes into the file's first lines.
"""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import nn, torch
from slipstick.experiments.methods.tuning.profiler import Analyzer, Profiler, ProfilerReport

LABELS = ("train", "evaluate", "checkpoint", "train on larger input", "train behind a slow loader")
SCHEDULE = (
    ("train", 140),
    ("checkpoint", 1),
    ("evaluate", 20),
    ("train", 90),
    ("checkpoint", 1),
    ("train on larger input", 100),
    ("checkpoint", 1),
    ("train behind a slow loader", 60),
    ("train", 70),
    ("checkpoint", 1),
    ("evaluate", 20),
)
"""Kinds of steps and how many of each, 504 in all."""

EVALUATED = 2
"""Forward passes in a step of evaluation (augmented views), so that it is not shorter than the loader's own work."""


@dataclass(frozen=True)
class RunSettings:
    """What the recorded run trains, and with how many loader workers.

    `delay` [s] is what a slow loader takes for a batch: None for three training steps, timed before the run. `scale`
    multiplies the number of steps of the schedule.
    """

    batch: int = 256
    width: int = 512
    inputs: int = 256
    larger: int = 8192
    workers: int = 1
    delay: float | None = None
    scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch", "width", "inputs", "larger", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"measure pipeline: {name} = {getattr(self, name)}: want at least 1")
        if not 0 < self.scale <= 100:
            raise InputError(f"measure pipeline: scale = {self.scale}: want more than 0, at most 100")
        if self.delay is not None and not 0 <= self.delay <= 10:
            raise InputError(f"measure pipeline: delay = {self.delay} s: want 0 to 10 s")

    def schedule(self) -> list[tuple[str, int]]:
        """Kinds of steps and how many of each."""
        return [(kind, count if count == 1 else max(2, round(count * self.scale))) for kind, count in SCHEDULE]


def record(settings: RunSettings | None = None, analyzer: Analyzer | None = None) -> ProfilerReport:
    """Train by the schedule and return the profiled, labelled steps.

    Raises InputError where torch is not installed.
    """
    settings = settings or RunSettings()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        job = _Job(settings)
        profiler = Profiler()
        with job.loaders() as batches:
            profiler.start(analyzer)
            try:
                for kind, steps in settings.schedule():
                    for _ in range(steps):
                        with profiler.step(kind) as mark:
                            job.do(kind, batches)
                            mark.checkpoint = kind == "checkpoint"
            except BaseException:
                profiler.stop()
                raise
            return profiler.stop()
    finally:
        torch.set_num_threads(threads)


class _Job:
    """The network, its optimizer, and what each kind of step does."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        torch.manual_seed(settings.seed)
        self.networks = {width: self._network(width) for width in (settings.inputs, settings.larger)}
        self.optimizers = {width: torch.optim.Adam(network.parameters()) for width, network in self.networks.items()}

    def _network(self, inputs: int) -> Any:
        width = self.settings.width
        hidden = [nn.Linear(inputs, width), nn.ReLU()]
        for _ in range(3):
            hidden += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(width, 10))

    @contextmanager
    def loaders(self) -> Iterator[dict[str, Any]]:
        """An endless iterator of batches for every kind of step, each behind its own worker processes, warmed up."""
        settings = self.settings
        delay = 3 * self._step_time() if settings.delay is None else settings.delay
        kinds = {
            "train": (settings.inputs, 0.0),
            "evaluate": (settings.inputs, 0.0),
            "train on larger input": (settings.larger, 0.0),
            "train behind a slow loader": (settings.inputs, delay),
        }
        batches = {kind: self._endless(*what) for kind, what in kinds.items()}
        for iterator in batches.values():
            next(iterator)
        try:
            yield batches
        finally:
            for iterator in batches.values():
                iterator.close()

    def _endless(self, inputs: int, delay: float) -> Generator[Any, None, None]:
        settings = self.settings
        loader = torch.utils.data.DataLoader(
            Examples(inputs, settings.batch, delay),
            batch_size=None,
            num_workers=settings.workers,
            prefetch_factor=1 if delay else 8,
            multiprocessing_context="fork",
        )
        while True:
            yield from loader

    def _step_time(self) -> float:
        """Median wall seconds of a training step of this machine as it is now, without a loader."""
        batch = Examples(self.settings.inputs, self.settings.batch, 0.0)[0]
        times = []
        for _ in range(15):
            began = time.perf_counter()
            self._train(batch)
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2]

    def do(self, kind: str, batches: dict[str, Any]) -> None:
        """One step."""
        if kind == "checkpoint":
            self._checkpoint()
        elif kind == "evaluate":
            self._evaluate(next(batches[kind]))
        elif kind in batches:
            self._train(next(batches[kind]))
        else:
            raise InputError(f"unknown kind of step {kind!r} (known: {', '.join(LABELS)})")

    def _train(self, batch: Any) -> None:
        features, labels = batch
        network, optimizer = self.networks[features.shape[1]], self.optimizers[features.shape[1]]
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(features), labels).backward()
        optimizer.step()

    def _evaluate(self, batch: Any) -> None:
        features, labels = batch
        with torch.no_grad():
            for network in (self.networks[features.shape[1]],) * EVALUATED:
                (network(features).argmax(dim=1) == labels).float().mean()

    def _checkpoint(self) -> None:
        with torch.profiler.record_function("checkpoint.save"):
            for network in self.networks.values():
                torch.save(network.state_dict(), io.BytesIO())


@dataclass(frozen=True)
class Examples:
    """Examples by batches, for `DataLoader` (batch_size=None); each batch takes `delay` [s] more than its
    making.
    """

    inputs: int
    batch: int
    delay: float
    batches: int = 10_000

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        if self.delay:
            time.sleep(self.delay)
        pool = _pool(self.batch, self.inputs)
        return pool[index % len(pool)], (torch.arange(self.batch) + index) % 10


@cache
def _pool(batch: int, inputs: int) -> Any:
    """A few ready batches in each process: a fast loader must cost next to nothing."""

    return torch.randn(4, batch, inputs, generator=torch.Generator().manual_seed(0))
