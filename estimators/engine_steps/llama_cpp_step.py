"""One sequence on one device, as llama.cpp runs it: seconds of a new token and of a prompt's.

A new token reads every weight once, and the cache of its context: bytes over bandwidth, arithmetic that unpacks and
multiplies on the plain units, a number of clock cycles for each layer and for the token. Tokens of a prompt share what
is read and are bound by arithmetic, but for routed experts: a batch of 512 tokens visits nearly all of them, with few
tokens each. One law of both, with effects of the backend, of the program (llama.cpp or llamafile), of the way weights
are stored and of the machine's generation and chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.smooth_max import largest
from slipstick.estimators.engine_steps.step_amounts import SHORT_CONTEXT, Amounts, Batch, Shares
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.group_effects_model import SOURCE, Columns, FloatArray, Grouping, ParameterPrior
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.parameters import Parameter, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import WeightType

_Numbers: TypeAlias = Any
UNKNOWN = "not given"
"""The release of a program that is meant where none is given: one that was not measured."""
PROMPT_BATCH = 512.0
"""Tokens of a prompt that pass the layers together (llama.cpp's `--ubatch-size`)."""
CACHE = f"a token reads the cache of its context, beyond {SHORT_CONTEXT:,.0f} tokens at the rate of weights"
"""What an answer takes for granted: no run of the fit has a longer context."""


@dataclass(frozen=True)
class LocalParameters:
    """What is fitted; the defaults are expected before any row.

    Round numbers: memory is read at 0.75 of its rate; a weight costs about two plain operations to unpack; a layer is
    five to ten small kernels; prompts reach half of the matrix engines' peak and are unpacked at the plain rate;
    experts that get few tokens each are read at half of the memory's rate.
    """

    weights: Annotated[float, Parameter("1", "time of reading weights over bytes / bandwidth", 1.0, 10.0)] = 1.3
    layer: Annotated[float, Parameter("s", "of a layer that no bytes explain, at 1.9 GHz", 1e-7, 1e-2)] = 15e-6
    arithmetic: Annotated[float, Parameter("1", "time over flop / plain peak, of a new token", 0.01, 50.0)] = 2.0
    token: Annotated[float, Parameter("s", "of a new token, whatever the model, at 1.9 GHz", 1e-6, 0.1)] = 2e-4
    prompt_matrix: Annotated[float, Parameter("1", "time over flop / matrix peak, of a prompt", 1.0, 100.0)] = 2.0
    prompt_plain: Annotated[float, Parameter("1", "time over flop / plain peak, of a prompt", 0.01, 100.0)] = 0.5
    prompt_token: Annotated[float, Parameter("s", "of a prompt's token, whatever the model", 1e-7, 0.1)] = 30e-6
    prompt_experts: Annotated[
        float, Parameter("1", "time over bytes / bandwidth of experts, once a batch of a prompt", 0.01, 100.0)
    ] = 2.0
    generating: Annotated[float, Parameter("1", "of a new token, all of it", 0.05, 20.0)] = 1.0
    prompting: Annotated[float, Parameter("1", "of a prompt's token, all of it", 0.05, 20.0)] = 1.0

    def generation(self, memory: _Numbers, layers: _Numbers, plain: _Numbers, pace: _Numbers) -> _Numbers:
        """Seconds of a new token, from seconds of its bytes and of its flop at the data sheet's rates; never below.

        `pace` is `STEP_CLOCK` over the machine's clock.
        """
        made = self.weights * memory + self.arithmetic * plain + pace * (self.layer * layers + self.token)
        return largest(self.generating * made, memory)

    def reading(self, beyond: _Numbers) -> _Numbers:
        """Seconds of reading a longer cache than the fit's, at the rate of weights; never below the data sheet's."""
        return largest(self.generating, 1.0) * self.weights * beyond

    def prompt(self, matrix: _Numbers, plain: _Numbers, experts: _Numbers) -> _Numbers:
        """Seconds of one token of a prompt; never below the peak of the matrix engines."""
        made = self.prompt_matrix * matrix + self.prompt_plain * plain + self.prompt_experts * experts
        made = made + self.prompt_token
        return largest(self.prompting * made, matrix)


_WIDTHS = {"backend": 0.3, "program": 0.2, "release": 0.15, "stored": 0.2, "generation": 0.15, "chip": 0.15}
LEVELS = tuple(Grouping(name, width) for name, width in _WIDTHS.items())
VARY = {
    "weights": ("backend",), "layer": ("backend", "program"), "arithmetic": ("backend", "stored"),
    "token": ("backend", "program"), "prompt_matrix": ("backend", "program"), "prompt_plain": ("backend", "stored"),
    "prompt_token": ("backend", "program"), "prompt_experts": ("backend",),
    "generating": ("program", "release", "generation", "chip"),
    "prompting": ("program", "release", "generation", "chip"),
}  # fmt: skip
SHARE, TIME = 0.4, 0.8
"""Log standard deviations that are expected: of shares of the data sheet's rates, and of fixed times."""
GENERATING, PROMPTING = "generation", "prompts"
_OF_PROMPTS = "prompt"
"""Parameters of prompts begin so."""


def _priors(phase: str) -> tuple[ParameterPrior, ...]:
    made = []
    for name, (value, note) in parameters(LocalParameters()).items():
        if name.startswith(_OF_PROMPTS) != (phase == PROMPTING):
            continue
        kind = "time" if note.unit == "s" else "share"
        width = 0.0 if name in ("generating", "prompting") else TIME if kind == "time" else SHARE
        made.append(ParameterPrior(name, note.unit, note.meaning, value, width, note.low, note.high, kind, VARY[name]))
    return tuple(made)


CONFIGURATION = {GENERATING: ("generating", "chip"), PROMPTING: ("prompting", "chip")}
"""What takes the error that all tokens of a phase on one machine share."""
COLUMNS = ("memory", "layers", "plain", "matrix", "experts", "pace")
"""Of one token: seconds of bytes, layers, seconds of flop on plain units and matrix engines, of a prompt's experts; and
what latencies are multiplied by."""


@dataclass(frozen=True)
class TokenLaw:
    """Seconds of a new token."""

    name: str = GENERATING
    parameters: Sequence[ParameterPrior] = _priors(GENERATING)
    levels: Sequence[Grouping] = LEVELS

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        values: dict[str, Any] = dict(parameters)
        made = LocalParameters(**values).generation(*(columns[name] for name in ("memory", "layers", "plain", "pace")))
        return np.asarray(made, dtype=float)


@dataclass(frozen=True)
class PromptLaw:
    """Seconds of one token of a prompt."""

    name: str = PROMPTING
    parameters: Sequence[ParameterPrior] = _priors(PROMPTING)
    levels: Sequence[Grouping] = LEVELS

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        values: dict[str, Any] = dict(parameters)
        return np.asarray(LocalParameters(**values).prompt(columns["matrix"], columns["plain"], columns["experts"]))


LAWS: Mapping[str, TokenLaw | PromptLaw] = {GENERATING: TokenLaw(), PROMPTING: PromptLaw()}
CPUS = ("amd-zen", "arm-neoverse", "cavium", "fujitsu", "intel")
"""Families of processors; Intel's GPUs and accelerators are told apart by their own names."""
NO_CPUS = ("intel-xe-", "intel-xe2", "intel-gaudi", "intel-knights-corner")


CPU = "cpu"
"""The backend of processors."""


def backend_of(family: str) -> str:
    """The llama.cpp backend of machines of a family; "vulkan" where none of its own is known."""
    heads = {
        "nvidia": "cuda",
        "apple": "metal",
        "amd-rdna": "rocm",
        "amd-cdna": "rocm",
        "amd-gcn": "rocm",
        "amd-vega": "rocm",
    }
    if family.startswith(CPUS) and not family.startswith(NO_CPUS):
        return CPU
    return next((backend for head, backend in heads.items() if family.startswith(head)), "vulkan")


def local_groups(
    family: str, chip: str, stored: str, program: str, release: str = UNKNOWN, backend: str = ""
) -> dict[str, str]:
    """The groups of a run on a chip of a family: backend, program, its release, type of weights, generation, chip.

    `backend`: that ran; "" for the one of the family.
    """
    return {
        "backend": backend or backend_of(family), "program": program, "release": release, "stored": stored,
        "generation": generation_of(family), "chip": chip, SOURCE: program,
    }  # fmt: skip


@dataclass(frozen=True)
class LocalWork:
    """What one token needs of a machine at its data sheet's rates: seconds of bytes, of plain and of matrix flop.

    `memory` is of the weights, `beyond` of the cache beyond its first 1,024 tokens (`SHORT_CONTEXT`), `least` of the
    weights and all of the cache; `experts` of those that a batch of a prompt visits, a token's share. `pace` is
    `STEP_CLOCK` over the machine's clock: kernels of few bytes wait for latencies, which are a number of cycles.
    """

    memory: float
    layers: float
    plain: float
    matrix: float
    beyond: float
    least: float
    experts: float = 0.0
    pace: float = 1.0

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        kind: WeightType,
        machine: Machine,
        share: float = 1.0,
        prompt_tokens: float = 0.0,
        context: float = 0.0,
    ) -> LocalWork:
        """Of a model stored in one way; `share` of the machine's cores compute, `context` tokens are in the cache.

        Raises InputError where the machine states no plain rate, or none of products.
        """
        shares, n = Shares(model, Layout(), kind), prompt_tokens
        prompt = shares.amounts(Batch(prompt=n, chunk=n))
        scores = prompt.score_flop / n if n else 0.0
        made = shares.amounts(Batch(decodes=1.0, context=context))
        short = shares.amounts(Batch(decodes=1.0, context=min(context, SHORT_CONTEXT)))
        beyond = made.cache_bytes - short.cache_bytes
        one = cls.of_amounts(made._replace(score_flop=scores), model.layers, machine, beyond)
        read = prompt.expert_bytes / machine.bandwidth(machine.main_memory) * _shared(n) if n else 0.0
        return replace(one, plain=one.plain / share, matrix=one.matrix / share, experts=read)

    @classmethod
    def of_amounts(cls, amounts: Amounts, layers: _Numbers, machine: Machine, beyond: _Numbers = 0.0) -> LocalWork:
        """Of the amounts of a step, of whose cache so many bytes are `beyond` the first tokens.

        Raises InputError where the machine states no plain rate, or none of products.
        """
        unit, narrow, counted = product_type(machine)
        bandwidth, plain = machine.bandwidth(machine.main_memory), machine.peak("vector", plain_type(machine))
        rates = bandwidth, plain, counted * machine.peak(unit, narrow)
        return cls.at(amounts, layers, *rates, beyond, STEP_CLOCK / machine.clock)

    @classmethod
    def at(
        cls,
        amounts: Amounts,
        layers: _Numbers,
        bandwidth: Any,
        plain: Any,
        matrix: Any,
        beyond: _Numbers = 0.0,
        pace: _Numbers = 1.0,
    ) -> LocalWork:
        """At rates in bytes/s and flop/s, numbers or expressions; attention's products run on the matrix engines."""
        flop = amounts.linear_flop + amounts.expert_flop + amounts.head_flop
        weights = amounts.weight_bytes + amounts.expert_bytes
        least, products = (weights + amounts.cache_bytes) / bandwidth, (flop + amounts.score_flop) / matrix
        experts = amounts.expert_bytes / bandwidth
        return cls(weights / bandwidth, layers, flop / plain, products, beyond / bandwidth, least, experts, pace)

    def token_seconds(self, fitted: Any) -> Any:
        """Seconds of a new token by fitted numbers (`LocalParameters` or symbols of that name); never below `least`."""
        made = LocalParameters.generation(fitted, self.memory, self.layers, self.plain, self.pace)
        return largest(made + LocalParameters.reading(fitted, self.beyond), self.least)

    def per_token(self, amounts: Amounts) -> LocalWork:
        """Of one token of a prompt, each taken to pass the head as in the fit, where this is all of the prompt."""
        a = amounts
        flop = a.linear_flop + a.expert_flop + a.head_flop
        layers, scores = (a.linear_flop + a.expert_flop) / a.tokens, a.score_flop / a.tokens
        plain = self.plain * (layers + a.head_flop) / flop
        matrix = self.matrix * (layers + a.head_flop + scores) / (flop + a.score_flop)
        return replace(self, plain=plain, matrix=matrix, experts=self.experts * _shared(a.tokens))

    def columns(self) -> dict[str, FloatArray]:
        """What the laws read of it."""
        values = (self.memory, self.layers, self.plain, self.matrix, self.experts, self.pace)
        return {name: np.array([float(value)]) for name, value in zip(COLUMNS, values, strict=True)}


