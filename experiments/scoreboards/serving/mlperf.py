"""MLPerf inference v5.1, Offline: tokens/s of whole systems whose accelerator, or maker, no fit has seen.

The best load of the closed loop under the law of a step, times a factor with effects of the benchmark (the lengths of
prompts are not in the table, and a submission is tuned to its model) and of the maker, his stack, generation and chip,
at the widths of the same levels of a step's law: each maker tunes his own submissions, so that one factor for all would
charge a maker with what another's engineers reach. Both fits, of steps and of submissions, leave out what is scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.engines import step_parameters
from slipstick.estimators.engine_steps.step_law import LEVELS, STEP_LAW, machine_groups
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import FormulaLaw, Grouping, LawFit, LawRows, ParameterPrior
from slipstick.estimators.fitting.prediction_bands import Fold, calibrated
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import Deployment
from slipstick.experiments.scoreboards.serving.serving_refit import MAKER, public_cases
from slipstick.experiments.scoreboards.serving.step_fit import step_rows
from slipstick.experiments.scoring.score import PERCENT, Data, Scored
from slipstick.experiments.scoring.scored_cases import readable
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model

FILE, DATASET = "serving/mlperf_inference_v51.csv", "serving/mlperf_inference_v51"
HELD_OUT = {"accelerator unseen": "chip", MAKER: "vendor"}
"""What is left out, and the level of grouping that does it."""
GOALS = {"accelerator unseen": (10.0, 25.0)}
BENCHMARKS = {  # model, assumed tokens of a prompt, tokens made where the table has none
    "llama2-70b-99": ("llama-2-70b", 300, 292),
    "llama2-70b-99.9": ("llama-2-70b", 300, 292),
    "llama3.1-405b": ("llama-3.1-405b", 9400, 650),
    "llama3.1-8b": ("llama-3.1-8b", 800, 128),
    "mixtral-8x7b": ("mixtral-8x7b", 150, 145),
}
MACHINES = {  # words of an accelerator's name -> machine
    "GB300": "gb300", "GB200": "gb200", "B300": "b300-sxm", "B200": "b200-sxm", "H200": "h200-sxm",
    "H100-SXM": "h100-sxm", "H100-NVL": "h100-nvl", "H100-PCIE": "h100-pcie", "MI300X": "mi300x",
    "MI325X": "mi325x", "MI355X": "mi355x",
    "L40S": "l40s", "A100-SXM-80": "a100-sxm-80gb", "RTX PRO 6000": "rtx-pro-6000-server",
}  # fmt: skip
LOADS = (64, 256, 1024, 4096)
MACHINE_LEVELS = tuple(level for level in LEVELS if level.name in ("vendor", "stack", "generation", "chip"))
FACTOR = ParameterPrior(
    "factor", "1", "measured over the law of a step", 1.0, 0.0, 0.01, 100.0, "",
    ("benchmark", *(level.name for level in MACHINE_LEVELS)),
)  # fmt: skip
SUBMISSIONS = FormulaLaw(
    "mlperf-submissions", (FACTOR,), lambda those, columns: those["factor"] * columns["steps"],
    (Grouping("benchmark", 0.3), *MACHINE_LEVELS),
)  # fmt: skip
"""Seconds of a token an accelerator; lengths are assumed to a third."""


@dataclass(frozen=True)
class Result:
    """One Offline result that can be evaluated."""

    benchmark: str
    machine: str
    accelerators: float
    stored: str
    rate: float

    @property
    def each(self) -> float:
        """Measured tokens/s an accelerator."""
        return self.rate / self.accelerators

    @property
    def groups(self) -> dict[str, str]:
        """By what the factor varies; both accuracies of one model are mostly one run."""
        return {"benchmark": BENCHMARKS[self.benchmark][0], **machine_groups(machine(self.machine), self.machine)}


def mlperf_scores(data: Data) -> Iterator[Scored]:
    """Each accelerator from the others, and accelerators of makers that are no fit's only one."""
    public, (targets, refused) = read_results(data.known(FILE))[0], read_results(data.judged(FILE))
    reason = f"left out: {'; '.join(f'{reason}: {count}' for reason, count in sorted(refused.items()))}"
    every, steps = data.rows(public, targets, lambda one: one), step_rows(public_cases())
    results = every.rows
    for held, level in HELD_OUT.items():
        groups = [result.groups[level] for result in results]
        ours, half, peaks = (np.full(len(results), np.nan) for _ in range(3))
        for fold in every.folds(groups):
            if held == MAKER and fold.held_out == "nvidia":
                continue
            apart = np.flatnonzero(np.array(steps.groups[level]) != fold.held_out)
            rows = _rows(results, fit(STEP_LAW, steps.take(apart)))
            ours[fold.scored], half[fold.scored] = _submitted(rows, fold)
            for at in fold.scored.tolist():
                benchmark = rows.groups["benchmark"]
                others = [results[k] for k in fold.known.tolist() if benchmark[k] == benchmark[at]]
                peaks[at] = 1 / (_scaled(others) * peak_rate(results[at])) if others else np.nan
        there = np.flatnonzero(np.isfinite(ours))
        yield Scored(
            "Offline, time of a token", held, np.array([1 / results[at].each for at in there.tolist()]), ours[there],
            PERCENT, GOALS.get(held, ()), {"others, by peak flop/s": peaks[there]}, half=half[there], enough=20,
            noise=0.6, reason=reason, groups=[groups[at] for at in there.tolist()],
        )  # fmt: skip


