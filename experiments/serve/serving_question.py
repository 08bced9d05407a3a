"""The text of a serving question and the objects it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from slipstick.estimators.named.machine_kind import machine_kind
from slipstick.estimators.named.serving.deployment import Deployment
from slipstick.estimators.operation.serving.known_steps import server_on
from slipstick.estimators.operation.serving.measured_steps import TimedServerStep, engine_of_steps
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout, padded
from slipstick.workloads.language.weight_types import stored_as
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.requests import recorded
from slipstick.workloads.runs.traffic import Traffic

_PREEMPTIONS: Mapping[str, Literal["cached", "recompute", "swap"]] = {
    "cached": "cached",
    "recompute": "recompute",
    "swap": "swap",
}


@dataclass(frozen=True)
class Wanted:
    """What the options of a command say; None where they say nothing.

    `changes` are numbers of the machine by dotted name ("memory.HBM3.bandwidth": "4 TB/s").
    `tensor`, `pipeline`, `data`, `expert` and `replicas` are degrees; `devices` counts all devices. `known` is a CSV of
    steps measured on the machine as it stands (`read_measured_steps`), `steps` are more of these.
    """

    model: str
    machine: str
    devices: int | None = None
    tensor: int | None = None
    pipeline: int = 1
    data: int = 1
    expert: int | None = None
    replicas: int = 1
    dtype: str | None = None
    cache_type: str = "bf16"
    engine: str = ""
    token_budget: int = 8192
    max_sequences: int = 256
    mixing: str | None = None
    preemption: str = "cached"
    changes: Mapping[str, str | float] = field(default_factory=dict)
    known: str | None = None
    steps: tuple[TimedServerStep, ...] = ()

    def deployment(self) -> Deployment:
        """The model on the machine.

        Raises
        ------
        InputError
            Where a name is unknown, or the degrees do not multiply to the devices.
        """
        model = language_model(self.model)
        layout = self._layout(model)
        at = machine(self.machine)
        known = (*known_steps(self.known, at, self.engine), *self.steps)
        if self.changes:
            at = at.using(dict(self.changes))
        if machine_kind(at) != "gpu":  # engines on GPUs refuse heads that do not divide
            model = padded(model, layout.tensor)
        layout.check(model)
        engine = self.engine or engine_of_steps(known) or server_on(at)
        mixing = self.mixing or ("separate" if engine.lower().startswith("sglang") else "mixed")
        if mixing not in ("mixed", "separate"):
            raise unknown_name("way of mixing prompts and decodes", mixing, ("mixed", "separate"))
        if self.preemption not in _PREEMPTIONS:
            raise unknown_name("preemption", self.preemption, sorted(_PREEMPTIONS))
        rules = Scheduler(
            self.token_budget,
            self.max_sequences,
            mixing="separate" if mixing == "separate" else "mixed",
            preemption=_PREEMPTIONS[self.preemption],
        )
        stored = stored_as(model, self.dtype)
        return Deployment(model, at, layout, stored, self.cache_type, engine, rules=rules, known=known)

    def _layout(self, model: LanguageModel) -> Layout:
        others = self.pipeline * self.data * self.replicas
        tensor = self.tensor
        if tensor is None:
            devices = self.devices or others
            if devices % others:
                raise InputError(f"--devices {devices}: want a multiple of pipeline x data x replicas = {others}")
            tensor = devices // others
        made = Layout(tensor, self.pipeline, self.data, self.expert or 1, self.replicas)
        if self.devices is not None and made.devices != self.devices:
            raise InputError(f"--devices {self.devices}, but {made.text()} takes {made.devices}")
        return made


def known_steps(path: str | None, machine: Machine, engine: str = "") -> tuple[TimedServerStep, ...]:
    """Steps measured on a machine, from their CSV; none without a file."""
    if path is None:
        return ()
    if "=" in path and not Path(path).exists():
        raise InputError(f"--known: not used: MODEL:TYPE=TOKENS_PER_S is for llama.cpp, not {engine or 'a server'}")
    from slipstick.experiments.calibrate.measured_steps import read_measured_steps

    return read_measured_steps(path, machine, engine)


def traffic(
    *,
    input_tokens: int,
    output_tokens: int,
    users: int | None,
    rate: float | None,
    requests: str | None,
    burstiness: float = 1.0,
    spread: float = 0.2,
    prefix: float = 0.0,
    count: int | None = None,
    seed: int = 0,
) -> Traffic:
    """The traffic that options describe: lengths in tokens, `rate` in requests a second, spread and prefix shares."""
    given = recorded(requests) if requests else ()
    return Traffic(input_tokens, output_tokens, users, rate, burstiness, spread, prefix, count, seed, given)
