"""Serving against public rows: times of tokens on held-out models, systems, versions and generations; picks; requests.

Errors are |predicted / measured - 1|. The fit sees nothing of what is held out. `scored` names other rows of the same
columns: then all public rows are known but those that stand in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.engines import ServingFit
from slipstick.estimators.engine_steps.first_token import FIRST_TOKEN_LAW
from slipstick.estimators.engine_steps.step_law import STEP_LAW, least_seconds
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import LeftOutRows
from slipstick.experiments.calibrate.public_data import scored_file
from slipstick.experiments.scoreboards.serving.disaggregated import pool_scores
from slipstick.experiments.scoreboards.serving.inferencex import FILE as MORE
from slipstick.experiments.scoreboards.serving.inferencex import read_inferencex
from slipstick.experiments.scoreboards.serving.mlperf import mlperf_scores
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
    trained_on,
)  # fmt: skip
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase, read_cases
from slipstick.experiments.scoreboards.serving.step_fit import banded, first_rows, fitted, groups_of, step_rows
from slipstick.experiments.scoreboards.serving.system_choice import Predictions, picks
from slipstick.experiments.scoring.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import PERCENT, Board, Data, Front, Part, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

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
