"""What is to be small beside time: energy, cost, a formula of the columns; and the points that nothing beats in all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.readers import unknown_name
from slipstick.common.trusted_code import TrustedName, code_refused, is_own, named_here
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY, Consumption, cost, energy
from slipstick.estimators.composition.geometry import followed
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.experiments.question.memory_need import NOT
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.user_code import own_function

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {"time": "time_s", "energy": ENERGY, "cost": COST}
"""Objectives by their word, and the columns that hold them."""
BANDS = ("low_ratio", "high_ratio", "low_s", "high_s")
"""The columns of a band, which only some estimators have."""
CASE = ("workload", "machine", "dtype")
"""The columns that name a case of a study."""
FIT = "fit"
"""The column of the three words of memory."""
FRONT, PROBABILITY = "front", "front_probability"
"""The columns that mark the points of the front, and how sure that is."""
DRAWS, DRAWN_POINTS = 200, 20_000
"""From how many draws of the bands a probability is counted, and up to how many points."""
SLIGHTLY = 1.01
"""Factor of the time by which it is found how an objective hangs on it."""


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


Objective: TypeAlias = str | tuple[str, Callable[..., float]]
"""A word, NAME=FORMULA, or a name and a function of machine, workload and answer."""
QueryOf: TypeAlias = Callable[[Mapping[str, Any]], Question]
"""The question that a row of a table answers, by the row's columns workload, machine and dtype, if it has them."""


def objective_of(word: str, allow_code: Collection[str] = ()) -> Objective:
    """An objective from a word; NAME=FILE.py:FUNCTION where the user typed it, or allows it.

    Raises InputError where a file names code that the user does not.
    """
    name, _, formula = (part.strip() for part in word.partition("="))
    if not is_own(formula):
        return word
    typed = TrustedName(formula) if isinstance(word, TrustedName) else named_here(formula, allow_code, "objectives")
    return name, own_function(typed)


