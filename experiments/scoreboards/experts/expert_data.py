"""Layers of experts and latent attention of public serving stacks: the tables, and one fit for several machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.frames import parquet_frame
from slipstick.estimators.engine_steps.step_law import machine_groups
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import UNGROUPED, Columns, Grouping, LawFit, LawRows, ParameterPrior
from slipstick.estimators.symbolic.formula import declared
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.experts.expert_layers import (
    ExpertLayers,
    LatentAttentions,
    LayerParameters,
    expert_times,
    latent_decode_times,
    latent_prefill_times,
)
from slipstick.experiments.scoreboards.gpu.gpu_data import machine_of
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 0.55}
WEIGHTS |= {"nvfp4": 0.5625, "w4a16_mxfp4": 0.53125, "w4a8_mxfp4_mxfp8": 0.53125, "w4afp8": 0.53125}
"""Bytes of a weight, scales of groups included."""
ARITHMETIC = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "fp8": "float8",
    "fp8_block": "float8",
    "int4_wo": "bfloat16",
    "w4a16_mxfp4": "bfloat16",
    "w4a8_mxfp4_mxfp8": "float8",
    "w4afp8": "float8",
    "nvfp4": "float4",
}
ROUTINGS = {"balanced": "balanced", "uniform": "balanced", "power_law_1.01": "skewed", "power_law_1.2": "busiest"}
SPREADS = {
    "launch": 0.8,
    "compute_efficiency": 0.4,
    "memory_efficiency": 0.3,
    "block": 0.5,
    "overlap": 0.7,
    "resident": 0.7,
}
"""Of the logarithms, before any machine was measured."""
LEVELS = (Grouping("generation", 0.15), Grouping("chip", 0.1))
VARY = dict.fromkeys(("launch", "compute_efficiency", "memory_efficiency"), ("generation", "chip"))
"""What differs from machine to machine beyond its data sheet."""
SHAPES = {"experts": ("hidden_size", "inter_size", "topk", "num_experts"), "prefill": ("num_heads",)}
SHAPES |= {"decode": SHAPES["prefill"]}
"""Rows of one machine and model err alike."""
SAMPLE = 600
"""Rows of a machine that a fit looks at."""


@dataclass(frozen=True)
class ExpertCase:
    """Calls of one kind by one library in one data type."""

    kind: str
    library: str
    dtype: str

    def predicted(self, frame: pd.DataFrame, machine: Machine, has: LayerParameters) -> FloatArray:
        """Seconds of each row."""
        if self.kind == "experts":
            return expert_times(_layers(frame), machine, ARITHMETIC[self.dtype], has)
        calls = LatentAttentions(
            frame["batch_size"].to_numpy(float),
            frame["num_heads"].to_numpy(float),
            (frame["isl"] + frame["step"]).to_numpy(float),
            np.where(frame["kv_cache_dtype"] == "fp8", 1.0, 2.0),
        )
        times: Callable[..., FloatArray] = latent_prefill_times if self.kind == "prefill" else latent_decode_times
        return times(calls, machine, has)


def _layers(frame: pd.DataFrame) -> ExpertLayers:
    def of(name: str) -> FloatArray:
        return frame[name].to_numpy(float)

    routing: Any = frame["distribution"].map(ROUTINGS).tolist()
    inner = np.asarray(frame["inter_size"] / frame["moe_tp_size"], dtype=np.float64)
    weight = np.asarray(frame["moe_dtype"].map(WEIGHTS), dtype=np.float64)
    ranks = of("moe_ep_size")
    return ExpertLayers(
        of("num_tokens"), of("hidden_size"), inner, of("topk"), of("num_experts"), ranks, weight, routing
    )


def frames(folder: Path) -> dict[ExpertCase, pd.DataFrame]:
    """Rows by case, with `machine` (the catalogue's name, "" where it is not there) and `time` [s]."""
    import pandas as pd

    result: dict[ExpertCase, list[pd.DataFrame]] = {}
    for path in sorted((folder / "gpu/aiconfigurator").glob("*/m[ol][ea]/*/*/*.parquet")):
        kind = {"moe_perf": "experts", "context_mla_perf": "prefill", "generation_mla_perf": "decode"}.get(path.stem)
        if kind is None:
            continue
        frame = parquet_frame(path)
        frame = frame[frame["latency"] > 0].assign(machine=machine_of(path.parts[-5]), stack=path.parts[-3])
        frame["time"] = frame["latency"] * 1e-3
        library, dtype = ("kernel_source", "moe_dtype") if kind == "experts" else ("stack", "mla_dtype")
        if kind == "experts":
            frame = frame[frame["moe_dtype"].isin(list(WEIGHTS)) & frame["distribution"].isin(list(ROUTINGS))]
        for (source, width), part in frame.groupby([library, dtype]):
            result.setdefault(ExpertCase(kind, str(source), str(width)), []).append(part)
    return {case: pd.concat(parts, ignore_index=True) for case, parts in result.items()}


def standing_in(case: ExpertCase, known: Collection[ExpertCase]) -> ExpertCase | None:
    """The measured case whose parameters a library or data type that nobody timed gets: of the same kind and library,
    then of the same width of weights; None where nothing of the kind is known.

    Engines are not pooled: parameters of one library stand in for another's only where it was never timed at all.
    """
    alike = [other for other in known if other.kind == case.kind]

    def distance(other: ExpertCase) -> tuple[bool, float, bool, str]:
        width = abs(WEIGHTS.get(other.dtype, 2.0) - WEIGHTS.get(case.dtype, 2.0))
        return other.library != case.library, width, "block" not in other.dtype, repr(other)

    return min(alike, key=distance, default=None)


@dataclass(frozen=True)
class LayerLaw:
    """Seconds of calls of one case on several machines; a row is named by its machine and place among its rows."""

    case: ExpertCase
    machines: tuple[Machine, ...]
    calls: tuple[pd.DataFrame, ...]
    parameters: Sequence[ParameterPrior]
    name: str = "layers"
    levels: Sequence[Grouping] = LEVELS

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        seconds = np.empty(len(columns["machine"]))
        for at, (one, calls) in enumerate(zip(self.machines, self.calls, strict=True)):
            mine = columns["machine"] == at
            has: Any = SimpleNamespace(**{name: values[mine] for name, values in parameters.items()})
            seconds[mine] = self.case.predicted(calls.iloc[columns["row"][mine].astype(int)], one, has)
        return seconds


@dataclass(frozen=True, eq=False)
class FittedLayers:
    """A case's law with what rows of some machines say of it."""

    case: ExpertCase
    law: LayerLaw
    fit: LawFit

    @cached_property
    def parameters(self) -> LayerParameters:
        """What a machine of no known generation has."""
        values = self.fit.values(self.law, {level.name: [UNGROUPED] for level in LEVELS})
        return LayerParameters(**{name: float(value[0]) for name, value in values.items()})

    def half_width(self, frame: pd.DataFrame, machine: Machine) -> FloatArray:
        """Half of the 80 % band of log time of each row on a machine of a generation that was not fitted."""
        law = replace(self.law, machines=(machine,), calls=(frame,))
        columns = {"machine": np.zeros(len(frame)), "row": np.arange(len(frame), dtype=float)}
        groups = machine_groups(machine, machine.name)
        return self.fit.half_width(law, columns, {level.name: [groups[level.name]] * len(frame) for level in LEVELS})


def fitted(case: ExpertCase, frame: pd.DataFrame) -> FittedLayers:
    """What machines of a frame have in common: their generations and chips have effects of their own."""
    parts = [
        (machine(str(name)), part.sample(min(SAMPLE, len(part)), random_state=1))
        for name, part in frame.groupby("machine")
        if name
    ]
    before = LayerParameters(block=64.0) if case.kind != "experts" else LayerParameters()
    notes = declared(LayerParameters)
    priors = [
        ParameterPrior(
            name, notes[name].unit, notes[name].meaning, getattr(before, name), spread, notes[name].low,
            notes[name].high, name, VARY.get(name, ()),
        )
        for name, spread in SPREADS.items()
    ]  # fmt: skip
    law = LayerLaw(case, tuple(one for one, _ in parts), tuple(part for _, part in parts), priors)
    groups = [machine_groups(one, one.name) for one, part in parts for _ in range(len(part))]
    shapes = [
        f"{one.name} {shape}" for one, part in parts for shape in part[list(SHAPES[case.kind])].to_numpy().tolist()
    ]
    rows = LawRows(
        {
            "machine": np.repeat(np.arange(len(parts)), [len(part) for _, part in parts]).astype(float),
            "row": np.concatenate([np.arange(len(part)) for _, part in parts]).astype(float),
        },
        {level.name: [one[level.name] for one in groups] for level in LEVELS},
        shapes,
        np.concatenate([part["time"].to_numpy(float) for _, part in parts]),
        ["measured"] * len(groups),
    )
    return FittedLayers(case, law, fit(law, rows))
