"""A plan of training by names and files, as notebooks ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.power.facility import Facility, price_text
from slipstick.estimators.training.training_estimator import answer_of
from slipstick.estimators.training.training_step_answer import INPUT, TrainedBatch
from slipstick.experiments.calibrate.measured_training import read_known
from slipstick.experiments.methods.training_plan.training_choice import TrainingPlan
from slipstick.experiments.methods.training_plan.training_search import TrainingSearch
from slipstick.experiments.methods.training_plan.whole_run import WholeRun, tokens_of
from slipstick.experiments.question.settings import HEAD, Value, machine_changes
from slipstick.experiments.question.unused_inputs import BOUNDED, AnswerNumbers, unused_of
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language_catalog import language_model


def examined_plan(plan: TrainingPlan, trained: TrainedBatch, changes: Mapping[str, str | float]) -> TrainingPlan:
    """The plan with what of the machine was set, what of that its best step does not read, and an input with no say.

    `changes`: fields of the machine with their values, in SI or with units.
    """
    if trained.input_rate is not None and not plan.best[0].time.parts[INPUT]:
        plan = replace(plan, given=(Condition("input_rate", f"{trained.input_rate:g}", "given", BOUNDED),))
    if not changes:
        return plan

    def numbers(given: Mapping[str, Value]) -> AnswerNumbers:
        at = trained.machine.stated.using({name.removeprefix(HEAD): value for name, value in given.items()})
        return AnswerNumbers.of_estimate(answer_of(replace(trained, machine=at).under(plan.best[0].layout)))

    given = {f"{HEAD}{name}": value for name, value in changes.items()}
    unused, conditions = unused_of(given, numbers, trained.machine)
    return replace(plan, given=(*plan.given, *conditions), not_used=unused)


@checked
def plan_training(
    model: str,
    machine: str | Machine,
    *,
    devices: int,
    batch: int,
    seq_len: int = 8192,
    dtype: str = "bf16",
    trainer: str = "",
    measured: str | None = None,
    rows: int = 8,
    input_rate: float | None = None,
    tokens: str | float | None = None,
    settings: Mapping[str, str | float] | Sequence[str] = (),
    host_power: float = 0.0,
    pue: float = 1.0,
    grid_intensity: float = 0.0,
) -> TrainingPlan:
    """The fastest layouts of training on at most `devices` devices.

    Parameters
    ----------
    model
        A config.json, or a name (llama-3.1-70b).
    machine
        One with links to the others: a name, a YAML file, or the record.
    batch, seq_len
        Sequences of a step, tokens of one.
    dtype
        Of the layers' products: bf16, fp8, mxfp8, nvfp4.
    trainer
        megatron, fsdp (weights sharded over data ranks alone) or another of `SOFTWARE`, with a release if need be
        ("megatron 26.02"); "" where it is not known: the mean of those measured, with what they differ by in the band.
    measured
        A CSV of measured steps of this run, which calibrate the terms (see `read_known`).
    rows
        Layouts to list.
    input_rate
        Sequences a second that storage and hosts hand to the whole job; None: no limit.
    tokens
        Of the whole run (1e12, "1T"): rows have its days, and its dollars where the machine has a price.
    settings
        Numbers of the machine that are not the default ({"machine.clock": "1.2 GHz"}).
    host_power, pue
        Watts of the host for each device, and the power of the building over that of its computers.
    grid_intensity
        Grams of CO2-equivalent that the grid emits for a kilowatt-hour.

    Raises
    ------
    InputError
        Where a name is unknown, the CSV is broken, or no layout fits.

    Examples
    --------
    >>> import slipstick as ss
    >>> plan = ss.plan_training("llama-3.1-8b", "h100-dgx", devices=64, batch=128)
    >>> plan.bound < min(choice.time.seconds for choice in plan.best)
    True
    """
    changes, base = machine_changes(settings), machine_by_name(machine) if isinstance(machine, str) else machine
    steps = tuple(
        replace(one, machine=base) for one in (read_known(measured, batch, seq_len, dtype) if measured else ())
    )
    at = base.using(changes)
    trained = TrainedBatch(language_model(model), at, batch, seq_len, dtype, trainer, steps, input_rate)
    run = WholeRun(tokens_of(str(tokens)), at.price) if tokens is not None else WholeRun()
    plan = examined_plan(TrainingSearch(trained, devices).run(rows), trained, changes)
    return replace(plan, facility=Facility(host_power, pue, grid_intensity), price=price_text(at), run=run)
