"""Kernels of PyTorch programs: each class of operation reaches its shares of peak and bandwidth, as programs show.

An operation takes the longer of its arithmetic and its traffic plus a share of the shorter, or what its cores need to
work it off, clock by clock, where that is longer (`program_sides.py`); a recurrent layer takes its steps. The numbers
are fitted to whole programs (`slipstick validate programs`); none was timed alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified.extrema import Largest, Smallest
from slipstick.estimators.core.operation_model import Clock, FormulaModel, require_bound
from slipstick.estimators.operation.gpu.programs.program_classes import FEATURES, features, kernel_class
from slipstick.estimators.operation.gpu.programs.program_sides import (
    OVERLAP,
    PASSES,
    SymbolTerms,
    amount,
    rates,
    sides,
)
from slipstick.estimators.operation.physical_bound import AMOUNTS as LEAST_AMOUNTS
from slipstick.estimators.operation.physical_bound import UNBOUND, least_time
from slipstick.estimators.tuned.tuned_unseen import STEP_CLOCK
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError, read_json
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.files.symbolic import sp
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op

SOURCE = "docs/notes/programs.md"
FITTED = ("slow.compute", "slow.memory", "slow.cores", "gap", "step_cycles")
"""Amounts of an operation that a fit says."""
TRAINED = Path(__file__).parent / "program_kernels.json"
COMPILED = Path(__file__).parent / "program_kernels_compiled.json"
HALF_FITS = {mode: Path(__file__).parent / f"program_kernels_half_{mode}.json" for mode in ("eager", "compiled")}
HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class ProgramKernels(FormulaModel):
    """Times of the operations of programs on GPUs.

    Parameters
    ----------
    compute, memory
        By class: the inverse share of peak rate and of bandwidth that its kernels reach.
    cycles
        By class: how many times longer its cores work than at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    convolution_compute, convolution_memory
        By feature: log slowness of a convolution for each of its octaves (`FEATURES`).
    gap
        Seconds between two kernels of a stream.
    step
        Seconds of a step of a recurrent layer whose matrices stay in the caches, at `STEP_CLOCK`.
    """

    compute: Table[float]
    memory: Table[float]
    cycles: Table[float]
    convolution_compute: Table[float]
    convolution_memory: Table[float]
    gap: float
    step: float

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of one form: by what their flop run on, and whether rows are one block's.

        Raises
        ------
        InputError
            Where a size is open: the class of a kernel depends on it.
        """
        if op.kind in machine.runtime.free_kinds:
            return "free"
        require_bound(op)
        return op.kind == "recurrent", op.kind if op.kind in PASSES else "", op.kind in UNBOUND, rates(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Of operations that take no time alone: the class of a kernel depends on its sizes."""
        return op.kind in machine.runtime.free_kinds

    def form(self, machine: Machine) -> Hashable:
        """That of the machine: its numbers are symbols, and those of the fit are amounts of the operation."""
        return machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """SymbolTerms: operation.* (`amount`), machine.*.

        Raises
        ------
        InputError
            Where the machine cannot compute in the operation's data type.
        """
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        need = sides(op, machine, SymbolTerms(machine))
        if op.kind == "recurrent":
            steps = symbol("operation.step_cycles") / symbol("machine.clock")
            terms = {"compute": need.arithmetic, "latency": steps}
            return Formula(Largest(steps, need.arithmetic), "s", SOURCE, Table(terms))
        arithmetic, traffic, cores = (
            side * symbol(f"operation.slow.{name}")
            for name, side in (("compute", need.arithmetic), ("memory", need.traffic), ("cores", need.cores))
        )
        gap = symbol("operation.gap")
        longer = Largest(arithmetic, traffic) + OVERLAP * Smallest(arithmetic, traffic)
        whole = (longer**4 + cores**4) ** sp.Rational(1, 4) + gap
        # shares above 1 were fitted where a mask or a cache saves what is counted
        least = Largest(whole, least_time(machine, rates(op, machine)))
        terms = {"latency": gap, "memory": traffic, "compute": arithmetic, "cores": cores}
        return Formula(least, "s", SOURCE, Table(terms))

    def amount(self, op: Op, name: str) -> Amount:
        """What the cores and the memory have to do (`program_sides.amount`), and what the fit says of its class."""
        part = name.removeprefix("operation.")
        if part == "gap":
            return self.gap
        if part == "step_cycles":
            return self.step * STEP_CLOCK
        if part.startswith("slow."):
            return self._slowness(op, part.removeprefix("slow."))
        least = LEAST_AMOUNTS.get(part)
        return least(op) if least else amount(op, name)

    def runs_at(self) -> Clock:
        """Fitted to whole programs under the devices' caps."""
        return "held"

    def _slowness(self, op: Op, side: str) -> float:
        """Of an operation's class, times that of a convolution's shape."""
        name = kernel_class(op)
        if side == "cores":
            return _nearest(self.cycles, name)
        table, octaves = (
            (self.compute, self.convolution_compute) if side == "compute" else (self.memory, self.convolution_memory)
        )
        shape = sum(octaves[feature] * value for feature, value in zip(FEATURES, features(op), strict=True))
        return _nearest(table, name) * math.exp(shape)


def _nearest(table: Mapping[str, float], name: str) -> float:
    """The number of a class, or of its relative without the last word (`convolution.grouped.last`); 1 without any."""
    while name not in table and "." in name:
        name = name.rpartition(".")[0]
    return table.get(name, 1.0)


@dataclass(frozen=True)
class ProgramRuntimes(FormulaModel):
    """Kernels by how the machine's runtime makes them and by what an operation computes in.

    Parameters
    ----------
    eager
        Of PyTorch's libraries, and of recorded graphs of them, in float32 as PyTorch computes it.
    compiled
        Of TorchInductor in its default mode: norms, softmax and chains are generated, products and convolutions are
        the libraries', on tensors whose channels lie together.
    half_eager, half_compiled
        The same of operations in 16 bits, on the matrix units.
    """

    eager: ProgramKernels
    compiled: ProgramKernels
    half_eager: ProgramKernels
    half_compiled: ProgramKernels

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The runtime, and see `ProgramKernels.key`."""
        return self._word(machine), self.eager.key(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """See `ProgramKernels.holds_open`."""
        return self.eager.holds_open(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """See `ProgramKernels.form`."""
        return self.eager.form(machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """See `ProgramKernels.formula`; what a fit says is named ``operation.eager.*`` or ``operation.compiled.*``."""
        plain = self.eager.formula(op, machine)
        word = self._word(machine)
        return plain.substitute({f"operation.{name}": symbol(f"operation.{word}.{name}") for name in FITTED})

    def amount(self, op: Op, name: str) -> Amount:
        """See `ProgramKernels.amount`."""
        word, _, fitted = name.removeprefix("operation.").partition(".")
        if fitted not in FITTED or word not in ("eager", "compiled"):
            return self.eager.amount(op, name)
        if op.dtype in HALF:
            return (self.half_compiled if word == "compiled" else self.half_eager).amount(op, fitted)
        return (self.compiled if word == "compiled" else self.eager).amount(op, fitted)

    def runs_at(self) -> Clock:
        """See `ProgramKernels.runs_at`."""
        return self.eager.runs_at()

    def _word(self, machine: Machine) -> str:
        return "compiled" if machine.runtime.mode == "compiled" else "eager"


@cache
def program_runtimes() -> ProgramRuntimes:
    """The fits that ship."""
    return ProgramRuntimes(trained()[0], compiled(), half("eager"), half("compiled"))


@cache
def trained() -> tuple[ProgramKernels, float]:
    """The fitted model of eager mode, and the host's seconds to issue an operation.

    Fitted to KernelBench v0.1 (eager, an H100 SXM, an H100 PCIe and an L40S); refitted by
    `python -m slipstick.experiments.evidence.validation.models.programs.program_train`.
    """
    return from_numbers(read_json(TRAINED))


@cache
def compiled() -> ProgramKernels:
    """The fitted model of compiled mode: what torch.compile changed in KernelBench v0.1 on the two H100."""
    return from_numbers(read_json(COMPILED))[0]


@cache
def half(mode: str) -> ProgramKernels:
    """The fitted model of 16-bit programs, "eager" or "compiled".

    Fitted to image networks under autocast on an RTX 3090 and an RTX 4090 (timm's benchmarks); refitted by
    `python -m slipstick.experiments.evidence.validation.vision.vision_train`.
    """
    return from_numbers(read_json(HALF_FITS[mode]))[0]


def from_numbers(numbers: Mapping[str, Mapping[str, float]]) -> tuple[ProgramKernels, float]:
    """The model and the host's issue time of a fit's file.

    Raises
    ------
    InputError
        Where a time is not above 0.
    """
    tables = {name: Table(dict(numbers[name])) for name in TABLES}
    times = numbers["seconds"]
    if not all(math.isfinite(v) and v > 0 for v in times.values()):
        raise InputError(f"fit of program kernels: seconds = {dict(times)}: want numbers > 0")
    return ProgramKernels(**tables, gap=times["gap"], step=times["step"]), times["issue"]


TABLES = ("compute", "memory", "cycles", "convolution_compute", "convolution_memory")
