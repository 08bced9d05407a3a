"""Everything that the thread model wants to know of a network on this host (`slipstick measure contention`).

Contention: what threads wait for each other when each adds its gradients to the same weights, layer by layer.

As Viebke et al. 2019 (Section IV) take it: a small program that does nothing but update the weights of a network of
given layers, from 1 to n threads at once. The seconds of one update of all weights, as a thread sees them, are the
contention at that thread count. The clock is each thread's CPU time: waiting for memory counts, being put aside for
somebody else's program does not.

Training of a torch model by p processes on shared weights, one image at a time each.

Each worker is one of the paper's network instances (Viebke et al. 2019, Figure 4): it computes on one thread and adds
its gradients to weights that all share, without locks. Processes instead of threads, since Python's lock would be
measured otherwise. The clock is the worker's CPU time: waiting for memory counts, other programs on the host do not.

Cycles per instruction by busy hardware threads of a core: the same loop on 1 .. k of them at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import numba, torch
from slipstick.common.readers import whole_number
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement
from slipstick.experiments.measure.clocks.timing import seconds_together
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.instruction_count import counted_instructions
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.torch.named_program import model_and_inputs, own_failure
from slipstick.workloads.runs.training_run import training_run, weights_of

SIBLINGS = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
STEPS = 200_000
REPEATS = 7


def sibling_threads(path: Path = SIBLINGS) -> tuple[int, ...]:
    """Numbers of the hardware threads of the first core that this process may use; at least one, if only by number."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    try:
        text = path.read_text()
    except OSError:
        text = ""
    siblings = [number for part in text.strip().split(",") for number in _range(part) if number in allowed]
    return tuple(siblings) or (min(allowed),)


def cycles_by_threads(siblings: Sequence[int]) -> tuple[float, ...]:
    """Time of one thread with 1 .. k busy threads on its core, over its time alone (Table III of Viebke et al. 2019).

    The loop is a product of small matrices in the first cache: what a convolution does most.
    """
    alone = min(_together(siblings[:1]) for _ in range(REPEATS))
    cycles = [1.0]
    for count in range(2, len(siblings) + 1):
        shared = float(np.median([_together(siblings[:count]) for _ in range(REPEATS)]))
        cycles.append(max(cycles[-1], shared / alone))
    return tuple(round(value, 4) for value in cycles)


def _together(numbers: Sequence[int]) -> float:
    """Seconds of the loop, the mean over threads that are bound to these hardware threads."""
    loop = _loop()

    def bound(rank: int) -> Callable[[], object]:
        os.sched_setaffinity(threading.get_native_id(), {numbers[rank]})
        a, b, c = (np.full((16, 16), value, dtype=np.float32) for value in (0.5, 0.25, 0.0))
        return lambda: loop(a, b, c, STEPS // 100)

    return float(np.mean(seconds_together(len(numbers), bound)))


@cache
def _loop() -> Any:

    @numba.njit(nogil=True, fastmath=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def loop(a: Any, b: Any, c: Any, times: int) -> float:
        for _ in range(times):
            for i in range(16):
                for k in range(16):
                    for j in range(16):
                        c[i, j] += a[i, k] * b[k, j]
        return float(c[0, 0])

    one = np.zeros((16, 16), np.float32)
    loop(one, one, one.copy(), 1)
    return loop


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    low, high = whole_number(first), whole_number(last or first)
    return range(low, high + 1) if low is not None and high is not None and high - low < 1024 else range(0)


RATE = np.float32(1e-6)
MAX_WEIGHTS = 500_000_000
SAMPLE_SECONDS = 0.02
MAX_THREADS = 4096


@dataclass(frozen=True)
class ThreadsTime:
    """Median seconds of something that so many threads do at once, and the spread of the samples (IQR / median)."""

    threads: int
    seconds: float
    spread: float

    @classmethod
    def of(cls, threads: int, samples: Sequence[float]) -> ThreadsTime:
        """That of some samples."""
        low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75])
        return cls(threads, float(middle), float((high - low) / middle))


