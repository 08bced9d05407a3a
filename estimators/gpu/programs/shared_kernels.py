"""Kernels that were timed one by one, and kernels fitted to whole programs, class by class in one model.

The share of each in a class's log time depends on the class and the machine alone: what else a network computes does
not matter, so that its time is as continuous in its operations as a sum is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, JointModel
from slipstick.estimators.gpu.kernels.kernel_classes import LATENT, with_terms
from slipstick.estimators.gpu.programs.program_classes import is_backward
from slipstick.estimators.gpu.programs.program_kernels import ProgramRuntimes
from slipstick.estimators.gpu.transfer.residual_by_shape import SHAPE_FACTOR
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.graph.workload_kind import role_of

NO_IMAGES = ("attention", "softmax", "norm.layer")
"""Kinds whose backward passes hardly one of the timed image networks has."""
GROUPED = "convolution.groups"
"""Convolutions in groups and depthwise ones, which no table of single kernels has."""
TIMED, PROGRAMS = "timed", "programs"


def shared_name(op: Op) -> str:
    """By what shares tell operations apart: "gemm.bfloat16", "norm.batch.float16", "convolution.groups.float32"."""
    if op.kind == "convolution" and op.dims["groups"] != 1:
        return f"{GROUPED}.{op.dtype}"
    function = f".{op.attributes.get('function', 'layer')}" if op.kind == "norm" else ""
    return f"{op.kind}{function}.{op.dtype}"


@dataclass(frozen=True)
class SharedKernels(JointModel):
    """log time = (1 - share) log time as timed + share log time as in programs.

    `timed`: kernels that were timed one by one.
    `programs`: kernels as whole programs show them.
    `shares`: of `programs`, between 0 and 1, by kind and data type ("gemm.bfloat16", "norm.batch.float16",
        "convolution.groups.float32"); else 0.
    """

    timed: FormulaModel
    programs: ProgramRuntimes
    shares: FrozenDict[float]

    def share(self, op: Op) -> float:
        """Of `programs` in the log time of an operation; of backward passes, those of image networks in 16 bits.

        Programs have no latent attention.
        """
        name = shared_name(op)
        alone = is_backward(op) and (op.dtype not in HALF or name.rpartition(".")[0] in NO_IMAGES)
        return 0.0 if alone or role_of(op) == LATENT else self.shares.get(name, 0.0)

    @property
    def parts(self) -> Mapping[str, FormulaModel]:
        """Caches and clock are those of the kernels that were timed."""
        return {TIMED: self.timed, PROGRAMS: self.programs}

    def answering(self, op: Op) -> tuple[str, ...]:
        """One of them alone, or both."""
        return {0.0: (TIMED,), 1.0: (PROGRAMS,)}.get(self.share(op), (TIMED, PROGRAMS))

    def form(self, machine: Machine) -> Hashable:
        """Those of both parts: shares are amounts of the operation."""
        return super().form(machine)  # said again: a class that replaces `formula` alone promises no form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """That of the part that answers alone; of both, their product to the powers of the shares."""
        first, *others = (self.formula_of(name, op, machine) for name in self.answering(op))
        if not others or first.expression == 0:
            return first
        share = symbol("operation.share")
        joined = first.expression ** (1 - share) * others[0].expression ** share
        return with_terms(first, joined, dict(first.terms))

    def amount(self, op: Op, name: str) -> Amount:
        """The share, and what the part counts; the factor of a shape is of what was timed."""
        if name == SHAPE_FACTOR:
            return self.timed.amount(op, name)
        return self.share(op) if name == "operation.share" else super().amount(op, name)
