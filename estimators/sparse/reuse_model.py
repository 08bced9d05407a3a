"""Sparse products by reuse: a cost a term, fitted to measured blocks, and a formula of the machine for whole matrices.

Every term counts non-zeros that meet a condition; its coefficient is what each of them costs. For hot labels (a block
repeated, everything in L1) the conditions are about rows: the chain of additions of a long row, the branch at its end.
For streaming labels (sweeps over the whole matrix) others are about memory: which level the line of the dense vector
and the matrix itself come from, by reuse volume against the machine's cache capacities. Costs inside the core follow
the machine's clock, those beyond the caches do not.

Files of fitted costs, JSON with a schema, read within bounds: those of reuse, of devices, of a host's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import read_json, require_mapping, unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.fitting.nonnegative_terms import nearest_terms
from slipstick.estimators.symbolic.cache_residency import BLOCKS, missed
from slipstick.estimators.symbolic.formula import Formula, Parameter, check_parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.blocks import FAR, VOLUME_EDGES, BlockTable, blocks_within
from slipstick.workloads.kernels.sparse import SparseMatrix

Document = Mapping[str, Any]
Made = TypeVar("Made")


def from_document(path: str | Path, schema: str, what: str, made: Callable[[Document], Made]) -> Made:
    """What `made` makes of a file's document.

    Raises InputError, which names the file, where the schema is another or `made` finds a field missing or wrong.
    """
    document = require_mapping(read_json(path), path, "file")
    if document.get("schema") != schema:
        raise InputError(f"{path}: want {what} of schema {schema!r}")
    try:
        return made(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: {what} without a usable {error}") from None


def number(name: str, value: Any, high: float) -> float:
    """A field as a number, in the unit that it has in the file.

    Raises ValueError where it is none of 0 to `high`.
    """
    result = float(value)
    if not 0 <= result <= high:
        raise ValueError(f"{name} = {result:g}: want a number in [0, {high:g}]")
    return result


LabelKind = Literal["hot", "streaming"]
LABEL_KINDS: tuple[LabelKind, ...] = ("hot", "streaming")
SCHEMA = "slipstick-spmv-reuse-1"
TRAINED = Path(__file__).parent / "trained"
SUFFIX = ".spmv.json"
"""Of files of costs of sparse products, these and those of a host's kernels."""

ROW_TERMS = (
    "nonzero",
    "row_change",
    "row_17_to_32",
    "row_33_to_64",
    "row_65_and_more",
    "irregular_row",
    "line",
    "page",
)
BEYOND = tuple(f"{what}_beyond_{level}" for level in ("L2", "reach", "L3") for what in ("gather", "stream"))
TERMS: Mapping[LabelKind, tuple[str, ...]] = {"hot": ROW_TERMS, "streaming": (*ROW_TERMS, *BEYOND, "translation")}
MEMORY_TERMS = frozenset({*BEYOND, "translation"} - {"gather_beyond_L2"})
"""Terms whose cost does not follow the core's clock: what lies beyond the core's own caches."""
REACH = 8.0
"""Multiples of the second level's capacity beyond which a product slows down again, well before the nominal last level
is full (translation buffers, a shared last level): what kernels on another host showed (`kernel_costs`)."""
COUNTS = {
    "row_change": "row_changes",
    "irregular_row": "irregular",
    "row_17_to_32": "row_17_to_32",
    "row_33_to_64": "row_33_to_64",
    "row_65_and_more": "row_65_and_more",
    "line": "lines",
    "page": "pages",
    "translation": "translations",
}
"""The count (`block_features`) of terms that do not depend on the machine."""
ACCELERATORS = ("nvidia-", "amd-cdna", "amd-gcn", "amd-vega", "google-tpu")
"""Families, by how their names begin, whose products are spread over thousands of threads."""
MIDDLES = tuple(edge / 2 for edge in (*VOLUME_EDGES, VOLUME_EDGES[-1] * 4))
"""Bytes in the middle of each class of reuse volume, by their logarithm."""
CLASS_SHARPNESS = BLOCKS
"""Of the law of misses on whole classes: a factor of four in volume blunts it to about this."""


