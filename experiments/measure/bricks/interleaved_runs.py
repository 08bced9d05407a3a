"""Bricks of a model run in turn, the whole model between them: one session, cold and warm times of each.

A brick on its own in a loop finds its weights in the cache and the framework's code too; inside a model it finds
neither, but its input has just been written. So in every round the bricks come in a drawn order, and of each

* first its inputs are touched (the neighbour before it would have written them), then one call is timed: **cold**;
* then a second call at once is timed: **warm**.

The whole model and a reference run several times a round, spread among its bricks: a slow spell of the machine hits
all alike. What a spell does to a whole round is divided out (the weighted median of its samples over their medians);
what is left between sessions is known from the reference, and a session whose reference drifts is flagged. The call
of an empty brick is taken off: it is the clock's and the caller's, not the brick's.
"""

from __future__ import annotations

import ctypes
import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.experiments.measure.clocks.timing import CLOCKS, Protocol, Task, Timing, load_per_core, timing_of

VISITS = 3
"""Times a round that the whole model and the reference run."""
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of glibc's mallopt


@dataclass(frozen=True)
class Turn:
    """Something to time: the call, and what touches its inputs before a cold one."""

    call: Task
    touch: Task


@dataclass(frozen=True)
class Session:
    """Timings of one session; all have the reference's drift and scatter for their own.

    `cold`, `warm`: by name of the brick: called after its neighbours' work, and again at once.
    `whole`: the whole model, run between its bricks; None where none was requested.
    `reference`: seconds of the reference: the machine's speed in this session.
    `rounds`: factor of every round: above 1 where the machine was slower than in the middle one.
    """

    cold: Mapping[str, Timing]
    warm: Mapping[str, Timing]
    whole: Timing | None
    reference: Timing
    rounds: tuple[float, ...]


def run_session(
    bricks: Mapping[str, Turn],
    whole: Turn | None,
    empty: Turn,
    reference: Task,
    protocol: Protocol,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, planned: None,
) -> Session:
    """Time bricks in turn, with the whole model between them.

    Raises InputError where there is neither a brick nor a model to time.
    """
    if not bricks and whole is None:
        raise InputError("nothing to measure: no brick and no model is named")
    clock, draw = CLOCKS[protocol.clock], random.Random(seed)
    turns = {("brick", name): turn for name, turn in bricks.items()} | {("empty", ""): empty}
    cold: dict[tuple[str, str], list[float]] = {key: [] for key in turns}
    warm: dict[tuple[str, str], list[float]] = {key: [] for key in turns}
    between: dict[str, list[list[float]]] = {"whole": [], "reference": []}
    load_before, begun = load_per_core(), time.perf_counter()
    order = list(turns)
    with _undisturbed():
        for _ in range(protocol.warmups):
            for turn in (*turns.values(), *((whole,) if whole is not None else ())):
                turn.call()
            reference()
        for done in range(protocol.repeats):
            if done >= 3 and time.perf_counter() - begun > protocol.budget_seconds:
                break
            draw.shuffle(order)
            for kept in between.values():
                kept.append([])
            stride = -(-len(order) // VISITS)
            for place, key in enumerate(order):
                if place % stride == 0:
                    between["reference"][-1].append(_clocked(reference, clock))
                    if whole is not None:
                        whole.touch()
                        between["whole"][-1].append(_clocked(whole.call, clock))
                turns[key].touch()
                cold[key].append(_clocked(turns[key].call, clock))
                warm[key].append(_clocked(turns[key].call, clock))
            progress(done + 1, protocol.repeats)
    load_after = load_per_core()
    load = (load_before, load_after) if load_before is not None and load_after is not None else None
    rounds = _round_factors([*cold.values(), *warm.values(), *_columns(between["whole"])])
    references = [value for visits in between["reference"] for value in visits]

    def timed(samples: list[list[float]], aside: float) -> Timing:
        seconds = [(value - aside) / rounds[place] for place, visits in enumerate(samples) for value in visits]
        return timing_of(seconds, references, protocol, load=load)

    nothing = ("empty", "")
    aside_cold, aside_warm = (float(np.median(taken[nothing])) for taken in (cold, warm))
    return Session(
        cold={key[1]: timed([[v] for v in taken], aside_cold) for key, taken in cold.items() if key != nothing},
        warm={key[1]: timed([[v] for v in taken], aside_warm) for key, taken in warm.items() if key != nothing},
        whole=timed(between["whole"], aside_cold) if whole is not None else None,
        reference=timing_of(references, references, protocol, load=load),
        rounds=tuple(map(float, rounds)),
    )


def _clocked(task: Task, clock: Callable[[], float]) -> float:
    start = clock()
    result = task()
    seconds = clock() - start
    del result  # its memory is given back outside of the clock, and before the next task needs some
    return seconds


def _columns(visits: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*visits, strict=True)]


def _round_factors(samples: list[list[float]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How much slower each round was than the middle one: over the tasks, the median weighted by their times."""
    table = np.array(samples)
    middle = np.median(table, axis=1)
    table, middle = table[middle > 0], middle[middle > 0]  # below the clock's grain: nothing to compare
    ratios = table / middle[:, None]
    order = np.argsort(ratios, axis=0)
    weights = np.cumsum(middle[order], axis=0)
    chosen = np.argmax(weights >= 0.5 * weights[-1], axis=0)
    factors = np.take_along_axis(ratios, np.take_along_axis(order, chosen[None, :], 0), 0)[0]
    return np.asarray(factors / np.median(factors))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection, and freed pages stay with the process: a page fault belongs to no brick (glibc only)."""
    try:
        allocator = ctypes.CDLL("libc.so.6")
        allocator.mallopt(MMAP_THRESHOLD, 32 << 20)
        allocator.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
    except (OSError, AttributeError):
        pass  # another C library: pages may be given back, which the samples show
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
