"""One self-contained HTML page: charts, tables, formulas and the source of each number; opens without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from slipstick.common.answer import Answer
from slipstick.common.columns import Column, ShownColumn, is_number, shown_columns
from slipstick.common.formatting import number_shown
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import atomic_write
from slipstick.estimators.symbolic.formula import Formula
from slipstick.experiments.question.objectives import FRONT
from slipstick.experiments.report.plots import Picture, svg
from slipstick.hwmodels.machine import Machine, describe

MAX_TABLE_ROWS = 500

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --line: #d9dee4; --soft: #f4f6f8; --accent: #1f5a91; --paper: #fff;
  --faint: #55606c; --front: #fdf1e7; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #dfe5ec; --line: #3a444f; --soft: #1f272f;
  --accent: #7fb4e6; --paper: #141a20; --faint: #9aa7b4; --front: #3d2c1c; }
  .figure > svg { filter: invert(.9) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 20px 18px 60px; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6em; margin: .3em 0; }
h2 { font-size: 1.15em; margin: 2em 0 .5em; border-bottom: 1px solid var(--line); }
h3 { font-size: 1em; font-weight: 600; margin: 1em 0 .2em; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.card { flex: 1 1 200px; background: var(--soft); border-left: 4px solid var(--accent); padding: 10px 14px; }
.card b { display: block; font-size: 1.5em; } .card small { color: var(--faint); }
.note { color: var(--faint); font-size: .93em; overflow-wrap: anywhere; }
.scroll { overflow: auto; max-height: 520px; }
table { border-collapse: collapse; font-size: .9em; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; }
td.text, th.text { text-align: left; white-space: normal; overflow-wrap: break-word; }
select { max-width: 100%; }
th { white-space: normal; vertical-align: bottom; position: sticky; top: 0; background: var(--soft); cursor: pointer; }
tr + tr td { border-top: 1px solid var(--line); } tr.front td { background: var(--front); }
label.only { margin-left: 10px; font-size: .93em; white-space: nowrap; }
.pictures { display: flex; flex-wrap: wrap; gap: 8px; } .pictures > div { flex: 1 1 400px; max-width: 720px; }
svg { max-width: 100%; height: auto; } details { margin: 10px 0; } summary { cursor: pointer; color: var(--accent); }
math { font-size: 1.05em; } .formula { overflow-x: auto; padding: 8px 0; } .figure { width: 100%; position: relative; }
.tip { position: absolute; pointer-events: none; background: var(--ink); color: var(--paper); font-size: .85em;
  padding: 1px 7px; border-radius: 4px; max-width: 90%; }
.figure > svg { width: min(100%, 660px); } #curve > svg { width: 100%; } svg .grid { stroke: #e3e7eb; }
label.slider span { overflow-wrap: break-word; line-height: 1.2; } label.slider small { color: var(--faint); }
label.slider { display: grid; grid-template-columns: minmax(9em, 1fr) 2fr 8em;
  gap: 10px; align-items: center; margin: 4px 0; }
input[type=range] { width: 100%; } input.filter { margin: 0 0 6px; padding: 4px 8px; width: min(100%, 320px); }
button.save { float: right; font: inherit; font-size: .85em; color: var(--accent); background: none; cursor: pointer;
  border: 1px solid var(--line); border-radius: 4px; padding: 1px 8px; margin: 2px 0 2px 8px; }
@media print { body { max-width: none; padding: 0; } .scroll { overflow: visible; max-height: none; }
  button.save, input, select, label.only { display: none !important; } section { break-inside: avoid; } }
@media (max-width: 600px) { body { padding: 12px 10px 40px; font-size: 14px; }
  label.slider { grid-template-columns: 1fr 8em; } label.slider input { grid-column: 1 / -1; grid-row: 2; } }
"""

