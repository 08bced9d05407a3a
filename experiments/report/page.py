"""One self-contained HTML page: charts, tables, formulas and the source of each number; opens without a network.

The part of a page that shows what nothing beats in time, energy, cost or another objective.

A timeline inside a page: a row a lane, stretches coloured by their kind; the wheel zooms and a drag moves it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.answer import Answer, Event
from slipstick.common.columns import Better, Column, ShownColumn, is_number, shown_columns
from slipstick.common.formatting import number_shown, shown
from slipstick.common.readers import read_text
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import atomic_write
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.symbolic.formula import Formula
from slipstick.experiments.question.objectives import FRONT, PROBABILITY, Objective, QueryOf, with_front, work_columns
from slipstick.experiments.report.plots import COLOURS, Chart, Marks, Picture, draw_charts, scale_of, svg
from slipstick.hwmodels.machine import Machine, describe

if TYPE_CHECKING:
    import pandas as pd


MOST_DRAWN = 5_000
"""Stretches on a page: the first ones, where there are more; `--timeline FILE` holds all."""


def timeline_html(events: Iterable[Event]) -> str:
    """The timeline as a part of a page, drawn by the script of every page; "" where nothing is to draw."""
    kept = list(islice(events, MOST_DRAWN + 1))
    cut, kept = len(kept) > MOST_DRAWN, kept[:MOST_DRAWN]
    if not kept:
        return ""
    kinds = [kind for kind, _ in Counter(map(_kind, kept)).most_common()]
    colours = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    lanes = {lane: place for place, lane in enumerate(dict.fromkeys(one.lane for one in kept))}
    drawn = [[lanes[one.lane], one.start, one.end, colours[_kind(one)], _in_words(one)] for one in kept]
    data = escape(json.dumps({"lanes": list(lanes), "events": drawn}))
    named = kinds[: len(COLOURS)]
    legend = ", ".join(f'<span style="color: {colours[kind]}">&#9632;</span> {escape(kind)}' for kind in named)
    few = f"The first {MOST_DRAWN:,} stretches; --timeline FILE writes all. " if cut else ""
    note = f"<p class=note>{few}The wheel zooms, a drag moves, a double click shows all. {legend}</p>"
    return f'<div class=timeline data-timeline="{data}"><canvas></canvas></div>{note}'


def _kind(event: Event) -> str:
    """What a stretch is coloured by: its kind, else its name without a number behind it."""
    return event.kind or event.name.partition(" ")[0]


def _in_words(event: Event) -> str:
    facts = "".join(f", {name.replace('_', ' ')} {value:g}" for name, value in event.facts.items())
    return f"{event.name}: {shown(event.end - event.start, 's')} from {shown(event.start, 's')}{facts}"


MAX_TABLE_ROWS = 500


@dataclass(frozen=True)
class Card:
    """One headline number."""

    value: str
    meaning: str


@dataclass(frozen=True)
class Section:
    """A part of the page; `html` is trusted, made by the functions below."""

    title: str
    html: str


POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'\">"
)
"""What a page may do (https://www.w3.org/TR/CSP3/): run its own script, draw, save a picture; no network."""


def folded(title: str, html: str) -> Section:
    """A part of the page that opens by a click: what few readers want."""
    return Section("", f"<details><summary>{escape(title)}</summary>{html}</details>")


def assumptions(texts: Sequence[str], title: str = "What was taken for granted") -> list[Section]:
    """Assumptions, doubts and sources, folded; none where there are none."""
    items = "".join(f"<li>{escape(text)}</li>" for text in dict.fromkeys(texts))
    return [folded(title, f"<ul class=note>{items}</ul>")] if items else []


def write_page(
    path: str | Path, title: str, lead: str, cards: Sequence[Card], sections: Sequence[Section], script: str = ""
) -> Path:
    """Write the page: title, headline numbers, then the sections in their order; returns its path."""
    heads = "".join(f"<div class=card><b>{escape(c.value)}</b><small>{escape(c.meaning)}</small></div>" for c in cards)
    body = "".join(f"<section>{f'<h2>{escape(s.title)}</h2>' if s.title else ''}{s.html}</section>" for s in sections)
    style, shared = (read_text(Path(__file__).with_name(f"page.{kind}")) for kind in ("css", "js"))
    with atomic_write(path) as stream:
        stream.write(
            f"<!doctype html><html lang=en><head><meta charset=utf-8>{POLICY}"
            '<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="data:,">'
            f"<title>{escape(title)}</title><style>{style}</style>"
        )
        stream.write("</head><body>")
        stream.write(f"<h1>{escape(title)}</h1>{f'<p>{escape(lead)}</p>' if lead else ''}")
        stream.write(f"<div class=cards>{heads}</div>{body}")
        stream.write(f"<script>{shared}{script}</script></body></html>")
    return Path(path)


def write_with_charts(
    path: str | Path,
    charts: Sequence[Picture],
    title: str,
    lead: str,
    cards: Sequence[Card],
    sections: Sequence[Section],
    script: str = "",
) -> tuple[Path, Path]:
    """Write the page to `path` as `write_page` does, and its charts beside it as PNG; returns both paths."""
    picture = Path(path).with_suffix(".png")
    page = write_page(path, title, lead, cards, sections, script)
    draw_charts(charts, picture)
    return page, picture


@checked
def page(answer: Answer, path: str | Path, title: str = "") -> Path:
    """Write any answer as one page: its lines, its picture, and its rows as tables that sort and filter.

    Parameters
    ----------
    title
        The name of the answer's class where left out.

    Examples
    --------
    >>> import slipstick as ss
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ss.page(ss.question("gpt2", "H100").answer(), f"{folder}/gpt2.html").exists()
    True
    """
    heads = "".join(f"<p>{escape(text)}</p>" for text in answer.headed)
    tables = [
        Section(one.title or "Rows", table_html(one.rows, f"rows{place}", one.columns))
        for place, one in enumerate(answer.tables())
    ]
    assumed = assumptions([*answer.remarks, *answer.notes])
    return write_page(
        path,
        title or type(answer).__name__,
        "",
        [],
        [Section("", heads + answer.picture_html()), *tables, *timeline_sections(answer), *assumed],
    )


def timeline_sections(answer: Answer) -> list[Section]:
    """What ran when, where the answer was simulated."""
    drawn = timeline_html(answer.events())
    return [Section("Timeline", drawn)] if drawn else []


def picture_html(picture: Picture, name: str) -> str:
    """A chart inside the page, drawn once and without a script; its title is that of the section around it."""
    return f'<div class=figure id="{name}">{svg([replace(picture, title="")], WIDE)}</div>'


WIDE = 5.4
"""Inches of a picture: letters are readable on a phone, and the page stretches it where there is room."""


def pictures_html(pictures: Sequence[Picture], name: str) -> str:
    """Several charts beside each other where there is room, each under its title."""
    drawn = (
        f"<div><h3>{escape(one.title)}</h3>{picture_html(one, f'{name}{i}')}</div>" for i, one in enumerate(pictures)
    )
    return f"<div class=pictures>{''.join(drawn)}</div>"


def table_html(rows: Sequence[Mapping[str, Any]], name: str, columns: Sequence[Column] = ()) -> str:
    """Rows as a table that sorts by a click on its head and filters by words; long ones are cut, and say so.

    Rows whose `front` is true are highlighted, and a box leaves only those. What `columns` declares, and what is known
    of keys that many answers share, is shown as the terminal shows it; cells are sorted by the values behind them.
    """
    if not rows:
        return "<p class=note>(nothing)</p>"
    fronted = FRONT in rows[0]
    kept = rows[:MAX_TABLE_ROWS]
    front = [fronted and bool(row[FRONT]) for row in kept]
    marked = [{**row, FRONT: FRONT if on_front else ""} for row, on_front in zip(kept, front, strict=True)]
    shown = shown_columns(marked if fronted else kept, columns)
    kinds = ["" if _is_of_numbers(one, kept) else " class=text" for one in shown]
    head = "".join(f"<th{kind}>{breakable(one.head)}</th>" for one, kind in zip(shown, kinds, strict=True))
    body = "".join(
        f"<tr{' class=front' if on_front else ''}>"
        + "".join(_cell(one.cells[i], row.get(one.column.key), kind) for one, kind in zip(shown, kinds, strict=True))
        + "</tr>"
        for i, (row, on_front) in enumerate(zip(kept, front, strict=True))
    )
    cut = f"<p class=note>first {len(kept)} of {len(rows)} rows</p>" if len(rows) > len(kept) else ""
    filter_ = f'<input class=filter data-table="{name}" placeholder="filter rows" aria-label="filter rows">'
    box = f'<input type=checkbox class=front data-table="{name}">'
    only = f"<label class=only>{box} only the Pareto front</label>" if fronted else ""
    table = f'<table class=sortable id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"{filter_ if len(kept) > 8 else ''}{only}<div class=scroll>{table}</div>{cut}"


def _is_of_numbers(shown: ShownColumn, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a column stands right: numbers, or texts that begin with one."""
    values = [row.get(shown.column.key) for row in rows]
    return all(value is None or is_number(value) or (str(value) or "0")[:1].isdigit() for value in values)


YES = {True: "yes", False: "no"}


def breakable(name: str) -> str:
    """A column's name that may break behind its dots and underscores, so that the table stays on the page."""
    return escape(name).replace(".", ".<wbr>").replace("_", "_<wbr>")


def _cell(shown: Any, value: Any, attribute: str) -> str:
    if shown is None or shown != shown:
        return f"<td{attribute}></td>"
    text = number_shown(shown) if is_number(shown) else YES[shown] if isinstance(shown, bool) else str(shown)
    sorted_by = f' data-value="{float(value)!r}"' if is_number(value) else ""
    return f"<td{attribute}{sorted_by}>{escape(text)}</td>"


def formula_html(formula: Formula, left: str = "T") -> str:
    """A formula typeset as MathML, which browsers draw by themselves, with the full names as text below."""
    import sympy as sp

    from slipstick.experiments.report.typeset import mathml

    names = short_names(formula.names)
    expression = formula.expression.xreplace({s: sp.Symbol(names[str(s)]) for s in formula.expression.free_symbols})
    legend = "; ".join(f"{escape(short)} = {escape(name)}" for name, short in names.items() if short != name)
    return (
        f"<div class=formula>{mathml(expression, left)}</div>"
        f"<p class=note>{f'{legend}. ' if legend else ''}In {escape(formula.unit)}; {escape(formula.source)}.</p>"
    )


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Readable names for a formula: the last words of each dotted name, as many as make it unique."""
    known = list(names)
    return {
        name: next((end for end in ends if not end.isdigit()), name).replace(".", "_")
        for name, ends in zip(known, unique_ends(known), strict=True)
    }


def unique_ends(names: Sequence[str]) -> list[list[str]]:
    """Of each dotted name its ends, the shortest first, that no other name has."""
    every = [
        [".".join(words[-count:]) for count in range(1, len(words) + 1)] for words in (n.split(".") for n in names)
    ]
    counts = Counter(end for ends in every for end in ends)
    return [[end for end in ends if counts[end] == 1] or ends[-1:] for ends in every]


def machine_rows(machine: Machine) -> list[dict[str, str]]:
    """Every number of a machine with its source."""
    return [{"number": f"machine.{path}", "value": text, "source": source} for path, text, source in describe(machine)]


def parameter_rows(estimator: Any) -> list[dict[str, Any]]:
    """Every parameter of an estimator: value, unit, whether it was fitted, what it means."""
    from slipstick.estimators.symbolic.formula import parameters

    fitted: dict[str, float | None] = {}
    inner, calibration = estimator.model, estimator.uncertainty
    if calibration is not None:
        fitted = dict(calibration.standard_errors())
    return [
        {
            "number": f"estimator.{name}",
            "value": value,
            "standard_error": fitted.get(name),
            "unit": note.unit,
            "meaning": note.meaning,
            "source": f"fitted: {estimator.source}" if name in fitted else getattr(inner, "source", ""),
        }
        for name, (value, note) in parameters(inner).items()
    ]


MAX_MARKS = 2000
"""Points off the front that a picture shows."""
MAYBE = 0.2
"""Probability from which on a point off the front is drawn apart."""
TITLES = {"time_s": "time [s]", "energy_J": "energy [J]", "cost_usd": "cost [$]"}


def marked(
    frame: pd.DataFrame, wanted: Sequence[Objective] = (), query_of: QueryOf | None = None, level: float = DEFAULT_LEVEL
) -> tuple[pd.DataFrame, list[str]]:
    """The table with its front by the wanted objectives; unchanged where there are none.

    `query_of`, `level`: as `with_front` takes them; the level is the probability of the bands.
    """
    return with_front(frame, list(wanted), query_of, level) if wanted else (frame, [])


def best(frame: pd.DataFrame, rows: int, ratio: str = "time_ratio", better: Better = "less") -> pd.DataFrame:
    """The best points by a ratio to today, and those on the front wherever they stand, best first."""
    ordered = frame.sort_values(ratio, ascending=better == "less", kind="stable")
    first = ordered.head(rows)
    if FRONT not in frame:
        return first
    front = ordered[ordered[FRONT]].head(rows)
    kept = first.index.union(front.index, sort=False)
    return frame.loc[kept].sort_values(ratio, ascending=better == "less", kind="stable")


def front_section(frame: pd.DataFrame, names: Sequence[str], identifier: str) -> list[Section]:
    """Pictures of the first objective against each other one, the front drawn out; none where there is no front."""
    if not names:
        return []
    columns = work_columns(frame)
    count, work = int(frame[FRONT].sum()), [name for name in columns if name != "workload"]
    note = f"{count} of {len(frame)} points are beaten by no other in {escape(', '.join(names))} together"
    note += f", each compared with those of its {escape(', '.join(work))}." if work else "."
    if count <= (len(frame.drop_duplicates(columns)) if columns else 1):
        return [Section("The front", f"<p class=note>{note} One point beats all others of equal work.</p>")]
    figures = [
        picture_html(front_chart(frame, names[0], other), f"{identifier}-front-{index}")
        for index, other in enumerate(names[1:])
    ]
    return [Section("The front", f"<p class=note>{note}</p>{''.join(figures)}")]


def front_chart(frame: pd.DataFrame, x: str, y: str) -> Chart:
    """Two objectives of every point; a large table's other points are thinned evenly, and that is reported."""
    front = frame[frame[FRONT]].sort_values([x, y])
    others = frame[~frame[FRONT]]
    maybe = others[others[PROBABILITY] >= MAYBE] if PROBABILITY in frame else others.head(0)
    others = others.drop(maybe.index)
    step = -(-len(others) // MAX_MARKS) or 1
    shown = others.iloc[::step]
    label = f"{len(shown)} of the {len(others)} others" if step > 1 else "others"
    scales = [scale_of(frame[name]) for name in (x, y)]
    marks = [Marks("the front", front[x].tolist(), front[y].tolist(), 1)]
    if len(shown):
        marks.insert(0, Marks(label, shown[x].tolist(), shown[y].tolist(), 0, "dot"))
    if len(maybe):
        marks.append(Marks(f"on it by {100 * MAYBE:g} % or more", maybe[x].tolist(), maybe[y].tolist(), 2))
    names = [TITLES.get(name, name) for name in (x, y)]
    return Chart(f"{names[1]} against {names[0]}", names[0], names[1], (), tuple(marks), scales[0], scales[1])
