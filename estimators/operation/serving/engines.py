"""What software serves a model, as calibrated: factors on a step's kernels and fixed times, with what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypeAlias

import numpy as np

from slipstick.estimators.core.parameters import Parameter, parameters
from slipstick.estimators.learning.fitted_file import FittedFile
from slipstick.estimators.learning.law import UNGROUPED, Columns, FloatArray, Grouping, ParameterPrior
from slipstick.estimators.learning.law_fit import LawFit, count_of
from slipstick.estimators.operation.serving.step_law import LEVELS, StepLaw, StepSum, columns_of, machine_groups
from slipstick.estimators.operation.serving.step_time import StepParameters
from slipstick.hwmodels.files.readers import unknown_name
from slipstick.hwmodels.machine import Machine

_Numbers: TypeAlias = Any

ENGINES = ("vllm", "sglang", "trtllm")
ALONE = "one_model"
"""The fact of a fitted file that says which groups ran one model alone."""
WIDE_AS = {"fp16": "bf16"}
_WORDS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}


@dataclass(frozen=True)
class FirstToken:
    """Time to the first token in a closed loop, beyond what steps explain: fitted, since public tables do not say more.

    A request's first token takes `constant` + `prompt` x its prompt alone + `user` x users, and where others are served
    `burst` x all users' prompts one after the other (they start together) + `steps` x a decode step: engines take new
    requests in every so many steps. A user who is alone waits for neither, so that both count by the share of others.
    """

    constant: Annotated[float, Parameter("s", "of a request, whatever it is", 1e-4, 10.0)] = 10e-3
    prompt: Annotated[float, Parameter("1", "its prompt, over what a step of it takes", 0.1, 100.0)] = 1.0
    burst: Annotated[float, Parameter("1", "share of all users' prompts that it waits for", 1e-3, 10.0)] = 0.05
    steps: Annotated[float, Parameter("1", "decode steps that it waits for", 0.01, 100.0)] = 1.0
    user: Annotated[float, Parameter("s", "for each user", 1e-6, 1.0)] = 0.3e-3

    def seconds(self, alone: _Numbers, together: _Numbers, tpot: _Numbers, users: _Numbers) -> _Numbers:
        """Seconds, from those of the prompt alone, of all prompts in full steps, of a further token, and the users."""
        waited = (1 - 1 / users) * (self.burst * together + self.steps * tpot)
        return self.constant + self.prompt * alone + waited + self.user * users

    def front(self, tpot: float, users: float) -> float:
        """What a simulation of steps and queue leaves out."""
        return self.constant + (1 - 1 / users) * self.steps * tpot + self.user * users


SITE, ANOTHER_SITE = "site", "another site"
"""Where a first token is timed: front end, client and network of a deployment. No question is of a measured one."""
FIRST_WIDTH, FIRST_KINDS = 0.7, {"constant": "time", "user": "time"}
FIRST_VARY = {"burst": ("engine",), "factor": ("engine", SITE, "model")}
"""The constant is the host's and no engine's: SGLang's would come from models of 235e9 parameters and more alone, of
crowds, and was 92 ms for one user of an 8B model."""


def _first_priors() -> tuple[ParameterPrior, ...]:
    made = [
        ParameterPrior(
            name, note.unit, note.meaning, value, FIRST_WIDTH, note.low, note.high, FIRST_KINDS.get(name, "share"),
            FIRST_VARY.get(name, ()),
        )
        for name, (value, note) in parameters(FirstToken()).items()
    ]  # fmt: skip
    return (*made, ParameterPrior("factor", "1", "of all of it", 1.0, 0.0, 0.05, 20.0, "", FIRST_VARY["factor"]))


@dataclass(frozen=True)
class FirstTokenLaw:
    """Seconds to the first token in a closed loop, from what steps take (columns alone, together, tpot, users)."""

    name: str = "serving-first-token"
    parameters: Sequence[ParameterPrior] = _first_priors()
    levels: Sequence[Grouping] = (Grouping("engine", 0.3), Grouping(SITE, 0.4), Grouping("model", 0.2))

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        p: dict[str, Any] = dict(parameters)
        made = FirstToken(**{f.name: p[f.name] for f in fields(FirstToken)})
        return np.asarray(p["factor"] * made.seconds(*(columns[n] for n in FIRST_COLUMNS)), dtype=float)


FIRST_COLUMNS = ("alone", "together", "tpot", "users")
FIRST_LEVELS = tuple(level.name for level in FirstTokenLaw().levels)


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
        factor = float(values.pop("factor")[0])
        made = {name: float(value[0]) for name, value in values.items()}
        return FirstToken(**{name: value * factor for name, value in made.items()})

    def first_half_width(self, parts: Sequence[float], groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of the log time to the first token, from `FirstToken.seconds`'s numbers."""
        columns = {name: np.array([value]) for name, value in zip(FIRST_COLUMNS, parts, strict=True)}
        return float(self.first.half_width(FirstTokenLaw(), columns, first_groups(groups))[0])

    def knows(self, groups: Mapping[str, str], level: str) -> bool:
        """Whether rows of the group were fitted."""
        return groups[level] in self.steps.seen(level)


def step_parameters(steps: LawFit, groups: Mapping[str, str]) -> StepParameters:
    """Of a step by its fitted law alone, for these groups."""
    values = steps.values(StepLaw(), {level.name: [groups.get(level.name, UNGROUPED)] for level in LEVELS})
    return StepParameters(**{name: float(value[0]) for name, value in values.items()})


def first_groups(groups: Mapping[str, str]) -> dict[str, list[str]]:
    """Of a first token: where no site is named, it is none that was measured."""
    return {name: [groups.get(name, ANOTHER_SITE)] for name in FIRST_LEVELS}


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
