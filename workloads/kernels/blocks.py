"""A sparse matrix cut into blocks of equal numbers of non-zeros, and what a model may know about each block.

The blocks and the network's input are those of Barreda, Dolz, Castano: "Convolutional neural nets for estimating the
run time and energy consumption of the sparse matrix-vector product", 2020, Section 4.1: b = 250 non-zeros, the
incomplete last block dropped, input log(|diff(vpos)| + 1). The other features add what that input loses: where rows
begin, and how long ago (in bytes) each line of the dense vector was last touched.

How far apart in time and bytes a kernel comes back to the same place: reuse times and the volume between.

The trace is cyclic: a kernel that sweeps over its data again and again, as an iterative solver does. Reuse *time*
counts accesses; reuse *volume* is the average number of bytes that such a stretch of the trace touches (the footprint
theory of Xiang, Ding, Luo, Bao: HOTL, ASPLOS 2013), which is what a cache of that capacity must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.workloads.kernels.sparse import SparseMatrix

IntArray = npt.NDArray[np.int32]

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


BLOCK = 250
"""Non-zeros of a block (paper, Section 4.1)."""
VALUE_BYTES, INDEX_BYTES = 8, 4
STREAMED_BYTES = VALUE_BYTES + 2 * INDEX_BYTES
"""Bytes that the blockwise kernel streams a non-zero: value, column and row."""
LINE_BYTES, PAGE_BYTES = 64, 4096
VOLUME_EDGES = tuple(float(4 << k) * 1024 for k in range(0, 17, 2))
"""Bytes that part the classes of reuse volume: 4 KiB, 16 KiB, ... 256 MiB."""
LONG_ROWS = {"row_17_to_32": (17, 33), "row_33_to_64": (33, 65), "row_65_and_more": (65, 1 << 62)}
"""Lengths of row segments inside a block that are told apart."""
FAR = tuple(f"far_{k}" for k in range(len(VOLUME_EDGES) + 1))
PAGES_HELD = 64
"""Pages in use that small translation buffers hold."""


@dataclass(frozen=True, eq=False)
class BlockTable:
    """What decides the time of a matrix's blocks, as counts of their non-zeros.

    `names`: of the columns, as the dims of an operation are named (`pattern_counts`).
    `values`: one row a block, shape (blocks, features), float32.
    `index`: which block each row is (all, or a sample).
    `blocks`: how many whole blocks the matrix has.
    `size`: Non-zeros of a block.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.float32]
    index: npt.NDArray[np.int64]
    blocks: int
    size: int = BLOCK

    def column(self, name: str) -> npt.NDArray[np.float32]:
        """One feature of every row."""
        return self.values[:, self.names.index(name)]


def network_input(matrix: SparseMatrix, block: int = BLOCK) -> npt.NDArray[np.float32]:
    """What the published network sees: log(|diff(vpos)| + 1) of every whole block, shape (blocks, block - 1).

    Raises InputError where the matrix has no whole block.
    """
    count = whole_blocks(matrix, block)
    columns = matrix.columns[: count * block].reshape(count, block).astype(np.int64)
    return np.log1p(np.abs(np.diff(columns, axis=1))).astype(np.float32)


def whole_blocks(matrix: SparseMatrix, block: int = BLOCK) -> int:
    """How many whole blocks there are; the rest of fewer than `block` non-zeros is dropped, as in the paper.

    Raises InputError where `block` is below 2, or the matrix has fewer non-zeros than one block.
    """
    if block < 2:
        raise InputError(f"block = {block}: want at least 2 non-zeros")
    count = matrix.nonzeros // block
    if count == 0:
        raise InputError(
            f"matrix {matrix.name!r} has {matrix.nonzeros} non-zeros: want at least one whole block of {block}"
        )
    return count