def with_objectives(
    frame: pd.DataFrame, wanted: Sequence[Objective], query_of: QueryOf | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """The table with a column for each objective, and the names of those columns.

    `wanted`: "time", "energy", "cost", the name of a column, NAME=FORMULA of columns and of the machine's and the
        workload's numbers ("area=machine.cores*2.5"), or (NAME, FUNCTION of machine, workload and answer).
    `query_of`: the question of each row, where formulas may name what no column holds.
    Raises InputError where an objective is none of these.
    """
    names: list[str] = []
    for word in wanted:
        name, formula = word if isinstance(word, tuple) else _named(word)
        if formula is not None:
            frame = with_column(frame, name, formula, query_of)
        else:
            name = COLUMNS.get(name, name)
        if name not in frame:
            known = [*COLUMNS, *(str(column) for column in frame.columns)]
            raise unknown_name("objective", name, known)
        if name in names:
            raise InputError(f"objective {word!r} is named twice")
        names.append(name)
    return frame, names


def _named(word: str) -> tuple[str, str | None]:
    name, equals, formula = word.partition("=")
    return name.strip(), formula if equals else None


def with_column(
    frame: pd.DataFrame, name: str, formula: str | Callable[..., float], query_of: QueryOf | None = None
) -> pd.DataFrame:
    """The table with a further column: a price, an area (see `with_objectives`)."""
    cases = [column for column in CASE if column in frame]
    groups = frame.groupby(cases, sort=False, dropna=False).indices.values() if cases else [np.arange(len(frame))]
    made = np.full(len(frame), np.nan)
    for members in map(np.asarray, groups):
        rows = frame.iloc[members]
        question = (
            query_of({str(column): value for column, value in rows.iloc[0].items()}) if query_of and len(rows) else None
        )
        made[members] = (
            _of_code(rows, name, formula, question) if callable(formula) else _of(rows, name, formula, question)
        )
    return frame.assign(**{name: made})


def _of(rows: pd.DataFrame, name: str, formula: str, question: Question | None) -> npt.ArrayLike:
    """A formula of the rows' columns, and of the numbers of their question."""
    columns = {str(column): rows[column].to_numpy(dtype=float) for column in rows.select_dtypes("number").columns}
    values: dict[str, Any] = {**_numbers(question, columns), **columns}
    expression = parse_expression(formula, list(values), name)
    return np.broadcast_to(
        evaluate(expression, {str(one): values[str(one)] for one in expression.free_symbols}), len(rows)
    )


def _numbers(question: Question | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Today's numbers of a question, and what those of the machine become that follow the columns."""
    if question is None:
        return {}
    of_machine = {f"machine.{name}": float(number) for name, number in question.machine.numbers.items()}
    sizes = {**question.workload.defaults, **question.sizes, **question.run}
    of_work = {f"{space}.{name}": float(value) for name, value in sizes.items() for space in ("workload", "run")}
    there = {**of_machine, **columns}
    follow = followed(question.machine, list(columns)).items()
    return {**of_machine, **of_work, **{name: one.evaluate(there) for name, one in follow}}


def _of_code(rows: pd.DataFrame, name: str, function: Callable[..., float], question: Question | None) -> list[float]:
    """What a function of the user's says of each row's machine, workload and answer."""
    if question is None:
        raise InputError(f"objective {name}: a function needs the question that the table answers")
    made = []
    for row in rows.to_dict("records"):
        changes = {str(n)[8:]: value for n, value in row.items() if str(n).startswith("machine.")}
        whole = {n: int(v) if isinstance(question.machine.get(n), int) else v for n, v in changes.items()}
        machine = question.machine.using(whole) if whole else question.machine
        with code_refused(f"objective {name}"):
            made.append(float(function(machine, question.workload, row)))
    return made


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


def with_front(
    frame: pd.DataFrame, wanted: Sequence[Objective], query_of: QueryOf | None = None, level: float = DEFAULT_LEVEL
) -> tuple[pd.DataFrame, list[str]]:
    """The table with its objectives and a column `front`, and the objectives' columns.

    Points of equal work are compared: there is a front for each workload and each value of workload.*. What does not
    fit in memory is on none. Where ratios to today have bands, `front_probability` is the share of draws from them in
    which the point is on the front; the errors of two ratios are taken as independent.

    Parameters
    ----------
    wanted, query_of
        As `with_objectives` takes them.
    level
        Probability of the bands.

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
    frame, names = with_objectives(frame, wanted, query_of)
    if len(names) < 2:
        raise InputError(f"a Pareto front needs two objectives or more, got {', '.join(map(str, wanted)) or 'none'}")
    values = frame[names].to_numpy(dtype=float)
    for name, column in zip(names, values.T, strict=True):
        if not np.any(np.isfinite(column)):
            needs = ": the machine gives no price (--set machine.price=2.5, in $/h)" if name == COST else ""
            raise InputError(f"objective {name} is not known for any point{needs}")
    finite = np.all(np.isfinite(values), axis=1)
    if FIT in frame:
        finite &= (frame[FIT] != NOT).to_numpy()
    by = work_columns(frame)
    groups = frame.groupby(by, sort=False).indices.values() if by else [np.arange(len(frame))]
    known = [np.asarray(members)[finite[members]] for members in groups]
    made = {FRONT: _fronts(values, known)}
    if {"low_ratio", "high_ratio"} <= set(frame.columns) and len(frame) <= DRAWN_POINTS:
        made[PROBABILITY] = np.mean(
            [_fronts(drawn, known) for drawn in _drawn(frame, wanted, values, query_of, level)], axis=0
        )
    return frame.assign(**made), names


def _fronts(values: npt.NDArray[np.float64], groups: Sequence[npt.NDArray[np.intp]]) -> npt.NDArray[np.bool_]:
    front = np.zeros(len(values), dtype=bool)
    for members in groups:
        front[members] = on_front(values[members])
    return front


def _drawn(
    frame: pd.DataFrame,
    wanted: Sequence[Objective],
    values: npt.NDArray[np.float64],
    query_of: QueryOf | None,
    level: float,
) -> Iterator[npt.NDArray[np.float64]]:
    """The objectives with the ratio of each point drawn from its band: by the power of the time that each has there."""
    spread = np.log((frame["high_ratio"] / frame["low_ratio"]).to_numpy(dtype=float)) / 2 / quantile(level, None)
    longer = {name: frame[name] * SLIGHTLY for name in (*COLUMNS.values(), "time_ratio") if name in frame}
    moved, names = with_objectives(frame.assign(**longer), wanted, query_of)
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.nan_to_num(np.log(moved[names].to_numpy(dtype=float) / values) / np.log(SLIGHTLY))
    generator = np.random.default_rng(0)
    for _ in range(DRAWS):
        logs = np.nan_to_num(spread) * generator.standard_normal(len(frame))
        yield values * np.exp(powers * logs[:, None])


def work_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that say what is to be done; the others say on what."""
    return [str(name) for name in frame.columns if name == "workload" or str(name).startswith("workload.")]


def known_only(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without bands, energy and cost where no row knows them: what people need not see."""
    empty = [name for name in (*BANDS, ENERGY, COST) if all(row.get(name) is None for row in rows)]
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]
