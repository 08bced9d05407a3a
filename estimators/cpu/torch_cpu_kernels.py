"""Which kernels PyTorch runs on a processor, and what memory that the system gives anew adds to them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.interconnect.collectives import ComputeAndCollectives
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.saved import in_place
from slipstick.workloads.graph.workload import Attribute, Op

ALWAYS, NEVER = 32 * 2.0**20, 0.75 * 2.0**20
"""Bytes from which on glibc's allocator takes every block from the system and gives it back
(DEFAULT_MMAP_THRESHOLD_MAX of malloc/malloc.c); bytes about which it begins to do so for some, with PyTorch loaded."""
KEPT: Mapping[str, Attribute] = {"memory": "kept"}
"""Attribute of an operation whose result has memory that the program had before, as with ``out=``."""
REUSED: Mapping[str, Attribute] = {"memory": "reused"}
"""The same of a result that takes the memory of the one freed before it, which the allocator keeps below `ALWAYS`."""
KERNELS = (
    "gemm", "convolution", "grouped", "attention", "softmax", "norm", "pool", "max_pool", "gelu", "gated", "tanh",
    "function", "other",
)  # fmt: skip
"""Kernels with shares of their own."""
FUNCTIONS = {"gelu": "gelu", "sigmoid": "gated", "silu": "gated", "tanh": "tanh"}
"""Kernels of functions with an exponential or the like: gelu is oneDNN's, which begins later; sigmoid and silu have
vector loops of their own; all others ("function") go through a library's, of which tanh takes longest."""


@dataclass(frozen=True)
class TorchKernels(CheckedParameters, ComputeAndCollectives):
    """The model of each of PyTorch's kernels, and pages of memory that are new to the program.

    A result whose memory the system gives anew costs a page fault for each page (the system clears the page first).
    That is so for every result beyond `ALWAYS` bytes. Of those beyond `NEVER` or so a share is new that nobody knows:
    the same program takes none anew in one process and five of six in the next (docs/notes/cpu-and-systolic.md).
    """

    first_touch: Annotated[
        float, Parameter("s/byte", "of memory that the system gives anew, when it is first written", 0.0, 1e-6)
    ] = 0.0
    fresh: Annotated[
        float, Parameter("1", "share of results below 32 MiB whose memory the system gives anew", 0.0, 1.0)
    ] = 0.5

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The kernel, its key, and which memory the result has."""
        return super().key(op, machine), takes_memory(op), op.attributes.get("memory")

    def formula(self, op: Op, machine: Machine) -> Formula:
        """The kernel's, with the pages of its result."""
        kernel = super().formula(op, machine)
        if op.kind in machine.runtime.free_kinds or op.cost["written"] == 0 or not takes_memory(op):
            return kernel
        written = symbol("operation.written")
        reused = op.attributes.get("memory") == REUSED["memory"]
        sometimes = sp.Integer(0) if reused else symbol("parameter.fresh")
        share = sometimes * _beyond(written, NEVER, 2) + (1 - sometimes) * _beyond(written, ALWAYS, 100)
        pages = self._copies(op) * written * symbol("parameter.first_touch") * share
        return Formula(
            kernel.expression + pages, kernel.unit, kernel.source, FrozenDict({**kernel.terms, "first touch": pages})
        )

    def _copies(self, op: Op) -> sp.Expr:
        """Results that are written for one.

        oneDNN convolves in a layout whose blocks of channels are full, and copies what it found: its blocks are padded
        as its arithmetic is.
        """
        if op.kind != "convolution":
            return sp.Integer(1)
        return 2 + symbol(f"parameter.{self.answering(op)[0]}.narrow") / symbol("operation.channels_out")

    def answering(self, op: Op) -> tuple[str, ...]:
        """The model of its kernel, where it has one of its own."""
        name = _kernel(op)
        return (f"kinds.{name}",) if name in self.kinds else super().answering(op)


def _beyond(volume: sp.Expr, limit: float, steep: int) -> sp.Expr:
    """1 from the limit on, 0 up to 1 - 1 / steep of it."""
    return Smallest(1, Largest(0, steep * (volume / sp.Float(limit) - 1) + 1))


def takes_memory(op: Op) -> bool:
    """Whether the result needs memory of its own from the allocator."""
    return not in_place(op) and op.attributes.get("memory") != KEPT["memory"]


def _kernel(op: Op) -> str:
    """The kernel's name among the kinds of a `TorchKernels`."""
    function = str(op.attributes.get("function", ""))
    if op.kind == "convolution" and op.dims["groups"] != 1:
        return "grouped"
    if op.kind == "pool" and function == "max":
        return "max_pool"
    if op.kind == "elementwise" and op.cost["flop.special." + op.dtype] != 0:
        return FUNCTIONS.get(function, "function")
    return op.kind
