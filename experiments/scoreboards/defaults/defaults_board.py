"""Scoreboard: the default answer against public figures of whole models, beside the data sheet's roofline.

The figures were listed before the defaults were chosen (figures.yaml, its own commit); none is left out, and a figure
that cannot be evaluated counts as refused. Errors are of time: |ours / published - 1|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.scores import LEVEL, binomial_interval, half_widths_away
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.scoreboards.defaults.published_times import Figure, figures
from slipstick.experiments.scoring.score import Board, Data, Front
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime
from slipstick.hwmodels.catalog import machine_names
from slipstick.workloads.catalog import workload
from slipstick.workloads.transforms.attention import flash_attention

DATASET, BOUNDS = "public figures of whole models", "default estimators on every machine"
MEDIAN_GOAL, NINETIETH_GOAL = 0.15, 0.40
HELD_OUT = "no calibration was fitted to any of them"
FARTHEST = 20.0
KERNELS = {
    "gemm": ["workload.m=4096", "workload.n=4096", "workload.k=4096"],
    "vector-sum": ["workload.elements=1e8"],
    "bert-base-inference": ["workload.batch=8"],
}


@dataclass(frozen=True)
class Answered:
    """A figure, and its prediction: seconds, the band, and the roofline's seconds."""

    figure: Figure
    measured: float
    ours: float
    low: float
    high: float
    plain: float

    @property
    def ratio(self) -> float:
        """ours / published."""
        return self.ours / self.measured

    @property
    def inside(self) -> bool:
        """Whether the published time lies in the band."""
        return self.low <= self.measured <= self.high


def answered(figure: Figure, scored: Path | None = None) -> Answered:
    """The default answer to a figure's question.

    Raises InputError where it cannot be evaluated, or its row is missing.
    """
    measured = figure.measured(scored)
    times = [_times(figure, name, sizes) for name, sizes, _ in _parts(figure)]
    ours, low, high, plain = np.array([count for *_, count in _parts(figure)]) @ np.array(times)
    return Answered(figure, measured, float(ours), float(low), float(high), float(plain))


def _figures(data: Data) -> Iterator[ValidationRow]:
    """Over all figures and by group; then every figure as ours / published."""
    answers: list[Answered] = []
    refused: list[tuple[Figure, str]] = []
    missing: list[tuple[Figure, str]] = []
    for figure in figures().figures:
        if reason := figures().sources[figure.source].left_out:
            missing.append((figure, reason))
            continue
        try:
            figure.measured(data.scored)
        except InputError as error:
            missing.append((figure, str(error)))
            continue
        try:
            answers.append(answered(figure, data.scored))
        except InputError as error:
            refused.append((figure, str(error)))
    groups = list(dict.fromkeys(figure.group for figure in figures().figures))
    yield from _scores("all", answers, f"{len(refused)} refused, {len(missing)} left out or not here", goals=True)
    for group in groups:
        yield from _scores(group, [one for one in answers if one.figure.group == group], "", goals=False)[:1]
    yield from map(_row, answers)
    yield from (_skipped(figure, f"refused: {why}") for figure, why in refused)
    yield from (_skipped(figure, why) for figure, why in missing)


def _parts(figure: Figure) -> list[tuple[str, dict[str, float], float]]:
    """The questions of a figure: workload, further sizes, and how often its time counts."""
    if figure.generate is None:
        return [(figure.workload, {}, 1.0)]
    prompt, new = figure.generate
    reading = (f"{figure.workload}-inference", {"workload.seq_len": float(prompt)}, 1.0)
    return [reading, (f"{figure.workload}-decode", {"workload.seq_len": prompt + new / 2}, float(new))]


def questions(figure: Figure) -> list[Question]:
    """The questions of a figure, for the default answer."""
    return [_question(figure, name, sizes, None) for name, sizes, _ in _parts(figure)]


def _question(figure: Figure, name: str, sizes: dict[str, float], estimator: str | None) -> Question:
    settings = [*figure.settings(), *(f"{key}={value:g}" for key, value in sizes.items())]
    graph = workload(name)
    if figure.attention == "flash":
        graph = flash_attention(graph)
    return question(graph, figure.machine, estimator, settings, figure.dtype)


def _times(figure: Figure, name: str, sizes: dict[str, float]) -> tuple[float, float, float, float]:
    """Seconds of one question: default answer, its band, the plain roofline."""
    answer = _question(figure, name, sizes, None).answer()
    low, high = answer.interval(LEVEL) or (answer.time, answer.time)
    return answer.time, low, high, _question(figure, name, sizes, "roofline").answer().time


