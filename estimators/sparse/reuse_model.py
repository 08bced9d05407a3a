"""Costs of sparse products: a cost a term, fitted to measured times, for each kernel and state of the caches.

Every term counts non-zeros, rows or lines that meet a condition; its coefficient is what each of them costs. For hot
labels (a block repeated, everything in L1) the conditions are about rows: the chain of additions of a long row, the
branch at its end. Streaming labels (blocks inside sweeps over the whole matrix) and whole products, warm (product after
product) or cold (caches emptied before), add others about memory: which level the line of the dense vector and the
matrix itself come from, by reuse volume against the machine's cache capacities. Costs inside the core follow the
machine's clock, those beyond the caches do not. A kernel's costs are its own: scipy's loop, ours and MKL's differ by
more than matrices of one kernel do.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.symbolic.cache_residency import BLOCKS, missed
from slipstick.estimators.symbolic.formula import Formula, Parameter, check_parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.blocks import FAR, LINE_BYTES, LONG_ROWS, VOLUME_EDGES, BlockTable

State = Literal["hot", "streaming", "warm", "cold"]
LABEL_KINDS: tuple[State, ...] = ("hot", "streaming")
"""Of blocks of the blockwise kernel: what a time means."""
STATES: tuple[State, ...] = ("warm", "cold")
"""Of the caches of whole products."""
SUFFIX = ".spmv.json"
"""Of files of costs of sparse products."""

BEYOND = tuple(f"{what}_beyond_{level}" for level in ("L2", "reach", "L3") for what in ("gather", "stream"))
HOT = ("nonzero", "row_change", *LONG_ROWS, "irregular_row", "line", "page")
WHOLE = ("call", "nonzero", "row", "irregular_row", *LONG_ROWS)
TERMS: Mapping[State, tuple[str, ...]] = {
    "hot": HOT,
    "streaming": (*HOT, *BEYOND, "translation"),
    "warm": (*WHOLE, *BEYOND[::2], *BEYOND[1::2], "translation"),
    "cold": (*WHOLE, "gather_beyond_L2", "gather_beyond_reach", "stream_line", "vector_line", "translation"),
}
MEMORY_TERMS = frozenset({*BEYOND, "translation", "stream_line", "vector_line"} - {"gather_beyond_L2"})
"""Terms beyond a core's own caches: they do not follow its clock, and threads share what they wait for."""
REACH = 8.0
"""Multiples of the second level's capacity beyond which a product slows down again, well before the nominal last level
is full (translation buffers, a shared last level)."""
LEARNT_ROWS = 5000.0
"""Irregular rows that branch prediction learns by heart when the same product runs again and again: of n of them
n^2 / (n + this) are mispredicted. Chosen on the calibration matrices:
`slipstick validate --refit sparse` scores other values."""
COUNTS = {
    "nonzero": "nonzeros",
    "row": "rows",
    "row_change": "row_changes",
    "irregular_row": "irregular",
    "line": "lines",
    "page": "pages",
    "translation": "translations",
    "vector_line": "vector_lines",
    **{name: name for name in LONG_ROWS},
}
"""The count of terms that do not depend on the machine."""
NEEDED = (*dict.fromkeys(COUNTS.values()), "columns", "footprint", *FAR)
MIDDLES = tuple(edge / 2 for edge in (*VOLUME_EDGES, VOLUME_EDGES[-1] * 4))
"""Bytes in the middle of each class of reuse volume, by their logarithm."""
CLASS_SHARPNESS = BLOCKS
"""Of the law of misses on whole classes: a factor of four in volume blunts it to about this."""
UNKNOWN_SPREAD = 0.3
"""Of costs that were fitted to too few matrices to estimate their own: twice that of those that ship."""
Amount = TypeVar("Amount", float, FloatArray, "sp.Expr")


def check_state(name: str, known: tuple[State, ...] = STATES) -> State:
    """A state of the caches by name; with `LABEL_KINDS` a kind of label.

    Raises
    ------
    InputError
        Where there is no such state.
    """
    for state in known:
        if name == state:
            return state
    raise unknown_name("state of the caches" if known == STATES else "label kind", name, known)


