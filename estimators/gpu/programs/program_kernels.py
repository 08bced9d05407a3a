"""Kernels of PyTorch programs: each class of operation reaches its shares of peak and bandwidth, as programs show.

An operation takes the longer of its arithmetic and its traffic plus a share of the shorter, or what its cores need to
work it off, clock by clock, where that is longer (`program_sides.py`); a recurrent layer takes its steps. The numbers
are fitted to whole programs (`slipstick validate programs`); none was timed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.operation_model import Clock, FormulaModel, amount_of, amounts_of, require_bound
from slipstick.estimators.fitting.fitted_file import FittedFile, load_fitted
from slipstick.estimators.fitting.fitted_model import UNGROUPED
from slipstick.estimators.gpu.programs.program_classes import FEATURES, features, kernel_class, relative
from slipstick.estimators.gpu.programs.program_law import (
    COMPILED,
    LEVELS,
    MODE,
    NAME,
    NARROW,
    PROGRAMS_FILE,
    SHAPED,
    SIDES,
    SPREAD,
    ProgramLaw,
    machine_groups,
)
from slipstick.estimators.gpu.programs.program_sides import (
    AMOUNTS,
    OVERLAP,
    PASSES,
    SymbolTerms,
    rates,
    sides,
)
from slipstick.estimators.power.voltage import knee
from slipstick.estimators.roofline.physical_bound import AMOUNTS as LEAST_AMOUNTS
from slipstick.estimators.roofline.physical_bound import UNBOUND, least_time
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op

SOURCE = "docs/notes/programs.md"
EAGER = "eager"
COUNTED: Mapping[str, Callable[[Op], Amount]] = {**AMOUNTS, **LEAST_AMOUNTS}
"""Amounts of an operation beside its cost and the numbers of a fit."""
FITTED = ("slow.compute", "slow.memory", "slow.cores", "gap", "step_cycles")
"""Amounts of an operation that a fit says."""


@dataclass(frozen=True)
class ProgramKernels(FormulaModel):
    """Times of the operations of programs on GPUs.

    `compute`, `memory`: by class: the inverse share of peak rate and of bandwidth that its kernels reach.
    `cycles`: by class: how many times longer its cores work than at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    `convolution_compute`, `convolution_memory`: by feature: log slowness of a convolution for each of its octaves
        (`FEATURES`).
    `gap`: seconds between two kernels of a stream.
    `step`: seconds of a step of a recurrent layer whose matrices stay in the caches, at `STEP_CLOCK`.
    """

    compute: FrozenDict[float]
    memory: FrozenDict[float]
    cycles: FrozenDict[float]
    convolution_compute: FrozenDict[float]
    convolution_memory: FrozenDict[float]
    gap: float
    step: float

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of one form: by what their flop run on, and whether rows are one block's.

        Raises InputError where a size is open: the class of a kernel depends on it.
        """
        if op.kind in machine.runtime.free_kinds:
            return "free"
        require_bound(op)
        return op.kind == "recurrent", op.kind if op.kind in PASSES else "", op.kind in UNBOUND, rates(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Of operations that take no time alone: the class of a kernel depends on its sizes."""
        return op.kind in machine.runtime.free_kinds

    def form(self, machine: Machine) -> Hashable:
        """That of the machine and its knee: other numbers are symbols, those of the fit amounts of the operation."""
        return machine.form, knee(machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """SymbolTerms: operation.* (`amount`), machine.*.

        Raises InputError where the machine cannot compute in the operation's data type.
        """
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        need = sides(op, machine, SymbolTerms(machine))
        if op.kind == "recurrent":
            steps = symbol("operation.step_cycles") / symbol("machine.clock")
            terms = {"compute": need.arithmetic, "latency": steps}
            return Formula(Largest(steps, need.arithmetic), "s", SOURCE, FrozenDict(terms))
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
        return Formula(least, "s", SOURCE, FrozenDict(terms))

    def amount(self, op: Op, name: str) -> Amount:
        """What the cores and the memory have to do (`program_sides.amount`), and what the fit says of its class."""
        part = name.removeprefix("operation.")
        if part == "gap":
            return self.gap
        if part == "step_cycles":
            return self.step * STEP_CLOCK
        if part.startswith("slow."):
            return self._slowness(op, part.removeprefix("slow."))
        counted = COUNTED.get(part)
        return counted(op) if counted else amount_of(op, name)

    def amounts(self, operations: Sequence[Op], name: str) -> list[Amount]:
        """See `amount`."""
        part = name.removeprefix("operation.")
        if part.startswith("slow."):
            side = part.removeprefix("slow.")
            return [self._slowness(op, side) for op in operations]
        if part in FITTED:
            return [self.amount(operations[0], name)] * len(operations)
        counted = COUNTED.get(part)
        return [counted(op) for op in operations] if counted else amounts_of(operations, name)

    def runs_at(self) -> Clock:
        """Fitted to whole programs under the devices' caps."""
        return "held"

    def _slowness(self, op: Op, side: str) -> float:
        """Of an operation's class, times that of a convolution's shape."""
        name = relative(kernel_class(op), self.compute)
        if side == "cores":
            return self.cycles[name]
        table, octaves = (
            (self.compute, self.convolution_compute) if side == "compute" else (self.memory, self.convolution_memory)
        )
        slowness = table[name]
        if op.kind == "convolution":
            each = zip(FEATURES, features(op), strict=True)
            slowness *= math.exp(sum(octaves[feature] * value for feature, value in each))
        return max(1.0, slowness) if side == "compute" else slowness  # as the law: no rate above the peak


@dataclass(frozen=True)
class ProgramRuntimes(FormulaModel):
    """Kernels by how the machine's runtime makes them, by what an operation computes in, and by the machine's chip.

    Eager they are PyTorch's libraries', compiled those of TorchInductor in its default mode: norms, softmax and chains
    are generated, products and convolutions are the libraries', on tensors whose channels lie together. What a fit says
    is named ``operation.MODE.FAMILY.*``.

    `fitted`: another fit than the one that ships.
    """

    fitted: Same[FittedFile] | None = None

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The runtime, and see `ProgramKernels.key`."""
        return _mode(machine), self._on(machine).key(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """See `ProgramKernels.holds_open`."""
        return self._on(machine).holds_open(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """See `ProgramKernels.form`; what is fitted differs by family."""
        return self._on(machine).form(machine), machine.family

    def formula(self, op: Op, machine: Machine) -> Formula:
        """See `ProgramKernels.formula`."""
        plain, of = self._on(machine).formula(op, machine), f"{_mode(machine)}.{machine.family}"
        return plain.substitute({f"operation.{name}": symbol(f"operation.{of}.{name}") for name in FITTED})

    def amount(self, op: Op, name: str) -> Amount:
        """See `ProgramKernels.amount`."""
        fit = _fitted(name)
        if fit is None:
            return program_kernels("", fitted=self.fitted).amount(op, name)
        family, mode, fitted = fit
        return program_kernels(family, mode, half=op.dtype in HALF, fitted=self.fitted).amount(op, fitted)

    def amounts(self, operations: Sequence[Op], name: str) -> list[Amount]:
        """See `amount`."""
        fit = _fitted(name)
        if fit:
            family, mode, fitted = fit
            halves = [op.dtype in HALF for op in operations]
            models = {half: program_kernels(family, mode, half=half, fitted=self.fitted) for half in set(halves)}
            if len(models) == 1:
                return models[halves[0]].amounts(operations, f"operation.{fitted}")
            return [models[half].amount(op, fitted) for half, op in zip(halves, operations, strict=True)]
        return program_kernels("", fitted=self.fitted).amounts(operations, name)

    def runs_at(self) -> Clock:
        """Fitted to whole programs under the devices' caps."""
        return "held"

    def _on(self, machine: Machine) -> ProgramKernels:
        return program_kernels(machine.family, fitted=self.fitted)


def _mode(machine: Machine) -> str:
    return COMPILED if machine.runtime.mode == COMPILED else EAGER


@cache
def _fitted(name: str) -> tuple[str, str, str] | None:
    """The family of machines, the mode and the amount that a name tells, where a fit says it."""
    mode, _, rest = name.removeprefix("operation.").partition(".")
    fitted = next((one for one in FITTED if rest.endswith(f".{one}")), None)
    return (rest.removesuffix(f".{fitted}"), mode, fitted) if fitted and mode in (EAGER, COMPILED) else None


@cache
def program_kernels(
    family: str, mode: str = EAGER, *, half: bool = False, fitted: Same[FittedFile] | None = None
) -> ProgramKernels:
    """The fit that ships, with what it knows of a mode, and of the generation and chip of a family of machines.

    `half`: of operations in 16 bits. `fitted`: another fit than the one that ships.

    Refitted by `slipstick validate --refit programs`.
    """
    values = _values(tuple(machine_groups(family).items()), "" if mode == EAGER else mode, program_fit(fitted))
    classes = [name.removeprefix("compute.") for name in values if name.startswith("compute.")]

    def table(side: str) -> FrozenDict[float]:
        narrow, of_type = values[f"{NARROW}.{side}"], f"{NARROW}.{side}."
        known = {name: values[f"{side}.{name}"] * values[f"machine.{side}"] for name in classes}
        return FrozenDict({name: one * narrow * values[of_type + name] if half else one for name, one in known.items()})

    def shapes(side: str) -> FrozenDict[float]:
        return FrozenDict({feature: math.log(values[f"{side}_shape.{feature}"]) for feature in FEATURES})

    compute, memory, cycles = (table(side) for side in SIDES)
    slow, late = (shapes(side) for side in SHAPED)
    return ProgramKernels(compute, memory, cycles, slow, late, values["gap"], values["step"])


def programs_scatter(fitted: Same[FittedFile] | None = None, fact: str = SPREAD) -> float:
    """Standard deviation of the normal law whose 80 % band holds 80 % of programs on GPUs of an unseen generation.

    `fact`: `CLASS_SPREAD` of those of an unseen class.
    """
    return float(program_fit(fitted).it.facts[fact])


def program_fit(fitted: Same[FittedFile] | None = None) -> Same[FittedFile]:
    """What was fitted to programs: what is given, or else what ships."""
    return fitted or _shipped()


@cache
def _shipped() -> Same[FittedFile]:
    return Same(load_fitted(PROGRAMS_FILE))


@cache
def _values(groups: tuple[tuple[str, str], ...], mode: str, fitted: Same[FittedFile]) -> dict[str, float]:
    """Parameters by name, with the effects of the groups by level."""
    fit = fitted.it.fit(NAME)
    names = (c.parameter for c in fit.coordinates if not c.level)
    classes = tuple(name.removeprefix("compute.") for name in names if name.startswith("compute."))
    levels = {level.name: [UNGROUPED] for level in LEVELS} | {level: [group] for level, group in groups}
    values = fit.values(ProgramLaw(classes), {**levels, MODE: [mode]})
    return {name: float(value[0]) for name, value in values.items()}
