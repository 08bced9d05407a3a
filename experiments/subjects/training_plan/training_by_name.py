"""A plan of training by names and files, as notebooks ask for it."""

from __future__ import annotations

from slipstick.experiments.subjects.training_plan.known_runs import read_known
from slipstick.experiments.subjects.training_plan.training_choice import TrainingPlan
from slipstick.experiments.subjects.training_plan.training_search import TrainingSearch
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language_catalog import language_model


def plan_training(
    model: str,
    machine: str | Machine,
    *,
    devices: int,
    batch: int,
    sequence: int = 8192,
    precision: str = "bf16",
    software: str = "megatron",
    known: str | None = None,
    best: int = 8,
    input_rate: float | None = None,
) -> TrainingPlan:
    """The fastest layouts of training on at most `devices` devices.

    Parameters
    ----------
    model
        A config.json, or a name (llama-3.1-70b).
    machine
        One with links to the others: a name, a YAML file, or the record.
    batch, sequence
        Sequences of a step, tokens of one.
    precision
        Of the layers' products: bf16, fp8, mxfp8, nvfp4.
    software
        megatron, or fsdp: weights sharded over data ranks alone.
    known
        A CSV of measured steps of this run, which calibrate the terms (see `read_known`).
    best
        Layouts to list.
    input_rate
        Sequences a second that storage and hosts hand to the whole job; None: no limit.

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
    steps = tuple(read_known(known, batch, sequence, precision)) if known else ()
    return TrainingSearch(
        language_model(model),
        machine_by_name(machine) if isinstance(machine, str) else machine,
        devices,
        batch,
        sequence,
        precision,
        software,
        steps,
        input_rate,
    ).run(best)
