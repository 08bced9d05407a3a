"""The text of a serving question and the objects it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slipstick.estimators.schedule.serving.requests import recorded
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.experiments.serve.oracle import Deployment
from slipstick.experiments.serve.traffic import Traffic
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import WEIGHT_TYPES
from slipstick.workloads.language_catalog import language_model

_PREEMPTIONS: Mapping[str, Literal["cached", "recompute", "swap"]] = {
    "cached": "cached",
    "recompute": "recompute",
    "swap": "swap",
}
_SPELLINGS = {
    "f16": "fp16",
    "f32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8": "fp8",
    "float32": "fp32",
    "fp4": "nvfp4",
}


@dataclass(frozen=True)
class Wanted:
    """What the options of a command say; None where they say nothing.

    `changes` are numbers of the machine by dotted name ("memory.HBM3.bandwidth": "4 TB/s").
    `tensor`, `pipeline`, `data`, `expert` and `replicas` are degrees; `devices` counts all devices.
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
    engine: str = "vllm"
    token_budget: int = 8192
    max_sequences: int = 256
    mixing: str | None = None
    preemption: str = "cached"
    changes: Mapping[str, str | float] = field(default_factory=dict)

    def deployment(self) -> Deployment:
        """The model on the machine.

        Raises
        ------
        InputError
            Where a name is unknown, or the degrees do not multiply to the devices.
        """
        model = language_model(self.model)
        layout = self._layout(model)
        layout.check(model)
        mixing = self.mixing or ("separate" if self.engine.lower().startswith("sglang") else "mixed")
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
        at = machine(self.machine)
        if self.changes:
            at = at.using(dict(self.changes))
        return Deployment(model, at, layout, stored, self.cache_type, self.engine, rules=rules)

    def _layout(self, model: LanguageModel) -> Layout:
        others = self.pipeline * self.data * self.replicas
        tensor = self.tensor
        if tensor is None:
            devices = self.devices or others
            if devices % others:
                raise InputError(f"--gpus {devices}: want a multiple of pipeline x data x replicas = {others}")
            tensor = devices // others
        made = Layout(tensor, self.pipeline, self.data, self.expert or 1, self.replicas)
        if self.devices is not None and made.devices != self.devices:
            raise InputError(f"--gpus {self.devices}, but {made.text()} takes {made.devices}")
        return made


def stored_as(model: LanguageModel, dtype: str | None) -> str:
    """The type of weights by the words of a user; None: as the model's file says.

    4-bit weights of a model with experts leave attention in bfloat16 and 8-bit ones have scales by blocks, as published
    checkpoints do; "mxfp4" is that
    of gpt-oss where there are experts and of all layers where there are none.

    Raises
    ------
    InputError
        Where the type is unknown.
    """
    if dtype is None:
        return model.weights
    name = _SPELLINGS.get(dtype.lower(), dtype.lower())
    if name == "fp8" and model.experts:
        return "fp8_block"
    if name == "nvfp4" and model.experts:
        return "mxfp4" if model.weights == "mxfp4" else "nvfp4_experts"
    if name == "mxfp4" and not model.experts:
        return "mxfp4_dense"
    if name not in WEIGHT_TYPES and not name.startswith("bits "):
        raise unknown_name("type of weights", dtype, sorted(WEIGHT_TYPES))
    return name


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
