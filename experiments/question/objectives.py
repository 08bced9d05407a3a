"""What is to be small beside time: energy, cost, a formula of the columns; and the points that nothing beats in all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.readers import unknown_name
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY, Consumption, cost, energy
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.experiments.question.memory_need import NOT
from slipstick.experiments.question.question import Question

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {"time": "time_s", "energy": ENERGY, "cost": COST}
"""Objectives by their word, and the columns that hold them."""
BANDS = ("low_ratio", "high_ratio", "low_s", "high_s")
"""The columns of a band, which only some estimators have."""
FIT = "fit"
"""The column of the three words of memory."""
FRONT = "front"
"""The column that marks the points of the front."""


WORDS = {ENERGY: "energy", COST: "cost"}


def consumptions(
    question: Question, wanted: Collection[str] = (ENERGY, COST)
) -> tuple[tuple[Consumption, ...], tuple[str, ...]]:
    """What is known of a question beside its time, and a line for what cannot be known of a machine that could have it.

    Where the machine has no price, the cost is left out without a line: few questions are about it.

    `wanted`: `ENERGY`, `COST`, or both.
    """
    if question.answer().others:  # the answer says itself what is drawn and spent
        return (), ()
    inner = question.estimator.model
    clock = inner.runs_at()
    workload = as_compiled(question.workload, question.machine)
    makers: dict[str, Callable[[], Consumption]] = {
        ENERGY: lambda: energy(workload, question.machine, question.run, clock=clock),
    }
    if question.machine.price is not None:
        makers[COST] = lambda: cost(question.machine, question.workload, question.run)
    if question.estimator.alone:
        return (), (f"energy and cost not known: the time is this host's, not that of {question.machine.name}",)
    known, unknown = [], []
    for name in [name for name in makers if name in wanted]:
        try:
            known.append(makers[name]())
        except InputError as error:
            unknown.append(f"{WORDS[name]} not known: {error}")
    return tuple(known), tuple(unknown)


def with_objectives(frame: pd.DataFrame, wanted: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The table with a column for each objective, and the names of those columns.

    `wanted`: "time", "energy", "cost", the name of a column, or NAME=FORMULA of columns ("area=machine.cores*2.5").
    Raises InputError where an objective is none of these.
    """
    names: list[str] = []
    for word in wanted:
        name, equals, formula = word.partition("=")
        name = name.strip()
        if equals:
            frame = with_column(frame, name, formula)
        else:
            name = COLUMNS.get(name, name)
        if name not in frame:
            known = [*COLUMNS, *(str(column) for column in frame.columns)]
            raise unknown_name("objective", name, known)
        if name in names:
            raise InputError(f"objective {word!r} is named twice")
        names.append(name)
    return frame, names


def with_column(frame: pd.DataFrame, name: str, formula: str) -> pd.DataFrame:
    """The table with a further column, a formula of its columns (a price, an area)."""
    columns = [str(column) for column in frame.select_dtypes("number").columns]
    expression = parse_expression(formula, columns, name)
    used = {str(symbol) for symbol in expression.free_symbols}
    values = {column: frame[column].to_numpy(dtype=float) for column in columns if column in used}
    return frame.assign(**{name: np.broadcast_to(evaluate(expression, values), len(frame))})


def on_front(values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which points no other beats in everything: shape (points, objectives), smaller is better, finite.

    Raises InputError where a value is not finite.
    """
    columns = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(columns)):
        raise InputError("Pareto front: values must be finite")
    distinct, place = np.unique(columns, axis=0, return_inverse=True)  # sorted: a point is beaten by earlier ones only
    count = distinct.shape[1]
    if count <= 3:
        kept = _staircase(np.pad(distinct, ((0, 0), (0, 3 - count))))
    else:
        kept, left = np.zeros(len(distinct), dtype=bool), np.arange(len(distinct))
        while len(left):
            kept[left[0]] = True
            left = left[~np.all(distinct[left] >= distinct[left[0]], axis=1)]
    return kept[place.reshape(-1)]


def _staircase(points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """The front of distinct sorted points of three values (Kung, Luccio and Preparata, J. ACM 22, 1975)."""
    second: list[float] = []  # of the steps, ascending; the least third value up to each of them descends
    third: list[float] = []
    kept = np.zeros(len(points), dtype=bool)
    for index, (_, y, z) in enumerate(points.tolist()):
        below = bisect_right(second, y)
        if below and third[below - 1] <= z:
            continue
        kept[index] = True
        start = end = bisect_left(second, y)
        while end < len(third) and third[end] >= z:
            end += 1
        second[start:end], third[start:end] = [y], [z]
    return kept


def with_front(frame: pd.DataFrame, wanted: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The table with its objectives and a column `front`, and the objectives' columns.

    Points of equal work are compared: there is a front for each workload and each value of workload.*. What does not
    fit in memory is on none.

    Raises
    ------
    InputError
        Where fewer than two objectives are named, or one is known for no point.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pandas as pd
    >>> points = pd.DataFrame({"time_s": [1.0, 2.0, 3.0], "energy_J": [3.0, 1.0, 4.0]})
    >>> front, objectives = ss.analysis.with_front(points, ["time", "energy"])
    >>> front["front"].tolist()
    [True, True, False]
    """
    frame, names = with_objectives(frame, wanted)
    if len(names) < 2:
        raise InputError(f"a Pareto front needs two objectives or more, got {', '.join(wanted) or 'none'}")
    values = frame[names].to_numpy(dtype=float)
    for name, column in zip(names, values.T, strict=True):
        if not np.any(np.isfinite(column)):
            needs = ": the machine gives no price (--set machine.price=2.5, in $/h)" if name == COST else ""
            raise InputError(f"objective {name} is not known for any point{needs}")
    front = np.zeros(len(frame), dtype=bool)
    finite = np.all(np.isfinite(values), axis=1)
    if FIT in frame:
        finite &= (frame[FIT] != NOT).to_numpy()
    by = work_columns(frame)
    groups = frame.groupby(by, sort=False).indices.values() if by else [np.arange(len(frame))]
    for members in groups:
        known = np.asarray(members)[finite[members]]
        front[known] = on_front(values[known])
    return frame.assign(**{FRONT: front}), names


def work_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that say what is to be done; the others say on what."""
    return [str(name) for name in frame.columns if name == "workload" or str(name).startswith("workload.")]


def known_only(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without bands, energy and cost where no row knows them: what people need not see."""
    empty = [name for name in (*BANDS, ENERGY, COST) if all(row.get(name) is None for row in rows)]
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]