def _scores(case: str, answers: Sequence[Answered], note: str, *, goals: bool) -> list[ValidationRow]:
    if not answers:
        return []
    error = np.array([abs(one.ratio - 1) for one in answers])
    plain = np.array([abs(one.plain / one.measured - 1) for one in answers])
    inside = float(np.mean([one.inside for one in answers]))
    width = float(np.median([one.high / one.low for one in answers]))
    sources = [one.figure.source for one in answers]
    low, ours, high, measured = np.array([(one.low, one.ours, one.high, one.measured) for one in answers]).T
    away = half_widths_away(low, ours, high, measured)
    made = []
    for metric, share, goal in (("median error", 0.5, MEDIAN_GOAL), ("90th percentile", 0.9, NINETIETH_GOAL)):
        figure = float(np.quantile(error, share))
        made.append(
            ValidationRow(
                DATASET,
                case,
                HELD_OUT,
                len(answers),
                f"{metric} of |ours / published - 1|",
                "1",
                figure,
                {"roofline": float(np.quantile(plain, share))},
                goal if goals else None,
                figure <= goal if goals else None,
                LEVEL,
                inside,
                width,
                reason=note,
            ).over(sources, [one.inside for one in answers], away)
        )
    if goals:
        least, most = binomial_interval(round(inside * len(answers)), len(answers))
        made.append(
            ValidationRow(
                DATASET,
                case,
                HELD_OUT,
                len(answers),
                "share of figures inside the band",
                "1",
                inside,
                ok=bool(least <= LEVEL <= most),
                goal=LEVEL,
                reason=f"its 95 % interval {least:.2f} to {most:.2f} is to contain {LEVEL:g}",
            )
        )
    return made


def _bounds(_: Data) -> list[ValidationRow]:
    """Every machine of the catalogue by its default against the data sheet's bound, of a product and of a sum."""
    made = []
    for name, sizes in KERNELS.items():
        ratios, refused = {}, []
        for target in machine_names():
            try:
                ours, bound = (
                    question(name, target, model_name, sizes, "float32").answer().time
                    for model_name in (None, "roofline")
                )
            except InputError:
                refused.append(target)
                continue
            ratios[target] = ours / bound
        nearest, farthest = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        made.append(
            ValidationRow(
                BOUNDS,
                name,
                "",
                len(ratios),
                "farthest from the roofline, ours / roofline",
                "1",
                ratios[farthest],
                goal=FARTHEST,
                ok=ratios[nearest] >= 0.999 and ratios[farthest] <= FARTHEST,
                reason=f"{farthest}; nearest {nearest} with {ratios[nearest]:.3f}: none may be below 1; "
                f"{len(refused)} refused{': ' if refused else ''}{', '.join(refused)}",
            )
        )
    return made


def _row(one: Answered) -> ValidationRow:
    figure = one.figure
    notes = [figure.group, figures().sources[figure.source].name]
    return ValidationRow(
        DATASET,
        figure.id,
        "",
        1,
        "ours / published",
        "1",
        one.ratio,
        {"roofline": one.plain / one.measured},
        interval_level=LEVEL,
        interval_coverage=float(one.inside),
        interval_width=one.high / one.low,
        reason="; ".join(notes),
    )


def _skipped(figure: Figure, why: str) -> ValidationRow:
    return ValidationRow(DATASET, figure.id, "", 0, "ours / published", "1", None, reason=why)


def _case_set(data: Data) -> CaseSet:
    """Inputs: workload, machine, dtype, mode and sizes; figures whose rows are not here are left out.

    Raises InputError where the public data are missing.
    """
    result = []
    for figure in figures().figures:
        try:
            result.append((figure, figure.measured(data.scored)))
        except InputError:
            continue
    if not result:
        raise InputError("defaults: none of the figures' rows is here (set SLIPSTICK_DATA)")

    @cache
    def answer(place: int) -> Answered | None:
        try:
            return answered(result[place][0], data.scored)
        except InputError:
            return None

    def reference(predict: Callable[[Answered], StatedTime]) -> Callable[[], list[StatedTime | None]]:
        def read() -> list[StatedTime | None]:
            answers = [answer(place) for place in range(len(result))]
            return [None if one is None else predict(one) for one in answers]

        return read

    references = {
        "ours": reference(lambda one: StatedTime(one.ours, one.low, one.high)),
        "roofline": reference(lambda one: StatedTime(one.plain)),
    }
    measured = tuple(Measured(_case(figure), seconds) for figure, seconds in result)
    return CaseSet("defaults", "kind of model", measured, references)


def _case(figure: Figure) -> Case:
    inputs: dict[str, Input] = {"workload": figure.workload, "machine": figure.machine, "dtype": figure.dtype or ""}
    inputs |= {"mode": figure.mode or "", "attention": figure.attention or "", **figure.set}
    if figure.generate:
        inputs["generate"] = tuple(map(float, figure.generate))
    return Case(figure.id, figure.group, inputs)


BOARD = Board(
    "How long does a whole model take, by the answer that is given where nothing but model and machine is named?",
    {DATASET: _figures, BOUNDS: _bounds},
    (Front("A whole model, by default", "the figures", "all", HELD_OUT),),
    {BOUNDS: "machines of the catalogue; there is no file to score"},
    cases=_case_set,
)