def block_features(matrix: SparseMatrix, block: int = BLOCK) -> BlockTable:
    """What the reuse model counts in every whole block.

    Changes of row, rows of another length than the one before, non-zeros in long rows; lines and pages of the dense
    vector that the block touches; non-zeros by the reuse volume of their line, those next to the one before left out;
    non-zeros whose page small translation buffers have lost; and the footprint of the whole matrix.
    """
    count = whole_blocks(matrix, block)
    used = count * block
    first = np.zeros(matrix.nonzeros + 1, dtype=bool)
    first[matrix.row_pointers] = True
    begins = first[:used].reshape(count, block)
    table: dict[str, npt.NDArray[Any]] = {"row_changes": begins[:, 1:].sum(axis=1)}
    begins[:, 0] = True
    starts = np.flatnonzero(begins)
    segments, owner = np.diff(np.append(starts, used)), starts // block
    changed = np.append(False, segments[1:] != segments[:-1])
    table["irregular"] = np.bincount(owner[changed], minlength=count)
    for name, (low, high) in LONG_ROWS.items():
        table[name] = np.bincount(owner, segments * ((segments >= low) & (segments < high)), count)

    rows, columns = matrix.shape
    line, page = (
        reuse_times(matrix.columns // (size // VALUE_BYTES), matrix.row_pointers, columns * VALUE_BYTES // size + 1)
        for size in (LINE_BYTES, PAGE_BYTES)
    )
    begin = np.repeat(np.arange(count, dtype=np.int32) * block, block)
    for name, reuse in (("lines", line), ("pages", page)):
        table[name] = (reuse.previous[:used] < begin).reshape(count, block).sum(axis=1)
    streamed = STREAMED_BYTES + 2 * VALUE_BYTES * rows / max(matrix.nonzeros, 1)
    in_use = page.footprint() + streamed / PAGE_BYTES * grid()
    table["translations"] = (in_use > PAGES_HELD)[page.step[:used]].reshape(count, block).sum(axis=1)
    volume = LINE_BYTES * line.footprint() + streamed * grid()
    classes = np.searchsorted(VOLUME_EDGES, volume).astype(np.int64)[line.step[:used]].reshape(count, block)
    far = np.ones((count, block), dtype=bool)
    steps = np.diff(matrix.columns[:used], prepend=matrix.columns[0]).reshape(count, block)[:, 1:]
    far[:, 1:] = np.abs(steps) > 2 * LINE_BYTES // VALUE_BYTES
    table |= {name: ((classes == k) & far).sum(axis=1) for k, name in enumerate(FAR)}
    table["footprint"] = np.full(count, footprint_bytes(matrix))
    return BlockTable(
        tuple(table), np.stack(list(table.values()), axis=1).astype(np.float32), np.arange(count), count, block
    )


def footprint_bytes(matrix: SparseMatrix) -> float:
    """Bytes that one sweep of the blockwise kernel touches: matrix, both vectors."""
    return STREAMED_BYTES * matrix.nonzeros + VALUE_BYTES * (matrix.shape[0] + matrix.shape[1])


def blocks_within(matrix: SparseMatrix) -> BlockTable:
    """The features of a matrix in blocks of `BLOCK` non-zeros; a matrix smaller than a block is one block.

    Raises InputError where the matrix has fewer than two non-zeros.
    """
    if matrix.nonzeros < 2:
        raise InputError(f"matrix {matrix.name!r} has {matrix.nonzeros} non-zeros: want at least 2 to say anything")
    return block_features(matrix, min(BLOCK, matrix.nonzeros))


def pattern_counts(matrix: SparseMatrix) -> dict[str, float]:
    """What decides the time of a product, as counts of non-zeros over the whole matrix: dims of an operation.

    `far_0`, `far_1`, ... count those whose line of the dense vector was last touched within VOLUME_EDGES[0], [1], ...
    bytes (and is not next to the one before); `footprint` is in bytes. The last, incomplete block counts as the others
    do on average; a matrix smaller than a block is one block.
    Raises InputError where the matrix has fewer than two non-zeros.
    """
    table = blocks_within(matrix)
    whole = matrix.nonzeros / (table.size * table.blocks)
    sums = (table.values.sum(axis=0, dtype=np.float64) * whole).tolist()
    return dict(zip(table.names, sums, strict=True)) | {"footprint": footprint_bytes(matrix)}
