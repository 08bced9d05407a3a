"""Contention: what threads wait for each other when each adds its gradients to the same weights, layer by layer.

As Viebke et al. 2019 (Section IV) take it: a small program that does nothing but update the weights of a network of
given layers, from 1 to n threads at once. The seconds of one update of all weights, as a thread sees them, are the
contention at that thread count. The clock is each thread's CPU time: waiting for memory counts, being put aside for
somebody else's program does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.experiments.measure.threads.shared_cores import seconds_together
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.runs.training_run import weights_of

RATE = np.float32(1e-6)
MAX_WEIGHTS = 500_000_000
SAMPLE_SECONDS = 0.02
MAX_THREADS = 4096


@dataclass(frozen=True)
class ContentionTime:
    """Seconds of one update of all weights with so many threads at it, and the spread of the samples (IQR / median)."""

    threads: int
    seconds: float
    spread: float


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
) -> tuple[ContentionTime, ...]:
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
    rows = []
    for count in threads:
        low, middle, high = np.quantile(samples[count], [0.25, 0.5, 0.75])
        rows.append(ContentionTime(count, float(middle), float((high - low) / middle)))
    return tuple(rows)


def _passes(update: Callable[[int], None], threads: int, rounds: int) -> float:
    """Seconds of one pass over all layers, the mean over the threads of what each waited."""
    return seconds_together(threads, lambda _: lambda: update(rounds)) / rounds


@cache
def _update() -> Any:
    """Compiled, and without the interpreter's lock: threads shall wait for memory alone."""
    try:
        import numba
    except ImportError:
        raise InputError("measuring contention needs numba: pip install 'slipstick[measure]'") from None

    @numba.njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def update(weights: Any, gradients: Any, borders: Any, rounds: int) -> None:
        for _ in range(rounds):
            for layer in range(borders.size - 1):
                for index in range(borders[layer], borders[layer + 1]):
                    weights[index] -= RATE * gradients[index]

    one = np.zeros(1, np.float32)
    update(one, one.copy(), np.array([0, 1]), 1)
    return update
