"""What is read off a workload once: the same workload is often estimated again, with another machine or estimator.

A workload is known here by being the very same object (`Same`): its hash would take longer than most of this.
"""

from __future__ import annotations

from functools import lru_cache

from slipstick.common.records import FrozenDict, Same
from slipstick.common.size_column import Sized
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import cached_rewrite
from slipstick.workloads.graph.footprint import resident_bytes
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.dtype import dtype_notes

FEW = 8
"""Workloads that are kept at most: one holds a megabyte or two."""


def as_compiled(workload: Workload, machine: Machine) -> Workload:
    """The workload as the machine's runtime hands it over: a compiled one has fused operations."""
    return _fused(Same(workload), machine.runtime.free_kinds) if machine.runtime.mode == "compiled" else workload


@lru_cache(maxsize=FEW)
def _fused(workload: Same[Workload], free_kinds: tuple[str, ...]) -> Workload:
    return cached_rewrite(workload.it, f"fused beside {free_kinds}", lambda: _made_fused(workload.it, free_kinds))


def _made_fused(workload: Workload, free_kinds: tuple[str, ...]) -> Workload:
    from slipstick.workloads.transforms.fusion import fused

    return fused(workload, free_kinds)


@lru_cache(maxsize=FEW)
def bound_with(workload: Same[Workload], run: FrozenDict[float]) -> Workload:
    """The workload with the run's numbers and its defaults put in: one object for one question.

    Raises InputError where a symbol has no value.
    """
    return workload.it.bound(run)


@lru_cache(maxsize=FEW)
def resident(workload: Same[Workload]) -> Sized | None:
    """Bytes that lie in memory at once (see `resident_bytes`); None where the graph does not say."""
    return resident_bytes(workload.it)


@lru_cache(maxsize=FEW)
def arithmetic_of(workload: Same[Workload]) -> tuple[str, ...]:
    """Resources of arithmetic (flop.UNIT.DTYPE) that some operation needs, sorted."""
    return tuple(
        sorted({name for op in workload.it.distinct.operations for name in op.cost if name.startswith("flop.")})
    )


@lru_cache(maxsize=FEW)
def notes_on_dtypes(workload: Same[Workload]) -> tuple[str, ...]:
    """See `dtype_notes`."""
    return tuple(dtype_notes(workload.it))
