"""Kernels that were timed one by one, and kernels fitted to whole programs, class by class in one model.

The share of each in a class's log time depends on the class and the machine alone: what else a network computes does
not matter, so that its time is as continuous in its operations as a sum is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import Clock, FormulaModel
from slipstick.estimators.gpu.kernels.kernel_classes import LATENT, with_terms
from slipstick.estimators.gpu.programs.program_classes import is_backward
from slipstick.estimators.gpu.programs.program_kernels import ProgramRuntimes
from slipstick.estimators.interconnect.collectives import joint_form
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.graph.workload_kind import role_of

NO_IMAGES = ("attention", "softmax", "norm.layer")
"""Kinds whose backward passes hardly one of the timed image networks has."""
GROUPED = "convolution.groups"
"""Convolutions in groups and depthwise ones, which no table of single kernels has."""
TIMED, PROGRAMS, BOTH = "timed", "programs", "both"


def shared_name(op: Op) -> str:
    """By what shares tell operations apart: "gemm.bfloat16", "norm.batch.float16", "convolution.groups.float32"."""
    if op.kind == "convolution" and op.dims["groups"] != 1:
        return f"{GROUPED}.{op.dtype}"
    function = f".{op.attributes.get('function', 'layer')}" if op.kind == "norm" else ""
    return f"{op.kind}{function}.{op.dtype}"


@dataclass(frozen=True)
class SharedKernels(FormulaModel):
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

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The parts that answer, and their keys."""
        part = self._part(op)
        keys = [] if part == PROGRAMS else [self.timed.key(op, machine)]
        return part, *keys, *([] if part == TIMED else [self.programs.key(op, machine)])

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Where each part that answers does."""
        parts: dict[str, tuple[FormulaModel, ...]] = {TIMED: (self.timed,), PROGRAMS: (self.programs,)}
        return all(one.holds_open(op, machine) for one in parts.get(self._part(op), (self.timed, self.programs)))

    def form(self, machine: Machine) -> Hashable:
        """Those of both parts: shares are amounts of the operation."""
        return joint_form({TIMED: self.timed, PROGRAMS: self.programs}, machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """That of the part that answers alone; of both, their product to the powers of the shares."""
        part = self._part(op)
        if part == PROGRAMS:
            return self.programs.formula(op, machine)
        renamed = {f"parameter.{one}": symbol(f"parameter.{TIMED}.{one}") for one in parameters(self.timed)}
        timed = self.timed.formula(op, machine).substitute(renamed)
        if part == TIMED or timed.expression == 0:
            return timed
        share = symbol("operation.share")
        other = self.programs.formula(op, machine).expression
        return with_terms(timed, timed.expression ** (1 - share) * other**share, dict(timed.terms))

    def amount(self, op: Op, name: str) -> Amount:
        """As the part that names it counts it."""
        if name == "operation.share":
            return self.share(op)
        return self.programs.amount(op, name)

    def amounts(self, operations: Sequence[Op], name: str) -> list[Amount]:
        """See `amount`."""
        if name == "operation.share":
            return [self.share(op) for op in operations]
        return self.programs.amounts(operations, name)

    def caches(self, machine: Machine) -> str:
        """As the kernels that were timed have them."""
        return self.timed.caches(machine)

    def runs_at(self) -> Clock:
        """As the kernels that were timed."""
        return self.timed.runs_at()

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where one of the parts does."""
        self.timed.check_free(free)
        self.programs.check_free(free)

    def _part(self, op: Op) -> str:
        share = self.share(op)
        return {0.0: TIMED, 1.0: PROGRAMS}.get(share, BOTH)
