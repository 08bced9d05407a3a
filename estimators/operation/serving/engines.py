"""What software serves a model, as calibrated: factors on a step's kernels and fixed times, with what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

from slipstick.estimators.core.parameters import Parameter, parameters
from slipstick.estimators.operation.serving.step_time import Pace, StepParameters
from slipstick.hwmodels.files.readers import InputError, require_mapping, unknown_name
from slipstick.hwmodels.files.records import Table

_Numbers: TypeAlias = Any

ENGINES = ("vllm", "sglang", "trtllm")
_WORDS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}


@dataclass(frozen=True)
class FirstToken:
    """Time to the first token in a closed loop, beyond what steps explain: fitted, since public tables do not say more.

    A request's first token takes `constant` + `prompt` x its prompt alone + `burst` x all users' prompts one after the
    other (they start together) + `steps` x a decode step (it waits for steps under way) + `user` x users.
    """

    constant: Annotated[float, Parameter("s", "of a request, whatever it is", 0.0, 10.0)] = 10e-3
    prompt: Annotated[float, Parameter("1", "its prompt, over what a step of it takes", 0.0, 100.0)] = 1.0
    burst: Annotated[float, Parameter("1", "share of all users' prompts that it waits for", 0.0, 10.0)] = 0.05
    steps: Annotated[float, Parameter("1", "decode steps that it waits for", 0.0, 100.0)] = 1.0
    user: Annotated[float, Parameter("s", "for each user", 0.0, 1.0)] = 0.3e-3

    def seconds(self, alone: _Numbers, together: _Numbers, tpot: _Numbers, users: _Numbers) -> _Numbers:
        """Seconds, from those of the prompt alone, of all prompts in full steps, of a further token, and the users."""
        return self.constant + self.prompt * alone + self.burst * together + self.steps * tpot + self.user * users

    def front(self, tpot: float, users: float) -> float:
        """What a simulation of steps and queue leaves out."""
        return self.constant + self.steps * tpot + self.user * users


@dataclass(frozen=True)
class ServingCalibration:
    """Parameters of a step and factors of engines, their versions and systems, fitted together.

    Parameters
    ----------
    engines, systems
        Factors by name; what is not there has none.
    versions
        Factors of versions, by "ENGINE VERSION KIND" with KIND dense or experts.
    first, first_constant
        Of the time to the first token; its constant by engine, seconds.
    half_width
        Half of the 80 % band of log time of a further token, by kind: left-out models and systems missed by so much.
    first_half_width
        The same of the time to the first token.
    """

    parameters: StepParameters
    engines: Table[Pace] = Table()
    systems: Table[Pace] = Table()
    versions: Table[Pace] = Table()
    first: FirstToken = FirstToken()
    first_constant: Table[float] = Table()
    half_width: Table[float] = Table()
    first_half_width: Table[float] = Table()
    source: str = ""

    def pace(self, engine: str, version: str, machine: str, kind: str) -> Pace:
        """The factors of one engine, version and machine together; unknown versions and machines have none."""
        result = self.engines.get(engine, Pace()) * self.systems.get(machine, Pace())
        return result * self.versions.get(f"{engine} {version} {kind}", Pace())

    def first_token(self, engine: str) -> FirstToken:
        """What holds for the first token of one engine."""
        return replace(self.first, constant=self.first_constant.get(engine, self.first.constant))

    def knows(self, engine: str, version: str, kind: str) -> bool:
        """Whether the version of an engine was among the measurements."""
        return f"{engine} {version} {kind}" in self.versions

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""

        def paces(table: Mapping[str, Pace]) -> dict[str, list[float]]:
            return {name: [round(p.kernels, 5), round(p.fixed, 5)] for name, p in sorted(table.items())}

        return {
            "source": self.source,
            "parameters": {name: float(f"{value:.5g}") for name, (value, _) in parameters(self.parameters).items()},
            "engines": paces(self.engines),
            "systems": paces(self.systems),
            "versions": paces(self.versions),
            "first": {name: float(f"{value:.5g}") for name, (value, _) in parameters(self.first).items()},
            "first_constant": {name: round(value, 6) for name, value in sorted(self.first_constant.items())},
            "half_width": dict(self.half_width),
            "first_half_width": dict(self.first_half_width),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: object) -> ServingCalibration:
        """From plain JSON values.

        Raises
        ------
        InputError
            Where a field is missing or no number.
        """

        def paces(name: str) -> Table[Pace]:
            entries = require_mapping(document.get(name, {}), where, name)
            return Table({key: Pace(float(value[0]), float(value[1])) for key, value in entries.items()})

        def numbers(name: str) -> Table[float]:
            return Table({key: float(v) for key, v in require_mapping(document.get(name, {}), where, name).items()})

        def fitted(kind: type[Any], name: str, needed: int) -> Any:
            entries = document[name] if needed else document.get(name, {})
            made = kind(**{key: float(value) for key, value in require_mapping(entries, where, name).items()})
            for field, (value, note) in parameters(made).items():
                note.check(f"{where}: {name}.{field}", value)
            return made

        try:
            return cls(
                parameters=fitted(StepParameters, "parameters", 1),
                engines=paces("engines"),
                systems=paces("systems"),
                versions=paces("versions"),
                first=fitted(FirstToken, "first", 0),
                first_constant=numbers("first_constant"),
                half_width=numbers("half_width"),
                first_half_width=numbers("first_half_width"),
                source=str(document.get("source", "")),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{where}: no calibration of serving ({error})") from None


def engine_of(library: str) -> tuple[str, str]:
    """Engine and version of a runtime's library in words: "vLLM 0.19.0" is ("vllm", "0.19.0").

    Raises
    ------
    InputError
        Where the engine is not known.
    """
    name, _, version = library.strip().partition(" ")
    name = _WORDS.get(name.lower(), name.lower())
    if name not in ENGINES:
        raise unknown_name("serving engine", library, ENGINES)
    return name, version.strip()
