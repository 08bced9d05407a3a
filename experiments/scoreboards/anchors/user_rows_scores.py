"""What a few rows of one's own are worth on a device that is left out: none, two that are chosen, eight at random.

Steps of a server: every configuration (model, engine, version, system, way of storing weights) with enough rows, its
chip or its whole generation left out of the fit. Decode attention: every machine, its generation left out. The rows
that are measured are not scored; all others are, under each of the three, so that the errors compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.measured_steps import CONFIGURATION
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.updated_model import LawKnown, open_to, with_known
from slipstick.estimators.fitting.user_rows import chosen
from slipstick.estimators.gpu.transfer.next_measurements import next_rows
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.unmeasured_machine import Forecast
from slipstick.experiments.scoreboards.gpu.gpu_cases import BLACKWELL, HOPPER, cases
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.serving.serving_board import case_key
from slipstick.experiments.scoreboards.serving.serving_refit import FILE, more_cases, trained_on
from slipstick.experiments.scoreboards.serving.serving_rows import read_cases
from slipstick.experiments.scoreboards.serving.step_fit import step_rows
from slipstick.experiments.scoring.score import MAPE, PERCENT, Data, MissingError, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow

STEPS, ATTENTION = "known steps of a server", "known rows of decode attention"
ENOUGH = 20
"""Rows of a configuration."""
CHOSEN, DRAWN, DRAWS = 2, 8, 4
OFFERED, SCORED = 300, 1500
"""Rows of a machine among which two are chosen, and that are scored at most."""
NEVER_WORSE = 1.05
GENERATIONS = (("a100-sxm-80gb",), ("l40s",), HOPPER, BLACKWELL)


@dataclass(frozen=True, eq=False)
class Tried:
    """Rows of one target under one set of measured rows, those left out: seconds with and without these, half-width."""

    measured: FloatArray
    with_rows: FloatArray
    without: FloatArray
    half: FloatArray

    @property
    def ratio(self) -> float:
        """Mean error with the measured rows over that without."""
        return scores.mean_error(self.with_rows, self.measured) / scores.mean_error(self.without, self.measured)


def steps(data: Data) -> Iterator[Scored | ValidationRow]:
    """Further tokens of a server on a chip, or of a generation, that is left out of the law of a step."""
    known, given = [*read_cases(data.known(FILE))[0], *more_cases()], read_cases(data.judged(FILE))[0]
    every = data.rows(trained_on(known), trained_on(given), case_key)
    public, judged = step_rows(every.known), step_rows(every.scored)
    near = fit(STEP_LAW, public)
    for level in ("chip", "generation"):
        made: dict[str, list[Tried]] = {"2 chosen": [], "8 at random": []}
        for name in sorted(set(judged.groups[level])):
            mine = np.flatnonzero([group == name for group in judged.groups[level]])
            families = np.array(judged.cluster)[mine]
            parts = [mine[families == one] for one in sorted(set(families))]
            parts = [part for part in parts if len(part) >= ENOUGH]
            others = np.flatnonzero([group != name for group in public.groups[level]])
            if not parts or not len(others):
                continue
            alone = fit(STEP_LAW, public.take(others), near=near)
            for part in parts:
                rows = judged.take(part)
                made["2 chosen"].append(_steps_tried(alone, rows, _chosen_steps(alone, rows)))
                made["8 at random"] += [_steps_tried(alone, rows, places) for places in _draws(len(rows))]
        yield from _shown(STEPS, "a step of a server", f"its {level}", made)


def _chosen_steps(alone: LawFit, rows: LawRows) -> list[int]:
    law = STEP_LAW
    model = LawKnown.of(open_to(alone, law, rows, CONFIGURATION), law, rows)
    _, slope = model.linear(np.zeros(model.size))
    return [one.place for one in chosen(slope, model.noise, CHOSEN)]


def _steps_tried(alone: LawFit, rows: LawRows, places: Sequence[int]) -> Tried:
    law, rest = STEP_LAW, np.setdiff1d(np.arange(len(rows)), places)
    made, left = with_known(alone, law, rows.take(np.array(places)), CONFIGURATION).fit, rows.take(rest)
    at = left.columns, left.groups
    return Tried(left.seconds, made.seconds(law, *at), alone.seconds(law, *at), made.half_width(law, *at))


def attention(data: Data) -> Iterator[Scored | ValidationRow]:
    """Attention of new tokens over a cache, on every machine of a generation that is left out."""
    case = next(one for one in cases() if one.name == "generation attention")
    training = case.frame(data.folder)
    judged = case.frame(data.judged_folder)
    if training.empty or judged.empty:
        raise MissingError("no table of decode attention")
    board, given = case.board(training), case.board(judged)
    made: dict[str, list[Tried]] = {"2 chosen": [], "8 at random": []}
    for group in GENERATIONS:
        for name in group:
            frame = judged[judged["machine"] == name]
            if len(frame) < ENOUGH:
                continue
            form = given.rows(name, frame.sample(min(len(frame), SCORED), random_state=1))
            alone = board.forecast(name, group)
            made["2 chosen"].append(_rows_tried(board, name, group, form, alone, _chosen_rows(form, alone)))
            made["8 at random"] += [_rows_tried(board, name, group, form, alone, at) for at in _draws(len(form))]
    yield from _shown(ATTENTION, "decode attention", "its generation", made)


def _chosen_rows(form: OperationTimes, alone: Forecast) -> list[int]:
    places = np.arange(min(len(form), OFFERED))
    offered = [form.some(np.array([place])) for place in places]
    sizes = [{dim: float(one.column(dim)[0]) for dim in one.op.dims} for one in offered]
    return [sizes.index(dict(one.dims)) for one in next_rows(alone.belief, offered, CHOSEN)]


def _rows_tried(
    board: OperationBoard,
    name: str,
    group: Sequence[str],
    form: OperationTimes,
    alone: Forecast,
    places: Sequence[int],
) -> Tried:
    left = form.some(np.setdiff1d(np.arange(len(form)), places))
    made = board.forecast(name, group, [form.some(np.array(places))])
    after, before = made.predict([left]), alone.predict([left])
    return Tried(left.times, after.time, before.time, np.log(after.high / after.time))


def _draws(count: int) -> list[list[int]]:
    """Rows that nobody chose."""
    return [sorted(np.random.default_rng(draw).choice(count, DRAWN, replace=False).tolist()) for draw in range(DRAWS)]


def _shown(dataset: str, what: str, held: str, made: Mapping[str, Sequence[Tried]]) -> Iterator[Scored | ValidationRow]:
    for how, tried in made.items():
        if not tried:
            continue
        measured, ours, alone, half = (
            np.concatenate([getattr(one, name) for one in tried])
            for name in ("measured", "with_rows", "without", "half")
        )
        draws = len(tried) // max(1, len(made["2 chosen"]))
        groups = [str(at // max(1, draws)) for at, one in enumerate(tried) for _ in one.measured]
        yield Scored(
            f"{what}, {how}", held, measured, ours, (MAPE, *PERCENT), (), {"nothing measured": alone}, half,
            groups=groups, dataset=dataset,
        )  # fmt: skip
        ratios = np.array([one.ratio for one in tried])
        case = f"{what}, {how}: error over that with nothing measured, 95th percentile of tries"
        yield ValidationRow(
            dataset, case, held, len(ratios),
            "ratio of MAPE", "1", float(np.quantile(ratios, 0.95)), {"nothing measured": 1.0}, NEVER_WORSE,
            bool(np.quantile(ratios, 0.95) <= NEVER_WORSE),
            reason=f"median {np.median(ratios):.2f}, worst {ratios.max():.2f}",
        )  # fmt: skip
