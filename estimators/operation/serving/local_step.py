"""One sequence on one device, as llama.cpp runs it: seconds of a new token and of a prompt's.

A new token reads every weight once: bytes over bandwidth, arithmetic that unpacks and multiplies on the plain units, a
time for each layer and for the token. Tokens of a prompt share what is read and are bound by arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from slipstick.estimators.core.parameters import Parameter, parameters
from slipstick.estimators.tuned import tuned_local as expected
from slipstick.hwmodels.files.readers import InputError, require_mapping
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import WeightType

_Numbers: TypeAlias = Any
BACKENDS = ("cuda", "metal", "rocm", "cpu")


@dataclass(frozen=True)
class LocalParameters:
    """What is fitted for each backend; the defaults are what was expected before."""

    weights: Annotated[float, Parameter("1", "time of reading weights over bytes / bandwidth", 0.5, 10.0)] = (
        expected.WEIGHTS
    )
    layer: Annotated[float, Parameter("s", "of a layer that no bytes explain", 0.0, 1e-2)] = expected.LAYER
    arithmetic: Annotated[float, Parameter("1", "time over flop / plain peak, of a new token", 0.0, 50.0)] = (
        expected.ARITHMETIC
    )
    token: Annotated[float, Parameter("s", "of a new token, whatever the model", 0.0, 0.1)] = expected.TOKEN
    prompt_matrix: Annotated[float, Parameter("1", "time over flop / matrix peak, of a prompt", 0.0, 100.0)] = (
        expected.PROMPT_MATRIX
    )
    prompt_plain: Annotated[float, Parameter("1", "time over flop / plain peak, of a prompt", 0.0, 100.0)] = (
        expected.PROMPT_PLAIN
    )
    prompt_token: Annotated[float, Parameter("s", "of a prompt's token, whatever the model", 0.0, 0.1)] = (
        expected.PROMPT_TOKEN
    )

    def generation(self, memory: _Numbers, layers: _Numbers, plain: _Numbers) -> _Numbers:
        """Seconds of a new token, from seconds of its bytes and of its flop at the data sheet's rates."""
        return self.weights * memory + self.layer * layers + self.arithmetic * plain + self.token

    def prompt(self, matrix: _Numbers, plain: _Numbers) -> _Numbers:
        """Seconds of one token of a prompt."""
        return self.prompt_matrix * matrix + self.prompt_plain * plain + self.prompt_token


@dataclass(frozen=True)
class LocalCalibration:
    """Parameters by backend, and half of the 80 % bands of log time of left-out accelerators."""

    backends: Table[LocalParameters]
    half_width: Table[float] = Table()
    prompt_half_width: Table[float] = Table()
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        result = {
            name: {field: float(f"{value:.5g}") for field, (value, _) in parameters(one).items()}
            for name, one in self.backends.items()
        }
        widths = {"half_width": dict(self.half_width), "prompt_half_width": dict(self.prompt_half_width)}
        return {"source": self.source, "backends": result, **widths}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: object) -> LocalCalibration:
        """From plain JSON values.

        Raises
        ------
        InputError
            Where a field is missing or no number.
        """
        try:
            values = {}
            for name, entries in require_mapping(document["backends"], where, "backends").items():
                values[name] = LocalParameters(**{key: float(value) for key, value in entries.items()})
                for field, (value, note) in parameters(values[name]).items():
                    note.check(f"{where}: {name}.{field}", value)
            widths = [
                Table({k: float(v) for k, v in require_mapping(document[w], where, w).items()})
                for w in ("half_width", "prompt_half_width")
            ]
            return cls(Table(values), widths[0], widths[1], str(document.get("source", "")))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{where}: no calibration of local models ({error})") from None


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


@dataclass(frozen=True)
class LocalWork:
    """What one token needs of a machine at its data sheet's rates: seconds of bytes, of plain and of matrix flop."""

    memory: float
    layers: int
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
        bits = model.token_weights * kind.linear + model.head_weights * kind.rest
        flop = 2.0 * (model.token_weights + model.head_weights)
        vector = machine.engines["vector"].flop_per_cycle if "vector" in machine.engines else {}
        plain = next((name for name in ("float32", "float16") if name in vector), None)
        if plain is None:
            raise InputError(f"machine {machine.name!r}: engines.vector has no float32 or float16 rate")
        unit = "matrix" if "matrix" in machine.engines else "vector"
        rates = machine.engines[unit].flop_per_cycle
        narrow = next((name for name in ("float16", "bfloat16", "float32") if name in rates), None)
        if narrow is None:
            raise InputError(f"machine {machine.name!r}: engines.{unit} has no float16, bfloat16 or float32 rate")
        memory = bits / 8 / machine.bandwidth(machine.main_memory)
        at_plain, at_narrow = machine.peak("vector", plain), machine.peak(unit, narrow)
        return cls(memory, model.layers, flop / at_plain / share, flop / at_narrow / share)