def label_kind(name: str) -> LabelKind:
    """A kind of label by name.

    Raises InputError where there is no such kind.
    """
    for kind in LABEL_KINDS:
        if name == kind:
            return kind
    raise unknown_name("label kind", name, LABEL_KINDS)


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
    """Whether a machine is one of `ACCELERATORS`."""
    return machine.family.startswith(ACCELERATORS)


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
class ReuseModel(FormulaModel):
    """T = sum over terms of cost x count, for operations of kind "spmv" (`slipstick.workloads.kernels.spmv`).

    `label`: what a time means: "hot" or "streaming".
    `cost`: seconds a non-zero that meets the term's condition, by term, on a core of `clock` [Hz].
    `sizes`, `clock`: of the core that the costs were fitted on.
    `source`: machine and date of the labels.
    `spread`: standard deviation of log(predicted / measured) over whole matrices held out.
    """

    label: LabelKind
    cost: Annotated[FrozenDict[float], Parameter("s", "what a non-zero that meets the condition costs", 0.0, 1e-3)]
    sizes: CacheSizes
    clock: float
    source: str = ""
    spread: float | None = None

    def __post_init__(self) -> None:
        missing = [term for term in TERMS[label_kind(self.label)] if term not in self.cost]
        if missing or not self.clock > 0:
            raise InputError(f"costs of reuse: want clock > 0 and a cost of every term; missing: {', '.join(missing)}")
        check_parameters(self)

    def caches(self, machine: Machine) -> str:
        """What the labels took for granted: one core, whatever others the machine has, and what its caches hold."""
        held = "blocks in the first cache" if self.label == "hot" else "caches hold what sweep after sweep leaves there"
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
        return _formula(self.label, self.clock, self.source, *cache_levels(machine))

    def seconds_per_nonzero(self, blocks: BlockTable) -> FloatArray:
        """Of every block, on the core that the costs were fitted on."""
        costs = np.array([self.cost[name] for name in TERMS[self.label]])
        return np.asarray(term_counts(blocks, self.label, self.sizes) @ costs) / blocks.size

    def product(self, matrix: SparseMatrix, machine: Machine | None = None) -> tuple[float, float]:
        """Seconds of one product on a machine's core or the one measured, and the share that does not follow the clock.

        Raises InputError where the matrix has fewer than two non-zeros, or the machine is no processor with a cache.
        """
        here = self if machine is None else replace(self, sizes=caches_of_core(machine))
        still = {name: cost if name in MEMORY_TERMS else 0.0 for name, cost in self.cost.items()}
        blocks = blocks_within(matrix)
        whole, waiting = (
            float(one.seconds_per_nonzero(blocks).mean()) * matrix.nonzeros
            for one in (here, replace(here, cost=FrozenDict(still)))
        )
        seconds = waiting + (whole - waiting) * (1.0 if machine is None else self.clock / machine.clock)
        return seconds, waiting / seconds

    def document(self) -> dict[str, Any]:
        """All of it as plain values for JSON, with units in the names."""
        sizes = {"L2": self.sizes.L2, "L3": self.sizes.L3}
        core = {"clock_hz": self.clock, "caches_bytes": sizes, "source": self.source, "spread": self.spread}
        return {"schema": SCHEMA, "label": self.label, "cost_s": dict(self.cost), **core}


def load_reuse(path: str | Path) -> ReuseModel:
    """The costs of a file of 'slipstick spmv train'.

    Raises InputError where the file holds no such thing.
    """

    def made(document: Document) -> ReuseModel:
        sizes = CacheSizes(**{str(name): float(size) for name, size in document["caches_bytes"].items()})
        cost = FrozenDict({str(name): float(value) for name, value in document["cost_s"].items()})
        spread = None if document["spread"] is None else number("spread", document["spread"], 10.0)
        clock, source = number("clock_hz", document["clock_hz"], 1e12), str(document["source"])
        return ReuseModel(label_kind(str(document["label"])), cost, sizes, clock, source, spread)

    return from_document(path, SCHEMA, "costs of reuse (slipstick spmv train writes them)", made)


@lru_cache(maxsize=2)
def shipped_reuse(label: LabelKind = "streaming") -> ReuseModel:
    """The costs that ship, fitted to our own measurements (their `source` says where and how).

    Raises InputError where the label kind is unknown.
    """
    return load_reuse(TRAINED / f"spmv-{label_kind(label)}.json")