@dataclass(frozen=True)
class CacheSizes:
    """Bytes that a core's second level and the last level hold."""

    L2: float
    L3: float

    def __post_init__(self) -> None:
        if not 0 < self.L2 <= self.L3:
            raise InputError(f"cache sizes L2 = {self.L2:g} B, L3 = {self.L3:g} B: want 0 < L2 <= L3")

    def levels(self, reach: float = REACH) -> dict[str, float]:
        """The capacities that terms count beyond, in bytes; `reach` in multiples of the second level's."""
        return {"L2": self.L2, "reach": min(reach * self.L2, self.L3), "L3": self.L3}

    @classmethod
    def of(cls, machine: Machine) -> CacheSizes:
        """Of a machine, as `cache_levels` chooses them; a smaller last level holds no more than the second."""
        second, last = (float(machine.memory[level].capacity or 0) for level in cache_levels(machine))
        return cls(second, max(second, last))


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


def is_accelerator(machine: Machine) -> bool:
    """Whether products are spread over thousands of threads there, and not over cores as a processor's."""
    return machine_kind(machine) not in ("cpu", "many-core")


def caches_of_core(machine: Machine) -> CacheSizes:
    """What the core that runs a product has behind it.

    Raises InputError where the machine is an accelerator, or has no cache.
    """
    if is_accelerator(machine):
        raise InputError(
            f"machine {machine.name!r} ({machine.family}) is an accelerator: costs of one processor's core say nothing"
            " of it; the estimator 'spmv-devices' has costs of whole devices"
        )
    return CacheSizes.of(machine)


@dataclass(frozen=True)
class KernelCosts(FormulaModel):
    """T = sum over terms of cost x count, of one kernel on one thread in one state of the caches.

    As a formula it answers operations of kind "spmv" (`slipstick.workloads.kernels.spmv`) that have the counts.

    Parameters
    ----------
    state
        Of the caches; for labels of blocks what a time means: "hot" or "streaming".
    cost
        Seconds an occurrence, by `TERMS[state]`, on a core of `clock` [Hz] with caches of `sizes`.
    spread
        Of log(measured / predicted) over matrices held out.
    freedom
        Degrees of freedom of the spread: families of matrices less one; None for many.
    reach
        Where the middle level ends, in multiples of the second level's capacity.
    software
        What ran it, with its version.
    source
        Machine and date of the times.
    """

    kernel: str
    state: State
    cost: Annotated[FrozenDict[float], Parameter("s", "what a non-zero that meets the condition costs", 0.0, 1.0)]
    sizes: CacheSizes
    clock: float
    spread: float = UNKNOWN_SPREAD
    freedom: float | None = None
    reach: float = REACH
    software: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if missing := [term for term in TERMS.get(self.state, ("state",)) if term not in self.cost]:
            raise InputError(f"costs of {self.kernel!r}, {self.state}: want one of every term; missing: {missing[0]}")
        if not any(self.cost.values()):
            raise InputError(f"costs of {self.kernel!r}, {self.state}: all are 0")
        if not (0 <= self.spread <= 10 and 1 <= self.reach <= 1e6 and 0 < self.clock < 1e12):
            raise InputError(
                f"{self.kernel!r}: spread = {self.spread:g}, reach = {self.reach:g}, clock = {self.clock:g} Hz: want"
                " [0, 10], 1 to 1e6, and above 0 and below 1e12 Hz"
            )
        check_parameters(self)

    def caches(self, machine: Machine) -> str:
        """What the labels took for granted: one core, whatever others the machine has, and what its caches hold."""
        held = "blocks in the first cache" if self.state == "hot" else "caches hold what sweep after sweep leaves there"
        return f"each product on one core of {machine.cores:,}; {held}"

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all matrices."""
        return "spmv"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* (counts), machine.clock, machine.memory.*.capacity, parameter.cost.*.

        Raises InputError where the operation is no counted product, or the machine is no processor with a cache.
        """
        if op.kind != "spmv" or "footprint" not in op.dims:
            raise InputError(f"operation {op.name!r} ({op.kind}) is no sparse product with the counts of its pattern")
        caches_of_core(machine)
        return _formula(self.state, self.reach, self.clock, self.source, *cache_levels(machine))

    def parts(
        self, counts: Mapping[str, Amount], sizes: CacheSizes | None = None, clock: float | None = None
    ) -> dict[str, Amount]:
        """Seconds by term, of numbers or arrays of counts; terms inside the core follow the clock.

        `sizes`, `clock` [Hz]: of another core; those that the costs were fitted on if None.
        """
        slower = 1.0 if clock is None else self.clock / clock
        amounts = term_amounts(counts, self.state, (sizes or self.sizes).levels(self.reach))
        return {
            name: self.cost[name] * amount * (1.0 if name in MEMORY_TERMS else slower)
            for name, amount in amounts.items()
        }

    def seconds_per_nonzero(self, blocks: BlockTable) -> FloatArray:
        """Of every block, on the core that the costs were fitted on."""
        return np.asarray(sum(self.parts(counts_of_blocks(blocks)).values())) / blocks.size


