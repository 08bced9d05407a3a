"""A scoreboard is a declaration: what is predicted, what is held out, by which metrics it is judged, and the goals.

A board's module gives `BOARD`: parts, each a function of the data that yields `Scored` records (predictions beside
measurements) or finished rows. Everything else stands here once: percentiles, baselines, coverage and width of bands,
verdicts, and what happens where a file is missing or cannot be read (a skipped row with its reason).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from warnings import warn

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.prediction_bands import Fold, folds, knowing
from slipstick.estimators.roofline.physical_bound import TOLERANCE
from slipstick.experiments.calibrate.public_data import data_folder, scored_file, training_file, why_missing
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.scored_cases import CaseSet, Input

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")
GIVEN = "scored rows"
"""What is held out where rows are given to be scored: they alone."""


@dataclass(frozen=True)
class Metric:
    """A figure of predictions beside measurements, by the name that is printed.

    `of`: (predicted, measured), each of shape (n,) -> a share, or a number without unit.
    `unit`: "%" prints a share times 100.
    `label`: what is added to the name of the case.
    """

    name: str
    of: Callable[[FloatArray, FloatArray], float]
    unit: str = "1"
    label: str = ""

    def __call__(self, predicted: FloatArray, measured: FloatArray) -> float:
        """The figure in its unit, over the rows that have a prediction."""
        there = np.isfinite(predicted)
        return (100 if self.unit == "%" else 1) * self.of(predicted[there], measured[there])


def relative(share: float, name: str, unit: str = "1", label: str = "") -> Metric:
    """A quantile of |predicted / measured - 1|."""
    return Metric(name, partial(scores.relative_quantile, share), unit, label)


def logarithmic(share: float, name: str, unit: str = "1") -> Metric:
    """A quantile of |log(predicted / measured)|."""
    return Metric(name, partial(scores.log_quantile, share), unit)


def labelled(after: str = "") -> tuple[Metric, Metric]:
    """Median and 90th percentile of |predicted / measured - 1|, which are part of the case's name."""
    of = f"of |predicted / measured - 1|{after}"
    labels = ((0.5, "median"), (0.9, "90th percentile"))
    return tuple(relative(share, f"{label} {of}", label=label) for share, label in labels)  # type: ignore[return-value]


PERCENT = (relative(0.5, "median error", "%"), relative(0.9, "90th percentile of the error", "%"))
LOGARITHMIC = (logarithmic(0.5, "median |log ratio|"), logarithmic(0.9, "90th percentile |log ratio|"))
MAPE = Metric("MAPE", scores.mean_error)


@dataclass(frozen=True, eq=False)
class Scored:
    """Predictions of one part of a board beside what was measured, arrays of shape (n,) in one unit (mostly seconds).

    `baselines`: predictions by name; not a number where a baseline has none, and a baseline without any is left out.
    `metrics`, `goals`: one row a metric; the goals in its unit, None where there is none.
    `half`: Half-width of the band in log time, one number or shape (n,); or else its ends are `low` and `high`.
    `enough`, `holds`: rows from which a goal is judged; whether what else it demands (the worst row, say) holds.
    `noise`: what no model can know, in the unit of each metric.
    `unit`: of the measurements; "" where only their ratio to the predictions is known. Other people's models predict
        "s".
    `groups`: what is held out with each row; one name where all rows were left out together.
    `inputs`: what any predictor may know of each row (SI units): for other people's models.
    `least`: what no machine can undercut, shape (n,), in the unit of `measured`; None where no bound is known. Rows
        below it were measured or labelled wrongly: `possible` leaves them out.
    """

    case: str
    held_out: str
    measured: FloatArray
    ours: FloatArray
    metrics: Sequence[Metric] = PERCENT
    goals: Sequence[float | None] = ()
    baselines: Mapping[str, FloatArray] = field(default_factory=dict)
    half: npt.ArrayLike | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None
    level: float = scores.LEVEL
    enough: int = 0
    holds: bool = True
    noise: Sequence[float | None] | float | None = None
    reason: str = ""
    dataset: str = ""
    unit: str = "s"
    groups: Sequence[str] | str = ""
    inputs: Sequence[Mapping[str, Input]] = ()
    least: FloatArray | None = None

    def possible(self) -> Scored:
        """Without the rows that are faster than a machine can be, which are warned of and counted in the reason."""
        keep = (
            np.ones(len(self.measured), bool) if self.least is None else self.measured >= (1 - TOLERANCE) * self.least
        )
        if keep.all():
            return self
        places = np.flatnonzero(keep)
        some = {name: getattr(self, name) for name in ("measured", "ours", "half", "low", "high", "least")}
        parts: dict[str, Any] = {name: v[places] if np.ndim(v) else v for name, v in some.items()}
        lists = {name: getattr(self, name) for name in ("groups", "inputs")}
        parts |= {
            name: v if isinstance(v, str) or not len(v) else [v[at] for at in places] for name, v in lists.items()
        }
        parts["baselines"] = {name: np.asarray(v)[places] for name, v in self.baselines.items()}
        note = f"{len(keep) - len(places)} rows faster than the machine can be are left out"
        warn(f"{self.case}, {self.held_out}: {note}", stacklevel=2)
        return replace(self, reason="; ".join(filter(None, (self.reason, note))), **parts)

    def rows(self, dataset: str) -> Iterator[ValidationRow]:
        """One row a metric."""
        if not len(self.measured):
            why = "; ".join(filter(None, ("no rows to score", self.reason)))
            yield skipped(self.dataset or dataset, f"{self.case}, {self.held_out}: {why}")
            return
        band, ends = self._band(), self._ends()
        held: tuple[npt.ArrayLike, ...] = ()
        if ends is not None:
            away = scores.half_widths_away(ends[0], self.ours, ends[1], self.measured)
            held = scores.inside(*ends, self.measured), away
        known = {name: values for name, values in self.baselines.items() if np.isfinite(values).any()}
        for place, metric in enumerate(self.metrics):
            ours, goal = metric(self.ours, self.measured), _at(self.goals, place)
            yield ValidationRow(
                self.dataset or dataset,
                f"{self.case}, {metric.label}" if metric.label else self.case,
                self.held_out,
                len(self.measured),
                metric.name,
                metric.unit,
                ours,
                {name: metric(values, self.measured) for name, values in known.items()},
                goal,
                None if goal is None or len(self.measured) < self.enough else bool(ours <= goal) and self.holds,
                *band,
                self.noise if isinstance(self.noise, float) else _at(self.noise or (), place),
                self.reason,
            ).over(self.group_of_each, *held)

    @property
    def group_of_each(self) -> Sequence[str]:
        """The group of each row, shape (n,); empty where it is not stated."""
        if not isinstance(self.groups, str):
            return self.groups
        return [self.groups] * len(self.measured) if self.groups else ()

    def _ends(self) -> tuple[FloatArray, FloatArray] | None:
        """Low and high of every row; None without a band."""
        if self.half is not None:
            wide = np.exp(np.broadcast_to(np.asarray(self.half, dtype=float), self.measured.shape))
            return self.ours / wide, self.ours * wide
        return None if self.low is None or self.high is None else (self.low, self.high)

    def _band(self) -> tuple[float | None, float | None, float | None]:
        """Level, coverage and width; None without a band."""
        ends = self._ends()
        if ends is None:
            return None, None, None
        return self.level, scores.coverage(*ends, self.measured), scores.width(*ends)