SCRIPT = """
document.querySelectorAll('table.sortable').forEach(table => {
  const body = table.tBodies[0];
  table.querySelectorAll('th').forEach((head, column) => head.addEventListener('click', () => {
    const up = head.dataset.up !== 'yes'; table.querySelectorAll('th').forEach(h => delete h.dataset.up);
    head.dataset.up = up ? 'yes' : 'no';
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => { const x = key(a), y = key(b), n = Number(x) - Number(y);
      return (up ? 1 : -1) * (Number.isNaN(n) ? String(x).localeCompare(String(y)) : n); });
    body.append(...rows);
  }));
});
const choose = name => {
  const box = document.querySelector(`input.filter[data-table="${name}"]`);
  const only = document.querySelector(`input.front[data-table="${name}"]`);
  const words = box ? box.value.toLowerCase().split(/\\s+/).filter(Boolean) : [];
  for (const row of document.getElementById(name).tBodies[0].rows) { const text = row.textContent.toLowerCase();
    const left = only && only.checked ? row.classList.contains('front') : true;
    row.hidden = !(left && words.every(word => text.includes(word))); }
};
const save = (place, word, name, blob) => { const button = document.createElement('button');
  button.className = 'save'; button.textContent = word;
  button.addEventListener('click', async () => { const link = document.createElement('a');
    link.href = URL.createObjectURL(await blob()); link.download = name; link.click(); });
  place.prepend(button); };
document.querySelectorAll('table.sortable').forEach(table => save(table.closest('.scroll').parentElement, 'CSV',
  `${table.id}.csv`, () => { const cell = each => `"${(each.dataset.value ?? each.textContent).replaceAll('"', '""')}"`;
    const rows = [...table.rows].filter(row => !row.hidden).map(row => [...row.cells].map(cell).join(','));
    return new Blob([rows.join('\\n') + '\\n'], {type: 'text/csv'}); }));
document.querySelectorAll('.figure > svg').forEach((drawn, i) => save(drawn.parentElement, 'PNG', `figure${i + 1}.png`,
  () => new Promise(done => { const copy = drawn.cloneNode(true), box = drawn.viewBox.baseVal, image = new Image();
    const canvas = Object.assign(document.createElement('canvas'), {width: 3 * box.width, height: 3 * box.height});
    copy.setAttribute('width', canvas.width); copy.setAttribute('height', canvas.height);
    image.onload = () => { const brush = canvas.getContext('2d'); brush.fillStyle = '#fff';
      brush.fillRect(0, 0, canvas.width, canvas.height); brush.drawImage(image, 0, 0); canvas.toBlob(done); };
    image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], {type: 'image/svg+xml'}));
  })));
document.querySelectorAll('svg[data-points]').forEach(drawn => {
  const points = JSON.parse(drawn.dataset.points), tip = document.createElement('div'), view = drawn.viewBox.baseVal;
  tip.className = 'tip'; tip.hidden = true; drawn.parentElement.append(tip);
  drawn.addEventListener('pointermove', event => {
    const box = drawn.getBoundingClientRect(), scale = view.width / box.width;
    const far = ([x, y]) => Math.hypot(x - (event.clientX - box.left) * scale, y - (event.clientY - box.top) * scale);
    const near = points.reduce((best, one) => far(one) < far(best) ? one : best, points[0]);
    tip.hidden = !near || far(near) > 30 * scale;
    if (tip.hidden) return;
    const place = drawn.parentElement.getBoundingClientRect();
    tip.textContent = near[2]; tip.style.top = `${box.top - place.top + near[1] / scale + 10}px`;
    tip.style.left = `${Math.min(box.left - place.left + near[0] / scale, place.width - tip.offsetWidth)}px`; });
  drawn.addEventListener('pointerleave', () => { tip.hidden = true; });
});
document.querySelectorAll('input.filter, input.front').forEach(box =>
  box.addEventListener('input', () => choose(box.dataset.table)));
"""


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
    with atomic_write(path) as stream:
        stream.write(
            f"<!doctype html><html lang=en><head><meta charset=utf-8>{POLICY}"
            '<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="data:,">'
            f"<title>{escape(title)}</title><style>{STYLE}</style>"
        )
        stream.write("</head><body>")
        stream.write(f"<h1>{escape(title)}</h1>{f'<p>{escape(lead)}</p>' if lead else ''}")
        stream.write(f"<div class=cards>{heads}</div>{body}")
        stream.write(f"<script>{SCRIPT}{script}</script></body></html>")
    return Path(path)


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
        path, title or type(answer).__name__, "", [], [Section("", heads + answer.picture_html()), *tables, *assumed]
    )


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
    names = list(names)
    result = {}
    for name in names:
        words = name.split(".")
        for count in range(1, len(words) + 1):
            short = "_".join(words[-count:])
            alone = sum(1 for other in names if "_".join(other.split(".")[-count:]) == short) == 1
            if alone and not short.isdigit():
                break
        result[name] = short
    return result


def machine_rows(machine: Machine) -> list[dict[str, str]]:
    """Every number of a machine with its source."""
    return [{"number": f"machine.{path}", "value": text, "source": source} for path, text, source in describe(machine)]


def parameter_rows(estimator: Any) -> list[dict[str, Any]]:
    """Every parameter of an estimator: value, unit, whether it was fitted, what it means."""
    from slipstick.estimators.symbolic.parameters import parameters

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