def layer_weights(workload: Workload) -> tuple[int, ...]:
    """Weights of each layer that is updated; the whole network as one layer where the graph lists no updates.

    Raises InputError where the graph does not say how many weights it has, or they are too many to hold.
    """
    bound = workload.bound()
    layers = [round(float(op.dims["elements"]) * float(op.times)) for op in bound if op.kind == "optimizer"]
    if not layers:
        whole = weights_of(bound)
        if not whole:
            raise InputError(
                f"workload {workload.name!r} has no weights: contention is measured on a network's weights and layers "
                "(metadata 'parameters', or operations of kind 'optimizer')"
            )
        layers = [round(whole)]
    if sum(layers) > MAX_WEIGHTS:
        raise InputError(
            f"workload {workload.name!r}: {sum(layers)} weights, contention is measured up to {MAX_WEIGHTS:g}"
        )
    return tuple(layer for layer in layers if layer > 0)


def measure_contention(
    layers: Sequence[int],
    threads: Sequence[int],
    repeats: int = 9,
    say: Callable[[str], None] | None = None,
) -> tuple[ThreadsTime, ...]:
    """The seconds of an update at each thread count; the counts take turns, so that a slow spell meets them all.

    `layers`: weights of each layer.
    `repeats`: samples of every count; their median is the value.
    Raises InputError where a thread count is out of range, or numba is missing.
    """
    for count in threads:
        if not 1 <= count <= MAX_THREADS:
            raise InputError(f"threads = {count}: want 1 .. {MAX_THREADS}")
    weights, gradients = np.zeros(sum(layers), dtype=np.float32), np.ones(sum(layers), dtype=np.float32)
    borders = np.cumsum([0, *layers])
    update = partial(_update(), weights, gradients, borders)
    first = _passes(update, 1, 2)
    rounds = max(1, round(SAMPLE_SECONDS / max(first, 1e-9)))
    samples: dict[int, list[float]] = {count: [] for count in threads}
    for turn in range(repeats):
        if say is not None:
            say(f"contention: round {turn + 1} of {repeats}")
        for count in threads:
            samples[count].append(_passes(update, count, rounds))
    return tuple(ThreadsTime.of(count, samples[count]) for count in threads)


def _passes(update: Callable[[int], None], threads: int, rounds: int) -> float:
    """Seconds of one pass over all layers, the mean over the threads of what each waited."""
    return float(np.mean(seconds_together(threads, lambda _: lambda: update(rounds)))) / rounds


@cache
def _update() -> Any:
    """Compiled, and without the interpreter's lock: threads shall wait for memory alone."""

    @numba.njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def update(weights: Any, gradients: Any, borders: Any, rounds: int) -> None:
        for _ in range(rounds):
            for layer in range(borders.size - 1):
                for index in range(borders[layer], borders[layer + 1]):
                    weights[index] -= RATE * gradients[index]

    one = np.zeros(1, np.float32)
    update(one, one.copy(), np.array([0, 1]), 1)
    return update


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
) -> tuple[ThreadsTime, ...]:
    """Seconds an image of a worker takes with p workers training at once, for each p; counts take turns.

    Raises InputError where torch is missing, or the model cannot be built.
    """
    samples: dict[int, list[float]] = {count: [] for count in threads}
    for turn in range(repeats):
        for count in threads:
            if say is not None:
                say(f"training: {count} threads, round {turn + 1} of {repeats}")
            samples[count] += _workers(target, tuple(shapes), count, images)
    return tuple(ThreadsTime.of(count, samples[count]) for count in threads)


