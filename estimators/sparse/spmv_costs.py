"""SpMV from the counts in an operation's dims: the reuse model of whole matrices as a formula of the machine.

The same costs as `spmv.reuse`, summed over the matrix instead of by block: what needs no blocks can be
evaluated on any machine, compiled with cache sizes and clock free, and calibrated.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.sparse.reuse_model import (
    MEMORY_TERMS,
    TERMS,
    CacheSizes,
    LabelKind,
    cache_levels,
    label_kind,
)
from slipstick.estimators.symbolic.cache_residency import share_beyond
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.parameters import Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.blocks import VOLUME_EDGES

COUNTS = {
    "nonzero": "nonzeros",
    "row_change": "row_changes",
    "irregular_row": "irregular",
    "row_17_to_32": "row_17_to_32",
    "row_33_to_64": "row_33_to_64",
    "row_65_and_more": "row_65_and_more",
    "line": "lines",
    "page": "pages",
    "translation": "translations",
}
"""The dim that a term counts, for terms that do not depend on the machine."""


ACCELERATORS = ("nvidia-", "amd-cdna", "amd-gcn", "amd-vega", "google-tpu")
"""Families, by how their names begin, whose products are spread over thousands of threads."""


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
class SpmvCosts(FormulaModel):
    """T = sum over terms of cost x count, for operations of kind "spmv" (`slipstick.workloads.kernels.spmv`).

    Costs inside the core follow the machine's clock, those beyond the caches do not; which non-zeros go beyond a cache
    follows from its capacity.

    `label`: what a time means: "hot" or "streaming".
    `cost`: seconds a non-zero that meets the term's condition, by term, on a core of `clock` [Hz].
    `clock`: of the host that the costs were measured on.
    """

    label: LabelKind
    cost: Annotated[FrozenDict[float], Parameter("s", "what a non-zero that meets the condition costs", 0.0, 1e-3)]
    clock: float
    source: str = ""

    def __post_init__(self) -> None:
        missing = [term for term in TERMS[label_kind(self.label)] if term not in self.cost]
        if missing or not self.clock > 0:
            raise InputError(f"SpMV costs: want clock > 0 and a cost of every term; missing: {', '.join(missing)}")
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


@lru_cache(maxsize=64)
def _formula(label: LabelKind, clock: float, source: str, second: str, last: str) -> Formula:
    caches, slower = {"L2": second, "L3": last}, clock / symbol("machine.clock")
    terms = {}
    for term in TERMS[label]:
        pace = 1 if term in MEMORY_TERMS else slower
        terms[term] = symbol(f"parameter.cost.{term}") * pace * _count(term, caches)
    return Formula(sp.Add(*terms.values()), "s", source or "reuse model, docs/notes/spmv.md", FrozenDict(terms))


def _count(term: str, caches: dict[str, str]) -> sp.Expr:
    if term in COUNTS:
        return symbol(f"operation.{COUNTS[term]}")
    what, _, level = term.partition("_beyond_")
    capacity = symbol(f"machine.memory.{caches[level]}.capacity")
    if what == "stream":
        return symbol("operation.nonzeros") * share_beyond(symbol("operation.footprint"), capacity)
    edges = [*VOLUME_EDGES, VOLUME_EDGES[-1] * 4]
    far = [symbol(f"operation.far_{k}") for k in range(len(edges))]
    shares = [_between(sp.log(int(edge) / capacity) / sp.log(4)) for edge in edges]
    return sp.Add(*(count * share for count, share in zip(far, shares, strict=True)))


def _between(share: sp.Expr) -> sp.Expr:
    return sp.Min(1, sp.Max(0, share, evaluate=False), evaluate=False)  # sympy would try for long to order them
