"""What software serves a model, as calibrated: factors on a step's kernels and fixed times, with what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slipstick.estimators.learning.fitted_file import FittedFile
from slipstick.estimators.learning.law import UNGROUPED, Columns, FloatArray
from slipstick.estimators.learning.law_fit import LawFit, count_of
from slipstick.estimators.operation.serving.first_token import (
    FirstParts,
    FirstToken,
    FirstTokenLaw,
    first_columns,
    first_groups,
)
from slipstick.estimators.operation.serving.step_law import LEVELS, StepLaw, StepSum, columns_of, machine_groups
from slipstick.estimators.operation.serving.step_time import StepParameters
from slipstick.hwmodels.files.readers import unknown_name
from slipstick.hwmodels.machine import Machine

ENGINES = ("vllm", "sglang", "trtllm")
ALONE = "one_model"
"""The fact of a fitted file that says which groups ran one model alone."""
WIDE_AS = {"fp16": "bf16"}
_WORDS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}


@dataclass(frozen=True, eq=False)
class ServingFit:
    """Steps and first tokens as fitted: parameters and bands for a machine, an engine, its version and a model."""

    steps: LawFit
    first: LawFit
    alone: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By level, groups that ran one model, and which: the band for another model takes them as not measured."""

    @classmethod
    def of(cls, document: FittedFile) -> ServingFit:
        """From a file of fitted numbers.

        Raises InputError where one of the two laws is missing.
        """
        return cls(document.fit(StepLaw().name), document.fit(FirstTokenLaw().name), document.facts.get(ALONE, {}))

    def only_model(self, groups: Mapping[str, str], level: str) -> str:
        """The one model that was measured of a row's group, where the row is of another; else ""."""
        model = self.alone.get(level, {}).get(groups[level], "")
        return "" if model == groups["model"] else model

    def parameters(self, groups: Mapping[str, str]) -> StepParameters:
        """Of a step, for these groups (`step_groups`); what is not named or was not fitted has no effect."""
        return step_parameters(self.steps, groups)

    def half_width(self, row: StepSum, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of the log time of a step."""
        return float(self.half_widths(columns_of([row]), groups)[0])

    def ratio_half_width(
        self, one: tuple[StepSum, Mapping[str, str]], other: tuple[StepSum, Mapping[str, str]]
    ) -> float:
        """Half of the 80 % band of the log ratio of two steps, each with its groups."""
        groups = {name: [self._beyond(side[1], name) for side in (one, other)] for name in one[1]}
        return self.steps.ratio_half_width(StepLaw(), columns_of([one[0], other[0]]), groups)

    def _beyond(self, groups: Mapping[str, str], level: str) -> str:
        """The group of a level; one that ran a single other model alone is as unknown as any."""
        return f"{groups[level]}, another model" if self.only_model(groups, level) else groups[level]

    def half_widths(self, columns: Columns, groups: Mapping[str, str]) -> FloatArray:
        """The same of many steps with these groups, shape (rows,)."""
        count = count_of(columns)
        beyond = {name: [self._beyond(groups, name)] * count for name in groups}
        return self.steps.half_width(StepLaw(), columns, beyond)

    def first_token(self, groups: Mapping[str, str]) -> FirstToken:
        """What holds for the first token of an engine."""
        values = self.first.values(FirstTokenLaw(), first_groups(groups))
        return FirstToken(**{name: float(value[0]) for name, value in values.items()})

    def first_half_width(self, parts: FirstParts, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of the log time to the first token."""
        return float(self.first.half_width(FirstTokenLaw(), first_columns([parts]), first_groups(groups))[0])

    def knows(self, groups: Mapping[str, str], level: str) -> bool:
        """Whether rows of the group were fitted."""
        return groups[level] in self.steps.seen(level)


def step_parameters(steps: LawFit, groups: Mapping[str, str]) -> StepParameters:
    """Of a step by its fitted law alone, for these groups."""
    values = steps.values(StepLaw(), {level.name: [groups.get(level.name, UNGROUPED)] for level in LEVELS})
    return StepParameters(**{name: float(value[0]) for name, value in values.items()})


def step_groups(
    machine: Machine, chip: str, engine: str, version: str, model: str, stored: str = "bf16"
) -> dict[str, str]:
    """The groups of a step; without a version it is one that was not measured.

    `stored`: how weights are stored; 16 bits are 16 bits.
    """
    known = machine_groups(machine, chip)
    weights, generation = WIDE_AS.get(stored, stored), known["generation"]
    return {
        **known, "engine": engine, "version": f"{engine} {version}", "model": model,
        "engine on generation": f"{engine} on {generation}", "weights": weights,
        "weights on generation": f"{weights} on {generation}",
    }  # fmt: skip


def engine_of(library: str) -> tuple[str, str]:
    """Engine and version of a runtime's library in words: "vLLM 0.19.0" is ("vllm", "0.19.0").

    Raises InputError where the engine is not known.
    """
    name, _, version = library.strip().partition(" ")
    name = _WORDS.get(name.lower(), name.lower())
    if name not in ENGINES:
        raise unknown_name("serving engine", library, ENGINES)
    return name, version.strip()
