"""Serving against public rows: times of tokens on held-out models, systems, versions and generations; picks; requests.

Errors are |predicted / measured - 1|. The fit sees nothing of what is held out. `scored` names other rows of the same
columns: then all public rows are known but those that stand in it.

MLPerf inference v5.1, Offline: tokens/s of whole systems whose accelerator, or maker, no fit has seen.

The best load of the closed loop under the law of a step, times a factor with effects of the benchmark (the lengths of
prompts are not in the table, and a submission is tuned to its model) and of the maker, his stack, generation and chip,
at the widths of the same levels of a step's law: each maker tunes his own submissions, so that one factor for all would
charge a maker with what another's engineers reach. Both fits, of steps and of submissions, leave out what is scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.engines import ServingFit, step_parameters
from slipstick.estimators.engine_steps.first_token import FIRST_TOKEN_LAW
from slipstick.estimators.engine_steps.step_law import LEVELS, STEP_LAW, least_seconds, machine_groups
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import FormulaLaw, Grouping, LawFit, LawRows, ParameterPrior
from slipstick.estimators.fitting.prediction_bands import Fold, LeftOutRows, calibrated
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import Deployment
from slipstick.experiments.calibrate.public_data import scored_file
from slipstick.experiments.scoreboards.serving.disaggregated import pool_scores
from slipstick.experiments.scoreboards.serving.inferencex import FILE as MORE
from slipstick.experiments.scoreboards.serving.inferencex import read_inferencex
from slipstick.experiments.scoreboards.serving.request_scores import request_scores
from slipstick.experiments.scoreboards.serving.serving_baselines import (
    Roofs,
    first_by_rule,
    nearest_scaled,
    one_efficiency,
    seven_numbers,
)
from slipstick.experiments.scoreboards.serving.serving_refit import (
    FILE,
    GENERATION,
    HELD_OUT,
    KINDS,
    LABELS,
    MAKER,
    MORE_ROWS,
    label,
    level_of,
    more_cases,
    outer,
    public_cases,
    trained_on,
)  # fmt: skip
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase, read_cases
from slipstick.experiments.scoreboards.serving.step_fit import banded, first_rows, fitted, groups_of, step_rows
from slipstick.experiments.scoreboards.serving.system_choice import Predictions, picks
from slipstick.experiments.scoring.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import PERCENT, Board, Data, Front, Part, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime, readable
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model

MLPERF_FILE, MLPERF = "serving/mlperf_inference_v51.csv", "serving/mlperf_inference_v51"
MLPERF_HELD_OUT = {"accelerator unseen": "chip", MAKER: "vendor"}
"""What is left out, and the level of grouping that does it."""
MLPERF_GOALS = {"accelerator unseen": (10.0, 25.0)}
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
    public, (targets, refused) = read_results(data.known(MLPERF_FILE))[0], read_results(data.judged(MLPERF_FILE))
    reason = f"left out: {'; '.join(f'{reason}: {count}' for reason, count in sorted(refused.items()))}"
    every, steps = data.rows(public, targets, lambda one: one), step_rows(public_cases())
    results = every.rows
    for held, level in MLPERF_HELD_OUT.items():
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
            PERCENT, MLPERF_GOALS.get(held, ()), {"others, by peak flop/s": peaks[there]}, half=half[there], enough=20,
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


DATASET = "serving/silicon"
ENOUGH = 20
GOALS = {  # median and 90th percentile, %
    ("model unseen", "dense"): (12, 28),
    ("model unseen", "experts"): (15, 35),
    ("rows given", "dense"): (12, 28),
    ("rows given", "experts"): (15, 35),
    ("engine version unseen", "experts"): (20, 40),
    ("Blackwell from Hopper", "dense"): (7, 17),
    ("Blackwell from Hopper", "experts"): (15, 35),
}
FIRST_GOAL = (30, 100)
UNSAID = "DeepSeek, speculation not recorded"
"""Rows given from outside of which nobody says whether they speculated; public ones are left out."""
NOISE = {"tpot": 0.3, "ttft": 1.8}
ANSWERED_GOAL = 95.0


def _silicon(data: Data) -> Iterator[Scored | ValidationRow]:
    """Times of first and further tokens, and picks."""
    cases, refused = read_cases(data.known(FILE))
    yield from _unseen(cases)
    yield _answered(cases, refused)


def _given(data: Data) -> Iterator[Scored | ValidationRow]:
    """Rows of other files: everything public is known, but what stands in them."""
    more = scored_file(MORE, data.scored)
    scored, refused = ([], {}) if more is None else read_inferencex(more)
    if more is None or (data.judged_folder / FILE).exists():
        those, why = read_cases(data.judged(FILE))
        scored, refused = [*those, *scored], {k: why.get(k, 0) + refused.get(k, 0) for k in {**why, **refused}}
    cases = [*read_cases(data.known(FILE))[0], *more_cases()]
    known = trained_on(data.learnt(cases, scored, case_key))
    made, law = banded(known), STEP_LAW
    for kind in (*LABELS, UNSAID):
        mine = [c for c in scored if (c.scored and label(c) == kind) or (c.may_speculate and kind == UNSAID)]
        if not mine:
            continue
        rows = step_rows(mine)
        half = made.steps.half_width(law, rows.columns, rows.groups)
        same = [c for c in known if c.kind == mine[0].kind] or known
        others = (seven_numbers(same, mine)[0], one_efficiency(same, mine), nearest_scaled(same, mine))
        further = made.steps.seconds(law, rows.columns, rows.groups)
        predicted = Predictions(mine, further, _first_seconds(made, mine), *others)
        one = replace(_further(predicted, half, kind, "rows given"), least=least_seconds(rows.columns))
        yield replace(one, reason="answered as if none of them speculated") if kind == UNSAID else one
        yield _first(predicted, kind, "rows given")
        if kind in KINDS:
            yield from picks(predicted, kind, "rows given", float(np.median(half)))
    yield _answered(scored, refused)


def case_key(case: SiliconCase) -> tuple[object, ...]:
    """What makes two rows one."""
    return (case.family, case.layout, case.load)


def _unseen(cases: Sequence[SiliconCase]) -> Iterator[Scored | ValidationRow]:
    """Public rows by what is held out; widths of pulls and bands come from folds within each fold."""
    known = trained_on([*cases, *more_cases()])
    rows = step_rows(known)
    for held in (*HELD_OUT, GENERATION, MAKER):
        made = outer(known, rows, held)
        for kind in LABELS if held != MAKER else (MORE_ROWS,):
            predicted, half = _beside(known, rows, made, kind, held)
            yield _further(predicted, half, kind, held, level_of(held))
            if held == "model unseen":
                yield _first(predicted, kind, held)
            if held == "system unseen" and kind in KINDS:
                yield from picks(predicted, kind, held, float(np.median(half)))


def _beside(
    cases: Sequence[SiliconCase], rows: LawRows, made: LeftOutRows, kind: str, held: str
) -> tuple[Predictions, FloatArray]:
    """Rows of one kind in the order of what was left out: ours, the first token and the baselines; half-widths."""
    names, order = np.array(made.groups), list[int]()
    parts: list[tuple[FloatArray, ...]] = []
    level = rows.groups[level_of(held)]
    for name in sorted(set(names) - {""}):
        places = np.flatnonzero((names == name) & np.array([label(c) == kind for c in cases]))
        if not len(places):
            continue
        apart = set(name.split("; "))
        known = [c for c, group in zip(cases, level, strict=True) if group not in apart]
        mine = [cases[at] for at in places.tolist()]
        same = [c for c in known if c.kind == mine[0].kind] or known
        needs_first = held in ("model unseen", "system unseen")
        first = _first_seconds(fitted(known), mine) if needs_first else np.zeros(len(mine))
        parts.append((first, seven_numbers(same, mine)[0], one_efficiency(same, mine), nearest_scaled(same, mine)))
        order += places.tolist()
    scored = [cases[at] for at in order]
    first, *others = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Predictions(scored, made.seconds[order], first, *others), made.half[order]


def _first_seconds(made: ServingFit, cases: Sequence[SiliconCase]) -> FloatArray:
    rows = first_rows(made.steps, cases)
    return made.first.seconds(FIRST_TOKEN_LAW, rows.columns, rows.groups)


def _further(predicted: Predictions, half: FloatArray, kind: str, held: str, level: str = "model") -> Scored:
    others = {"seven numbers": predicted.seven, "one efficiency": predicted.one, "nearest, scaled": predicted.nearest}
    others[RULE] = Roofs(predicted.scored).rule
    return Scored(
        f"time of a further token, {kind}", held, np.array([c.tpot for c in predicted.scored]), predicted.further,
        PERCENT, GOALS.get((held, kind), ()), others, half=half, enough=ENOUGH, noise=NOISE["tpot"],
        groups=[groups_of(c)[level] for c in predicted.scored],
    )  # fmt: skip


def _first(predicted: Predictions, kind: str, held: str) -> Scored:
    return Scored(
        f"time to the first token, {kind}", held, np.array([c.ttft for c in predicted.scored]), predicted.first,
        PERCENT, FIRST_GOAL, {RULE: first_by_rule(predicted.scored)}, enough=ENOUGH, noise=NOISE["ttft"],
        groups=[c.model.name for c in predicted.scored],
        reason="illustration: taken as means where medians are not known (the table does not state it)",
    )  # fmt: skip


def _answered(scored: Sequence[SiliconCase], refused: dict[str, int]) -> ValidationRow:
    """Share of aggregated rows that get an answer; pools apart are refused."""
    apart = sum(count for reason, count in refused.items() if "pools apart" in reason)
    other = sum(refused.values()) - apart
    share = 100 * len(scored) / max(1, len(scored) + other)
    listed = "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items())) or "none refused"
    count = len(scored) + other
    return ValidationRow(
        DATASET, "rows answered", "", count, "share", "%", share, goal=ANSWERED_GOAL, ok=share >= ANSWERED_GOAL,
        reason=f"refused: {listed}",
    )  # fmt: skip


def _case_set(data: Data) -> CaseSet:
    """Inputs: model, machine, engine and version, layout, types of weights, tokens and users; times of one token.

    Raises InputError where the public data are missing.
    """
    every = trained_on(read_cases(data.judged(FILE))[0])
    wanted = [one for one in every if one.scored]
    measured = tuple(Measured(_case(one, number), one.tpot) for number, one in enumerate(wanted))

    @cache
    def held_out(name: str) -> FloatArray:
        """Predictions of every model's rows from those of the others."""
        seconds = np.zeros(len(wanted))
        for model in sorted({one.model.name for one in wanted}):
            places = [place for place, one in enumerate(wanted) if one.model.name == model]
            known, mine = [one for one in every if one.model.name != model], [wanted[place] for place in places]
            same = [one for one in known if one.kind == mine[0].kind] or known
            baseline = one_efficiency if name == "roofline with one efficiency" else nearest_scaled
            seconds[places] = baseline(same, mine)
        return seconds

    def ours() -> list[StatedTime | None]:
        made = outer(every, step_rows(every), "model unseen")
        rows = [(made.seconds[at], np.exp(made.half[at])) for at, one in enumerate(every) if one.scored]
        return [StatedTime(float(s), float(s / f), float(s * f)) for s, f in rows]

    def baseline(name: str) -> Callable[[], list[StatedTime | None]]:
        return lambda: [StatedTime(float(seconds)) for seconds in held_out(name)]

    names = ("roofline with one efficiency", "nearest known row, scaled")
    return CaseSet("serving", "model", measured, {"ours": ours} | {name: baseline(name) for name in names})


