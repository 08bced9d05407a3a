"""Cycles per instruction by busy hardware threads of a core: the same loop on 1 .. k of them at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.lazy_packages import numba
from slipstick.common.readers import whole_number
from slipstick.experiments.measure.clocks.timing import seconds_together

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
