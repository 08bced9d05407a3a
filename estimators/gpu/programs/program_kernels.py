"""Kernels of PyTorch programs: each class of operation reaches its shares of peak and bandwidth, as programs show.

An operation takes the longer of its arithmetic and its traffic plus a share of the shorter, or what its cores need to
work it off, clock by clock, where that is longer (`sides`); a recurrent layer takes its steps. Arithmetic runs no
faster than the power cap allows; what fits in the last cache is found there, and check bits that stand among the data
cost bandwidth: the laws of cap, caches and engines are those of kernels that are timed alone. The numbers are fitted to
whole programs (`slipstick validate programs`); none was timed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict, Same
from slipstick.common.size_column import Sized, largest, number, smallest
from slipstick.estimators.base.operation_model import Clock, FormulaModel, amount_of, require_bound
from slipstick.estimators.fitting.fitted_file import FittedFile, load_fitted
from slipstick.estimators.fitting.fitted_model import UNGROUPED, Grouping, ParameterPrior
from slipstick.estimators.gpu.kernels.matrix_tiles import overlapped, traffic_time
from slipstick.estimators.gpu.kernels.tiled_roofline import arithmetic, resources
from slipstick.estimators.gpu.programs.program_classes import (
    DEPTHWISE,
    FEATURES,
    class_of,
    features,
    kernel_class,
    relative,
)
from slipstick.estimators.gpu.programs.program_priors import (
    BEFORE,
    BYTES_A_CYCLE,
    CYCLES_SPREAD,
    EFFICIENCY,
    FEATURE,
    FLOP_A_CYCLE,
    INLINE_ECC,
    KEPT_BYTES,
    SECONDS,
    TYPE,
)
from slipstick.estimators.power.voltage import capped_seconds, knee
from slipstick.estimators.roofline.physical_bound import AMOUNTS as LEAST_AMOUNTS
from slipstick.estimators.roofline.physical_bound import UNBOUND, least_time, weight_bytes
from slipstick.estimators.roofline.roofline import product_of_fields, rated_flop, rounds_convolutions
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.cache_residency import BLOCKS, missed
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

SOURCE = "docs/notes/programs.md"
EAGER = "eager"
SLOW = {"slow.compute": "compute", "slow.memory": "memory", "slow.cores": "cycles"}
FITTED = (*SLOW, "gap", "step_cycles")
"""Amounts of an operation that a fit says; the slowness of its sides is one."""
NAME = "program-kernels"
"""The law, fitted to programs in float32 and to image networks in 16 bits at once."""
PROGRAMS_FILE = "programs"
SPREAD = "spread"
"""The fact of that file that says how far programs scatter on GPUs whose generation was left out."""
CLASS_SPREAD = "spread on a class unseen"
"""That of GPUs whose class was left out: data centre or consumer, HBM or GDDR."""
SIDES = ("compute", "memory", "cycles")
SHAPED = ("compute", "memory")
"""Sides on which the shape of a convolution has a factor."""
MACHINE = ("vendor", "generation", "chip")
HOST = "host"
MODE = "mode"
COMPILED = "compiled"
"""The group of a row of torch.compile at the level of modes; an eager one has none."""
LEVELS = (
    Grouping(MODE, 0.3),
    Grouping("vendor", 0.2),
    Grouping("generation", 0.15),
    Grouping("chip", 0.1),
    Grouping(HOST, 0.5),
)
LEAST, MOST = 0.05, 200.0
"""Bounds of what a side takes over what the machine allows: what caches and masks save was counted."""
HELD = 0.1
"""Width of the time between kernels, which launches alone show better than programs: else it stands for hosts'."""
NARROW = "half"
"""Of parameters: what 16 bits change of a side, in all classes alike ("half.memory") or one ("half.memory.gemm")."""
OVERLAP = 0.3
"""Share of the shorter of arithmetic and traffic that is not hidden (as `KernelParameters.overlap`)."""
TILE = 128
"""Channels of a tile of outputs: what a window loads serves so many (CUTLASS's and cuDNN's usual tiles)."""
THREADS = {"norm.layer": 128, "softmax": 1024}
"""Of the block that works off a row (aten/src/ATen/native/cuda: layer_norm_kernel.cu, PersistentSoftmax and SoftMax.cu;
batch and group norms have 512 a channel or group, cuDNN's kernel for batches as well)."""
USUAL_THREADS, THREADS_A_CORE = 512, 2048
PASSES = {"norm": 2, "softmax": 3}
"""How often those kernels read a row: for its mean or maximum, for the sum of a softmax, and to scale it."""
WEIGHED = ("gemm", "convolution")
"""Kinds that read weights, which come back only after all others of a program."""