def _case(one: SiliconCase, number: int) -> Case:
    model, layout = one.model, one.layout
    inputs: dict[str, Input] = {
        **model_inputs(model), "machine": one.machine_name, **machine_inputs(one.machine),
        "engine": one.engine, "version": one.version, "weights": one.stored, "tensor": layout.tensor,
        "pipeline": layout.pipeline, "replicas": layout.replicas, "expert": layout.expert,
        "input_tokens": one.load.input_tokens, "output_tokens": one.load.output_tokens, "users": one.load.users,
    }  # fmt: skip
    return Case(f"{number}: {model.name} on {one.system}, {one.load.users} users", model.name, inputs, one.kind)


BOARD = Board(
    "How long does a token take when I serve a language model on a machine, engine or model never measured?",
    {
        DATASET: Part(_silicon, _given),
        "serving/pools apart": pool_scores,
        "serving/requests": request_scores,
        "serving/mlperf_inference_v51": mlperf_scores,
    },
    (
        Front("Time of a further token, dense models", "the model", "time of a further token, dense", "model unseen"),
        Front("Time of a further token, experts", "the model", "time of a further token, experts", "model unseen"),
        Front("Time to the first token, dense models", "the model", "time to the first token, dense", "model unseen"),
    ),
    cases=_case_set,
)
