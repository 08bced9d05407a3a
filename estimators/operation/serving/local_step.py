"""One sequence on one device, as llama.cpp runs it: seconds of a new token and of a prompt's.

A new token reads every weight once: bytes over bandwidth, arithmetic that unpacks and multiplies on the plain units, a
time for each layer and for the token. Tokens of a prompt share what is read and are bound by arithmetic. One law of
both, with effects of the backend, of the program (llama.cpp or llamafile), of the way weights are stored and of the
machine's generation and chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from slipstick.estimators.core.parameters import Parameter, parameters
from slipstick.estimators.learning.known_law import with_known
from slipstick.estimators.learning.law import Columns, FloatArray, Grouping, LawRows, ParameterPrior
from slipstick.estimators.learning.law_fit import LawFit
from slipstick.estimators.operation.serving.step_amounts import Amounts, Batch, Shares
from slipstick.estimators.operation.serving.step_law import machine_groups
from slipstick.estimators.operation.serving.step_time import largest
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import WeightType

_Numbers: TypeAlias = Any
BACKENDS = ("cuda", "metal", "rocm", "cpu")


@dataclass(frozen=True)
class LocalParameters:
    """What is fitted; the defaults are expected before any row.

    Round numbers: memory is read at 0.75 of its rate; a weight costs about two plain operations to unpack; a layer is
    five to ten small kernels; prompts reach half of the matrix engines' peak and are unpacked at the plain rate.
    """

    weights: Annotated[float, Parameter("1", "time of reading weights over bytes / bandwidth", 1.0, 10.0)] = 1.3
    layer: Annotated[float, Parameter("s", "of a layer that no bytes explain", 1e-7, 1e-2)] = 15e-6
    arithmetic: Annotated[float, Parameter("1", "time over flop / plain peak, of a new token", 0.01, 50.0)] = 2.0
    token: Annotated[float, Parameter("s", "of a new token, whatever the model", 1e-6, 0.1)] = 2e-4
    prompt_matrix: Annotated[float, Parameter("1", "time over flop / matrix peak, of a prompt", 1.0, 100.0)] = 2.0
    prompt_plain: Annotated[float, Parameter("1", "time over flop / plain peak, of a prompt", 0.01, 100.0)] = 0.5
    prompt_token: Annotated[float, Parameter("s", "of a prompt's token, whatever the model", 1e-7, 0.1)] = 30e-6
    generating: Annotated[float, Parameter("1", "of a new token, all of it", 0.05, 20.0)] = 1.0
    prompting: Annotated[float, Parameter("1", "of a prompt's token, all of it", 0.05, 20.0)] = 1.0

    def generation(self, memory: _Numbers, layers: _Numbers, plain: _Numbers) -> _Numbers:
        """Seconds of a new token, from seconds of its bytes and of its flop at the data sheet's rates; never below."""
        made = self.weights * memory + self.layer * layers + self.arithmetic * plain + self.token
        return largest(self.generating * made, memory)

    def prompt(self, matrix: _Numbers, plain: _Numbers) -> _Numbers:
        """Seconds of one token of a prompt; never below the peak of the matrix engines."""
        made = self.prompt_matrix * matrix + self.prompt_plain * plain + self.prompt_token
        return largest(self.prompting * made, matrix)


LEVELS = tuple(
    Grouping(name, width)
    for name, width in {
        "backend": 0.3,
        "program": 0.2,
        "stored": 0.2,
        "generation": 0.15,
        "chip": 0.15,
    }.items()
)
VARY = {
    "weights": ("backend",), "layer": ("backend", "program"), "arithmetic": ("backend", "stored"),
    "token": ("backend", "program"), "prompt_matrix": ("backend", "program"), "prompt_plain": ("backend", "stored"),
    "prompt_token": ("backend", "program"), "generating": ("program", "generation", "chip"),
    "prompting": ("program", "generation", "chip"),
}  # fmt: skip
SHARE, TIME = 0.4, 0.8
"""Log standard deviations that are expected: of shares of the data sheet's rates, and of fixed times."""


def _priors() -> tuple[ParameterPrior, ...]:
    made = []
    for name, (value, note) in parameters(LocalParameters()).items():
        kind = "time" if note.unit == "s" else "share"
        width = 0.0 if name in ("generating", "prompting") else TIME if kind == "time" else SHARE
        made.append(ParameterPrior(name, note.unit, note.meaning, value, width, note.low, note.high, kind, VARY[name]))
    return tuple(made)


CONFIGURATION = ("generating", "chip")
"""What takes the error that all tokens on one machine share."""
COLUMNS = ("memory", "layers", "plain", "matrix", "prompts")
"""Seconds of bytes, layers, seconds of flop on plain units and on matrix engines; 1 of a prompt's token, else 0."""


@dataclass(frozen=True)
class LocalLaw:
    """Seconds of a new token, or of one token of a prompt."""

    name: str = "llama.cpp"
    parameters: Sequence[ParameterPrior] = _priors()
    levels: Sequence[Grouping] = LEVELS

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        values: dict[str, Any] = dict(parameters)
        q = LocalParameters(**values)
        memory, layers, plain, matrix, prompts = (columns[name] for name in COLUMNS)
        seconds = np.where(prompts > 0, q.prompt(matrix, plain), q.generation(memory, layers, plain))
        return np.asarray(seconds, dtype=float)