class Sides(NamedTuple):
    """Seconds of one execution of an operation before its class's shares.

    `arithmetic`: at the rate that peak and power cap allow.
    `traffic`: main memory's and the last cache's.
    `cores`: of the cores that have work, at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    """

    arithmetic: sp.Expr
    traffic: sp.Expr
    cores: sp.Expr


def form_of_sides(op: Op, machine: Machine) -> tuple[Hashable, ...]:
    """What of an operation decides its formulas: what its flop run on, and its kind where rows or weights count."""
    return op.kind if op.kind in (*PASSES, *WEIGHED) else "", rates(op, machine)


def rates(op: Op, machine: Machine) -> tuple[tuple[str, str, str], ...]:
    """Of an operation's flop: their name in the cost, and the engine and data type at whose rate they run."""
    return rated_flop(op, machine, lambda dtype: _rounded(op, machine, dtype))


def sides(op: Op, machine: Machine) -> Sides:
    """Expressions in the machine's numbers and an operation's amounts (`COUNTED`, and what all operations have)."""
    rated = rates(op, machine)
    free, flop = arithmetic(rated, lambda *at: product_of_fields(machine.peak_factors(*at)))
    inline = machine.memory[machine.main_memory].ecc == "inline"
    has = resources(machine, free, INLINE_ECC if inline else 1.0, 1 / KEPT_BYTES, OVERLAP)
    moved, cores = symbol("operation.bytes_moved"), has.cores
    cycles = symbol("operation.matrix_bytes") / FLOP_A_CYCLE + symbol("operation.near") / BYTES_A_CYCLE
    busy, far = cores, moved
    if op.kind in PASSES:
        busy = Smallest(cores, symbol("operation.busy"))
        # many rows are under way at a time before one is read again
        under_way = Smallest(1, cores / symbol("operation.busy")) * symbol("operation.read")
        far = moved + symbol("operation.again") * missed(under_way, has.cache_capacity, BLOCKS)
    weights = symbol("operation.weight_bytes") if op.kind in WEIGHED else None
    return Sides(
        Largest(free, capped_seconds(free, flop, machine)),
        traffic_time(far, far, has, weights),
        cycles / (busy * has.clock),
    )


def _again(op: Op) -> Sized:
    """Bytes that a row's kernel reads again."""
    return (PASSES.get(op.kind, 1) - 1) * number(op.cost["read"])


def _near(op: Op) -> Sized:
    """Bytes that cores load and store, from wherever they are."""
    return number(op.cost["read"]) * _overlap(op) + number(op.cost["written"]) + _again(op) + _windows(op)


def _matrix_bytes(op: Op) -> Sized:
    """Flop of products times the bytes of their numbers, float32 as TF32 (`FLOP_A_CYCLE`)."""
    return sum(
        number(op.cost[name]) * SIZE_BYTES[name.rpartition(".")[2]]
        for name in op.cost
        if name.startswith("flop.matrix.")
    )


def _overlap(op: Op) -> Sized:
    """How often the windows of a pooling read an element from the nearest cache."""
    if op.kind != "pool":
        return 1.0
    inputs = largest(1.0, number(op.dims["inputs"]))
    return largest(1.0, number(op.dims["outputs"]) * number(op.dims["window"]) / inputs)


def _windows(op: Op) -> Sized:
    """Bytes that a convolution loads from the nearest cache as matrices of windows: once for each tile of outputs."""
    if op.kind != "convolution":
        return 0.0
    outputs = number(op.dims["channels_out"]) / number(op.dims["groups"])
    flop = sum(number(op.cost[name]) for name in op.cost if name.startswith("flop.matrix."))
    return SIZE_BYTES[op.dtype] * flop / 2 / smallest(outputs, TILE)


def _busy(op: Op) -> Sized:
    """Cores that the rows of a norm or softmax fill: a row is one block's, which has a share of a core's threads."""
    rows = number(op.dims["groups" if op.kind == "norm" else "rows"])
    return largest(1.0, rows) * THREADS.get(class_of(op), USUAL_THREADS) / THREADS_A_CORE


