"""Training of a torch model by p processes on shared weights, one image at a time each.

Each worker is one of the paper's network instances (Viebke et al. 2019, Figure 4): it computes on one thread and adds
its gradients to weights that all share, without locks. Processes instead of threads, since Python's lock would be
measured otherwise. The clock is the worker's CPU time: waiting for memory counts, other programs on the host do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.workloads.importers.torch.by_name import model_and_inputs, own_failure

LEARNING_RATE = 1e-6
WARM = 3
LOOKS, LEAVES = 0.5, 5.0
"""Seconds between looks at the workers, and after which one that has answered must have left."""


@dataclass(frozen=True)
class PassTime:
    """Seconds on one thread: forward and backward of one image, and what precedes the first image."""

    forward: float
    backward: float
    preparation: float


@dataclass(frozen=True)
class TrainingTime:
    """Seconds of an image of one of so many workers at once, and the samples' spread (IQR / median)."""

    threads: int
    seconds: float
    spread: float


def measure_passes(target: str, shapes: Sequence[str] = (), images: int = 20) -> PassTime:
    """Forward and backward of one image on one thread, medians.

    Raises InputError where the model cannot be built or run.
    """
    from slipstick.experiments.measure.clocks.one_thread import one_thread

    with one_thread():
        start = time.process_time()
        step = _TrainingStep(target, shapes)
        preparation = time.process_time() - start
        for _ in range(WARM):
            step.forward_only()
            step.train()
        forward = float(np.median([_timed(step.forward_only) for _ in range(images)]))
        whole = float(np.median([_timed(step.train) for _ in range(images)]))
    return PassTime(forward, max(whole - forward, 0.0), preparation)


def measure_training(
    target: str,
    threads: Sequence[int],
    shapes: Sequence[str] = (),
    images: int = 20,
    repeats: int = 3,
    say: Callable[[str], None] | None = None,
) -> tuple[TrainingTime, ...]:
    """Seconds an image of a worker takes with p workers training at once, for each p; counts take turns.

    Raises InputError where torch is missing, or the model cannot be built.
    """
    samples: dict[int, list[float]] = {count: [] for count in threads}
    for turn in range(repeats):
        for count in threads:
            if say is not None:
                say(f"training: {count} threads, round {turn + 1} of {repeats}")
            samples[count] += _workers(target, tuple(shapes), count, images)
    rows = []
    for count in threads:
        low, middle, high = np.quantile(samples[count], [0.25, 0.5, 0.75])
        rows.append(TrainingTime(count, float(middle), float((high - low) / middle)))
    return tuple(rows)


class _TrainingStep:
    """A model with its example, trained in place; its weights are those given, where they are shared."""

    def __init__(self, target: str, shapes: Sequence[str], shared: Mapping[str, Any] | None = None) -> None:
        import torch

        built, inputs = model_and_inputs(target, shapes)
        self.model = built.train()
        if shared is not None:
            for name, parameter in self.model.named_parameters():
                parameter.data = shared[name]
        entries = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        self.inputs = []
        for wanted in entries:
            size = [1 if part == "batch" else 64 if isinstance(part, str) else part for part in wanted.shape]
            dtype = getattr(torch, wanted.dtype)
            self.inputs.append(
                torch.rand(size).to(dtype) if dtype.is_floating_point else torch.zeros(size, dtype=dtype)
            )
        self.rate = LEARNING_RATE
        self.torch = torch

    def forward_only(self) -> None:
        with self.torch.no_grad():
            self.model(*self.inputs)

    def train(self) -> None:
        out = self.model(*self.inputs)
        parts = out.values() if isinstance(out, Mapping) else out if isinstance(out, (tuple, list)) else [out]
        loss = sum(part.float().square().mean() for part in parts if hasattr(part, "square"))
        loss.backward()
        with self.torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-self.rate)
                    parameter.grad = None


def _timed(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def _workers(target: str, shapes: tuple[str, ...], count: int, images: int) -> list[float]:
    """One number a worker: its median seconds an image.

    Workers build the model themselves and share its weights: an object of a class of the user's own would not be found
    by a process that does not know where the class is.
    """
    try:
        import torch.multiprocessing as processes
    except ImportError:
        raise InputError("measuring training needs torch: pip install 'slipstick[torch]'") from None
    model, _ = model_and_inputs(target, shapes)
    model.share_memory()
    shared = {name: parameter.data for name, parameter in model.named_parameters()}
    context = processes.get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    workers = [
        context.Process(target=_work, args=(target, shapes, shared, images, barrier, answers), daemon=True)
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    try:
        return _answers(target, workers, answers)
    finally:
        for worker in workers:
            worker.join(timeout=LEAVES)
            worker.kill()


def _answers(target: str, workers: Sequence[Any], answers: Any) -> list[float]:
    """What each worker found.

    Raises InputError as soon as one of them fails or is gone: the others wait for it.
    """
    results: list[float] = []
    while len(results) < len(workers):
        gone = [worker.exitcode for worker in workers if worker.exitcode is not None]  # before the last look
        try:
            answer = answers.get(timeout=LOOKS)
        except Empty:
            if len(gone) > len(results) or any(gone):
                code = next((one for one in gone if one), 0)
                raise InputError(
                    f"{target!r}: one of {len(workers)} training processes ended without an answer (exit code {code}"
                    f"{': killed, perhaps for want of memory' if code < 0 else ''})"
                ) from None
            continue
        if isinstance(answer, str):
            raise InputError(f"{target!r}: a training process failed: {answer}")
        results.append(float(answer))
    return results


def _work(
    target: str, shapes: tuple[str, ...], shared: Mapping[str, Any], images: int, barrier: Any, answers: Any
) -> None:
    import torch

    try:
        torch.set_num_threads(1)
        step = _TrainingStep(target, shapes, shared)
        for _ in range(WARM):
            step.train()
        barrier.wait()
        answers.put(float(np.median([_timed(step.train) for _ in range(images)])))
    except Exception as error:  # whatever the user's model raises is his to read
        barrier.abort()
        answers.put(own_failure(error))
