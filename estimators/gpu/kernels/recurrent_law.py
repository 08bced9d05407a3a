"""Steps of recurrent layers as libraries run them, as a law over stacks of software, vendors and generations.

Fitted to DeepBench's forward times (cuDNN 5 to 7 and MIOpen of 2016 to 2019) and to KernelBench's stacks of layers
(PyTorch): `slipstick validate --refit recurrences`; generations and cells left out: `slipstick validate recurrences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, ParameterPrior
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.matrix_tiles import Resources
from slipstick.estimators.gpu.kernels.recurrent_steps import STACKED, standard_step
from slipstick.estimators.gpu.kernels.tiled_roofline import resources
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.formula import MinOverConfigs
from slipstick.estimators.symbolic.lambdified import evaluate, names_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

NAME = "recurrences"
PYTORCH, DEEPBENCH = "PyTorch", "DeepBench"
"""Stacks of software."""
RATES = ("cores", "clock", "near_capacity", "near_rate", "cache_capacity", "cache_rate", "memory_rate")
AMOUNTS = ("batch", "hidden", "gates", "outputs", "bytes_moved")
TYPES = {4.0: "float32", 2.0: "float16"}
"""Data types by their bytes: alignment and traffic are the same in all types of a size."""
GROUPED, EVERY = ("generation",), ("vendor", "generation")
UNUSED = KernelParameters()
LARGE = 1e30
"""Instead of no limit."""


@cache
def _forms() -> Mapping[float, MinOverConfigs]:
    """The formula of a step by the bytes of a number, for any machine."""
    rates = {name: symbol(f"has.{name}") for name in ("flop_rate", *RATES)}
    has = Resources(**rates, rotation=sp.Integer(1), weights_between=sp.Integer(0))
    return {size: standard_step(dtype, has, "parameter.", symbol("has.lanes")) for size, dtype in TYPES.items()}


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    seconds = np.empty(len(columns["size"]))
    for size, formula in _forms().items():
        here = columns["size"] == size
        if not here.any():
            continue
        mine = {name: values[here] for name, values in parameters.items()}
        values = {f"has.{name}": columns[name][here] for name in (*RATES, "flop_rate", "lanes")}
        values["has.flop_rate"] = values["has.flop_rate"] * mine["compute_efficiency"]
        values["has.memory_rate"] = values["has.memory_rate"] * mine["memory_efficiency"]
        fixed = ("unaligned", "split_overhead")
        values |= {f"parameter.{name}": np.array(getattr(UNUSED, name)) for name in fixed}
        values |= {f"parameter.{name}": value for name, value in mine.items()}
        values |= {f"operation.{name}": columns[name][here] for name in AMOUNTS}
        seconds[here] = formula.evaluate(values)
    return seconds


RECURRENT_LAW = FormulaLaw(
    NAME,
    (
        ParameterPrior("overhead", "s", "start of a step", 3e-5, 0.5, 1e-7, 1e-3, "time", ("stack", *EVERY)),
        ParameterPrior("compute_efficiency", "1", "share of the peak", 0.7, 0.2, 0.05, 1.0, "share", EVERY),
        ParameterPrior("memory_efficiency", "1", "share of the bandwidth", 0.7, 0.2, 0.05, 1.0, "share", GROUPED),
        ParameterPrior("tile_cycles", "cycle", "to begin and end one tile", 5e3, 0.7, 10.0, 5e4, "cycles", GROUPED),
        ParameterPrior("step_cycles", "cycle", "of a term of the reduction", 5.0, 0.7, 0.1, 1e3, "cycles"),
        ParameterPrior("small_tile", "1", "effort of small tiles", 0.05, 0.7, 1e-4, 3.0, "other"),
        ParameterPrior("overlap", "1", "share that is not hidden", 0.3, 0.5, 1e-3, 1.0, "other"),
    ),
    _seconds,
    (Grouping("stack", 1.0), Grouping("vendor", 0.2), Grouping("generation", 0.2)),
)
"""Seconds of a standard step: the formula of `recurrent_steps.standard_step`.