def _rounded(op: Op, machine: Machine, dtype: str) -> str:
    """PyTorch rounds float32 convolutions to tfloat32 where NVIDIA's machines can.

    Kernels of depthwise ones take no matrix instruction in any type and sum in float32 (aten/src/ATen/native/cuda:
    DepthwiseConv2d.cu, `acc_t`; cuDNN's as well).
    """
    name = class_of(op) if op.kind == "convolution" else ""
    if name == DEPTHWISE:
        return dtype if dtype == "float64" else "float32"
    if not name or dtype not in ("float32", "tfloat32"):
        return dtype
    return "tfloat32" if rounds_convolutions(machine) else "float32"


COUNTED: Mapping[str, Callable[[Op], Amount]] = {
    "again": _again,
    "near": _near,
    "matrix_bytes": _matrix_bytes,
    "busy": _busy,
    "weight_bytes": weight_bytes,
    **LEAST_AMOUNTS,
}
"""Amounts of an operation beside its cost and the numbers of a fit."""


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
        """Operations of one form: by the runtime, by what their flop run on, and by kind where that decides it.

        Raises InputError where a size is open: the class of a kernel depends on it.
        """
        if op.kind in machine.runtime.free_kinds:
            return "free"
        require_bound(op)
        return _mode(machine), op.kind in UNBOUND, op.kind == "recurrent", *form_of_sides(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Of operations that take no time alone: the class of a kernel depends on its sizes."""
        return op.kind in machine.runtime.free_kinds

    def form(self, machine: Machine) -> Hashable:
        """That of the machine, its knee and its family: other numbers are symbols, those of the fit amounts."""
        return machine.form, knee(machine), machine.family

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* (`COUNTED`, `FITTED`), machine.*.

        Raises InputError where the machine cannot compute in the operation's data type.
        """
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        need = sides(op, machine)
        of = {name: symbol(f"operation.{_mode(machine)}.{machine.family}.{name}") for name in FITTED}
        if op.kind == "recurrent":
            steps = of["step_cycles"] / symbol("machine.clock")
            terms = {"compute": need.arithmetic, "latency": steps}
            return Formula(Largest(steps, need.arithmetic), "s", SOURCE, FrozenDict(terms))
        arithmetic, traffic = need.arithmetic * of["slow.compute"], need.traffic * of["slow.memory"]
        cores, gap = need.cores * of["slow.cores"], of["gap"]
        whole = (overlapped(arithmetic, traffic, OVERLAP) ** 4 + cores**4) ** sp.Rational(1, 4) + gap
        # shares above 1 were fitted where a mask or a cache saves what is counted
        least = Largest(whole, least_time(machine, rates(op, machine)))
        terms = {"latency": gap, "memory": traffic, "compute": arithmetic, "cores": cores}
        return Formula(least, "s", SOURCE, FrozenDict(terms))

    def amount(self, op: Op, name: str) -> Amount:
        """What the cores and the memory have to do (`COUNTED`), and what the fit says of its class."""
        counted, fit = COUNTED.get(name.removeprefix("operation.")), _fitted(name)
        if fit is None:
            return counted(op) if counted else amount_of(op, name)
        values = program_values(*fit[:2], self.fitted)
        if (side := SLOW.get(fit[2])) is None:
            return values["gap"] if fit[2] == "gap" else values["step"] * STEP_CLOCK
        return _slowness(op, side, values)

    def runs_at(self) -> Clock:
        """Fitted to whole programs under the devices' caps."""
        return "held"


def _mode(machine: Machine) -> str:
    return COMPILED if machine.runtime.mode == COMPILED else EAGER


@cache
def _fitted(name: str) -> tuple[str, str, str] | None:
    """The family of machines, the mode and the amount that a name tells, where a fit says it."""
    mode, _, rest = name.removeprefix("operation.").partition(".")
    fitted = next((one for one in FITTED if rest.endswith(f".{one}")), None)
    return (rest.removesuffix(f".{fitted}"), mode, fitted) if fitted and mode in (EAGER, COMPILED) else None


@dataclass(frozen=True, eq=False)
class ProgramParameters:
    """Parameters of the law of some classes of kernels."""

    classes: tuple[str, ...]

    @cached_property
    def parameters(self) -> Sequence[ParameterPrior]:
        """Sides of each class, shapes, machines and types, and times."""
        of_class = (MODE, "generation")
        made = []
        for side in SIDES:
            for name in self.classes:
                expected = 1.0 if side == "cycles" else 1 / EFFICIENCY[side][0]
                width = CYCLES_SPREAD if side == "cycles" else EFFICIENCY[side][1]
                low = 1.0 if side == "compute" else LEAST
                meaning = f"{side} of {name}, over what the machine allows"
                made.append(ParameterPrior(f"{side}.{name}", "1", meaning, expected, width, low, MOST, side, of_class))
        for side in SHAPED:
            for feature in FEATURES:
                meaning = f"factor on the {side} of a convolution for an octave of {feature}"
                made.append(ParameterPrior(f"{side}_shape.{feature}", "1", meaning, 1.0, FEATURE, 0.1, 10.0, "shape"))
        made += [
            ParameterPrior(f"machine.{side}", "1", f"{side} of a machine", 1.0, 0.0, 0.1, 10.0, "", MACHINE)
            for side in SIDES
        ]
        for side in SIDES:
            for name in (f"{NARROW}.{side}", *(f"{NARROW}.{side}.{one}" for one in self.classes)):
                meaning = f"what 16 bits change of the {side} of {name.partition(side)[2][1:] or 'all classes'}"
                kind = NARROW if name.endswith(side) else f"{NARROW}.{side}"
                made.append(ParameterPrior(name, "1", meaning, 1.0, TYPE, 0.1, 10.0, kind))
        widths = {"gap": HELD, "step": SECONDS, "issue": SECONDS}
        levels: dict[str, tuple[str, ...]] = {"issue": (HOST,)}
        for name, seconds in BEFORE.items():
            ends, among = (seconds / 30, seconds * 30), levels.get(name, ())
            made.append(ParameterPrior(name, "s", f"time of {name}", seconds, widths[name], *ends, name, among))
        return tuple(made)


def slowness(
    side: str,
    of_class: Callable[[str], npt.ArrayLike],
    of_all: Callable[[str], npt.ArrayLike],
    shape: FloatArray,
    half: npt.ArrayLike,
) -> FloatArray:
    """Seconds of a side of operations over what the machine allows, shape (operations,).

    `of_class`: a parameter of each operation's class ("memory" for "memory.gemm"), shape (operations,).
    `of_all`: one that all classes have in common, by its name, shape (operations,).
    `shape`: see `features`, shape (operations, features); `half`: 1 in 16 bits, else 0.
    """
    narrow = np.multiply(of_all(f"{NARROW}.{side}"), of_class(f"{NARROW}.{side}"))
    slow = np.multiply(of_class(side), of_all(f"machine.{side}")) * narrow ** np.asarray(half)
    if side in SHAPED:
        logs = np.log(np.stack([of_all(f"{side}_shape.{feature}") for feature in FEATURES], axis=-1))
        slow = slow * np.exp((shape * logs).sum(axis=-1))
    return np.asarray(np.maximum(slow, 1.0 if side == "compute" else 0.0))  # a rate above the peak cannot be


def _slowness(op: Op, side: str, values: Mapping[str, float]) -> float:
    """See `slowness`; of the operation's class, or its relative; 8 bits, never timed, as 16 bits."""
    name = relative(kernel_class(op), lambda one: f"{side}.{one}" in values)
    shape, half = np.array(features(op)), float(SIZE_BYTES[op.dtype] <= 2 and op.dtype != "bool")
    return float(slowness(side, lambda part: values[f"{part}.{name}"], values.__getitem__, shape, half))


def machine_groups(family: str) -> dict[str, str]:
    """Vendor, generation and chip of a machine, by the words of its family."""
    words = family.split("-")
    return {level: "-".join(words[: at + 1]) for at, level in enumerate(MACHINE)}


@cache
def program_values(family: str, mode: str = EAGER, fitted: Same[FittedFile] | None = None) -> Mapping[str, float]:
    """Parameters of the law by name, SI, with what a fit knows of a mode, and of a family and its chip.

    `fitted`: another fit than the one that ships, which `slipstick validate --refit programs` makes.
    """
    fit = program_fit(fitted).it.fit(NAME)
    names = (c.parameter for c in fit.coordinates if not c.level)
    classes = tuple(name.removeprefix("compute.") for name in names if name.startswith("compute."))
    levels = {level.name: [UNGROUPED] for level in LEVELS} | {MODE: ["" if mode == EAGER else mode]}
    groups = {level: [group] for level, group in machine_groups(family).items()}
    values = fit.values(ProgramParameters(classes), levels | groups)
    return FrozenDict({name: float(value[0]) for name, value in values.items()})


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
