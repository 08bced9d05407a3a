"""How far apart in time and bytes a kernel comes back to the same place: reuse times and the volume between.

The trace is cyclic: a kernel that sweeps over its data again and again, as an iterative solver does. Reuse *time*
counts accesses; reuse *volume* is the average number of bytes that such a stretch of the trace touches (the footprint
theory of Xiang, Ding, Luo, Bao: HOTL, ASPLOS 2013), which is what a cache of that capacity must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]

STEPS_PER_OCTAVE = 4
"""Reuse times are kept on a grid of this many steps a factor of two: 19 % apart."""


@dataclass(frozen=True)
class ReuseTimes:
    """Accesses since the same place was last touched, on a logarithmic grid.

    `step`: one grid index per access (uint8): the reuse time lies at 2 ** (step / STEPS_PER_OCTAVE).
    `previous`: position of the last touch; negative where it lies in the sweep before.
    `places`: how many different places are touched.
    """

    step: npt.NDArray[np.uint8]
    previous: IntArray
    places: int

    def footprint(self) -> FloatArray:
        """Average number of places that a window of each grid length touches, by step."""
        accesses = len(self.step)
        counts = np.bincount(self.step, minlength=256).astype(np.float64)
        lengths = grid()
        # fp(w) = places - sum over reuse times longer than w of (time - w) / accesses
        longer = np.cumsum(counts[::-1])[::-1] - counts
        sums = np.cumsum((counts * lengths)[::-1])[::-1] - counts * lengths
        return np.maximum(self.places - (sums - longer * lengths) / max(accesses, 1), 1.0)


def grid() -> FloatArray:
    """The reuse time (accesses) that each of the 256 steps stands for, shape (256,)."""
    return np.asarray(2.0 ** (np.arange(256) / STEPS_PER_OCTAVE))


def reuse_times(places: npt.ArrayLike, row_pointers: npt.NDArray[np.int64], count: int) -> ReuseTimes:
    """The reuse times of a trace of places (numbers from 0 to count - 1), its ends joined.

    ``row_pointers`` cuts the trace into rows; it only helps to sort in linear time.
    """
    from scipy.sparse import csr_array

    trace = np.asarray(places)
    accesses = len(trace)
    order_type = np.int32 if accesses < 2**31 else np.int64
    by_row = csr_array(
        (np.arange(accesses, dtype=order_type), trace.astype(np.int32, copy=False), row_pointers.astype(np.int32)),
        shape=(len(row_pointers) - 1, count),
    )
    by_place = by_row.tocsc()  # a counting sort: positions by place, ascending within a place
    order: npt.NDArray[Any] = by_place.data
    pointers: npt.NDArray[Any] = by_place.indptr
    touched = np.flatnonzero(np.diff(pointers))
    before: npt.NDArray[Any] = np.empty(accesses, dtype=order_type)
    before[1:] = order[:-1]
    before[pointers[touched]] = order[pointers[touched + 1] - 1] - accesses
    previous: npt.NDArray[Any] = np.empty(accesses, dtype=order_type)
    previous[order] = before
    times = (np.arange(accesses, dtype=order_type) - previous).astype(np.float32)
    step = np.rint(np.log2(times) * np.float32(STEPS_PER_OCTAVE)).astype(np.uint8)
    return ReuseTimes(step, previous, len(touched))
