"""Sets of cases by the names of their scoreboards: those that a board declares, or what it scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.experiments.scoring.score import Board, Data, Scored
from slipstick.experiments.scoring.scoreboard_catalog import scoreboard
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

OURS = "ours"


def case_set(name: str, scored: Path | None = None) -> CaseSet:
    """The cases of a scoreboard, from the public measurements or from another folder of the same files.

    Raises InputError where no scoreboard has this name, its files are not here, or it scores no times that anyone could
    predict.
    """
    board = scoreboard(name)
    return board.cases(Data(scored)) if board.cases is not None else cases_of(name, board, Data(scored))


def cases_of(name: str, board: Board, data: Data) -> CaseSet:
    """What a board scores in seconds, as cases in groups; ours and its baselines are the references.

    Raises InputError where it scores no times that anyone could predict.
    """
    parts = [(dataset, one) for dataset, one in board.scored(data) if isinstance(one, Scored)]
    parts = [(dataset, one) for dataset, one in parts if len(one.measured) and one.unit == "s"]
    if not parts:
        raise InputError(f"scoreboard {name}: no rows here that other predictors could answer")
    measured = tuple(each for dataset, one in parts for each in _cases(dataset, one))
    names = dict.fromkeys(key for _, one in parts for key in (OURS, *one.baselines))
    references = {key: _reference([one for _, one in parts], key) for key in names}
    return CaseSet(name, "group of the rows", measured, references)


def _cases(dataset: str, one: Scored) -> list[Measured]:
    """What is known of a row: what the board names, and what simple methods say of it [s].

    Scores without groups are of one group that was left out: its name is what was held out, and the other groups of
    the case may be known. Scores with groups are a pool of their own.
    """
    case = f"{one.dataset or dataset}: {one.case}"
    kind = f"{case}, {one.held_out}"
    apart = [] if isinstance(one.groups, str) else one.groups
    pool = kind if len(apart) else case
    result = []
    for place, seconds in enumerate(one.measured):
        inputs: dict[str, Input] = {name: float(v[place]) for name, v in one.baselines.items() if np.isfinite(v[place])}
        inputs |= one.inputs[place] if len(one.inputs) else {}
        group = apart[place] if len(apart) else one.held_out
        result.append(Measured(Case(f"{kind}: {place}", group, inputs, kind, pool), float(seconds)))
    return result


def _reference(parts: Sequence[Scored], name: str) -> Callable[[], list[StatedTime | None]]:
    """Predictions of ours or of a baseline, row after row; None where a part or a row has none."""

    def read() -> list[StatedTime | None]:
        result: list[StatedTime | None] = []
        for one in parts:
            values = one.ours if name == OURS else one.baselines.get(name, np.full(len(one.measured), np.nan))
            low, high = _ends(one) if name == OURS else (None, None)
            for place, value in enumerate(values):
                if not np.isfinite(value) or value <= 0:
                    result.append(None)
                elif low is None or high is None:
                    result.append(StatedTime(float(value)))
                else:
                    result.append(StatedTime(float(value), float(low[place]), float(high[place])))
        return result

    return read


def _ends(one: Scored) -> tuple[FloatArray | None, FloatArray | None]:
    """Both ends of the bands."""
    if one.half is None:
        return one.low, one.high
    factor = np.exp(np.broadcast_to(np.asarray(one.half, dtype=float), one.measured.shape))
    return one.ours / factor, one.ours * factor
