"""Serving against public rows: times of tokens on held-out models, systems, versions and generations; picks; requests.

Errors are |predicted / measured - 1|. The fit sees nothing of what is held out. `scored` names other rows of the same
columns: then all public rows are known but those that stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.serving.baselines import nearest_scaled, one_efficiency, seven_numbers
from slipstick.experiments.evidence.validation.serving.picks import pick_rows
from slipstick.experiments.evidence.validation.serving.refit import (
    FILE,
    KINDS,
    calibration_of,
    left_out,
    model_of,
    system_of,
    trained_on,
)  # fmt: skip
from slipstick.experiments.evidence.validation.serving.silicon import UNRECORDED, Case, read_cases
from slipstick.experiments.evidence.validation.serving.step_fit import fit, predict, predict_first, with_first
from slipstick.experiments.serve.oracle import serving_calibration

FloatArray = npt.NDArray[np.float64]
DATASET = "serving/silicon"
ENOUGH = 20
GOALS = {  # median and 90th percentile, %
    ("model unseen", "dense"): (12, 28),
    ("model unseen", "experts"): (15, 35),
    ("engine version unseen", "experts"): (20, 40),
    ("Blackwell from Hopper", "dense"): (7, 17),
    ("Blackwell from Hopper", "experts"): (15, 35),
}
FIRST_GOAL = (30, 100)
NOISE = {"tpot": 0.3, "ttft": 1.8}
ANSWERED_GOAL = 95.0


@dataclass(frozen=True)
class Scores:
    """Predictions of one held-out question, and what the baselines say."""

    scored: list[Case]
    further: FloatArray
    first: FloatArray
    half: FloatArray
    seven: FloatArray
    one: FloatArray
    nearest: FloatArray


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard."""
    from slipstick.experiments.evidence.validation.serving.mlperf import mlperf_rows
    from slipstick.experiments.evidence.validation.serving.request_scores import request_rows

    scores: list[ValidationRow] = []
    known, path = training_file(FILE), scored_file(FILE, scored)
    if known is None or path is None:
        scores.append(skipped(DATASET, why_missing(FILE, scored)))
    else:
        cases, _ = read_cases(known)
        targets, refused = read_cases(path)
        scores += _unseen(cases) if scored is None else _given(cases, targets)
        scores += _answered(targets, refused)
    return scores + request_rows(scored) + mlperf_rows(scored)


def _given(cases: Sequence[Case], scored: Sequence[Case]) -> Iterator[ValidationRow]:
    """Rows of another file: everything public is known, but what stands in it."""
    keys = {case_key(c) for c in scored}
    known = trained_on([c for c in cases if case_key(c) not in keys])
    for kind in KINDS:
        wanted = [c for c in scored if c.scored and c.kind == kind]
        if wanted:
            one = scores([(known, wanted)], calibration_of(known).half_width[kind])
            yield from _tpot(one, kind, "rows given", None)
            yield from _ttft(one, kind, "rows given")
            yield from pick_rows(one.scored, one.further, one.first, one.seven, kind, "rows given", one.half)


def case_key(case: Case) -> tuple[object, ...]:
    """What makes two rows one."""
    return (case.family, case.layout, case.load)


def _unseen(cases: Sequence[Case]) -> Iterator[ValidationRow]:
    """Public rows by what is held out."""
    known = trained_on(cases)
    widths = {kind: _width(kind) for kind in KINDS}
    for kind in KINDS:
        models = scores(left_out(known, model_of, kind), widths[kind])
        systems = scores(left_out(known, system_of, kind), widths[kind])
        yield from _tpot(models, kind, "model unseen", GOALS["model unseen", kind])
        yield from _tpot(systems, kind, "system unseen", None)
        yield from _ttft(models, kind, "model unseen")
        if kind == "experts":
            splits = [s for s in left_out(known, _version_of, kind) if s[1][0].version != UNRECORDED]
            yield from _tpot(
                scores(splits, widths[kind]), kind, "engine version unseen", GOALS["engine version unseen", kind]
            )
        hopper = [c for c in known if not _blackwell(c)]
        scored = [c for c in known if c.scored and c.kind == kind and _blackwell(c)]
        newer = scores([(hopper, scored)], widths[kind])
        yield from _tpot(newer, kind, "Blackwell from Hopper", GOALS["Blackwell from Hopper", kind])
        yield from pick_rows(
            systems.scored, systems.further, systems.first, systems.seven, kind, "system unseen", systems.half
        )


