"""Serving against public rows: times of tokens on held-out models, systems, versions and generations; picks; requests.

Errors are |predicted / measured - 1|. The fit sees nothing of what is held out. `scored` names other rows of the same
columns: then all public rows are known but those that stand in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.score import PERCENT, Board, Data, Front, Scored
from slipstick.experiments.evidence.validation.serving.baselines import nearest_scaled, one_efficiency, seven_numbers
from slipstick.experiments.evidence.validation.serving.mlperf import mlperf_scores
from slipstick.experiments.evidence.validation.serving.picks import Predictions, picks
from slipstick.experiments.evidence.validation.serving.refit import (
    FILE,
    KINDS,
    calibration_of,
    left_out,
    model_of,
    system_of,
    trained_on,
)  # fmt: skip
from slipstick.experiments.evidence.validation.serving.request_scores import request_scores
from slipstick.experiments.evidence.validation.serving.silicon import UNRECORDED, Case, read_cases
from slipstick.experiments.evidence.validation.serving.step_fit import fit, predict, predict_first, with_first
from slipstick.experiments.serve.oracle import serving_calibration

FloatArray = npt.NDArray[np.float64]
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
NOISE = {"tpot": 0.3, "ttft": 1.8}
ANSWERED_GOAL = 95.0


def _silicon(data: Data) -> Iterator[Scored | ValidationRow]:
    """Times of first and further tokens, and picks."""
    cases, (targets, refused) = read_cases(data.known(FILE))[0], read_cases(data.judged(FILE))
    yield from _unseen(cases) if data.scored is None else _given(cases, targets)
    yield _answered(targets, refused)


def _given(cases: Sequence[Case], scored: Sequence[Case]) -> Iterator[Scored | ValidationRow]:
    """Rows of another file: everything public is known, but what stands in it."""
    keys = {case_key(c) for c in scored}
    known = trained_on([c for c in cases if case_key(c) not in keys])
    widths = calibration_of(known).half_width
    for kind in KINDS:
        wanted = [c for c in scored if c.scored and c.kind == kind]
        if wanted:
            predicted = predictions([(known, wanted)])
            yield from _tokens(predicted, kind, "rows given", widths[kind])
            yield from picks(predicted, kind, "rows given", widths[kind])


def case_key(case: Case) -> tuple[object, ...]:
    """What makes two rows one."""
    return (case.family, case.layout, case.load)


def _unseen(cases: Sequence[Case]) -> Iterator[Scored | ValidationRow]:
    """Public rows by what is held out; the half-width that ships is 80 % of the errors of these very rows."""
    known = trained_on(cases)
    for kind in KINDS:
        half = serving_calibration().half_width[kind]
        models = predictions(left_out(known, model_of, kind))
        systems = predictions(left_out(known, system_of, kind))
        yield _further(models, kind, "model unseen", half)
        yield _further(systems, kind, "system unseen", half)
        yield _first(models, kind, "model unseen")
        if kind == "experts":
            splits = [s for s in left_out(known, _version_of, kind) if s[1][0].version != UNRECORDED]
            yield _further(predictions(splits), kind, "engine version unseen", half)
        hopper = [c for c in known if not _blackwell(c)]
        scored = [c for c in known if c.scored and c.kind == kind and _blackwell(c)]
        yield _further(predictions([(hopper, scored)]), kind, "Blackwell from Hopper", half)
        yield from picks(systems, kind, "system unseen", half)


def _version_of(case: Case) -> str:
    return f"{case.engine} {case.version}"


def _blackwell(case: Case) -> bool:
    return "blackwell" in case.machine.family


def predictions(splits: Iterable[tuple[Sequence[Case], Sequence[Case]]]) -> Predictions:
    """Seconds of every split (known, scored), together."""
    scored: list[Case] = []
    parts: list[tuple[FloatArray, ...]] = []
    for known, wanted in splits:
        calibration = with_first(fit(known), known)
        same = [c for c in known if c.kind == wanted[0].kind] or known
        scored += wanted
        parts.append((
            predict(calibration, wanted), predict_first(calibration, wanted),
            seven_numbers(same, wanted)[0], one_efficiency(same, wanted), nearest_scaled(same, wanted),
        ))  # fmt: skip
    return Predictions(scored, *(np.concatenate(part) for part in zip(*parts, strict=True)))


def _tokens(predicted: Predictions, kind: str, held: str, half: float) -> Iterator[Scored]:
    yield _further(predicted, kind, held, half)
    yield _first(predicted, kind, held)


def _further(predicted: Predictions, kind: str, held: str, half: float) -> Scored:
    others = {"seven numbers": predicted.seven, "one efficiency": predicted.one, "nearest, scaled": predicted.nearest}
    return Scored(
        f"time of a further token, {kind}", held, np.array([c.tpot for c in predicted.scored]), predicted.further,
        PERCENT, GOALS.get((held, kind), ()), others, half=half, enough=ENOUGH, noise=NOISE["tpot"],
    )  # fmt: skip


def _first(predicted: Predictions, kind: str, held: str) -> Scored:
    return Scored(
        f"time to the first token, {kind}", held, np.array([c.ttft for c in predicted.scored]), predicted.first,
        PERCENT, FIRST_GOAL, enough=ENOUGH, noise=NOISE["ttft"],
        reason="illustration: whether means or medians were published is not stated",
    )  # fmt: skip


def _answered(scored: Sequence[Case], refused: dict[str, int]) -> ValidationRow:
    """Share of aggregated rows that get an answer; pools apart are refused."""
    apart = sum(count for reason, count in refused.items() if "disaggregated" in reason)
    other = sum(refused.values()) - apart
    share = 100 * len(scored) / max(1, len(scored) + other)
    listed = "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items())) or "none refused"
    count = len(scored) + other
    return ValidationRow(
        DATASET, "rows answered", "", count, "share", "%", share, goal=ANSWERED_GOAL, ok=share >= ANSWERED_GOAL,
        reason=f"refused: {listed}",
    )  # fmt: skip


BOARD = Board(
    "How long does a token take when I serve a language model on a machine, engine or model never measured?",
    {DATASET: _silicon, "serving/requests": request_scores, "serving/mlperf_inference_v51": mlperf_scores},
    (
        Front("Time of a further token, dense models", "the model", "time of a further token, dense", "model unseen"),
        Front("Time of a further token, experts", "the model", "time of a further token, experts", "model unseen"),
        Front("Time to the first token, dense models", "the model", "time to the first token, dense", "model unseen"),
    ),
)