Columns: rates of the machine by the names of `Resources`, `flop_rate` and `memory_rate` as its data sheet says;
dims and bytes of the operation; `size`, bytes of a number; `lanes`, steps that run beside each other."""


def columns_of(steps: Sequence[tuple[Machine, Op]]) -> dict[str, FloatArray]:
    """The columns of steps without open sizes."""
    rates = {machine.name: _rates(machine) for machine, _ in steps}
    rows = []
    for machine, op in steps:
        layers, length = (float(op.dims.get(name, 1)) for name in ("layers", "length"))
        directions = float(op.dims.get("directions", 1))
        lanes = directions if directions > 1 else layers * length / (length + layers - 1)
        dims = {name: float(op.dims[name]) for name in AMOUNTS if name in op.dims}
        size = 2.0 if op.dtype in ("float16", "bfloat16") else 4.0
        rate = machine.peak(*serving_rate(machine, "matrix", op.dtype))
        facts = {"flop_rate": rate, "size": size, "lanes": lanes, "bytes_moved": float(op.cost.bytes_moved)}
        rows.append({**rates[machine.name], **dims, **facts})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def groups_of(machine: Machine, stack: str) -> dict[str, str]:
    """The group of a machine at each level."""
    words = machine.family.split("-")
    return {"stack": stack, "vendor": words[0], "generation": "-".join(words[:2])}


def _rates(machine: Machine) -> dict[str, float]:
    """The machine's rates at the data sheet's efficiency."""
    has, rates = resources(machine, sp.Integer(0), 1.0, 1.0, 0.0), {}
    for name in RATES:
        expression = sp.sympify(getattr(has, name), strict=True)
        values = {one: float(machine.get(one.removeprefix("machine."))) for one in names_of(expression)}
        rates[name] = min(LARGE, float(evaluate(expression, values)) if values else float(expression))
    return rates


@cache
def recurrent_fit() -> LawFit:
    """The fitted numbers that ship."""
    return load_fitted(NAME).fit(NAME)


@dataclass(frozen=True)
class RecurrentKernels:
    """Parameters of a step, how far they stray (standard deviation of log time), and whose they are."""

    kernels: KernelParameters
    spread: float
    note: str


def stack_of(operations: Sequence[Op], machine: Machine) -> str:
    """Whose software runs the recurrent steps: PyTorch's, but for graphs of an older time on devices of that time."""
    recorded = any(op.kind == "recurrent" and STACKED[0] in op.dims for op in operations)
    old = groups_of(machine, DEEPBENCH)["generation"] in OF_DEEPBENCH
    return DEEPBENCH if old and not recorded else PYTORCH


OF_DEEPBENCH = ("amd-gcn5", "nvidia-kepler", "nvidia-maxwell", "nvidia-pascal", "nvidia-volta")
"""Generations that DeepBench timed, and one that was older."""


def kernels_of(fit: LawFit, machine: Machine, stack: str) -> KernelParameters:
    """The parameters of a step on a machine."""
    groups = {level: [group] for level, group in groups_of(machine, stack).items()}
    return KernelParameters(**{name: float(value[0]) for name, value in fit.values(RECURRENT_LAW, groups).items()})


def recurrent_kernels(machine: Machine, stack: str = PYTORCH) -> RecurrentKernels:
    """What is known of recurrent steps on a machine."""
    from slipstick.workloads.graph.kinds import operation

    law, fitted, groups = RECURRENT_LAW, recurrent_fit(), groups_of(machine, stack)
    typical = operation("step", "recurrent", TYPICAL, "float32", {"function": "lstm"})
    half = fitted.half_width(law, columns_of([(machine, typical)]), {level: [one] for level, one in groups.items()})
    seen = groups["generation"] in fitted.seen("generation")
    note = f"steps of {stack} on {groups['generation'] if seen else 'other generations'}"
    return RecurrentKernels(kernels_of(fitted, machine, stack), float(half[0]) / quantile(DEFAULT_LEVEL, None), note)


TYPICAL = {"batch": 32, "hidden": 512, "gates": 4, "outputs": 512}
"""A step of middle size, for the band."""
