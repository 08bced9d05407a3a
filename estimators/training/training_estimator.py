"""A training step of a language model as an estimator: the law that `plan training` searches, at one layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, OperationTime, Spread, quantile
from slipstick.estimators.base.primary_quantity import PrimaryQuantity
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.base.schedule_model import check_run_number
from slipstick.estimators.symbolic.formula import Parameter, check_parameters, parameters
from slipstick.estimators.training.layout_memory import FITS, fit_of
from slipstick.estimators.training.layout_step_time import PRECISIONS
from slipstick.estimators.training.own_steps import UpdatedStep, filled, moved
from slipstick.estimators.training.training_domain import SHARDED, named_software
from slipstick.estimators.training.training_law import UNNAMED
from slipstick.estimators.training.training_step_answer import TrainedBatch, TrainingStepAnswer, known_text
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.language_training import SIZES, Training
from slipstick.workloads.language.training_layout import RECOMPUTE, Recompute, TrainingLayout

DEGREES = {
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "data_parallel": "data",
    "context_parallel": "context",
    "expert_parallel": "expert",
    "interleave": "chunks",
    "microbatch": "micro",
}
"""Numbers of the run, and what a `TrainingLayout` calls them."""
LAYOUT = FrozenDict({**dict.fromkeys(DEGREES, 1.0), "shard": 2.0, "recompute": 2.0})
"""Where none are given. `shard` is one more than the ZeRO stage, `recompute` none, selective, full."""
INPUT_RATE = "input_rate"
WORDS = {
    "products": "matrix products",
    "attention": "the attention's core",
    "elementwise": "element-wise passes over memory",
    "overhead": "work a layer beyond its products (launches, routing)",
    "tensor": "tensor-parallel traffic",
    "context": "context-parallel traffic",
    "expert": "the experts' all-to-all",
    "pipeline": "hand-overs between stages",
    "bubble": "the pipeline's bubble",
    "data": "gradients and weights between data ranks",
    "optimizer": "the optimizer",
    "stragglers": "stragglers",
    "input": "waiting for input",
}
"""Parts of a step, in words."""
SOURCE = "terms fitted to 432 published steps (docs/notes/training.md); power by factors of metered GPUs"


@dataclass(frozen=True)
class TrainingEstimator(PrimaryQuantity):
    """A step of training a language model on many devices, under one layout, by the law fitted to published steps.

    The workload is `Training`; the software is the machine's runtime (`machine.runtime.library`: one of `SOFTWARE`,
    with a release if need be; "": not named); the layout, `batch`, `seq_len` and `input_rate` are numbers of the run.
    The time is that of a step; energy is that of a token, power and tokens/s are of all devices, memory is that of the
    fullest one.

    Parameters
    ----------
    compute, network, stragglers
        Factors on the terms of the fitted law.
    quantity
        With which the answer begins.
    known
        Measured steps of the same model on the same machine, which calibrate the terms; what they leave open is the
        question's.
    """

    compute: Annotated[float, Parameter("1", "time of computing over that fitted to published steps", 0.1, 10.0)] = 1.0
    network: Annotated[float, Parameter("1", "exposed traffic over that fitted to published steps", 0.02, 50.0)] = 1.0
    stragglers: Annotated[float, Parameter("1", "wait for stragglers over the fitted", 0.02, 50.0)] = 1.0
    quantity: str = "time"
    known: tuple[UpdatedStep, ...] = ()

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def keeps_open(self) -> frozenset[str]:
        """The batch and the length of its sequences: the layout divides them."""
        return frozenset(SIZES)

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """The layout, the batch, the length of its sequences, and how fast input comes."""
        return frozenset({*LAYOUT, *SIZES, INPUT_RATE})

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that hold where none are given: one device; `SHARDED` share out weights too."""
        return {**LAYOUT, "shard": 4.0} if software_of(machine).partition(" ")[0] in SHARDED else LAYOUT

    def of_run(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None
    ) -> tuple[TrainedBatch, TrainingLayout]:
        """What is trained for a question, and its layout.

        Raises
        ------
        InputError
            Where the workload is no training of a language model, or a number is unknown or out of its range.
        """
        if not isinstance(workload, Training):
            raise InputError(
                f"workload {workload.name!r}: this estimator trains language models: train:NAME or train:CONFIG.json"
            )
        known = self.run_names(workload, machine)
        if missing := sorted(workload.symbols - known):
            raise InputError(f"workload {workload.name!r}: give a value for {', '.join(missing)}")
        given = {**self.run_defaults(machine), **SIZES, **workload.sizes, **(run or {})}
        for name, value in given.items():
            if name not in known:
                raise unknown_name("number of a training run:", f"run.{name}", sorted(f"run.{one}" for one in known))
            check_run_number(name, value)
        batch, length, precision = int(given["batch"]), int(given["seq_len"]), workload.precision
        made = TrainedBatch(
            workload.model, machine, batch, length, precision, software_of(machine), self.known, given.get(INPUT_RATE)
        )
        factors = np.log([self.compute, self.network, self.stragglers])
        return (replace(made, terms=moved(made.fitted, factors)) if factors.any() else made), layout_of(given)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """Seconds of a step and what else training gives; see `of_run`.

        Raises
        ------
        InputError
            As `of_run`, and where model, batch and devices do not divide so.
        """
        made, layout = self.of_run(workload, machine, run)
        return answer_of(made.under(layout)).about(self.quantity)

    def also_reads(self, workload: Workload, machine: Machine) -> set[str]:
        """The sizes, and the layout among the numbers of the run."""
        return {*(f"workload.{name}" for name in SIZES), *(f"run.{name}" for name in self.run_names(workload, machine))}

    def reads(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> dict[str, float]:
        """Quantities by their names with their values (SI): what a step reads of the machine, and the parameters."""
        made, layout = self.of_run(workload, machine, run)
        main = machine.main_memory
        names = {*machine.bandwidth_factors(main), *machine.peak_factors("matrix", PRECISIONS[made.precision])}
        names |= {*machine.peak_factors("matrix", "bfloat16"), f"memory.{main}.capacity"}
        if layout.devices > 1:
            names |= {f"links.{name}.bandwidth" for name in machine.links if name not in ("infeed", "host")}
        if machine.power.cap is not None:
            names.add("power.cap")
        numbers = {name: machine.get(name) for name in names}
        return {
            **{f"machine.{name}": float(number) for name, number in numbers.items() if number is not None},
            **({f"run.{INPUT_RATE}": made.input_rate} if made.input_rate is not None else {}),
            **{f"estimator.{name}": value for name, (value, _) in parameters(self).items()},
        }


@dataclass(frozen=True)
class MeasuredTraining:
    """Steps of training that were measured on the machine: they calibrate the terms of the law."""

    steps: tuple[UpdatedStep, ...]

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The law of a training step (seconds) as these steps move it, which ran on the machine as it stands.

        Raises
        ------
        InputError
            Where the workload is no training of a language model.
        """
        if not isinstance(instead_of, TrainingEstimator):
            raise InputError(
                f"measured steps are of training a language model, {workload.name} is not: want train:NAME"
            )
        made, _ = instead_of.of_run(workload, machine, run)
        steps = (filled(one, made.batch, made.sequence, made.precision, machine) for one in self.steps)
        return replace(instead_of, known=tuple(steps))


def software_of(machine: Machine) -> str:
    """What trains on a machine: its runtime's library where that is one of `SOFTWARE`; "" where none was set.

    Raises
    ------
    InputError
        Where another library was set.
    """
    library = machine.runtime.library
    try:
        return " ".join(named_software(library)).strip()
    except InputError:
        if library != machine.stated.runtime.library:
            raise
    return UNNAMED


def layout_of(run: Mapping[str, float]) -> TrainingLayout:
    """The layout that the numbers of a run describe.

    Raises
    ------
    InputError
        Where a number is out of its range.
    """
    words: tuple[Recompute, ...] = ("none", "selective", "full")
    for name, most in (("shard", 4), ("recompute", len(RECOMPUTE))):
        if run[name] not in range(1, most + 1):
            raise InputError(f"run.{name} = {run[name]:g}: want a whole number from 1 to {most}")
    degrees = {inside: int(run[name]) for name, inside in DEGREES.items()}
    return TrainingLayout(**degrees, shard=int(run["shard"]) - 1, recompute=words[int(run["recompute"]) - 1])


def answer_of(step: TrainingStepAnswer) -> Estimate:
    """A step as an answer: its time, and what devices give, hold and draw, each with its 80 % band."""
    layout = step.layout
    return Estimate(
        step.seconds,
        parts=tuple(
            OperationTime(name, WORDS[name], seconds) for name, seconds in step.time.parts.items() if seconds > 0
        ),
        rule="sum of parts",
        spread=Spread(residual=step.half / quantile(DEFAULT_LEVEL, None)),
        assumptions=tuple(_assumptions(step)),
        others=tuple(_others(step)),
        head="time",
        band=step.band,
        devices=layout.devices,
        conditions=step.conditions,
        doubts=step.of.fit.doubts if step.of.fit else (),
    )


def _assumptions(step: TrainingStepAnswer) -> list[str]:
    made, layout, memory = step.of, step.layout, step.memory
    fits = fit_of(step.stages, made.capacity)
    band = f"{memory.low / 1e9:.3g} .. {memory.high / 1e9:.3g} GB"
    lines = [
        f"{layout.text()}: {made.batch:,} sequences of {made.sequence:,} tokens in {made.precision}",
        f"{memory.counted.total / 1e9:.3g} GB ({band}) of {made.capacity / 1e9:.4g} GB a device: "
        f"{fits.upper() if fits == FITS[-1] else fits}",
        *filter(None, [step.held, made.model.stands_for]),
        *made.outside(layout.devices),
        SOURCE,
        "power and cost are those of all devices, without hosts, switches and cooling",
    ]
    if layout.devices > step.joined:
        lines.append(
            f"the links of {made.machine.name} join {step.joined} devices; beyond, the last link's rate is kept"
        )
    return lines + ([known_text(made.fit)] if made.fit else [])


def _others(step: TrainingStepAnswer) -> list[Quantity]:
    """Everything but the time."""
    made, memory, seconds = step.of, step.memory, step.seconds
    fast, slow = (seconds / end for end in step.band)
    whole = " of all devices" if step.layout.devices > 1 else ""
    fits = fit_of(step.stages, made.capacity)

    def as_rate(name: str, value: float, unit: str, meaning: str) -> Quantity:
        return Quantity(name, value, unit, value * slow, value * fast, "more", meaning)

    result = [
        as_rate("tokens", step.tokens, "tokens/s", f"tokens/s{whole}"),
        as_rate("mfu", step.mfu, "1", f"model flop over the {made.precision} peak of {shown(made.peak, 'FLOP/s')}"),
    ]
    ends = (memory.low, memory.high)
    held = memory.counted.total
    meaning = f"of the fullest device: {fits} in {made.capacity / 1e9:.4g} GB"
    result.append(Quantity("memory", held, "byte", min(ends[0], held), max(ends[1], held), meaning=meaning))
    if step.power is not None and step.watts is not None:
        watts, least, most = step.power
        both = math.exp(math.hypot(step.half, math.log(step.watts[1])))
        joules = watts / step.tokens
        result.append(Quantity("power", watts, "W", least, most, meaning=f"mean power{whole}"))
        ends = (
            joules / both,
            max(joules, min(joules * both, most / (step.tokens * slow))),
        )  # at the cap and the lowest pace at most
        result.append(Quantity("energy", joules, "J/token", *ends, meaning="energy of a token"))
    if made.machine.price is not None:
        dollars = made.machine.price * step.layout.devices / 3600 / step.tokens * 1e6
        ends = (dollars / fast, dollars / slow)
        result.append(Quantity("cost", dollars, "$/Mtoken", *ends, meaning="cost of a million tokens"))
    return result
