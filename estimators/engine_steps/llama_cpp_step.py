"""One sequence on one device, as llama.cpp runs it: seconds of a new token and of a prompt's.

A new token reads every weight once, and the cache of its context: bytes over bandwidth, of which machines of one kind
of memory reach alike shares and routed experts their own; arithmetic that unpacks and multiplies on the plain units; a
number of clock cycles for each layer and for the token. Tokens of a prompt pass the
layers in batches that share what is read and unpacked; their products take matrix engines and the cores that feed
them, and attention takes its own share. Both laws have effects of the backend, of the program (llama.cpp or llamafile)
and its release, of the way weights are stored and of the machine's generation and chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.smooth_max import largest
from slipstick.estimators.engine_steps.step_amounts import SHORT_CONTEXT, Amounts, Batch, Shares
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.fitted_model import SOURCE, Columns, FormulaLaw, Grouping, ParameterPrior
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.formula import Parameter, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import WeightType

_Numbers: TypeAlias = Any
UNKNOWN = "not given"
"""The release of a program that is meant where none is given: one that was not measured."""
PROMPT_BATCH, TILE = 512.0, 128.0
"""Tokens of a prompt that pass the layers together (llama.cpp's `--ubatch-size`), and that share an unpacked weight."""
LANE_FLOP = 256.0
"""Flop a cycle of a core's 128 lanes."""
CACHE = f"a token reads the cache of its context, beyond {SHORT_CONTEXT:,.0f} tokens at the rate of weights"
"""What an answer takes for granted: no run of the fit has a longer context."""


@dataclass(frozen=True)
class LocalParameters:
    """What is fitted; the defaults are expected before any row.

    Round numbers: memory is read at 0.75 of its rate; a weight costs about two plain operations to unpack; a layer is
    five to ten small kernels; products of a prompt take what its data sheet says of the matrix engines, and half of
    what the cores' lanes would take; a byte is unpacked in eight operations; attention reaches a quarter of the peak.
    """

    weights: Annotated[float, Parameter("1", "time of reading weights over bytes / bandwidth", 1.0, 10.0)] = 1.3
    layer: Annotated[float, Parameter("s", "of a layer that no bytes explain, at 1.9 GHz", 1e-7, 1e-2)] = 15e-6
    arithmetic: Annotated[float, Parameter("1", "time over flop / plain peak, of a new token", 0.01, 50.0)] = 2.0
    token: Annotated[float, Parameter("s", "of a new token, whatever the model, at 1.9 GHz", 1e-6, 0.1)] = 2e-4
    prompt_matrix: Annotated[float, Parameter("1", "time over flop / matrix peak, of products", 0.01, 100.0)] = 1.2
    prompt_cores: Annotated[float, Parameter("1", "time over flop / rate of the cores' lanes", 0.001, 100.0)] = 0.5
    prompt_unpacking: Annotated[float, Parameter("1", "operations of a lane a byte that is unpacked", 0.01, 1e3)] = 8.0
    prompt_scores: Annotated[float, Parameter("1", "time over flop / matrix peak, of attention", 0.01, 1e3)] = 4.0
    prompt_reading: Annotated[float, Parameter("1", "time over bytes / bandwidth of weights, a batch", 0.1, 100.0)] = (
        1.3
    )
    prompt_layer: Annotated[float, Parameter("s", "of a layer and batch of a prompt, at 1.9 GHz", 1e-7, 1e-1)] = 1e-4
    routed: Annotated[float, Parameter("1", "time of reading routed experts over that of others", 0.5, 10.0)] = 1.0
    generating: Annotated[float, Parameter("1", "of a new token, all of it", 0.05, 20.0)] = 1.0
    prompting: Annotated[float, Parameter("1", "of a prompt's token, all of it", 0.05, 20.0)] = 1.0

    def generation(
        self, memory: _Numbers, layers: _Numbers, plain: _Numbers, pace: _Numbers, experts: _Numbers = 0.0
    ) -> _Numbers:
        """Seconds of a new token, from seconds of its bytes and of its flop at the data sheet's rates; never below.

        `pace` is `STEP_CLOCK` over the machine's clock; `experts` are those of `memory` that read routed experts.
        """
        read = self.weights * (memory + (self.routed - 1) * experts)
        made = read + self.arithmetic * plain + pace * (self.layer * layers + self.token)
        return largest(self.generating * made, memory)

    def reading(self, beyond: _Numbers) -> _Numbers:
        """Seconds of reading a longer cache than the fit's, at the rate of weights; never below the data sheet's."""
        return largest(self.generating, 1.0) * self.weights * beyond

    def prompt(self, work: PromptWork) -> _Numbers:
        """Seconds of one token of a prompt; never below the peak of the matrix engines."""
        made = self.prompt_matrix * work.products + self.prompt_cores * work.lanes
        made = made + self.prompt_unpacking * work.unpacked + self.prompt_scores * work.scores
        made = made + self.prompt_reading * work.read + self.prompt_layer * work.layers
        return largest(self.prompting * made, work.products)


_WIDTHS = {
    "backend": 0.3, "memory": 0.15, "program": 0.2, "release": 0.15, "stored": 0.2, "generation": 0.15, "chip": 0.15,
}  # fmt: skip
LEVELS = tuple(Grouping(name, width) for name, width in _WIDTHS.items())
PROMPT_LEVELS = tuple(Grouping(name, width) for name, width in (_WIDTHS | {"backend": 0.6}).items())
"""Prompts are kernels of the backend's own: wider than of new tokens, which wait for memory under all of them."""
VARY = {
    "weights": ("backend", "memory"), "layer": ("backend", "program"), "arithmetic": ("backend", "stored"),
    "token": ("backend", "program"), "routed": ("backend",), "prompt_matrix": ("backend",),
    "prompt_cores": ("backend",), "prompt_unpacking": ("backend", "stored"), "prompt_scores": ("backend",),
    "prompt_reading": (), "prompt_layer": ("backend", "program"),
    "generating": ("program", "release", "generation", "chip"),
    "prompting": ("program", "release", "stored", "generation", "chip"),
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
COLUMNS = ("memory", "layers", "plain", "pace", "experts")
"""Of a new token: seconds of bytes, layers, seconds of flop on plain units, what latencies are multiplied by, and
seconds of the bytes of routed experts."""


def _of_token(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    values: dict[str, Any] = dict(parameters)
    made = LocalParameters(**values).generation(*(columns[name] for name in COLUMNS))
    return np.asarray(made, dtype=float)


TOKEN_LAW = FormulaLaw(GENERATING, _priors(GENERATING), _of_token, LEVELS)
"""Seconds of a new token."""


def _of_prompt_token(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    values: dict[str, Any] = {name: np.asarray(one)[:, None] for name, one in parameters.items()}
    return np.asarray(1 / np.mean(1 / LocalParameters(**values).prompt(PromptWork(**columns)), axis=1))


PROMPT_LAW = FormulaLaw(PROMPTING, _priors(PROMPTING), _of_prompt_token, PROMPT_LEVELS)
"""Seconds of one token of a prompt; of several prompts in a row of columns, those at the mean of their rates."""


LAWS: Mapping[str, FormulaLaw] = {GENERATING: TOKEN_LAW, PROMPTING: PROMPT_LAW}
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


def memory_of(machine: Machine) -> str:
    """The kind of a machine's memory: "LPDDR" of LPDDR5X, "GDDR" of GDDR6, "HBM" of HBM3e."""
    return machine.main_memory.rstrip("0123456789XxEe")


def local_groups(
    family: str, chip: str, stored: str, program: str, release: str = UNKNOWN, backend: str = "", memory: str = ""
) -> dict[str, str]:
    """The groups of a run on a chip of a family: backend, memory, program, its release, type of weights, generation,
    chip.

    `backend`: that ran; "" for the one of the family.
    `memory`: its kind (`memory_of`); "" where it does not matter.
    """
    return {
        "backend": backend or backend_of(family), "memory": memory, "program": program, "release": release,
        "stored": stored, "generation": generation_of(family), "chip": chip, SOURCE: program,
    }  # fmt: skip


@dataclass(frozen=True)
class LocalWork:
    """What a new token needs of a machine at its data sheet's rates: seconds of bytes and of plain flop.

    `memory` is of the weights, `experts` of routed ones among them, `beyond` of the cache beyond its first 1,024 tokens
    (`SHORT_CONTEXT`), `least` of the weights and all of the cache. `pace` is `STEP_CLOCK` over the machine's clock:
    kernels of few bytes wait for latencies, which are a number of cycles.
    """

    memory: float
    layers: float
    plain: float
    beyond: float
    least: float
    pace: float = 1.0
    experts: float = 0.0

    @classmethod
    def of(
        cls, model: LanguageModel, kind: WeightType, machine: Machine, share: float = 1.0, context: float = 0.0
    ) -> LocalWork:
        """Of a model stored in one way; `share` of the machine's cores compute, `context` tokens are in the cache.

        Raises InputError where the machine states no plain rate.
        """
        shares = Shares(model, Layout(), kind)
        made = shares.amounts(Batch(decodes=1.0, context=context))
        short = shares.amounts(Batch(decodes=1.0, context=min(context, SHORT_CONTEXT)))
        one = cls.of_amounts(made, model.layers, machine, made.cache_bytes - short.cache_bytes)
        return replace(one, plain=one.plain / share)

    @classmethod
    def of_amounts(cls, amounts: Amounts, layers: _Numbers, machine: Machine, beyond: _Numbers = 0.0) -> LocalWork:
        """Of the amounts of a step, of whose cache so many bytes are `beyond` the first tokens.

        Raises InputError where the machine states no plain rate.
        """
        bandwidth, plain = machine.bandwidth(machine.main_memory), machine.peak("vector", plain_type(machine))
        return cls.at(amounts, layers, bandwidth, plain, beyond, STEP_CLOCK / machine.clock)

    @classmethod
    def at(
        cls, amounts: Amounts, layers: _Numbers, bandwidth: Any, plain: Any, beyond: _Numbers = 0.0,
        pace: _Numbers = 1.0,
    ) -> LocalWork:  # fmt: skip
        """At rates in bytes/s and flop/s, numbers or expressions."""
        flop = amounts.linear_flop + amounts.expert_flop + amounts.head_flop
        weights = amounts.weight_bytes + amounts.expert_bytes
        least = (weights + amounts.cache_bytes) / bandwidth
        experts = amounts.expert_bytes / bandwidth
        return cls(weights / bandwidth, layers, flop / plain, beyond / bandwidth, least, pace, experts)

    def token_seconds(self, fitted: Any) -> Any:
        """Seconds of a new token by fitted numbers (`LocalParameters` or symbols of that name); never below `least`."""
        made = LocalParameters.generation(fitted, *(getattr(self, name) for name in COLUMNS))
        return largest(made + LocalParameters.reading(fitted, self.beyond), self.least)

    def columns(self) -> dict[str, FloatArray]:
        """What the law of new tokens reads of it."""
        return {name: np.array([float(getattr(self, name))]) for name in COLUMNS}


@dataclass(frozen=True)
class PromptWork:
    """What one token of a prompt needs of a machine at its data sheet's rates, in seconds; numbers or arrays.

    `products`, `scores`: flop of weights and of attention over the peak of matrix engines. `lanes`: flop of weights
    over 256 a cycle and core, which 128 lanes of multiply-adds do. `unpacked`: bytes of weights over 256 a cycle and
    core, once for each 128 tokens, of experts once a batch. `read`: bytes of weights over the bandwidth, once a batch.
    `layers`: those of a batch, a token's share, at `STEP_CLOCK`.
    """

    products: _Numbers
    lanes: _Numbers
    unpacked: _Numbers
    scores: _Numbers
    read: _Numbers
    layers: _Numbers

    @classmethod
    def of(
        cls, model: LanguageModel, kind: WeightType, machine: Machine, tokens: float, share: float = 1.0,
        batch: float = PROMPT_BATCH, depth: float = 0.0,
    ) -> PromptWork:  # fmt: skip
        """Of a prompt of so many tokens after `depth` others, passed in batches; `share` of the cores compute.

        Raises InputError where the machine has no rate of products.
        """
        made = Batch(prompt=tokens, chunk=tokens, past=depth, finished=1.0)
        amounts = Shares(model, Layout(), kind).amounts(made)
        return cls.of_amounts(amounts, model.layers, machine, kind.name, batch).sharing(share)

    @classmethod
    def of_amounts(
        cls, amounts: Amounts, layers: _Numbers, machine: Machine, stored: str, batch: float = PROMPT_BATCH
    ) -> PromptWork:
        """Of the amounts of a whole prompt.

        Raises InputError where the machine has no rate of products.
        """
        unit, narrow, counted = product_type(machine)
        rates = counted * machine.peak(unit, narrow), machine.cores * machine.clock
        narrowed = amounts._replace(expert_flop=amounts.expert_flop * narrowing(machine, stored))
        bandwidth = machine.bandwidth(machine.main_memory)
        return cls.at(narrowed, layers, bandwidth, *rates, STEP_CLOCK / machine.clock, batch)

    @classmethod
    def at(
        cls, amounts: Amounts, layers: _Numbers, bandwidth: Any, matrix: Any, cycles: Any, pace: _Numbers = 1.0,
        batch: float = PROMPT_BATCH,
    ) -> PromptWork:  # fmt: skip
        """At rates in bytes/s, flop/s and cycles of all cores a second, numbers or expressions."""
        flop = (amounts.linear_flop + amounts.expert_flop + amounts.head_flop) / amounts.tokens
        tiled, batched = (largest(1 / amounts.tokens, 1 / size) for size in (TILE, batch))
        unpacked = amounts.weight_bytes * tiled + amounts.expert_bytes * batched
        return cls(
            flop / matrix, flop / (LANE_FLOP * cycles), unpacked / (LANE_FLOP * cycles),
            amounts.score_flop / amounts.tokens / matrix,
            (amounts.weight_bytes + amounts.expert_bytes) * batched / bandwidth,
            layers * pace * batched,
        )  # fmt: skip

    def sharing(self, share: float) -> PromptWork:
        """The same where a share of the cores computes."""
        slowed = {name: getattr(self, name) / share for name in ("products", "lanes", "unpacked", "scores")}
        return replace(self, **slowed)

    def columns(self) -> dict[str, FloatArray]:
        """What the law of prompts reads of it, shape (1, prompts)."""
        return {name: np.atleast_2d(np.asarray(one, dtype=float)) for name, one in vars(self).items()}


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


def narrowing(machine: Machine, stored: str) -> float:
    """Of the time of experts' products: less where weights are in FP4 and the tensor cores multiply these so.

    llama.cpp does on NVIDIA's Blackwell (pull request 17906), of whose rate half counts as it does of that of int8.
    """
    rates = machine.engines["matrix"].flop_per_cycle if "matrix" in machine.engines else {}
    if not stored.startswith("mxfp4") or backend_of(machine.family) != "cuda" or "mxfp4" not in rates:
        return 1.0
    unit, name, counted = product_type(machine)
    return min(1.0, counted * machine.peak(unit, name) / (machine.peak("matrix", "mxfp4") / 2))


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
