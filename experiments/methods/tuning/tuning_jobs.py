"""Jobs to tune: simulated input pipelines, and a real `torch.utils.data.DataLoader` that waits for its storage."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.stage import Stage
from slipstick.experiments.methods.tuning.tuner import Knob, Settings, Trial
from slipstick.workloads.runs.step_profiles import Operation, Place, StepProfile


@dataclass(frozen=True)
class Map:
    """A function over examples: `work` [s] per example of unit size, and the size of what comes out per size in.

    `after` names a map that must come before it; others may change places.
    """

    name: str
    work: float
    shrinks_to: float = 1.0
    after: str = ""


@dataclass(frozen=True)
class SimulatedJob:
    """A training job on an accelerator behind a host, times in seconds.

    `read`, `call`: to fetch an example of unit size from storage; overhead of each call of the maps.
    `maps`: in the order of the program.
    `link`, `step`: to move a batch of unit size to the device; of the device for a batch.
    `cores`, `memory`: of the host; memory in examples of unit size, for caching.
    `examples`: of the data set: a cache must hold them all.
    """

    read: float
    maps: tuple[Map, ...]
    link: float
    step: float
    call: float = 2e-4
    batch: int = 64
    cores: int = 8
    memory: float = 1e5
    examples: int = 50_000
    variation: float = 0.2
    seed: int = 0
    steps: int = 160

    def knobs(self) -> tuple[Knob, ...]:
        """Workers, prefetch, batch of maps, order of maps, and what is cached."""
        stages = ("nothing", "storage", *(f"maps up to {i + 1}" for i in range(len(self.maps))))
        return (
            Knob("workers", (1, 2, 3, 4, 6, 8, 12), 1),
            Knob("prefetch", (1, 2, 4, 8), 1),
            Knob("map_batch", (1, 4, 16, 64), 1),
            Knob("order", self.orders(), tuple(each.name for each in self.maps)),
            Knob("cached", stages, "nothing"),
        )

    def orders(self) -> tuple[tuple[str, ...], ...]:
        """Orders of the maps that keep what must come before what; the program's own first, then by distance."""
        from itertools import permutations

        names = tuple(each.name for each in self.maps)
        before = {each.name: each.after for each in self.maps}
        kept = [
            order
            for order in permutations(names)
            if all(not before[name] or order.index(before[name]) < order.index(name) for name in order)
        ]
        return tuple(sorted(kept, key=lambda order: sum(abs(order.index(n) - names.index(n)) for n in names)))

    def pipeline(self, settings: Settings) -> Pipeline:
        """The job under some settings.

        Raises InputError where the cache does not fit into memory.
        """
        by_name = {each.name: each for each in self.maps}
        order = [by_name[name] for name in settings["order"]]
        sizes = np.cumprod([1.0, *(each.shrinks_to for each in order)])
        kinds = ["nothing", "storage", *(f"maps up to {i + 1}" for i in range(len(order)))]
        depth = kinds.index(settings["cached"])
        if depth and self.examples * sizes[depth - 1] > self.memory:
            raise InputError(
                f"cached = {settings['cached']!r}: {self.examples * sizes[depth - 1]:g} units "
                f"do not fit into {self.memory:g}"
            )
        done = max(depth - 1, 0)
        work = sum(each.work * size for each, size in list(zip(order, sizes, strict=False))[done:])
        if done < len(order):
            work += self.call / settings["map_batch"] * (len(order) - done)
        workers = settings["workers"]
        # workers beyond the cores (one serves the device) wait for each other, and each one more costs a little
        crowd = max(1.0, workers / max(1, self.cores - 1)) * (1 + 0.01 * (workers - 1))
        read = 0.0 if depth else self.read
        return Pipeline(
            (
                Stage("storage", self.batch * read, buffer=2, variation=self.variation),
                Stage(
                    "maps",
                    self.batch * work * crowd,
                    workers=workers,
                    buffer=settings["prefetch"],
                    variation=self.variation,
                ),
                Stage("infeed", self.link * float(sizes[-1]), buffer=2),
                Stage("device", self.step, variation=self.variation / 4),
            ),
            device="device",
        )

    def stretch(self, settings: Settings) -> Trial:
        """One stretch of the simulated job."""
        run = self.pipeline(settings).run(self.steps, self.seed)
        return Trial(dict(settings), run.step_time(skip=self.steps // 4), "same")

    def steps_under_defaults(self) -> Iterator[StepProfile]:
        """The job's steps as a profiler shows them: what each stage took, and how long the device waited for input."""
        run = self.pipeline({knob.name: knob.default for knob in self.knobs()}).run(self.steps, self.seed)
        began, ended, left = run.times.started, run.times.finished, run.times.departed
        for step in range(self.steps):
            before = left[-1][step - 1] if step else 0.0
            waited = max(0.0, float(began[-1][step] - before))
            operations = {"InfeedDequeueTuple": Operation(1, waited, "device")}
            for place, stage in enumerate(run.pipeline.stages):
                name = {"infeed": "TransferBufferToInfeedLocked", "device": "training step"}.get(stage.name, stage.name)
                where: Place = "device" if stage.name == "device" else "host"
                operations[name] = Operation(1, float(ended[place][step] - began[place][step]), where)
            yield StepProfile(step, float(before), float(left[-1][step] - before), operations)

    def predict(self, settings: Settings) -> float:
        """Seconds per step by formula: the slowest stage (no variation, hence no prefetch in it)."""
        return self.pipeline(settings).step_time()


def simulated_jobs() -> tuple[SimulatedJob, ...]:
    """Ten jobs with different bottlenecks: storage, decoding, crowding, small calls, the link, the device, mixtures."""
    decode, crop, jitter = Map("decode", 2e-3), Map("crop", 2e-4, 0.3, "decode"), Map("jitter", 1e-3, 1.0, "decode")
    tokens, pad = Map("tokenize", 3e-4), Map("pad", 5e-5, 2.0, "tokenize")
    program = (decode, jitter, crop)
    return (
        SimulatedJob(1e-4, program, 5e-3, 0.06),
        SimulatedJob(2e-3, program, 5e-3, 0.05, memory=6e4),
        SimulatedJob(2e-3, program, 5e-3, 0.05, memory=1e3),
        SimulatedJob(5e-5, (tokens, pad), 1e-3, 0.004, call=1e-3, memory=1e3),
        SimulatedJob(5e-5, (tokens, pad), 2e-2, 0.01),
        SimulatedJob(1e-4, program, 5e-3, 0.3),
        SimulatedJob(3e-4, program, 5e-3, 0.02, cores=4, memory=2e4),
        SimulatedJob(1e-4, (decode, crop, jitter), 5e-3, 0.02, variation=0.8, memory=1e3),
        SimulatedJob(8e-4, (decode,), 4e-2, 0.03, cores=16, memory=1e3),
        SimulatedJob(1e-4, program, 5e-3, 0.01, cores=2, call=2e-3),
    )


@dataclass(frozen=True)
class LoaderJob:
    """A real job: a `DataLoader` over a storage that makes it wait, and a device step that takes its time.

    Waiting is wall clock by nature: `wait` [s] per batch stands for storage, `work` [s] for the device's step; both
    sleep, so that the machine's cores are not the subject. The batches' content is the output that must not change.
    """

    wait: float = 0.02
    work: float = 0.01
    steps: int = 30
    batches: int = 64

    def knobs(self) -> tuple[Knob, ...]:
        """Workers, prefetch, and whether batches are kept once fetched."""
        return (
            Knob("workers", (0, 1, 2, 4), 0),
            Knob("prefetch", (1, 2, 4), 1),
            Knob("cached", ("nothing", "storage"), "nothing"),
        )

    def stretch(self, settings: Settings) -> Trial:
        """Seconds per step of a stretch, after the loader has started."""
        loader = self._loader(settings)
        workers = settings["workers"]
        if settings["cached"] == "storage":
            for index in range(self.batches):  # the epoch before fills the cache; workers inherit it
                loader.dataset[index]
        digest = hashlib.sha256()
        warm = max(4, 2 * workers * settings["prefetch"]) % self.batches
        iterator = iter(loader)
        digest_of: list[bytes] = []
        for _ in range(warm):
            digest_of.append(next(iterator).numpy().tobytes())
            time.sleep(self.work)
        began = time.perf_counter()
        for _ in range(min(self.steps, self.batches - warm)):
            digest_of.append(next(iterator).numpy().tobytes())
            time.sleep(self.work)
        took = (time.perf_counter() - began) / min(self.steps, self.batches - warm)
        for content in digest_of[:8]:
            digest.update(content)
        del iterator, loader
        return Trial(dict(settings), took, digest.hexdigest()[:16])

    def steps_under_defaults(self) -> Iterator[StepProfile]:
        """The job's steps by wall clock: waiting for the loader, and the device's work."""
        settings = {knob.name: knob.default for knob in self.knobs()}
        iterator = iter(self._loader(settings))
        origin = time.perf_counter()
        for step in range(min(self.steps, self.batches)):
            began = time.perf_counter()
            next(iterator)
            waited = time.perf_counter() - began
            time.sleep(self.work)
            took = time.perf_counter() - began
            operations = {
                "DataLoader.__next__": Operation(1, waited, "host"),
                "training step": Operation(1, took - waited, "device"),
            }
            yield StepProfile(step, began - origin, took, operations)

    def _loader(self, settings: Settings) -> Any:
        data = Storage(self.wait, self.batches, settings["cached"] == "storage")
        workers = settings["workers"]
        more: dict[str, Any] = (
            {"prefetch_factor": settings["prefetch"], "persistent_workers": True, "multiprocessing_context": "fork"}
            if workers
            else {}
        )
        return torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, **more)


class Storage:
    """Batches that take `wait` [s] to fetch, once or every time; a map-style data set."""

    def __init__(self, wait: float, batches: int, cached: bool) -> None:  # noqa: FBT001 - a data set's own setting
        self.wait, self.batches = wait, batches
        self.kept: dict[int, Any] | None = {} if cached else None

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        if self.kept is not None and index in self.kept:
            return self.kept[index]
        time.sleep(self.wait)
        batch = torch.arange(64, dtype=torch.float32) + index
        if self.kept is not None:
            self.kept[index] = batch
        return batch
