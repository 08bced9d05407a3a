"""What software serves a model, as calibrated: factors on a step's kernels and fixed times, with what is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import ratio_shown
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.conditions import Condition, release_note
from slipstick.estimators.engine_steps.first_token import (
    FIRST_TOKEN_LAW,
    FirstParts,
    FirstToken,
    first_columns,
    first_groups,
)
from slipstick.estimators.engine_steps.step_law import LEVELS, STEP_LAW, StepSum, columns_of, machine_groups
from slipstick.estimators.engine_steps.step_time import StepParameters
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.fitted_model import (
    ANOTHER_SOURCE,
    SOURCE,
    UNGROUPED,
    UNMEASURED_SOURCE,
    Columns,
    LawFit,
    count_of,
    half_over_levels,
    mean_of_levels,
)
from slipstick.estimators.fitting.source_effects import source_effect
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import AUTO, CACHE_BYTES, weight_type, whole_name

ENGINES = ("vllm", "sglang", "trtllm")
UNNAMED = "unnamed"
"""The engine of a question that names none: an unseen level of the law, its mean in the time and its variance in the
band."""
SERVERS = "servers"
"""The kind of what sources measure (`source_effects`)."""
ALONE = "one_model"
"""The fact of a fitted file that says which groups ran one model alone."""
WIDE_AS = {"fp16": "bf16"}
_WORDS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}
WIDE_CACHE = "bf16"
_READS: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("trtllm", "modelopt"): (),
    ("trtllm", "compressed-tensors"): (),
    ("vllm", "modelopt"): (0, 13),
    ("vllm", "compressed-tensors"): (0, 15),
    ("sglang", "modelopt"): (0, 5, 4),
}
"""From which release on an engine caches keys and values as checkpoints of a program say; see `cache_of`."""


@dataclass(frozen=True, eq=False)
class ServingFit:
    """Steps and first tokens as fitted: parameters and bands for a machine, an engine, its version and a model."""

    steps: LawFit
    first: LawFit
    alone: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By level, groups that ran one model, and which: the band for another model takes them as not measured."""

    @classmethod
    def of(cls, document: FittedFile) -> ServingFit:
        """From a file of fitted numbers, with what others than its dashboards measure of servers.

        Raises InputError where one of the two laws is missing.
        """
        steps = source_effect(SERVERS).on(document.fit(STEP_LAW.name))
        return cls(steps, document.fit(FIRST_TOKEN_LAW.name), document.facts.get(ALONE, {}))

    def only_model(self, groups: Mapping[str, str], level: str) -> str:
        """The one model that was measured of a row's group, where the row is of another; else ""."""
        model = self.alone.get(level, {}).get(groups[level], "")
        return "" if model == groups["model"] else model

    def parameters(self, groups: Mapping[str, str]) -> StepParameters:
        """Of a step, for these groups (`step_groups`); what is not named or was not fitted has no effect."""
        return step_parameters(self.steps, *self._levels(groups))

    def seconds(self, row: StepSum, groups: Mapping[str, str]) -> float:
        """Of a step, for these groups."""
        levels = {name: [group] for name, group in groups.items()}
        return float(self.steps.seconds(STEP_LAW, columns_of([row]), levels)[0])

    def half_width(self, row: StepSum, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of the log time of a step."""
        return float(self.half_widths(columns_of([row]), groups)[0])

    def ratio_half_width(
        self, one: tuple[StepSum, Mapping[str, str]], other: tuple[StepSum, Mapping[str, str]]
    ) -> float:
        """Half of the 80 % band of the log ratio of two steps, each with its groups."""
        columns, sides = columns_of([one[0], other[0]]), zip(self._levels(one[1]), self._levels(other[1]), strict=False)
        halves, ratios = [], []
        for pair in sides:  # under the same engine, where nobody named one
            groups = {name: [self._beyond(side, name) for side in pair] for name in one[1]}
            halves.append([self.steps.ratio_half_width(STEP_LAW, columns, groups)])
            first, second = self.steps.seconds(STEP_LAW, columns, groups)
            ratios.append([first / second])
        return float(half_over_levels(halves, ratios)[0])

    def _beyond(self, groups: Mapping[str, str], level: str) -> str:
        """The group of a level; one that ran a single other model alone is as unknown as any."""
        return f"{groups[level]}, another model" if self.only_model(groups, level) else groups[level]

    def half_widths(self, columns: Columns, groups: Mapping[str, str]) -> FloatArray:
        """The same of many steps with these groups, shape (rows,)."""
        count, halves, seconds = count_of(columns), [], []
        for one in self._levels(groups):
            beyond = {name: [self._beyond(one, name)] * count for name in one}
            halves.append(self.steps.half_width(STEP_LAW, columns, beyond))
            seconds.append(
                self.steps.seconds(STEP_LAW, columns, {name: [group] * count for name, group in one.items()})
            )
        return half_over_levels(halves, seconds)

    def _levels(self, groups: Mapping[str, str]) -> list[Mapping[str, str]]:
        """The groups; where nobody named the engine, those under each that was measured, if they are several."""
        each = list(self.under_each(groups).values()) if groups.get("engine") == UNNAMED else []
        return [*each] if len(each) > 1 else [groups]

    def first_token(self, groups: Mapping[str, str]) -> FirstToken:
        """What holds for the first token of an engine."""
        each = [first_groups(one) for one in self._levels(groups)]
        rows = {level: [one[level][0] for one in each] for level in each[0]}
        return FirstToken(**mean_of_levels(self.first.values(FIRST_TOKEN_LAW, rows, len(each))))

    def first_half_width(self, parts: FirstParts, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of the log time to the first token."""
        each, columns = [first_groups(one) for one in self._levels(groups)], first_columns([parts])
        seconds = [self.first.seconds(FIRST_TOKEN_LAW, columns, one) for one in each]
        return float(
            half_over_levels([self.first.half_width(FIRST_TOKEN_LAW, columns, one) for one in each], seconds)[0]
        )

    def under_each(self, groups: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The groups under each engine that was measured on machines of the maker, by its name; releases not named."""
        pairs = (name.partition(" on ") for name in self.steps.seen("engine on generation"))
        names = sorted({name for name, _, at in pairs if at.split("-")[0] == groups["vendor"]})
        generation = groups["generation"]
        return {
            name: {**groups, "engine": name, "version": f"{name} ", "engine on generation": f"{name} on {generation}"}
            for name in names
        }

    def release_note(self, groups: Mapping[str, str]) -> str:
        """Where a release that was not measured lies beside those that were; "" where rows of it were fitted."""
        engine, _, version = groups["version"].partition(" ")
        if self.knows(groups, "version") or engine == UNNAMED:
            return ""
        measured = (name.partition(" ") for name in self.steps.seen("version"))
        return release_note(version, (each for name, _, each in measured if name == engine), "their mean")

    def knows(self, groups: Mapping[str, str], level: str) -> bool:
        """Whether rows of the group were fitted."""
        return groups[level] in self.steps.seen(level)


def step_parameters(steps: LawFit, *groups: Mapping[str, str]) -> StepParameters:
    """Of a step by its fitted law alone, for these groups; of several the geometric mean."""
    rows = {level.name: [one.get(level.name, UNGROUPED) for one in groups] for level in LEVELS}
    return StepParameters(**mean_of_levels(steps.values(STEP_LAW, rows, len(groups))))


def engine_condition(fitted: ServingFit, groups: Mapping[str, str], named: Condition, row: StepSum) -> Condition:
    """The engine as it was named, with what is known of its release; else between which measured ones a step lies.

    `row`: the step.
    """
    if groups["engine"] != UNNAMED:
        return replace(named, note=fitted.release_note(groups))
    times = {name: fitted.seconds(row, one) for name, one in fitted.under_each(groups).items()}
    fast, slow = min(times, key=times.__getitem__, default=""), max(times, key=times.__getitem__, default="")
    longer = ratio_shown(times[slow] / times[fast]) if times else ""
    decides = f"steps take {longer} x as long under {slow} as under {fast}; --engine decides; " if fast != slow else ""
    return Condition("engine", "not named", "unknown", f"{decides}cache and batching as {named.value} has them")


def step_groups(
    machine: Machine,
    chip: str,
    engine: str,
    version: str,
    model: str,
    stored: str = "bf16",
    source: str | None = None,
) -> dict[str, str]:
    """The groups of a step; without a version it is one that was not measured.

    `stored`: how weights are stored; 16 bits are 16 bits.
    `source`: who measured; of rows that are fitted `UNGROUPED`. None: nobody whose rows were fitted, and of others than
        GPUs few have measured servers.
    """
    if source is None:
        source = ANOTHER_SOURCE if machine_kind(machine) == "gpu" else UNMEASURED_SOURCE
    known = machine_groups(machine, chip)
    weights, generation = WIDE_AS.get(whole_name(stored), whole_name(stored)), known["generation"]
    return {
        **known, "engine": engine, "version": f"{engine} {version}", "model": model,
        "engine on generation": f"{engine} on {generation}", "weights": weights,
        "weights on generation": f"{weights} on {generation}", SOURCE: source,
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


def cache_for(model: LanguageModel, stored: str, engine: str, wanted: str = AUTO) -> tuple[str, str]:
    """`wanted`, or what `cache_of` says of a model whose weights are stored so; what its file says is of its weights.

    Raises InputError as `cache_of`, and where the wanted type is not known.
    """
    if wanted not in (AUTO, *CACHE_BYTES):
        raise unknown_name("type of cache", wanted, [AUTO, *CACHE_BYTES])
    if wanted != AUTO:
        return wanted, ""
    kind = weight_type(stored)
    return cache_of(engine, kind.compute, *((model.cache, model.quantiser) if stored == model.weights else ()))


def cache_of(engine: str, compute: str, stated: str = "", quantiser: str = "") -> tuple[str, str]:
    """The data type in which an engine caches keys and values where nobody named one, and why ("" where as usual).

    TensorRT-LLM takes the checkpoint's (`validate_and_set_kv_cache_quant`, tensorrt_llm/_torch/pyexecutor/
    model_loader.py; `kv_cache_scheme`, tensorrt_llm/models/quant_config_utils.py), which is FP8 where NVIDIA's Model
    Optimizer made FP8 or NVFP4 weights, and its benchmark forces FP8 beside FP8 weights (tensorrt_llm/bench/build).
    vLLM left it in 16 bits whatever the checkpoint stated before vllm-project/vllm#29980 (December 2025,
    `kv_cache_quant_algo`) and #30141 (January 2026, `kv_cache_scheme`). SGLang reads `kv_cache_quant_algo` alone
    (`configure_kv_cache_dtype`; sgl-project/sglang#12298 of October 2025, #18394). Without a version: the newest.

    `engine`: as a runtime's library says it ("vllm 0.19.0").
    `compute`: the data type that its weights are stored for (`WeightType.compute`).
    `stated`, `quantiser`: what the checkpoint says and which program wrote it (`LanguageModel.cache`); "": not known.
    Raises InputError where the engine is not known.
    """
    name, version = engine_of(engine)
    if stated and stated != WIDE_CACHE:
        since, numbers = _READS.get((name, quantiser)), tuple(map(int, re.findall(r"\d+", version)[:3]))
        if since is not None and (not numbers or numbers >= since):
            return stated, "as the checkpoint says"
        release = f"{name} before {'.'.join(map(str, since))}" if since else name
        return WIDE_CACHE, f"{release} does not read the checkpoint's {stated}"
    if not stated and name == "trtllm" and compute in ("float8", "nvfp4"):
        return "fp8", "TensorRT-LLM's with such weights"
    return WIDE_CACHE, ""