def _version_of(case: Case) -> str:
    return f"{case.engine} {case.version}"


def _blackwell(case: Case) -> bool:
    return "blackwell" in case.machine.family


def _width(kind: str) -> float:
    """The shipped half-width: 80 % of the errors of left-out models and systems, on these very rows."""
    return serving_calibration().half_width[kind]


def scores(splits: object, half: float) -> Scores:
    """Predictions (seconds) of every split, together; `half` is the half-width of the band, in log time."""
    scored: list[Case] = []
    parts: list[list[FloatArray]] = [[], [], [], [], []]
    for known, wanted in splits:  # type: ignore[attr-defined]
        calibration = with_first(fit(known), known)
        same = [c for c in known if c.kind == wanted[0].kind] or known
        scored += wanted
        answers = (
            predict(calibration, wanted), predict_first(calibration, wanted),
            seven_numbers(same, wanted)[0], one_efficiency(same, wanted), nearest_scaled(same, wanted),
        )  # fmt: skip
        for part, values in zip(parts, answers, strict=True):
            part.append(values)
    further, first, seven, one, nearest = (np.concatenate(part) for part in parts)
    return Scores(scored, further, first, np.full(len(scored), half), seven, one, nearest)


def _tpot(scores: Scores, kind: str, held: str, goal: tuple[int, int] | None) -> Iterator[ValidationRow]:
    measured = np.array([c.tpot for c in scores.scored])
    others = {"seven numbers": scores.seven, "one efficiency": scores.one, "nearest, scaled": scores.nearest}
    row = _row(f"time of a further token, {kind}", held, scores.further, measured, others)
    inside = np.abs(np.log(scores.further / measured)) <= scores.half
    band = replace(
        row,
        interval_level=0.8,
        interval_coverage=float(inside.mean()),
        interval_width=float(np.exp(2 * scores.half[0])),
        noise_floor=NOISE["tpot"],
    )
    yield from _pair(band, scores.further, measured, others, goal)


def _ttft(scores: Scores, kind: str, held: str) -> Iterator[ValidationRow]:
    measured = np.array([c.ttft for c in scores.scored])
    row = _row(f"time to the first token, {kind}", held, scores.first, measured, {})
    note = "illustration: whether means or medians were published is not stated"
    yield from _pair(replace(row, noise_floor=NOISE["ttft"], reason=note), scores.first, measured, {}, FIRST_GOAL)


def _row(case: str, held: str, ours: FloatArray, measured: FloatArray, others: dict[str, FloatArray]) -> ValidationRow:
    return ValidationRow(DATASET, case, held, len(ours), "median error", "%", _error(ours, measured, 50))


def _pair(
    row: ValidationRow,
    ours: FloatArray,
    measured: FloatArray,
    others: dict[str, FloatArray],
    goal: tuple[int, int] | None,
) -> Iterator[ValidationRow]:
    """The row of the median, and that of the 90th percentile."""
    for place, name in ((50, "median error"), (90, "90th percentile of the error")):
        value = _error(ours, measured, place)
        limit = float(goal[place == 90]) if goal else None
        known = {other: _error(values, measured, place) for other, values in others.items()}
        ok = None if limit is None or row.n < ENOUGH else value <= limit
        yield replace(row, metric=name, ours=value, baselines=known, goal=limit, ok=ok)


def _error(ours: FloatArray, measured: FloatArray, place: float) -> float:
    return float(100 * np.percentile(np.abs(ours / measured - 1), place))


def _answered(scored: Sequence[Case], refused: dict[str, int]) -> Iterator[ValidationRow]:
    """Share of aggregated rows that get an answer; pools apart are refused."""
    apart = sum(count for reason, count in refused.items() if "disaggregated" in reason)
    other = sum(refused.values()) - apart
    share = 100 * len(scored) / max(1, len(scored) + other)
    listed = "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items())) or "none refused"
    count = len(scored) + other
    yield ValidationRow(
        DATASET, "rows answered", "", count, "share", "%", share, goal=ANSWERED_GOAL, ok=share >= ANSWERED_GOAL,
        reason=f"refused: {listed}",
    )  # fmt: skip