def _at(values: Sequence[float | None], place: int) -> float | None:
    return values[place] if place < len(values) else None


class MissingError(InputError):
    """A file of public measurements is not here; the message is the reason of the skipped row."""


@dataclass(frozen=True, eq=False)
class Rows(Generic[Row]):
    """Rows to learn from and rows to score.

    `rows`: all of them; those given to be scored stand last, and no other is equal to one of them.
    `first`: the place of the first one given; 0 where none was, and all are scored in turn.
    """

    rows: Sequence[Row]
    first: int = 0

    @property
    def known(self) -> Sequence[Row]:
        """Those that may be known."""
        return self.rows[: self.first or None]

    @property
    def scored(self) -> Sequence[Row]:
        """Those that are scored."""
        return self.rows[self.first :]

    def folds(self, *keys: Sequence[str], at_most: int = 0) -> tuple[Fold, ...]:
        """Groups left out of those that are scored (see `folds`); what was given is never known."""
        made = folds(*keys, scored=range(self.first, len(self.rows)), at_most=at_most)
        return knowing(made, self.first) if self.first else made

    def turns(self, *keys: Sequence[str], at_most: int = 0) -> tuple[Fold, ...]:
        """Groups left out, or, of rows that were given, these alone: their groups may be known."""
        if not self.first:
            return self.folds(*keys, at_most=at_most)
        known, given = np.split(np.arange(len(self.rows)), [self.first])
        return (Fold(GIVEN, known, given),)


