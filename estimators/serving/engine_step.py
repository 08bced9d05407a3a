"""A step of serving by the fitted law of steps: what `estimate decode:M` and `serve` both answer with.

The graph says what is read and computed, the machine at which rates, its runtime under which engine; parameters and
the band are those of `StepSum`. llama.cpp has a law of its own, of one sequence on one device.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.operation_model import Clock
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.engine_steps.engines import ServingFit
from slipstick.estimators.engine_steps.fitted_steps import (
    groups_on,
    is_llama_cpp,
    local_fit,
    local_groups_on,
    serving_fit,
    step_conditions,
)
from slipstick.estimators.engine_steps.llama_cpp_fit import LocalFit
from slipstick.estimators.engine_steps.llama_cpp_step import (
    CACHE,
    LocalParameters,
    LocalWork,
    PromptWork,
    backend_of,
    narrowing,
    plain_type,
    product_type,
)
from slipstick.estimators.engine_steps.step_device import (
    FOUR_BITS,
    Device,
    rated_types,
    widening,
)
from slipstick.estimators.engine_steps.step_graph import GraphStep, graph_step, group_of, open_step
from slipstick.estimators.engine_steps.step_law import StepSum
from slipstick.estimators.engine_steps.step_time import (
    StepParameters,
    StepParts,
    demands,
    step_parts,
)
from slipstick.estimators.engine_steps.vendor_efficiency import libraries_of
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.roofline.roofline import Roofline, product_of_fields
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.language.language_step import omitted_of

SOURCE = "the law of a server's step (docs/notes/serving.md)"
LOCAL_SOURCE = "the law of llama.cpp's tokens (docs/notes/serving.md)"
PARTS = {"weights": "weights", "output": "weights", "experts": "experts", "cache": "attention"}
"""The part of a step that a group of operations makes."""


class Needs(Roofline):
    """What each operation needs at the data sheet's rates: by that a step's seconds are dealt out."""

    def caches(self, machine: Machine) -> str:
        """Nothing: the law of the whole step decides."""
        return ""

    def runs_at(self) -> Clock:
        """Measured steps were those of the clock that the rated cap leaves."""
        return "held"


class _Law(FormulaSchedule):
    """What both laws share: one formula of a whole step, whose seconds go to operations by what they need at least."""

    def lane(self, op: Op) -> str:
        """The group of an operation."""
        return group_of(op) or "other"

    @abstractmethod
    def shares(self, step: GraphStep, machine: Machine) -> Mapping[str, float]:
        """Seconds of a bound step by group of operations (`PARTS`), and "fixed"."""

    def floor(self, step: GraphStep, machine: Machine) -> float:
        """Seconds of a step's bytes or of its flop at the data sheet's rates, whichever is longer."""
        return max(demands(step.amounts, Device.of(machine, step.compute)))

    def host(self, step: GraphStep, machine: Machine) -> float:
        """Seconds of a bound step in which the host works and the device waits; none that the law separates."""
        return 0.0

    @abstractmethod
    def notes(self, step: GraphStep, machine: Machine) -> tuple[str, ...]:
        """What the answer takes for granted."""

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`: never less than what physics needs of the step's operations."""
        step = graph_step(workload, {})
        seconds = dict(self.shares(step, machine))
        fixed, groups = seconds.pop("fixed"), [PARTS.get(group_of(op), "") for op in workload]
        work = times * np.array([float(op.times) for op in workload])
        elapsed = np.zeros(len(groups))
        for name, whole in seconds.items():
            inside = np.array([group == name for group in groups], dtype=bool)
            elapsed[inside] = whole * work[inside] / (work[inside].sum() or 1.0)
        time = fixed + float(elapsed.sum())
        least = max(self.floor(step, machine), least_seconds(workload.operations, machine))
        grown = max(1.0, least / time)
        host = self.host(step, machine) * grown
        return Outcome(
            time * grown, f"formula: {self.formula(workload, machine).source}", assumptions=self.notes(step, machine),
            elapsed=tuple(map(float, elapsed * grown)), alone=True, fixed=fixed * grown, least=least,
            sides=FrozenDict(device=time * grown - host, host=host),
        )  # fmt: skip


