"""SpMV from reuse: eight costs a non-zero, found by non-negative least squares.

Every term counts non-zeros of a block that meet a condition; its coefficient is what each of them costs. For hot labels
(the block repeated, everything in L1) the conditions are about rows: the chain of additions of a long row, the branch
at its end. For streaming labels (sweeps over the whole matrix) they are about memory: which level the line of the
dense vector and the matrix itself come from, by reuse volume against the machine's cache capacities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from estimators.operation.residency import shares_beyond
from estimators.parameters import Parameter, check_parameters
from hwmodels.files import InputError, unknown_name
from hwmodels.machine import Machine
from hwmodels.records import Table
from workloads.kernels.blocks import VOLUME_EDGES, BlockTable

FloatArray = npt.NDArray[np.float64]
LabelKind = Literal["hot", "streaming"]
LABEL_KINDS: tuple[LabelKind, ...] = ("hot", "streaming")

TERMS: Mapping[LabelKind, tuple[str, ...]] = {
    "hot": (
        "nonzero",
        "row_change",
        "row_17_to_32",
        "row_33_to_64",
        "row_65_and_more",
        "irregular_row",
        "line",
        "page",
    ),
    "streaming": (
        "nonzero",
        "row_change",
        "irregular_row",
        "gather_beyond_L2",
        "gather_beyond_L3",
        "stream_beyond_L2",
        "stream_beyond_L3",
        "translation",
    ),
}
MEMORY_TERMS = frozenset({"gather_beyond_L3", "stream_beyond_L2", "stream_beyond_L3", "translation"})
"""Terms whose cost does not follow the core's clock: what lies beyond the core's own caches."""


def label_kind(name: str) -> LabelKind:
    """A kind of label by name.

    Raises
    ------
    InputError
        Where there is no such kind.
    """
    if name == "hot":
        return "hot"
    if name == "streaming":
        return "streaming"
    raise unknown_name("label kind", name, LABEL_KINDS)


@dataclass(frozen=True)
class CacheSizes:
    """Bytes that a core's second level and the last level hold."""

    L2: float
    L3: float

    def __post_init__(self) -> None:
        if not 0 < self.L2 <= self.L3:
            raise InputError(f"cache sizes L2 = {self.L2:g} B, L3 = {self.L3:g} B: want 0 < L2 <= L3")

    @classmethod
    def of(cls, machine: Machine) -> CacheSizes:
        """Of a machine with at least two levels before its main memory.

        Raises
        ------
        InputError
            Where the machine has fewer.
        """
        levels = [level for level in machine.memory.values() if level.capacity]
        if len(levels) < 3:
            raise InputError(f"machine {machine.name!r} has {len(levels)} memory levels: want two caches and a memory")
        return cls(float(levels[1].capacity), float(levels[-2].capacity))


@dataclass(frozen=True)
class ReuseModel:
    """Seconds of a block = sum over terms of coefficient x count.

    Parameters
    ----------
    label
        What a time means: "hot" or "streaming".
    cost
        Seconds a non-zero that meets the term's condition, by term.
    caches
        Of the machine that the costs were fitted on.
    """

    label: LabelKind
    cost: Annotated[Table[float], Parameter("s", "what a non-zero that meets the condition costs", 0.0, 1e-3)]
    caches: CacheSizes

    def __post_init__(self) -> None:
        label_kind(self.label)
        check_parameters(self)

    def seconds_per_nonzero(self, blocks: BlockTable, caches: CacheSizes | None = None) -> FloatArray:
        """Of every block, on the machine fitted on or on one with other caches."""
        counts = term_counts(blocks, self.label, caches or self.caches)
        return np.asarray(counts @ np.array([self.cost[name] for name in TERMS[self.label]])) / blocks.size

    def at_clock(self, ratio: float) -> ReuseModel:
        """The model at `ratio` times the clock: core-bound terms follow it, memory-bound ones stay."""
        if not ratio > 0:
            raise InputError(f"clock ratio = {ratio:g}: want a number > 0")
        slower = {name: value / (1.0 if name in MEMORY_TERMS else ratio) for name, value in self.cost.items()}
        return ReuseModel(self.label, Table(slower), self.caches)

    def memory_share(self, blocks: BlockTable, caches: CacheSizes | None = None) -> float:
        """Share of the time that does not follow the clock, on the machine fitted on or on one with other caches."""
        still = ReuseModel(
            self.label, Table({n: v if n in MEMORY_TERMS else 0.0 for n, v in self.cost.items()}), self.caches
        )
        return float(still.seconds_per_nonzero(blocks, caches).sum() / self.seconds_per_nonzero(blocks, caches).sum())


def term_counts(blocks: BlockTable, label: LabelKind, caches: CacheSizes) -> FloatArray:
    """Non-zeros of every block that meet each term's condition, shape (blocks, terms)."""
    every = np.full(len(blocks.index), float(blocks.size))
    columns = {
        "nonzero": every,
        "row_change": blocks.column("row_changes"),
        "irregular_row": blocks.column("irregular"),
    }
    if label == "hot":
        columns |= {
            "row_17_to_32": blocks.column("segment.17"),
            "row_33_to_64": blocks.column("segment.33"),
            "row_65_and_more": blocks.column("segment.65"),
            "line": blocks.column("lines"),
            "page": blocks.column("pages"),
        }
    else:
        footprint = np.exp(blocks.column("log_footprint").astype(np.float64))
        columns |= {
            "gather_beyond_L2": gathers_beyond(blocks, caches.L2),
            "gather_beyond_L3": gathers_beyond(blocks, caches.L3),
            "stream_beyond_L2": every * shares_beyond(footprint, caches.L2),
            "stream_beyond_L3": every * shares_beyond(footprint, caches.L3),
            "translation": blocks.column("page.1536") + blocks.column("page.more"),
        }
    return np.stack([np.asarray(columns[name], dtype=np.float64) for name in TERMS[label]], axis=1)


def gathers_beyond(blocks: BlockTable, capacity: float) -> FloatArray:
    """Non-zeros of every block whose line comes from beyond a cache of `capacity` bytes.

    Lines next to the one just used are left out (prefetchers bring them). Inside a class of reuse volume (a factor of
    four) the share is interpolated in the logarithm.
    """
    upper = np.array([*VOLUME_EDGES, VOLUME_EDGES[-1] * 4])
    shares = np.clip(np.log(upper / capacity) / np.log(4.0), 0.0, 1.0)
    names = [name for name in blocks.names if name.startswith("far_volume.")]
    return np.asarray(np.stack([blocks.column(name) for name in names], axis=1).astype(np.float64) @ shares)


def fit_reuse(
    blocks: BlockTable, seconds_per_nonzero: npt.ArrayLike, label: LabelKind, caches: CacheSizes
) -> ReuseModel:
    """Non-negative least squares of relative errors.

    Raises
    ------
    InputError
        Where labels are not positive, or there are fewer blocks than terms.
    """
    from scipy.optimize import nnls

    labels = np.asarray(seconds_per_nonzero, dtype=np.float64)
    counts = term_counts(blocks, label, caches) / blocks.size
    if len(labels) < counts.shape[1]:
        raise InputError(f"{len(labels)} blocks cannot fix {counts.shape[1]} costs")
    if labels.shape != (len(counts),) or not np.all(labels > 0):
        raise InputError("want one time > 0 for every block")
    costs, _ = nnls(counts / labels[:, None], np.ones(len(labels)))
    return ReuseModel(label, Table(dict(zip(TERMS[label], map(float, costs), strict=True))), caches)
