"""A program whose only result takes the memory that was freed at the call before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.torch_cpu_kernels import ALWAYS, NEVER, REUSED, takes_memory
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

SEVERAL = ("convolution", "recurrent")
"""Kinds that take memory for copies as well."""

HELD = "each call's result is dropped before the next; held until then, it may have new memory"
"""What an answer takes for granted of a result that takes freed memory again."""


@dataclass(frozen=True)
class PageReuse(ComposedEstimator):
    """A composite that knows when a result takes freed memory again.

    The program is called again and again, and each call's result is dropped before the next. glibc gives memory back
    to the system when twice the largest block that it ever mapped is free at the end of the heap (malloc/malloc.c:
    `free` sets `trim_threshold` to ``2 * mmap_threshold``). One block at a time never frees as much, so that it stays.
    With two and more it depends on where small blocks lie, which differs from process to process.
    """

    def lowered_graph(self, workload: Workload, machine: Machine) -> Workload:
        """See `ComposedEstimator.lowered_graph`; the only result is marked."""
        handed = super().lowered_graph(workload, machine)
        free = machine.runtime.free_kinds
        taking = [
            op for op in handed.operations if op.kind not in free and op.cost["written"] != 0 and takes_memory(op)
        ]
        if len(taking) != 1 or taking[0].kind in SEVERAL or taking[0].times != 1 or taking[0].body is not None:
            return handed
        marked = replace(taking[0], attributes=FrozenDict({**taking[0].attributes, **REUSED}))
        return replace(handed, operations=tuple(marked if op is taking[0] else op for op in handed.operations))

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `ComposedEstimator.assumptions`; also when the result is dropped, where that decides its memory."""
        notes = super().assumptions(workload, machine)
        marked = [op.cost["written"] for op in workload.operations if op.attributes.get("memory") == REUSED["memory"]]
        counts = any(isinstance(size, int | float) and NEVER < size < ALWAYS for size in marked)
        return (*notes, HELD) if counts else notes
