"""What-if: how much faster or slower when named numbers vary, as ratios to today."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slipstick.common.answer import Answer, Provenance
from slipstick.common.columns import Column, short_names
from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.conditions import NotUsed, depends_on
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY
from slipstick.estimators.schedules.thread_schedule import hardware_threads
from slipstick.experiments.question.axes import Values
from slipstick.experiments.question.objectives import BANDS, FRONT, PROBABILITY
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.settings import Value, with_numbers
from slipstick.experiments.question.space import Space
from slipstick.experiments.question.unused_inputs import examined
from slipstick.experiments.question.user_code import own_workload
from slipstick.experiments.studies.sweep import Columns, swept, task
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_fields import axis
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration

MAX_POINTS = 2_000_000
"""Points of one table in memory; a study keeps its answers in a folder."""
"""Points that a notebook shows."""
APART = ("point", "note")
"""Keys that a notebook's table leaves out: a number, and what stands below it once."""


@dataclass(frozen=True, repr=False)
class WhatIf(Answer):
    """The answer to a what-if: today's estimate and one row a point, ratio first.

    Parameters
    ----------
    today
        The estimate of the question as it stands.
    columns
        By name: point, the names that vary, time_ratio (1 is today, 0.5 twice as fast), time_s, and their bands
        (low_ratio, high_ratio, low_s, high_s) where they are known; energy_J and cost_usd, not a number where the
        machine does not say.
    unknown
        A line for each thing that the machine does not say.
    notes
        Where the answer is less sure than usual; that a point draws more than the power cap.
    unused
        What varies and is not read; what is set and not used stands in `today`.
    """

    question: Question
    today: Estimate
    columns: Columns
    level: float
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unused: tuple[NotUsed, ...] = ()

    @property
    def depends(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Conditions of today's answer, and what is set or varies and is not used."""
        return depends_on(self.today.conditions, (*self.unused, *self.today.not_used))

    @property
    def space(self) -> Space:
        """What varies."""
        return self.question.vary

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns as a frame."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def to_frame(self) -> pd.DataFrame:
        """The tidy table."""
        return self.frame

    def rows(self) -> list[dict[str, Any]]:
        """One row a point: the names that vary, then ratio, time, bands, energy and cost; see `column_rows`."""
        return column_rows(self.columns, self.notes)

    def to_xarray(self) -> Any:
        """The table over its axes; for a full grid."""
        return self.frame.drop(columns="point").set_index(list(self.space.names)).to_xarray()

    @property
    def declared(self) -> tuple[Column, ...]:
        """What varies, under its name without its namespace where that is unique; bands of ratio and time."""
        return (
            *(axis(name, head) for name, head in short_names(self.space.names).items()),
            Column("low_s", "time", "s", "high_s"),
        )

    @property
    def provenance(self) -> Provenance:
        """On what the times rest: those of changed points are never measured."""
        return "estimated" if self.question.calibration is None else "calibrated"

    @property
    def heads(self) -> tuple[str, ...]:
        """Today's answer, and what varies and is not read."""
        return (*self.today.heads, *(one.text() for one in self.unused))

    def lines_html(self) -> str:
        """Today's lines with what they assume, then what is to be noted of the comparison."""
        from html import escape

        notes = (*(one.text() for one in self.unused), *self.notes)
        return self.today.lines_html() + "".join(f"<p>{escape(note)}</p>" for note in notes)

    @property
    def shown(self) -> tuple[str, ...]:
        """All but the point's number and its note, which stands below."""
        return tuple(name for name in self.rows()[0] if name not in APART)


@checked
def whatif(
    workload: str | Workload,
    machine: str | Machine,
    vary: Mapping[str, Values] | Sequence[str] = (),
    *,
    estimator: str | ShippedEstimator | Estimator | None = None,
    settings: Mapping[str, Value] | Sequence[str] = (),
    dtype: str | None = None,
    calibration: Fitted | DeviceCalibration | None = None,
    where: Sequence[str] = (),
    level: float = DEFAULT_LEVEL,
    executor: Executor | None = None,
    quantity: str | None = None,
    input: Sequence[str] = (),  # noqa: A002
    train: str | None = None,
    allow_code: Sequence[str] = (),
    work: str | None = None,
    attention: str | None = None,
    **numbers: Value,
) -> WhatIf:
    """How much faster or slower a workload gets when named numbers vary: every combination, ratios to today first.

    Parameters
    ----------
    workload, machine, estimator
        Objects, or names as on the command line.
    vary
        Name -> values (an array or list of SI numbers, or texts with units), or texts as
        ``machine.clock=1.2GHz,2.4GHz``.
    settings
        Numbers that stay and are not the default ({"run.threads": 240}), as `question` takes them.
    dtype
        The data type to compute in ("bfloat16").
    calibration
        Answers instead of the estimator (`Calibration`, `DeviceCalibration`, `read_calibration`).
    where
        Conditions between formulas of the names that vary ("machine.clock*machine.cores <= 2e11").
    quantity
        What is wanted of an answer with several quantities ("ttft").
    attention
        "flash", in one kernel, or "parts", as the graph has it.
    numbers
        Sizes and numbers of the run by their words, as options of the command line: ``batch=8``.

    Raises
    ------
    InputError
        Where nothing varies, or a name or a value cannot be used.

    Examples
    --------
    >>> answer = whatif("phi-cnn-small", "xeon-phi-7120p", {"machine.clock": ["1.238 GHz", "2.476 GHz"]})
    >>> [round(float(ratio), 2) for ratio in answer.frame.time_ratio]
    [1.0, 0.73]
    """
    if not vary:
        raise InputError("nothing varies: name at least one, such as machine.clock=1.2GHz,2.4GHz")
    if isinstance(settings, Mapping):  # the older run= named numbers of the run without their namespace
        settings = {name if "." in name else f"run.{name}": value for name, value in settings.items()}
    subject = own_workload(workload, machine, input, train, allow_code, work)
    settings = with_numbers(whatif, settings, numbers, subject)
    query = question(
        subject, machine, estimator, settings, dtype, vary, calibration, where, quantity, attention=attention
    )
    return answer(query, level, executor)


def answer(
    question: Question,
    level: float = DEFAULT_LEVEL,
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> WhatIf:
    """The what-if of a question over what varies in it.

    `level`: probability of the band.
    Raises InputError where the points are more than `MAX_POINTS`.
    """
    space = question.vary
    if space.size > MAX_POINTS:
        raise InputError(f"{space.counted}: want at most {MAX_POINTS:,} in one table; slipstick study run takes more")
    work = task(question, level)
    columns = swept(work, executor, progress)
    work.keep()
    notes = (*work.notes, *work.over_cap(question.machine, columns))
    return WhatIf(question, examined(question), columns, level, work.unknown, notes, work.unused)


THREADS = "run.threads"


def with_threads_of_today(
    settings: Sequence[str], vary: Sequence[str], machine: str, ask: Callable[[Sequence[str]], object]
) -> list[str]:
    """Settings with all hardware threads of the machine, where threads vary and none are set: today has threads, too.

    Without them another model would answer for today, one that knows no threads. Where `ask` refuses so many (a law of
    one thread a core), it is as many as there are cores.
    """
    if any(text.partition("=")[0].strip() == THREADS for text in settings):
        return list(settings)
    if not any(text.partition("=")[0].strip() == THREADS for text in vary):
        return list(settings)
    at = machine_by_name(machine)
    full = [*settings, f"{THREADS}={hardware_threads(at)}"]
    try:
        ask(full)
    except InputError:
        return [*settings, f"{THREADS}={at.cores}"]
    return full


def by_default(answer: WhatIf, name: str) -> WhatIf:
    """The answer whose question sets a name that nobody gave: it stands among what is taken by default."""
    taken = [replace(one, origin="default", note="") if one.name == name else one for one in answer.today.conditions]
    return replace(answer, today=replace(answer.today, conditions=tuple(taken)))


def columns_of(frame: pd.DataFrame) -> Columns:
    """The columns of a frame by name."""
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def frame_rows(frame: pd.DataFrame, notes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """`column_rows` of a frame."""
    return column_rows(columns_of(frame), notes)


def column_rows(columns: Columns, notes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Rows for people and machines: the names that vary, then ratio, time, bands, energy and cost (None: unknown).

    Where the table has a Pareto front, each row says whether it is on it. Notes on the whole table, where there are
    any, stand in a column `note`: JSON and CSV have no other place for them.
    """
    tail = ["time_ratio", *BANDS[:2], "time_s", *BANDS[2:], ENERGY, COST]
    shown = [name for name in columns if name not in (*tail, "point", FRONT, PROBABILITY)]
    cases = ("workload", "machine", "dtype")
    shares = [name for name in shown if "." not in name and name not in cases]  # what varies has a namespace
    varied = [name for name in shown if name not in shares]
    names = [*varied, *tail, *shares, *(name for name in (FRONT, PROBABILITY) if name in columns)]
    unknown = [math.nan] * len(columns["time_s"])
    sides = [columns[name].tolist() if name in columns else unknown for name in names]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*sides, strict=True)]
    for row in rows:
        row |= {name: None for name, value in row.items() if value != value}
        row |= {"note": "; ".join(notes)} if notes else {}
    return rows
