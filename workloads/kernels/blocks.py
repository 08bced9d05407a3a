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

from slipstick.common.errors import InputError
from slipstick.workloads.kernels.sparse import SparseMatrix

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


BLOCK = 250
"""Non-zeros of a block (paper, Section 4.1)."""
VALUE_BYTES, INDEX_BYTES = 8, 4
STREAMED_BYTES = VALUE_BYTES + 2 * INDEX_BYTES
"""Bytes that the blockwise kernel streams a non-zero: value, column and row."""
LINE_BYTES, PAGE_BYTES = 64, 4096
VOLUME_EDGES = tuple(float(4 << k) * 1024 for k in range(0, 17, 2))
"""Bytes that part the classes of reuse volume: 4 KiB, 16 KiB, ... 256 MiB."""
SEGMENT_EDGES = (2, 3, 5, 9, 17, 33, 65)
"""Row lengths that part the classes of row segments inside a block."""
PAGE_EDGES = (64, 1536)
"""Pages in use that part the classes of page reuse: what small and large translation buffers hold."""


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Features of a matrix's blocks.

    `names`: of the columns.
    `values`: one row a block, shape (blocks, features), float32; counts are of non-zeros in the block.
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
    """Everything the reuse and boosting models know of every whole block.

    Counts of non-zeros by row-segment length, by reuse volume of their line of the dense vector (all, and those not
    next to the non-zero before), by page reuse; row changes; statistics of the column steps; and of the whole matrix
    its footprint and the spread of its row lengths.
    """
    count = whole_blocks(matrix, block)
    used = count * block
    rows, columns = matrix.shape
    pointers = matrix.row_pointers
    names: list[str] = []
    parts: list[npt.NDArray[np.float32]] = []

    def add(name: str, values: npt.ArrayLike) -> None:
        names.append(name)
        parts.append(np.broadcast_to(np.asarray(values, dtype=np.float32), (count,)))

    def add_classes(
        prefix: str, labels: list[str], classes: npt.NDArray[np.integer], weight: FloatArray | None = None
    ) -> None:
        width = len(labels)
        owner = np.repeat(np.arange(count), len(classes) // count) if weight is None else segment_block
        totals = np.bincount(owner * width + classes, weights=weight, minlength=count * width).reshape(count, width)
        for k, label in enumerate(labels):
            add(f"{prefix}.{label}", totals[:, k])

    begins = np.zeros(matrix.nonzeros + 1, dtype=bool)
    begins[pointers] = True
    begins = begins[:used]
    add("row_changes", begins.reshape(count, block)[:, 1:].sum(axis=1))
    cuts = begins.copy()
    cuts[::block] = True
    starts = np.flatnonzero(cuts)
    segments = np.diff(np.append(starts, used))
    segment_block = starts // block
    add_classes(
        "segment",
        [f"{low}" for low in (1, *SEGMENT_EDGES)],
        np.searchsorted(SEGMENT_EDGES, segments, "right"),
        segments.astype(np.float64),
    )
    changed = np.flatnonzero(np.append(False, segments[1:] != segments[:-1]))
    add("irregular", np.bincount(segment_block[changed], minlength=count))

    steps = np.diff(matrix.columns[:used], prepend=matrix.columns[0]).reshape(count, block)[:, 1:]
    distance = np.abs(steps)
    logs = np.log1p(distance.astype(np.float32))
    add("step.mean_log", logs.mean(axis=1))
    add("step.std_log", logs.std(axis=1))
    add("step.max_log", logs.max(axis=1))
    add("step.one", (steps == 1).sum(axis=1))
    add("step.backward", (steps < 0).sum(axis=1))
    far = np.ones((count, block), dtype=bool)
    far[:, 1:] = distance > 2 * LINE_BYTES // VALUE_BYTES
    add("step.far", far.sum(axis=1))

    position = np.tile(np.arange(block, dtype=np.int32), count)
    index = np.arange(used, dtype=np.int32) - position
    line = reuse_times(matrix.columns // (LINE_BYTES // VALUE_BYTES), pointers, columns * VALUE_BYTES // LINE_BYTES + 1)
    page = reuse_times(matrix.columns // (PAGE_BYTES // VALUE_BYTES), pointers, columns * VALUE_BYTES // PAGE_BYTES + 1)
    add("lines", (line.previous[:used] < index).reshape(count, block).sum(axis=1))
    add("pages", (page.previous[:used] < index).reshape(count, block).sum(axis=1))
    streamed = STREAMED_BYTES + 2 * VALUE_BYTES * rows / max(matrix.nonzeros, 1)
    volume = LINE_BYTES * line.footprint() + streamed * grid()
    by_step = np.searchsorted(VOLUME_EDGES, volume).astype(np.int64)
    labels = [f"{edge / 1024:g}K" for edge in VOLUME_EDGES] + ["more"]
    classes = by_step[line.step[:used]]
    add_classes("volume", labels, classes)
    add_classes("far_volume", [*labels, "near"], np.where(far.ravel(), classes, len(labels)))
    names.pop()
    parts.pop()
    in_use = page.footprint() + streamed / PAGE_BYTES * grid()
    add_classes(
        "page", [f"{edge}" for edge in PAGE_EDGES] + ["more"], np.searchsorted(PAGE_EDGES, in_use)[page.step[:used]]
    )

    add("log_footprint", np.log(footprint_bytes(matrix)))
    add("log_vector", np.log(VALUE_BYTES * columns))
    lengths = matrix.row_lengths
    add("row_length_variation", lengths.std() / max(lengths.mean(), 1e-9))
    return BlockTable(tuple(names), np.stack(parts, axis=1), np.arange(count), count, block)


def footprint_bytes(matrix: SparseMatrix) -> float:
    """Bytes that one sweep of the blockwise kernel touches: matrix, both vectors."""
    return STREAMED_BYTES * matrix.nonzeros + VALUE_BYTES * (matrix.shape[0] + matrix.shape[1])


COUNTED = {
    "row_changes": ("row_changes",),
    "irregular": ("irregular",),
    "row_17_to_32": ("segment.17",),
    "row_33_to_64": ("segment.33",),
    "row_65_and_more": ("segment.65",),
    "lines": ("lines",),
    "pages": ("pages",),
    "translations": (f"page.{PAGE_EDGES[-1]}", "page.more"),
}
"""What `pattern_counts` adds up, by the columns of `block_features`."""


def blocks_within(matrix: SparseMatrix, size: int) -> BlockTable:
    """The features of a matrix in blocks of `size` non-zeros; a matrix smaller than a block is one block.

    Raises InputError where the matrix has fewer than two non-zeros.
    """
    if matrix.nonzeros < 2:
        raise InputError(f"matrix {matrix.name!r} has {matrix.nonzeros} non-zeros: want at least 2 to say anything")
    return block_features(matrix, min(size, matrix.nonzeros))


def pattern_counts(matrix: SparseMatrix) -> dict[str, float]:
    """What decides the time of a product, as counts of non-zeros over the whole matrix: dims of an operation.

    `far_0`, `far_1`, ... count those whose line of the dense vector was last touched within VOLUME_EDGES[0], [1], ...
    bytes (and is not next to the one before); `footprint` is in bytes. The last, incomplete block counts as the others
    do on average; a matrix smaller than a block is one block.
    Raises InputError where the matrix has fewer than two non-zeros.
    """
    table = blocks_within(matrix, BLOCK)
    whole = matrix.nonzeros / (table.size * table.blocks)
    sums = dict(zip(table.names, (table.values.sum(axis=0, dtype=np.float64) * whole).tolist(), strict=True))
    far = [name for name in table.names if name.startswith("far_volume.")]
    counts = {name: sum(sums[column] for column in columns) for name, columns in COUNTED.items()}
    return counts | {f"far_{k}": sums[name] for k, name in enumerate(far)} | {"footprint": footprint_bytes(matrix)}