@lru_cache(maxsize=64)
def _formula(label: LabelKind, clock: float, source: str, second: str, last: str) -> Formula:
    slower = clock / symbol("machine.clock")
    caches = {level: symbol(f"machine.memory.{name}.capacity") for level, name in (("L2", second), ("L3", last))}
    caches["L3"] = Largest(caches["L2"], caches["L3"])
    caches["reach"] = Smallest(REACH * caches["L2"], caches["L3"])
    terms = {}
    for term in TERMS[label]:
        pace = 1 if term in MEMORY_TERMS else slower
        terms[term] = symbol(f"parameter.cost.{term}") * pace * _count(term, caches)
    whole = f"reuse model, {label} labels, {source}" if source else "reuse model, docs/notes/spmv.md"
    return Formula(sp.Add(*terms.values()), "s", whole, FrozenDict(terms))


def _count(term: str, caches: dict[str, sp.Expr]) -> sp.Expr:
    if term in COUNTS or term == "nonzero":
        return symbol(f"operation.{COUNTS.get(term, 'nonzeros')}")
    what, _, level = term.partition("_beyond_")
    if what == "stream":
        return symbol("operation.nonzeros") * missed(symbol("operation.footprint"), caches[level])
    shares = [missed(sp.Float(middle), caches[level], CLASS_SHARPNESS) for middle in MIDDLES]
    return sp.Add(*(symbol(f"operation.{name}") * share for name, share in zip(FAR, shares, strict=True)))


def term_counts(blocks: BlockTable, label: LabelKind, caches: CacheSizes) -> FloatArray:
    """Non-zeros of every block that meet each term's condition, shape (blocks, terms)."""

    def count(term: str) -> FloatArray:
        if term in COUNTS:
            return blocks.column(COUNTS[term]).astype(np.float64)
        if term == "nonzero":
            return np.full(len(blocks.index), float(blocks.size))
        what, _, level = term.partition("_beyond_")
        if what == "stream":
            beyond = missed(blocks.column("footprint").astype(np.float64), np.asarray(float(caches.levels()[level])))
            return np.asarray(blocks.size * beyond)
        return gathers_beyond(blocks, caches.levels()[level])

    return np.stack([count(term) for term in TERMS[label]], axis=1)


def gathers_beyond(blocks: BlockTable, capacity: float) -> FloatArray:
    """Non-zeros of every block whose line comes from beyond a cache of `capacity` bytes.

    Lines next to the one just used are left out (prefetchers bring them). A class of reuse volume (a factor of four)
    counts by its middle.
    """
    far = np.stack([blocks.column(name) for name in FAR], axis=1).astype(np.float64)
    return np.asarray(far @ shares_of_classes(capacity))


def shares_of_classes(capacity: float) -> FloatArray:
    """What of each class of reuse volume comes from beyond a cache of `capacity` bytes, shape (classes,)."""
    shares: FloatArray = missed(np.array(MIDDLES), np.full(len(MIDDLES), capacity, dtype=np.float64), CLASS_SHARPNESS)
    return shares


def fit_reuse(
    blocks: BlockTable,
    seconds_per_nonzero: npt.ArrayLike,
    label: LabelKind,
    sizes: CacheSizes,
    clock: float = 1e9,
    source: str = "",
) -> ReuseModel:
    """Costs of a non-zero (labels: seconds each, shape (blocks,)) by non-negative least squares of relative errors.

    `sizes`, `clock` [Hz]: of the core measured.
    Raises InputError where labels are not positive, or there are fewer blocks than terms.
    """
    labels = np.asarray(seconds_per_nonzero, dtype=np.float64)
    counts = term_counts(blocks, label, sizes) / blocks.size
    if len(labels) < counts.shape[1]:
        raise InputError(f"{len(labels)} blocks cannot fix {counts.shape[1]} costs")
    if labels.shape != (len(counts),) or not np.all(labels > 0):
        raise InputError("want one time > 0 for every block")
    costs = map(float, nearest_terms(counts, labels))
    return ReuseModel(label, FrozenDict(dict(zip(TERMS[label], costs, strict=True))), sizes, clock, source)