class _TrainingStep:
    """A model with its example, trained in place; its weights are those given, where they are shared."""

    def __init__(self, target: str, shapes: Sequence[str], shared: Mapping[str, Any] | None = None) -> None:
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

    def forward_only(self) -> None:
        with torch.no_grad():
            self.model(*self.inputs)

    def train(self) -> None:
        out = self.model(*self.inputs)
        parts = out.values() if isinstance(out, Mapping) else out if isinstance(out, (tuple, list)) else [out]
        loss = sum(part.float().square().mean() for part in parts if hasattr(part, "square"))
        loss.backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-LEARNING_RATE)
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
    model, _ = model_and_inputs(target, shapes)
    model.share_memory()
    shared = {name: parameter.data for name, parameter in model.named_parameters()}
    context = torch.multiprocessing.get_context("spawn")
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


MAX_LISTED = 64


def thread_counts(text: str) -> tuple[int, ...]:
    """``1..8`` (1, 2, 4, 8: doubling, and the last), or ``1,2,6``.

    Raises InputError where it is neither.
    """
    first, dots, last = text.partition("..")
    if dots:
        low, high = whole_number(first.strip()), whole_number(last.strip())
        if not low or not high or high < low:
            raise InputError(f"--threads {text}: want FIRST..LAST, as 1..8")
        result, count = [], low
        while count < high:
            result.append(count)
            count *= 2
        return (*result, high)
    counts = [whole_number(part.strip()) for part in text.split(",")]
    if not counts or not all(counts) or len(counts) > MAX_LISTED:
        raise InputError(f"--threads {text}: want 1..8 or a list such as 1,2,6")
    return tuple(sorted({count for count in counts if count}))


def graph_of(target: str, shapes: Sequence[str]) -> Workload:
    """The training step of a torch model, ``MODULE:FUNCTION``, as a workload named like the function."""
    from slipstick.workloads.importers.torch.importer import import_torch
    from slipstick.workloads.importers.torch.named_program import model_and_inputs

    model, inputs = model_and_inputs(target, shapes)
    return import_torch(model, inputs, target.rpartition(":")[2])


def instructions_of(step: Workload) -> float:
    """Number of instructions of one trained image."""
    run = training_run(step).bound()
    return float(sum(counted_instructions(op) for op in run if op.name in ("training", "inference")))


def measure_network(
    target: str,
    machine: Machine,
    threads: Sequence[int],
    shapes: Sequence[str] = (),
    images: int = 20,
    repeats: int = 3,
    say: Callable[[str], None] | None = None,
) -> tuple[ThreadMeasurement, Workload]:
    """Contention, cycles per instruction, passes and training times of a torch model here; and its graph.

    `machine`: this host as a machine, its clock known.
    `threads`: counts to measure.
    `images`: trained by each worker at each count.
    Raises InputError where torch or numba is missing, or the model cannot be built, imported or run.
    """
    speak = say or (lambda text: None)
    speak("importing the network's graph")
    step = graph_of(target, shapes)
    layers = layer_weights(step)
    contention = measure_contention(layers, threads, say=speak)
    speak("cycles per instruction by threads a core")
    cycles = cycles_by_threads(sibling_threads())
    speak("passes on one thread")
    passes = measure_passes(target, shapes, images)
    training = measure_training(target, threads, shapes, images, repeats, speak)
    when = datetime.now(UTC).date().isoformat()
    spread = max([*(each.spread for each in contention), *(each.spread for each in training)], default=0.0)
    return (
        ThreadMeasurement(
            network=str(step.metadata.get("network", step.name)),
            weights=float(sum(layers)),
            instructions=instructions_of(step),
            clock=machine.clock,
            machine=machine.name,
            family=machine.family or "",
            fingerprint=machine.fingerprint,
            contention=tuple((each.threads, each.seconds) for each in contention),
            training=tuple((each.threads, each.seconds) for each in training),
            forward=passes.forward,
            backward=passes.backward,
            preparation=passes.preparation,
            cycles_per_instruction=cycles,
            cores=machine.cores,
            protocol=f"{when}: CPU time, medians of {repeats} rounds, largest spread {spread:.0%}",
        ),
        step,
    )