@dataclass(frozen=True)
class Data:
    """Where a board reads: public measurements to learn from, and the files to score (the same ones, or `scored`)."""

    scored: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of public measurements.

        Raises
        ------
        MissingError
            Where there is none.
        """
        if (folder := data_folder()) is None:
            raise MissingError("no public measurements here (set SLIPSTICK_DATA; `slipstick data list` says where)")
        return folder

    def known(self, relative: str) -> Path:
        """A file to learn from.

        Raises
        ------
        MissingError
            Where it is not there.
        """
        if (path := training_file(relative)) is None:
            raise MissingError(why_missing(relative))
        return path

    def judged(self, relative: str) -> Path:
        """A file to score.

        Raises
        ------
        MissingError
            Where it is not there.
        """
        if (path := scored_file(relative, self.scored)) is None:
            raise MissingError(why_missing(relative, self.scored))
        return path

    @property
    def judged_folder(self) -> Path:
        """The folder of the files to score.

        Raises
        ------
        MissingError
            Where it is that of public measurements and there is none.
        """
        return self.scored or self.folder

    def learnt(self, known: Sequence[Row], judged: Sequence[Row], key: Callable[[Row], Hashable]) -> list[Row]:
        """Rows to learn from: what is given to be scored leaves them; all where nothing is given.

        `key`: what makes two rows one measurement.
        """
        gone = set() if self.scored is None else set(map(key, judged))
        return [row for row in known if key(row) not in gone]

    def table(self, known: pd.DataFrame, judged: pd.DataFrame, key: Sequence[str]) -> pd.DataFrame:
        """`learnt` of tables; `key`: the columns that make two rows one measurement."""
        if self.scored is None:
            return known
        gone = set(judged[list(key)].itertuples(index=False, name=None))
        return known[[row not in gone for row in known[list(key)].itertuples(index=False, name=None)]]

    def rows(self, known: Sequence[Row], judged: Sequence[Row], key: Callable[[Row], Hashable]) -> Rows[Row]:
        """Rows to learn from and rows to score (see `learnt`); those known, each in turn, where nothing is given."""
        learnt = self.learnt(known, judged, key)
        return Rows(learnt) if self.scored is None else Rows([*learnt, *judged], len(learnt))


def of_errors(case: str, held_out: str, errors: FloatArray, baselines: Mapping[str, npt.ArrayLike]) -> Scored:
    """Scores of log(predicted / measured), shape (n,), ours and each baseline's; `replace` sets the rest."""
    ratios = {name: np.exp(np.asarray(values, dtype=float)) for name, values in baselines.items()}
    return Scored(case, held_out, np.ones(len(errors)), np.exp(errors), baselines=ratios, unit="")


Score = Callable[[Data], Iterable[Scored | ValidationRow]]


@dataclass(frozen=True)
class Part:
    """A part of a board that scores public rows by what is left out, and rows that are given by all others."""

    public: Score
    given: Score

    def __call__(self, data: Data) -> Iterable[Scored | ValidationRow]:
        """The scores of what the data has to score."""
        return (self.public if data.scored is None else self.given)(data)


@dataclass(frozen=True)
class Front:
    """A line of the validation's front page: which rows of a board answer a question on things never seen.

    `question`, `unseen`: what people ask, and what was left out of the fit, in a few words.
    `case`, `held_out`: of the rows; the case without what a metric adds to its name.
    """

    question: str
    unseen: str
    case: str
    held_out: str
    dataset: str = ""

    def chooses(self, row: ValidationRow) -> bool:
        """Whether a row is of this line."""
        names = (self.case, f"{self.case}, median", f"{self.case}, 90th percentile")
        return row.case in names and row.held_out == self.held_out and self.dataset in ("", row.dataset)


@dataclass(frozen=True)
class Board:
    """A scoreboard.

    `question`: what a user asks that this board answers for things never seen, in a sentence.
    `parts`: data set -> its scores; each part is skipped by itself where its files are missing or cannot be read.
    `front`: its lines of the front page.
    `closed`: of which data sets no other file can be scored, and why not.
    `cases`: what it gives other people's predictors, where it knows more of a row than its scores say.
    """

    question: str
    parts: Mapping[str, Score]
    front: tuple[Front, ...] = ()
    closed: Mapping[str, str] = field(default_factory=dict)
    cases: Callable[[Data], CaseSet] | None = None

    def scored(self, data: Data) -> Iterator[tuple[str, Scored | ValidationRow]]:
        """(data set, scores or a finished row) of every part, in order."""
        for dataset, score in self.parts.items():
            if data.scored is not None and dataset in self.closed:
                yield dataset, skipped(dataset, self.closed[dataset])
                continue
            for one in guarded(dataset, score, data):
                yield dataset, one.possible() if isinstance(one, Scored) else one

    def rows(self, scored: Path | None = None) -> list[ValidationRow]:
        """All rows; `scored` names a folder whose files are scored instead of the held-out public rows."""
        rows: list[ValidationRow] = []
        for dataset, one in self.scored(Data(scored)):
            rows += one.rows(dataset) if isinstance(one, Scored) else [one]
        return [replace(row, groups=1) if row.groups is None and row.n == 1 else row for row in rows]


def guarded(dataset: str, score: Score, data: Data) -> Iterator[Scored | ValidationRow]:
    """What a part yields, and a skipped row where a file is missing or cannot be read.

    A file that a user gave and that breaks a reader is skipped whatever error the reader raises; on the public files
    only errors of input are.
    """
    count = 0
    try:
        for count, one in enumerate(score(data), 1):  # noqa: B007 - what was yielded before an error counts
            yield one
        if not count and data.scored is not None:
            yield skipped(dataset, f"no rows of it in {data.scored}")
    except InputError as error:
        yield skipped(dataset, str(error))
    except Exception as error:
        if data.scored is None:
            raise
        yield skipped(dataset, f"{data.scored} cannot be scored: {type(error).__name__}: {error}")


def progress(text: str) -> None:
    """A line on stderr: a board of minutes shows that it moves."""
    print(f"slipstick: {text}", file=sys.stderr, flush=True)