def backend_of(machine: Machine) -> str:
    """The llama.cpp backend of a machine by its family; the CPU's where no other is known."""
    heads = {
        "nvidia": "cuda",
        "apple": "metal",
        "amd-rdna": "rocm",
        "amd-cdna": "rocm",
        "amd-gcn": "rocm",
        "amd-vega": "rocm",
    }
    return next((backend for head, backend in heads.items() if machine.family.startswith(head)), "cpu")


def local_groups(machine: Machine, chip: str, stored: str, program: str) -> dict[str, str]:
    """The groups of a run: backend, program, type of weights, generation, chip."""
    known = machine_groups(machine, chip)
    return {
        "backend": backend_of(machine), "program": program, "stored": stored, "generation": known["generation"],
        "chip": chip,
    }  # fmt: skip


@dataclass(frozen=True)
class LocalWork:
    """What one token needs of a machine at its data sheet's rates: seconds of bytes, of plain and of matrix flop."""

    memory: float
    layers: float
    plain: float
    matrix: float

    @classmethod
    def of(cls, model: LanguageModel, kind: WeightType, machine: Machine, share: float = 1.0) -> LocalWork:
        """Of a model stored in one way; `share` of the machine's cores compute.

        Raises
        ------
        InputError
            Where the machine states no plain or no 16-bit rates.
        """
        amounts = Shares(model, Layout(), kind).amounts(Batch(decodes=1.0))
        one = cls.on(amounts, model.layers, machine)
        return replace(one, plain=one.plain / share, matrix=one.matrix / share)

    @classmethod
    def on(cls, amounts: Amounts, layers: _Numbers, machine: Machine) -> LocalWork:
        """Of the amounts of a step.

        Raises
        ------
        InputError
            Where the machine states no plain or no 16-bit rates.
        """
        unit, narrow, plain = plain_types(machine)
        bandwidth = machine.bandwidth(machine.main_memory)
        return cls.at(amounts, layers, bandwidth, machine.peak("vector", plain), machine.peak(unit, narrow))

    @classmethod
    def at(cls, amounts: Amounts, layers: _Numbers, bandwidth: Any, plain: Any, matrix: Any) -> LocalWork:
        """At rates in bytes/s and flop/s, numbers or expressions."""
        flop = amounts.linear_flop + amounts.expert_flop + amounts.head_flop
        return cls((amounts.weight_bytes + amounts.expert_bytes) / bandwidth, layers, flop / plain, flop / matrix)

    def columns(self, prompts: float) -> dict[str, FloatArray]:
        """What the law reads of it: of a prompt's token (1) or of a new one (0)."""
        values = (self.memory, self.layers, self.plain, self.matrix, prompts)
        return {name: np.array([float(value)]) for name, value in zip(COLUMNS, values, strict=True)}


def plain_types(machine: Machine) -> tuple[str, str, str]:
    """The engine of products, its 16-bit type, and the type of plain arithmetic.

    Raises
    ------
    InputError
        Where the machine states no such rate.
    """
    vector = machine.engines["vector"].flop_per_cycle if "vector" in machine.engines else {}
    plain = next((name for name in ("float32", "float16") if name in vector), None)
    if plain is None:
        raise InputError(f"machine {machine.name!r}: engines.vector has no float32 or float16 rate")
    unit = "matrix" if "matrix" in machine.engines else "vector"
    rates = machine.engines[unit].flop_per_cycle
    narrow = next((name for name in ("float16", "bfloat16", "float32") if name in rates), None)
    if narrow is None:
        raise InputError(f"machine {machine.name!r}: engines.{unit} has no float16, bfloat16 or float32 rate")
    return unit, narrow, plain


@dataclass(frozen=True, eq=False)
class LocalFit:
    """The law as fitted, for one machine and way of storing weights."""

    made: LawFit

    def parameters(self, groups: Mapping[str, str]) -> LocalParameters:
        """Of these groups (`local_groups`); what was not fitted has no effect."""
        values = self.made.values(LocalLaw(), {name: [group] for name, group in groups.items()})
        return LocalParameters(**{field.name: float(values[field.name][0]) for field in fields(LocalParameters)})

    def half_width(self, work: LocalWork, groups: Mapping[str, str], prompts: float = 0.0) -> float:
        """Half of the 80 % band of log time: of a new token, or (`prompts` = 1) of a prompt's."""
        named = {name: [group] for name, group in groups.items()}
        return float(self.made.half_width(LocalLaw(), work.columns(prompts), named)[0])

    def with_known(self, work: LocalWork, groups: Mapping[str, str], seconds: float) -> LocalFit:
        """The same after one new token of some model was timed on the machine: what it says of the machine's others."""
        named = {name: [group] for name, group in groups.items()}
        row = LawRows(work.columns(0.0), named, ["measured"], np.array([seconds]), ["measured"])
        return LocalFit(with_known(self.made, LocalLaw(), row, CONFIGURATION).fit)
