"""Rows of the scoreboard from scored predictions: errors beside baselines, and each machine's band."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.scores import LEVEL, coverage, interval_score, width
from slipstick.estimators.gpu.transfer.device_calibration import RowForecast
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, violations
from slipstick.experiments.calibrate.leave_one_device_out_report import roofline
from slipstick.experiments.scoreboards.gpu.gpu_cases import GpuCase
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoring.rules_of_thumb import BANDWIDTH, PEAK, RULE
from slipstick.experiments.scoring.score import LOGARITHMIC, MAPE, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.scored_cases import Input

if TYPE_CHECKING:
    import pandas as pd

LONG = 20e-6
ENOUGH = 50
"""Rows from which a coverage or a ratio is given, and a machine's own fit is used."""
SCORED_AT_MOST = 8000
WIDTH, COVERAGE = 1.4, (0.7, 0.9)
METRICS = (MAPE, *LOGARITHMIC)


def thinned(frame: pd.DataFrame) -> pd.DataFrame:
    """At most so many rows as are scored."""
    return frame if len(frame) <= SCORED_AT_MOST else frame.sample(SCORED_AT_MOST, random_state=1)


@dataclass(frozen=True)
class ScoredPart:
    """Scored rows of one machine; `impossible` rows, faster than it can be, are left out and counted."""

    machine: str
    group: tuple[str, ...]
    measured: FloatArray
    ours: RowForecast
    baselines: Mapping[str, FloatArray]
    impossible: int = 0
    inputs: Sequence[Mapping[str, Input]] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    """Machine -> what was left out with it."""


def score(board: OperationBoard, name: str, frame: pd.DataFrame, group: Sequence[str]) -> ScoredPart:
    """Predictions for the rows of one machine, in seconds, beside those of two rooflines; `group` is held out."""
    flagged = _impossible(board.forms_of(name, frame))
    if flagged:
        warn(f"{name}: {len(flagged)} of {len(frame)} rows are faster than it can be; not scored", stacklevel=2)
        frame = frame.drop(index=frame.index[sorted(flagged)])
    frame = thinned(frame)
    return ScoredPart(
        name,
        tuple(group),
        frame["time"].to_numpy(),
        board.predict(name, frame, group),
        {
            "roofline": board.roofline(name, frame),
            RULE: roofline(board.forms_of(name, frame), (PEAK, BANDWIDTH, 0.0, 0.0)),
            "calibrated roofline": board.calibrated_roofline(name, frame, group),
        },
        len(flagged),
        [
            {"machine": name, "operation": board.kind, "dtype": board.dtype, **sizes}
            for sizes in _sizes(board, name, frame)
        ],
        {name: " + ".join(group) or name},
    )


def _impossible(forms: Sequence[OperationTimes]) -> set[int]:
    """Places, in all forms one after the other, of the rows that are faster than they can be."""
    places, before = set(), 0
    for form in forms:
        places |= {before + row for one in violations([form]) for row in one.rows}
        before += len(form)
    return places


def _sizes(board: OperationBoard, name: str, frame: pd.DataFrame) -> list[dict[str, float]]:
    """Dims of each row by name."""
    return [
        dict(zip(form.dims, map(float, row), strict=True))
        for form in board.forms_of(name, frame)
        for row in zip(*form.dims.values(), strict=True)
    ]


def scored_parts(
    case: GpuCase, parts: Sequence[ScoredPart], floor: float | None, title: str = ""
) -> Iterator[Scored | ValidationRow]:
    """Scores of machines, together and each; `floor` is the noise of the measured times, a share of each."""
    title = title or case.name
    if not parts:
        yield skipped(title, "no rows of the machines that are held out")
        return
    whole = _joined(parts)
    scopes: list[tuple[str, Callable[[ScoredPart], Any]]] = [("all", lambda part: part.measured > 0)]
    if "long" in case.goals or float(np.mean(whole.measured > LONG)) < 0.98:
        scopes.append(("long", lambda part: part.measured > LONG))
    for scope, chosen in scopes:
        several = [("", whole)] if len(parts) > 1 else []
        for label, part in [*several, *((part.machine, part) for part in parts)]:
            goal = case.goals.get(scope) if part is whole or len(parts) == 1 else None
            yield replace(_scored(part, chosen(part), scope, label), goals=(goal,), noise=floor, dataset=title)
    yield from (_band_row(title, part) for part in parts)


def _scored(part: ScoredPart, chosen: Any, scope: str, label: str) -> Scored:
    inputs = [each for each, kept in zip(part.inputs, chosen, strict=True) if kept]
    return Scored(
        f"{label or 'all machines'}{', above 20 us' if scope == 'long' else ''}",
        " + ".join(part.group),
        part.measured[chosen],
        part.ours.time[chosen],
        METRICS,
        baselines={name: times[chosen] for name, times in part.baselines.items()},
        low=part.ours.low[chosen],
        high=part.ours.high[chosen],
        level=LEVEL,
        groups=[part.held.get(str(each["machine"]), part.machine) for each in inputs],
        inputs=inputs,
        reason=f"{part.impossible} rows faster than the machine can be are left out" if part.impossible else "",
    )


def _band_row(dataset: str, part: ScoredPart) -> ValidationRow:
    """The 80 % band of one machine above 20 us: does it cover 70-90 %, and is it no wider than 1.4?"""
    chosen = part.measured > LONG
    if chosen.sum() < ENOUGH:
        return skipped(dataset, f"{part.machine}: {int(chosen.sum())} rows above 20 us are too few for a coverage")
    low, high, measured = part.ours.low[chosen], part.ours.high[chosen], part.measured[chosen]
    held, wide = coverage(low, high, measured), width(low, high)
    return ValidationRow(
        dataset,
        f"{part.machine}, 80 % band above 20 us",
        " + ".join(part.group),
        len(measured),
        "coverage",
        "1",
        held,
        {},
        LEVEL,
        COVERAGE[0] <= held <= COVERAGE[1] and wide <= WIDTH,
        LEVEL,
        held,
        wide,
        None,
        "goal: coverage 0.7-0.9 and high/low <= 1.4; "
        f"interval score {interval_score(low, high, measured, LEVEL):.3f} of log time",
    ).over([part.machine])


def _joined(parts: Sequence[ScoredPart]) -> ScoredPart:
    def together(pick: Callable[[ScoredPart], FloatArray]) -> FloatArray:
        return np.concatenate([pick(part) for part in parts])

    ours = RowForecast(together(lambda p: p.ours.time), together(lambda p: p.ours.low), together(lambda p: p.ours.high))
    baselines = {name: together(lambda p, n=name: p.baselines[n]) for name in parts[0].baselines}  # type: ignore[misc]
    groups = ("each in turn",) if parts[0].group else ()
    return ScoredPart(
        "",
        groups,
        together(lambda p: p.measured),
        ours,
        baselines,
        sum(part.impossible for part in parts),
        [each for part in parts for each in part.inputs],
        {machine: held for part in parts for machine, held in part.held.items()},
    )