def least_seconds(operations: Sequence[Op], machine: Machine) -> float:
    """What the step's products and its cache need on the machine at least (`PhysicalBound`)."""
    bound = PhysicalBound(machine)
    return sum(float(op.times) * bound.least(op)[0] for op in operations if group_of(op))


@dataclass(frozen=True)
class EngineStep(_Law):
    """Steps of a server: the law of `step_time`."""

    step: StepParameters = StepParameters()

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: machine.PATH, parameter.step.NAME, and run.SIZE of sizes that are open."""
        named = {field.name: symbol(f"parameter.step.{field.name}") for field in fields(StepParameters)}
        parameters: Any = SimpleNamespace(**named)
        step: Any = open_step(workload)
        device: Any = _rates(machine, step.compute)
        return Formula(
            step_parts(step.amounts, step.sequences, device, step.counts(device), parameters).seconds, "s", SOURCE
        )

    def parts(self, step: GraphStep, machine: Machine) -> StepParts:
        """Seconds of a step by what they go to."""
        device = Device.of(machine, step.compute)
        return step_parts(step.amounts, step.sequences, device, step.counts(device), self.step)

    def shares(self, step: GraphStep, machine: Machine) -> Mapping[str, float]:
        """Seconds of those parts."""
        made = self.parts(step, machine)
        return {name: getattr(made, name) for name in ("weights", "experts", "attention", "fixed")}

    def host(self, step: GraphStep, machine: Machine) -> float:
        """The host's part of a step and of its sequences."""
        none = replace(self, step=replace(self.step, step=0.0, sequence=0.0))
        return self.parts(step, machine).fixed - none.parts(step, machine).fixed

    def notes(self, step: GraphStep, machine: Machine) -> tuple[str, ...]:
        """How weights are multiplied where the machine cannot do it as they are stored."""
        widened = widening(machine, step.compute)
        return (widened,) if widened else ()


