"""What a verb gives back: head lines, rows under declared columns, notes and remarks, and one way to show each.

The terminal (`experiments/report/output.py`), a page (`experiments/report/page.py`), notebooks, JSON and frames all
read the same record: an answer says what it holds, and nothing says anew how that is shown.

What ran when, and its file in the Trace Event Format that Chrome (chrome://tracing) and Perfetto open.

Source: Trace Event Format, Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from slipstick.common.columns import Column, for_people
from slipstick.common.errors import InputError
from slipstick.common.formatting import number_shown
from slipstick.common.html_tables import html_table
from slipstick.common.writer import write_json

if TYPE_CHECKING:
    import pandas as pd

    from slipstick.common.records import FrozenDict


MOST_EVENTS = 1_000_000
"""Of one file: viewers open no more."""


def _no_facts() -> FrozenDict[float]:
    from slipstick.common.records import FrozenDict  # with pydantic, which --help does without

    return FrozenDict()


@dataclass(frozen=True)
class Event:
    """One stretch of a timeline: what ran where, from start to end in seconds.

    Parameters
    ----------
    lane
        Where: "thread" or "process/thread", each a row of its own.
    kind
        What kind of stretch it is; "" where its name says all.
    facts
        Numbers that a viewer shows with it.

    Examples
    --------
    >>> import slipstick as ss
    >>> event = ss.Event("product", "stream 0", 0.0, 2e-3)
    >>> event.lane, event in {event}
    ('stream 0', True)
    """

    name: str
    lane: str
    start: float
    end: float
    kind: str = ""
    facts: FrozenDict[float] = field(default_factory=_no_facts)


def write_timeline(path: str | os.PathLike[str], events: Iterable[Event]) -> int:
    """Write a timeline as a Chrome trace; returns how many stretches it has.

    Raises InputError where there are more than a million, or the file cannot be written.
    """
    kept = list(islice(events, MOST_EVENTS + 1))
    if len(kept) > MOST_EVENTS:
        raise InputError(f"{path}: more than {MOST_EVENTS:,} events; trace a run of fewer steps, copies or requests")
    write_json(path, {"traceEvents": list(_trace_events(kept)), "displayTimeUnit": "ms"})
    return len(kept)


def _trace_events(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    processes, lanes = dict[str, int](), dict[str, dict[str, int]]()
    for event in events:
        if event.lane not in lanes:
            process, _, thread = event.lane.rpartition("/")
            place = lanes[event.lane] = {"pid": processes.setdefault(process, len(processes)), "tid": len(lanes)}
            for what, name in (("process_name", process or "timeline"), ("thread_name", thread)):
                yield {"ph": "M", "name": what, **place, "args": {"name": name}}
        made = {"ph": "X", "name": event.name, "cat": event.kind, **lanes[event.lane]}
        yield {**made, "ts": event.start * 1e6, "dur": (event.end - event.start) * 1e6, "args": {**event.facts}}


SCHEMA_VERSION = 1
"""Of all JSON answers: it grows when a key leaves or changes its meaning, not when one is added (docs/json.md)."""
Provenance: TypeAlias = Literal["measured", "calibrated", "estimated"]
"""On what an answer rests, the surest first: it was timed itself; measurements of the user's own moved what was fitted;
what ships alone."""
IN_NOTEBOOK = 30
"""Rows of a table that a notebook shows."""


@dataclass(frozen=True)
class AnswerTable:
    """Rows of plain values in SI units, with what their columns hold.

    `title`: what stands above it; "" where it is the only one.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[Column] = ()
    title: str = ""

    def html(self) -> str:
        """For a notebook, without script or style."""
        rows = for_people([_without_gaps(self.rows, row) for row in self.rows[:IN_NOTEBOOK]], self.columns)
        if not rows:
            return ""
        cut = f"first {len(rows)} of {len(self.rows):,} rows" if len(self.rows) > len(rows) else ""
        title = f"<p>{escape(self.title)}</p>" if self.title else ""
        return title + html_table(list(rows[0]), [[_text(cell) for cell in row.values()] for row in rows], cut)