def _shared(tokens: _Numbers) -> _Numbers:
    """A token's share of what its batch reads, in a prompt of so many."""
    return largest(1 / tokens, 1 / PROMPT_BATCH)


COUNTED = {"float16": 1.0, "bfloat16": 1.0, "float32": 1.0, "int8": 0.5}
"""What each rate of products counts for: llama.cpp adds 16-bit products up in 16 bits, which tensor cores do at half of
their int8 rate (GeForce states half of that again, for sums in 32 bits), and multiplies quantised weights as int8."""
ON_CPUS = 2.0
"""What a processor's FP32 rate counts for: its vector units multiply int8 four to a lane, of which half counts too."""


def plain_type(machine: Machine) -> str:
    """The type of plain arithmetic on the vector units.

    Raises InputError where the machine states no such rate.
    """
    vector = machine.engines["vector"].flop_per_cycle if "vector" in machine.engines else {}
    plain = next((name for name in ("float32", "float16") if name in vector), None)
    if plain is None:
        raise InputError(f"machine {machine.name!r}: engines.vector has no float32 or float16 rate")
    return plain


def product_type(machine: Machine) -> tuple[str, str, float]:
    """The engine and type of a prompt's products, and the share of that rate that counts: the fastest (`COUNTED`).

    Raises InputError where the machine states no such rate.
    """
    stated = [
        (rate * COUNTED[name], unit, name)
        for unit, engine in machine.engines.items()
        for name, rate in engine.flop_per_cycle.items()
        if name in COUNTED
    ]
    if not stated:
        raise InputError(f"machine {machine.name!r}: no engine has a rate of {', '.join(COUNTED)}")
    _, unit, name = max(stated, key=lambda one: (one[0], one[1] == "matrix", -list(COUNTED).index(one[2])))
    return unit, name, ON_CPUS if backend_of(machine.family) == CPU and name == "float32" else COUNTED[name]
