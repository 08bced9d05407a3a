"""The loops that measure a host: streams, a summation chain, a gather and a chase, compiled by numba.

Each returns a number that depends on all its work, so that no compiler may leave it out. numba is imported on first use
(the extra ``measure``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Loop = Callable[..., float]


@dataclass(frozen=True)
class Stream:
    """One bandwidth benchmark over arrays of n doubles.

    `arrays`: how many arrays it runs over.
    `counted`, `traffic`: bytes an element as STREAM counts them, and as they move: a written line is loaded first.
    """

    arrays: int
    counted: int
    traffic: int


STREAMS = {"load": Stream(1, 8, 8), "scale": Stream(2, 16, 24), "triad": Stream(3, 24, 32)}


@cache
def compiled() -> dict[str, Loop]:
    """The loops by name, compiled to run without the interpreter's lock.

    Raises InputError where numba is not installed.
    """
    try:
        import numba
    except ImportError:
        raise InputError("measuring a host needs numba: pip install 'slipstick[measure]'") from None
    fast: Any = numba.njit(nogil=True, fastmath=True)
    strict: Any = numba.njit(nogil=True)
    return {
        "load": fast(_load),
        "scale": fast(_scale),
        "triad": fast(_triad),
        "gather": fast(_gather),
        "chain": strict(_chain),
        "chase": strict(_chase),
    }


def _load(a: Array, repeats: int) -> float:
    total = 0.0
    for r in range(repeats):
        part = 0.0
        for i in range(a.size):
            part += a[i]
        total += part * (r + 1)
        a[r % a.size] += 1e-9  # the next round sums other numbers
    return total


def _scale(a: Array, b: Array, repeats: int) -> float:
    for r in range(repeats):
        factor = 1.0 + 1e-9 * r
        for i in range(a.size):
            a[i] = factor * b[i]
    return float(a[0] + a[a.size - 1])


def _triad(a: Array, b: Array, c: Array, repeats: int) -> float:
    for r in range(repeats):
        factor = 1.0 + 1e-9 * r
        for i in range(a.size):
            a[i] = b[i] + factor * c[i]
    return float(a[0] + a[a.size - 1])


def _gather(x: Array, index: Indices, repeats: int) -> float:
    total = 0.0
    for r in range(repeats):
        part = 0.0
        for i in range(index.size):
            part += x[index[i]]
        total += part * (r + 1)
    return total


def _chain(a: Array, repeats: int) -> float:
    """Each addition waits for the one before: strict arithmetic forbids to split the sum."""
    total = 0.0
    for _ in range(repeats):
        for i in range(a.size):
            total += a[i]
    return total


def _chase(following: Indices, steps: int) -> float:
    """Each address is what the load before returned."""
    place = 0
    for _ in range(steps):
        place = following[place]
    return float(place)


def cycle_through(count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """For each place the next one of a random closed tour through all `count` places: nothing can be fetched ahead."""
    order = np.random.default_rng(seed).permutation(count)
    following = np.empty(count, dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following