def _without_gaps(rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the columns that are empty in all of the rows."""
    return {key: value for key, value in row.items() if any(_known(other.get(key)) for other in rows[:IN_NOTEBOOK])}


def _known(value: Any) -> bool:
    """Whether a cell holds something: neither None nor NaN."""
    return value is not None and value == value


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return number_shown(cell) if isinstance(cell, float) else str(cell)


class Answer:
    """The record that every verb answers with: an estimate, a what-if, a server, a plan, a replay, an extrapolation.

    A kind of answer gives its `rows`, and says by `declared`, `heads`, `notes` and `remarks` what else there is; each
    of these is empty where it says nothing. The ways to show it follow from them.
    """

    def rows(self) -> list[dict[str, Any]]:
        """What it says, one dictionary a row, units in the keys.

        Raises
        ------
        NotImplementedError
            Where a kind of answer does not say.
        """
        raise NotImplementedError

    @property
    def declared(self) -> tuple[Column, ...]:
        """What its columns hold: unit, band, which way is better; those that all answers share are known."""
        return ()

    @property
    def shown(self) -> tuple[str, ...]:
        """Keys of the columns that a table for people has, in their order; all where none are named."""
        return ()

    @property
    def heads(self) -> tuple[str, ...]:
        """The answer in words, most important first."""
        return ()

    @property
    def provenance(self) -> Provenance:
        """On what it rests: "measured", "calibrated" or "estimated"."""
        return "estimated"

    @property
    def headed(self) -> tuple[str, ...]:
        """`heads` as they are shown: the first says on what the answer rests."""
        return tuple(text if index else f"{text}; {self.provenance}" for index, text in enumerate(self.heads))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken for granted."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What contradicts the answer in what was given, and what widens its band, each with its factor."""
        return ()

    @property
    def depends(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """What JSON says of its conditions and of what was given and not used: rows by key; empty where unknown."""
        return {}

    def tables(self) -> tuple[AnswerTable, ...]:
        """The tables for people: `rows`, and others where there are some."""
        rows = self.rows()
        if self.shown:
            units = [one.unit_in for one in self.declared if one.unit_in and one.key in self.shown]
            kept = dict.fromkeys((*self.shown, *units))
            rows = [{key: row[key] for key in kept if key in row} for row in rows]
        return (AnswerTable(rows, self.declared),)

    def document(self) -> list[dict[str, Any]]:
        """What JSON holds: `rows`, unless there is more to say."""
        return self.rows()

    def to_json(self) -> str:
        """The answer as JSON, the same text as of the command with ``--format json``."""
        return json_text(self.document(), self.remarks, self.provenance, self.depends)

    def to_frame(self) -> pd.DataFrame:
        """`rows` as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def lines_html(self) -> str:
        """Heads, the first in bold, and what was taken for granted, folded."""
        first, *rest = [*map(escape, self.headed)] or [""]
        heads = "<br>".join([f"<b>{first}</b>", *rest]) if first else ""
        assumed = "<br>".join(map(escape, [*self.remarks, *self.notes]))
        folded = f"<details><summary>assuming</summary>{assumed}</details>" if assumed else ""
        return (f"<p>{heads}</p>" if heads else "") + folded

    def picture_html(self) -> str:
        """What stands before the tables of a page, and in place of them in a notebook; "" where nothing does."""
        return ""

    def events(self) -> Iterable[Event]:
        """What ran when, where the answer was simulated; empty where nothing was."""
        return ()

    def write_trace(self, path: str | os.PathLike[str]) -> int:
        """Write `events` as a Chrome trace (chrome://tracing, Perfetto), each lane a row; returns how many they are.

        Raises
        ------
        InputError
            Where the answer has no timeline, or one of more than a million events.
        """
        events = iter(self.events())
        first = next(events, None)
        if first is None:
            raise InputError(f"{path}: this answer has no timeline")
        return write_timeline(path, chain((first,), events))

    def __repr__(self) -> str:
        return "\n".join(self.headed) or object.__repr__(self)

    def _repr_html_(self) -> str:
        return self.lines_html() + (self.picture_html() or "".join(table.html() for table in self.tables()))


@dataclass(frozen=True, eq=False)
class PlainAnswer(Answer):
    """An answer that is its rows and lines alone."""

    table: Sequence[Mapping[str, Any]]
    declared: tuple[Column, ...] = ()
    heads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    more: tuple[AnswerTable, ...] = ()
    provenance: Provenance = "estimated"

    def rows(self) -> list[dict[str, Any]]:
        """The table, one dictionary a row."""
        return [dict(row) for row in self.table]

    def tables(self) -> tuple[AnswerTable, ...]:
        """The table, and those beside it."""
        return (*super().tables(), *self.more)


def json_text(
    rows: Sequence[Mapping[str, Any]],
    remarks: Sequence[str] | None = None,
    provenance: Provenance | None = None,
    depends: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
) -> str:
    """Rows as JSON, each with the version of the keys; of an answer also with its warnings, on what it rests, and on
    what it depends (`Answer.depends`)."""
    more: dict[str, Any] = {} if remarks is None else {"remarks": list(remarks)}
    more |= depends or {}
    if provenance is not None:
        more["provenance"] = provenance
    more["schema_version"] = SCHEMA_VERSION
    return json.dumps([{key: plain(value) for key, value in row.items()} | more for row in rows], indent=1)


def plain(value: Any) -> Any:
    """A value as JSON: not-a-number becomes null, numpy scalars become numbers."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value
