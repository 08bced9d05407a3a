"""What software serves a model, as calibrated: factors on a step's kernels and fixed times, with what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipstick.estimators.core.parameters import parameters
from slipstick.estimators.operation.serving.step_time import Pace, StepParameters
from slipstick.hwmodels.files.readers import InputError, require_mapping, unknown_name
from slipstick.hwmodels.files.records import Table

ENGINES = ("vllm", "sglang", "trtllm")
_WORDS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}


@dataclass(frozen=True)
class ServingCalibration:
    """Parameters of a step and factors of engines, their versions and systems, fitted together.

    Parameters
    ----------
    engines, systems
        Factors by name; what is not there has none.
    versions
        Factors of versions, by "ENGINE VERSION KIND" with KIND dense or experts.
    half_width
        Half of the 80 % band of log time of a further token, by kind: left-out models and systems missed by so much.
    first_half_width
        The same of the time to the first token.
    """

    parameters: StepParameters
    engines: Table[Pace] = Table()
    systems: Table[Pace] = Table()
    versions: Table[Pace] = Table()
    half_width: Table[float] = Table()
    first_half_width: Table[float] = Table()
    source: str = ""

    def pace(self, engine: str, version: str, machine: str, kind: str) -> Pace:
        """The factors of one engine, version and machine together; unknown versions and machines have none."""
        found = self.engines.get(engine, Pace()) * self.systems.get(machine, Pace())
        return found * self.versions.get(f"{engine} {version} {kind}", Pace())

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

        try:
            values = {
                name: float(v) for name, v in require_mapping(document["parameters"], where, "parameters").items()
            }
            made = replace(StepParameters(), **values)
            for name, (value, note) in parameters(made).items():
                note.check(f"{where}: {name}", value)
            return cls(
                made, paces("engines"), paces("systems"), paces("versions"),
                numbers("half_width"), numbers("first_half_width"), str(document.get("source", "")),
            )  # fmt: skip
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