@dataclass(frozen=True)
class LocalToken(_Law):
    """One sequence under llama.cpp: the law of `local_step`, of new tokens or of a prompt's."""

    local: LocalParameters = LocalParameters()

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: machine.PATH, parameter.local.NAME, and run.SIZE of sizes that are open."""
        named = {field.name: symbol(f"parameter.local.{field.name}") for field in fields(LocalParameters)}
        parameters: Any = SimpleNamespace(**named)
        step: Any = open_step(workload)
        bandwidth = product_of_fields(machine.bandwidth_factors(machine.main_memory))
        pace = STEP_CLOCK / symbol("machine.clock")
        if step.sequences == 0:
            unit, narrow, counted = product_type(machine)
            matrix = counted * product_of_fields(machine.peak_factors(unit, narrow))
            cycles = symbol("machine.cores") * symbol("machine.clock")
            experts = step.amounts.expert_flop * narrowing(machine, step.stored)
            amounts = step.amounts._replace(expert_flop=experts)
            each = PromptWork.at(amounts, step.layers, bandwidth, matrix, cycles, pace)
            return Formula(amounts.tokens * LocalParameters.prompt(parameters, each), "s", LOCAL_SOURCE)
        plain = product_of_fields(machine.peak_factors("vector", plain_type(machine)))
        work = LocalWork.at(step.amounts, step.layers, bandwidth, plain, step.long_bytes, pace)
        return Formula(work.token_seconds(parameters), "s", LOCAL_SOURCE)

    def shares(self, step: GraphStep, machine: Machine) -> Mapping[str, float]:
        """All of it goes to products."""
        work = local_work(step, machine)
        if isinstance(work, PromptWork):
            return {"weights": step.amounts.tokens * float(self.local.prompt(work)), "fixed": 0.0}
        return {"weights": float(work.token_seconds(self.local)), "fixed": 0.0}

    def floor(self, step: GraphStep, machine: Machine) -> float:
        """The weights and the cache once over the bandwidth; of a prompt its flop at the peak."""
        work = local_work(step, machine)
        return step.amounts.tokens * work.products if isinstance(work, PromptWork) else work.least

    def notes(self, step: GraphStep, machine: Machine) -> tuple[str, ...]:
        """What of the cache is counted, and how."""
        return (f"one sequence; {CACHE}",)


def local_work(step: GraphStep, machine: Machine) -> LocalWork | PromptWork:
    """What a new token needs of a machine, or a token of a prompt where no sequence gets a new one."""
    if step.sequences == 0:
        return PromptWork.of_amounts(step.amounts, step.layers, machine, step.stored)
    return LocalWork.of_amounts(step.amounts, step.layers, machine, step.long_bytes)


def _rates(machine: Machine, compute: str) -> SimpleNamespace:
    """A device whose rates are products of fields of the machine."""
    unit, plain, narrow = rated_types(machine, compute)
    at_plain, at_narrow = machine.peak(unit, plain), machine.peak(unit, narrow)
    return SimpleNamespace(
        bandwidth=product_of_fields(machine.bandwidth_factors(machine.main_memory)),
        peak=product_of_fields(machine.peak_factors(unit, plain)),
        narrow_peak=product_of_fields(machine.peak_factors(unit, narrow)),
        link=sp.Integer(1),
        rank_latency=1.0,
        widened=int(compute in FOUR_BITS and narrow == plain),
        narrower=at_narrow > at_plain,
        **vars(libraries_of(machine.family)),
    )


@dataclass(frozen=True)
class ServingAnswer:
    """An estimator of steps of one model on one machine, the engine that it takes, and what its band depends on."""

    estimator: Calibration
    engine: str
    conditions: tuple[Condition, ...] = ()


def served_step(
    workload: Workload,
    machine: Machine,
    engine: str,
    run: Mapping[str, float] | None = None,
    known: ServingFit | None = None,
    local: LocalFit | None = None,
    *,
    named: bool = True,
) -> ServingAnswer:
    """The fitted law of a step for a workload on a machine under an engine.

    Parameters
    ----------
    engine
        As a runtime's library says it: "vllm 0.19.0", "llama.cpp".
    run
        Numbers of one execution, by name.
    known, local
        What was fitted to servers and to llama.cpp; what ships where None.
    named
        Whether somebody said the engine.

    Raises
    ------
    InputError
        Where the engine is not known, or the machine lacks a rate that is needed.
    """
    step = graph_step(workload, {**workload.defaults, **(run or {})})
    if is_llama_cpp(engine):
        law = local or local_fit(backend_of(machine.family))
        return _local(step, machine, engine, law, omitted_of(workload))
    model = workload.name.removesuffix("-decode").removesuffix("-prompt")
    groups = groups_on(machine, engine, model, step.multiplied, step.stored, named=named)
    fitted = known or serving_fit()
    device = Device.of(machine, step.compute)
    row = StepSum(step.amounts, step.amounts, device, step.counts(device), step.sequences)
    made = ComposedEstimator(Needs(), EngineStep(fitted.parameters(groups)), SOURCE)
    left_out = omitted_of(workload)
    half = math.hypot(fitted.half_width(row, groups), *(math.log(factor) for _, factor in left_out))
    conditions = step_conditions(fitted, row, groups, Condition("engine", engine, "file"), machine, left_out)
    return ServingAnswer(_banded(made, half, "measured serving rows"), engine, conditions)


def _local(
    step: GraphStep, machine: Machine, engine: str, fitted: LocalFit, left_out: Sequence[tuple[str, float]]
) -> ServingAnswer:
    if step.sequences > 1:
        raise InputError(f"{engine} answers for one sequence, not for {step.sequences:g}: give a server's engine")
    groups = local_groups_on(machine, step.stored, fitted.backend)
    work = local_work(step, machine)
    phase = fitted.prompting if isinstance(work, PromptWork) else fitted.generating
    made = ComposedEstimator(Needs(), LocalToken(fitted.parameters(groups)), LOCAL_SOURCE)
    half, known = phase.widened(work, groups, left_out)
    return ServingAnswer(_banded(made, half, "measured runs of llama.cpp and llamafile"), engine, known)


def _banded(made: ComposedEstimator, half: float, source: str) -> Calibration:
    return Calibration(made, (), residual_std=half / quantile(DEFAULT_LEVEL, None), source=source)
