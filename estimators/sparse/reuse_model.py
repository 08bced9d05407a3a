"""SpMV from reuse: eight costs a non-zero, found by non-negative least squares.

Every term counts non-zeros of a block that meet a condition; its coefficient is what each of them costs. For hot labels
(the block repeated, everything in L1) the conditions are about rows: the chain of additions of a long row, the branch
at its end. For streaming labels (sweeps over the whole matrix) they are about memory: which level the line of the
dense vector and the matrix itself come from, by reuse volume against the machine's cache capacities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.nonnegative_terms import nearest_terms
from slipstick.estimators.symbolic.cache_residency import shares_beyond
from slipstick.estimators.symbolic.parameters import Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.blocks import VOLUME_EDGES, BlockTable

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

    Raises InputError where there is no such kind.
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
        """Of a machine, as `cache_levels` chooses them."""
        second, last = cache_levels(machine)
        return cls(float(machine.memory[second].capacity or 0), float(machine.memory[last].capacity or 0))


def cache_levels(machine: Machine) -> tuple[str, str]:
    """The names of a core's second level and of the last level; a machine's only cache is both.

    Raises InputError where the machine has no cache before its main memory.
    """
    levels = [name for name, level in machine.memory.items() if level.capacity]
    if len(levels) < 2:
        raise InputError(
            f"machine {machine.name!r} has the memory levels {', '.join(levels) or 'none'} with a capacity:"
            " a sparse product also needs a cache, such as memory.L2.capacity = 1 MiB"
        )
    return levels[min(1, len(levels) - 2)], levels[-2]


@dataclass(frozen=True)
class ReuseModel:
    """Seconds of a block = sum over terms of coefficient x count.

    `label`: what a time means: "hot" or "streaming".
    `cost`: seconds a non-zero that meets the term's condition, by term.
    `caches`: of the machine that the costs were fitted on.
    """

    label: LabelKind
    cost: Annotated[FrozenDict[float], Parameter("s", "what a non-zero that meets the condition costs", 0.0, 1e-3)]
    caches: CacheSizes

    def __post_init__(self) -> None:
        label_kind(self.label)
        check_parameters(self)

    def seconds_per_nonzero(self, blocks: BlockTable) -> FloatArray:
        """Of every block."""
        counts = term_counts(blocks, self.label, self.caches)
        return np.asarray(counts @ np.array([self.cost[name] for name in TERMS[self.label]])) / blocks.size

    def at_clock(self, ratio: float) -> ReuseModel:
        """The model at `ratio` times the clock: core-bound terms follow it, memory-bound ones stay.

        Raises InputError where the ratio is not above 0.
        """
        if not ratio > 0:
            raise InputError(f"clock ratio = {ratio:g}: want a number > 0")
        slower = {name: value / (1.0 if name in MEMORY_TERMS else ratio) for name, value in self.cost.items()}
        return replace(self, cost=FrozenDict(slower))

    def memory_share(self, blocks: BlockTable) -> float:
        """Share of the time that does not follow the clock."""
        still = {name: value if name in MEMORY_TERMS else 0.0 for name, value in self.cost.items()}
        waiting = replace(self, cost=FrozenDict(still)).seconds_per_nonzero(blocks).sum()
        return float(waiting / self.seconds_per_nonzero(blocks).sum())


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
    """Costs of a non-zero (labels: seconds or joules each, shape (blocks,)) by non-negative least squares of relative
    errors.

    Raises InputError where labels are not positive, or there are fewer blocks than terms.
    """
    labels = np.asarray(seconds_per_nonzero, dtype=np.float64)
    counts = term_counts(blocks, label, caches) / blocks.size
    if len(labels) < counts.shape[1]:
        raise InputError(f"{len(labels)} blocks cannot fix {counts.shape[1]} costs")
    if labels.shape != (len(counts),) or not np.all(labels > 0):
        raise InputError("want one time > 0 for every block")
    costs = nearest_terms(counts, labels)
    return ReuseModel(label, FrozenDict(dict(zip(TERMS[label], map(float, costs), strict=True))), caches)