@lru_cache(maxsize=64)
def _formula(state: State, reach: float, clock: float, source: str, second: str, last: str) -> Formula:
    inner = symbol(f"machine.memory.{second}.capacity")
    outer = Largest(inner, symbol(f"machine.memory.{last}.capacity"))
    levels = {"L2": inner, "reach": Smallest(reach * inner, outer), "L3": outer}
    counts = {name: symbol(f"operation.{name}") for name in NEEDED}
    slower = clock / symbol("machine.clock")
    terms = {
        term: symbol(f"parameter.cost.{term}") * (1 if term in MEMORY_TERMS else slower) * amount
        for term, amount in term_amounts(counts, state, levels).items()
    }
    whole = f"reuse model, {state} labels, {source}" if source else "reuse model, docs/notes/spmv.md"
    return Formula(sp.Add(*terms.values()), "s", whole, FrozenDict(terms))


def term_amounts(
    counts: Mapping[str, Amount],
    state: State,
    levels: Mapping[str, Amount] | Mapping[str, float],
    learnt_rows: float = LEARNT_ROWS,
) -> dict[str, Amount]:
    """How often each of `TERMS[state]` occurs: the one law, on numbers, arrays of blocks, and expressions.

    Parameters
    ----------
    counts
        Of a matrix (`kernel_costs.counts_of`) or of blocks (`counts_of_blocks`).
    levels
        Bytes, as `CacheSizes.levels`.
    learnt_rows
        Irregular rows whose branches are learnt by heart where a whole product is repeated.
    """
    whole = state in STATES
    nonzeros, footprint = counts["nonzeros"], counts.get("footprint", 0.0)
    if whole:  # compressed rows have no row number a non-zero
        stored = 12 * nonzeros + 16 * counts["rows"]
        footprint = stored + 8 * counts["columns"]

    def amount(term: str) -> Any:
        if term == "call":
            return 1.0
        if term == "irregular_row" and state == "warm":
            return counts["irregular"] * (counts["irregular"] / (counts["irregular"] + learnt_rows))
        if term == "stream_line":
            return stored / LINE_BYTES
        what, _, level = term.partition("_beyond_")
        if what == "stream":
            return nonzeros * missed(footprint, levels[level])
        return gathers_beyond(counts, levels[level]) if what == "gather" else counts[COUNTS[term]]

    return {term: amount(term) for term in TERMS[state]}


def gathers_beyond(counts: Mapping[str, Amount], capacity: Any) -> Amount:
    """Non-zeros whose line comes from beyond a cache of `capacity` bytes.

    Lines next to the one just used are left out (prefetchers bring them). A class of reuse volume (a factor of four)
    counts by its middle.
    """
    shares = [missed(middle, capacity, CLASS_SHARPNESS) for middle in MIDDLES]
    total = 0.0 * counts[FAR[0]]
    for name, share in zip(FAR, shares, strict=True):
        total = total + counts[name] * share
    return total


def counts_of_blocks(blocks: BlockTable) -> dict[str, FloatArray]:
    """The counts of every block, shape (blocks,) each."""
    columns = dict(zip(blocks.names, blocks.values.T.astype(np.float64), strict=True))
    return columns | {"nonzeros": np.full(len(blocks.index), float(blocks.size))}