def _submitted(rows: LawRows, fold: Fold) -> tuple[FloatArray, FloatArray]:
    """Seconds of what is left out, and half of their band, by submissions that a fold knows."""
    known, scored = rows.take(fold.known), rows.take(fold.scored)
    made = calibrated(SUBMISSIONS, known, known.groups["chip"])
    return (
        made.seconds(SUBMISSIONS, scored.columns, scored.groups),
        made.half_width(SUBMISSIONS, scored.columns, scored.groups),
    )


def _rows(results: Sequence[Result], steps: LawFit) -> LawRows:
    """Results beside what fitted steps say of them."""
    rates: dict[tuple[str, str, str], float] = {}
    for result in results:
        key = result.benchmark, result.machine, result.stored
        if key not in rates:
            rates[key] = model_rate(result, steps)
    names = [(result.benchmark, result.machine, result.stored) for result in results]
    return LawRows(
        {"steps": np.array([1 / rates[name] for name in names])},
        {name: [result.groups[name] for result in results] for name in FACTOR.levels},
        [" ".join(name) for name in names],
        np.array([1 / result.each for result in results]),
        ["mlperf"] * len(results),
    )


def _scaled(others: Sequence[Result]) -> float:
    """The median over other accelerators (each counts once) of the measured rate over the peak."""
    each: dict[str, list[float]] = {}
    for result in others:
        each.setdefault(result.machine, []).append(math.log(result.each / peak_rate(result)))
    return math.exp(float(np.median([np.median(v) for v in each.values()])))


def peak_rate(result: Result) -> float:
    """Flop/s of the data type that the weights are stored in, as a rate up to a factor."""
    rates = machine(result.machine).engines["matrix"].flop_per_cycle
    names = {"nvfp4": ("float4", "float8"), "nvfp4_experts": ("float4", "float8"), "fp8": ("float8",)}
    at = machine(result.machine)
    for name in (*names.get(result.stored, ()), "bfloat16", "float16"):
        if name in rates:
            return at.peak("matrix", name)
    return at.peak("matrix", next(iter(rates)))


def model_rate(result: Result, steps: LawFit) -> float:
    """Tokens/s an accelerator at the best load, by fitted steps.

    Raises InputError where the model fits no 16 of the machine.
    """
    model, inputs, outputs = BENCHMARKS[result.benchmark]
    at = machine(result.machine)
    engine = "vllm" if result.machine.startswith("mi") else "trtllm"
    for tensor in (1, 2, 4, 8, 16):
        layout = Layout(min(tensor, 8), max(1, tensor // 8))
        rules = Scheduler(8192, 4096)
        try:
            one = Deployment(language_model(model), at, layout, result.stored, "fp8", engine, rules=rules)
            step = StepTime.for_machine(at, one.shares, step_parameters(steps, one.groups))
            states = [steady(step.seconds, one.scheduler, Load(inputs, outputs, users)) for users in LOADS]
        except InputError:
            continue
        return max(state.output_rate for state in states) / layout.devices
    raise InputError(f"{model} does not fit 16 x {result.machine}")


def read_results(path: Path) -> tuple[list[Result], dict[str, int]]:
    """Offline results without doubts, and those left out by reason."""
    needed = ("benchmark", "scenario", "accelerator", "accelerators", "weight_type", "tokens_per_s", "suspicious")
    rows = (row for _, row in read_csv_rows(path, needed) if row["scenario"] == "Offline")
    return readable(rows, _result)


def _result(row: dict[str, str]) -> Result:
    if row["suspicious"]:
        raise InputError(row["suspicious"])
    if row["benchmark"] not in BENCHMARKS:
        raise InputError(f"benchmark {row['benchmark']}: not modelled")
    name = next((m for words, m in MACHINES.items() if words in row["accelerator"].upper()), None)
    name = name or name_of_device(row["accelerator"])
    if name is None or name not in machine_names():
        raise InputError(f"accelerator {row['accelerator']}: no machine here")
    if not row["tokens_per_s"] or not row["accelerators"]:
        raise InputError("no rate or no number of accelerators")
    model = language_model(BENCHMARKS[row["benchmark"]][0])
    four = "nvfp4_experts" if model.experts else "nvfp4"
    stored = {"fp8": "fp8", "fp4": four, "mxfp4": four, "bf16": "bf16", "fp16": "fp16"}.get(row["weight_type"], "bf16")
    return Result(row["benchmark"], name, float(row["accelerators"]), stored, float(row["tokens_per_s"]))
