"""What `slipstick whatif` prints: today first, then ratios; a rate where the points make different amounts.

What `slipstick whatif` prints of answers with several quantities: the wanted one over today's, then the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slipstick.common.columns import LEVEL, RATE, Column, short_names
from slipstick.common.formatting import count_shown
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD
from slipstick.experiments.question.cautions import remarks
from slipstick.experiments.question.facts import items_of, unit_of
from slipstick.experiments.question.memory_need import FITS, NOT, able
from slipstick.experiments.question.objectives import FIT, FRONT, known_only
from slipstick.experiments.report.machine_comparison import host_line, issued
from slipstick.experiments.report.output import emit, emit_line, line_width
from slipstick.experiments.report.summary import A_DEVICE, PERCENTILE, assumptions, heads
from slipstick.experiments.studies.quantity_columns import REFUSED
from slipstick.experiments.studies.range_assumptions import remarks_at_ends
from slipstick.experiments.studies.size_columns import MEMORY
from slipstick.experiments.studies.sweep import Columns
from slipstick.experiments.studies.whatif import WhatIf, column_rows
from slipstick.hwmodels.machine_fields import axis, named_shown

MOST_REFUSED = 3
"""Points that are refused and named."""
NARROW = 100
"""Columns of a terminal below which a table has the times alone beside what is wanted."""


def print_quantities(
    answer: WhatIf, table: Columns, front: Sequence[str], rows: int, notes: Sequence[str], *, verbose: bool
) -> None:
    """The table, its best points where there are many; `front`: the objectives whose Pareto front it is."""
    wanted = answer.today.headline
    ratio = f"{'time' if wanted.name == answer.today.name else wanted.name}_ratio"
    lines = [*notes, f"ratio: {wanted.name} over today's, {wanted.better} is better"]
    values = np.asarray(table[ratio], dtype=np.float64)
    known, order = np.isfinite(values), np.arange(len(values))
    lines += [
        f"refused at {_where(answer, table, int(at))}: {table[REFUSED][at]}"
        for at in np.flatnonzero(~known)[:MOST_REFUSED]
    ]
    if front:
        order = np.flatnonzero(table[FRONT])
        lines.append(f"{len(order)} of {len(values)} points are beaten by no other in {', '.join(front)}:")
    elif len(order) > rows:
        lines.append(f"the {rows} best of {len(order)} points (--format csv gives all):")
        order = np.argsort(np.where(known, -values if wanted.better == "more" else values, np.inf))[:rows]
    names = answer.space.names
    shown_as = short_names(names) if line_width() < NARROW else {}
    columns = [*(axis(name, shown_as.get(name, "")) for name in names), Column(ratio, "ratio", better=wanted.better)]
    ends = Column("low_s", "", wanted.unit, "high_s")  # a step's own, as every answer has them
    columns += [wanted.declared()[0], ends if wanted.name == "time" else wanted.declared()[1]]
    columns += [*(one.declared()[0] for one in _others(answer))]
    keys = [column.key for column in columns] + [column.high for column in columns if column.high]
    rows_of = [{key: np.asarray(table[key])[at].item() for key in keys} for at in order if known[at]]
    emit(rows_of, "table", notes=lines, columns=columns)
    for text in assumptions(answer.question, answer.today, verbose=verbose):
        emit_line(text)


def _others(answer: WhatIf) -> list[Quantity]:
    """The quantities beside the wanted one; times alone where the terminal is narrow."""
    wanted, wide, shares = answer.today.headline.name, line_width() >= NARROW, answer.today.metrics
    known = [one for one in answer.today.quantities.values() if one.name not in shares]
    known = [one for one in known if not PERCENTILE.search(one.name)]
    return [one for one in known if one.name not in (wanted, "itl") and (wide or one.unit == "s")]


def _where(answer: WhatIf, table: Columns, at: int) -> str:
    return ", ".join(f"{name} = {named_shown(name, float(table[name][at]))}" for name in answer.space.names)


AMOUNTS = ("batch", "seq_len")
HOST_FIELDS = ("machine.runtime.", "estimator.")
"""What is varied where a host's seconds differ from point to point."""


def print_sweep_table(
    answer: WhatIf, table: Columns, front: Sequence[str], rows: int, lines: Sequence[str], *, verbose: bool = False
) -> None:
    """The table of a what-if; `front`: the objectives whose Pareto front it is."""
    now, *work = heads(answer.question, answer.today)
    notes = [f"today: {now}", *work, *(one.text() for one in answer.unused)]
    if answer.today.others:
        if held := [text for text in answer.today.assumptions if A_DEVICE in text]:
            notes += [f"today: {text}" for text in held if "DOES NOT FIT" in text]
            notes += [text for text in remarks_at_ends(answer.question) if A_DEVICE in text]
        print_quantities(answer, table, front, rows, [*notes, *lines], verbose=verbose)
        return
    if answer.today.interval() and "low_ratio" in table:
        notes.append("bands of ratios: what was fitted, and most of what the fit misses, is one for both times")
    doubts = remarks(answer.question)  # below the table, with what is assumed
    notes += [text for text in lines if text not in doubts]
    notes += [*_host_notes(answer, table), *remarks_at_ends(answer.question)]
    rates = _rates(answer, table)
    rate = next(iter(rates), "")
    table = {**table, **rates}
    count = len(table["time_s"])
    fitting = able(table[FIT]) if FIT in table else np.ones(count, dtype=bool)
    if not np.any(fitting):
        notes.append("no point fits in memory" if count else "no point meets --where")
    if rate and np.any(fitting):
        at = int(np.where(fitting, table[rate], 0.0).argmax())
        word = f", which {table[FIT][at]}" if FIT in table else ""
        notes.append(f"most {rate}: {count_shown(float(table[rate][at]))} at {_where(answer, table, at)}{word}")
    if front:
        best = np.flatnonzero(table[FRONT])
        notes.append(f"{len(best)} of {count} points are beaten by no other in {', '.join(front)}:")
        table = {name: column[best] for name, column in table.items()}
        count = len(best)
    if count > rows:
        order = "with the most " + rate if rate else "fastest"
        notes.append(f"the {rows} {order} of {count} points (--format csv gives all):")
        order_of = -table[rate] if rate else table["time_ratio"]
        first = np.lexsort((order_of, table[FIT] == NOT if FIT in table else np.zeros(count)))[:rows]
        table = {name: column[first] for name, column in table.items()}
    printed = known_only(column_rows(table))
    plain = all(one.get(FIT) == FITS for one in printed)
    printed = [{**_memory_last(row, plain=plain), LEVEL: answer.level} for row in printed]
    emit(printed, "table", notes=notes, columns=[*answer.declared, Column(rate, unit=RATE, better="more")])
    unknown = answer.unknown if verbose else ()
    above = tuple(begins for begins in (EXCESS, HELD) if any(text.startswith(begins) for text in lines))
    rest = (text for text in answer.today.assumptions if not text.startswith(above))  # the table says it of its points
    for text in [
        *assumptions(answer.question, replace(answer.today, assumptions=tuple(rest)), verbose=verbose),
        *unknown,
    ]:
        emit_line(text)


def _memory_last(row: Mapping[str, Any], *, plain: bool) -> dict[str, Any]:
    """A row with its memory at the end, where a narrow terminal leaves it out; without the word where all fit."""
    words = [name for name in (MEMORY, *(() if plain else (FIT,))) if name in row]
    kept = {name: value for name, value in row.items() if name not in (MEMORY, FIT, "note")}
    return {**kept, **{name: row[name] for name in words}}


def _host_notes(answer: WhatIf, table: Columns) -> list[str]:
    """How many points take as long as the host needs to issue their operations, where it takes the same for all."""
    if any(name.startswith(HOST_FIELDS) for name in answer.space.names):
        return []
    pace, times = issued(answer.question), np.asarray(table["time_s"], dtype=np.float64)
    bounded = 0 if pace is None else int(np.sum(np.isclose(times, pace[0] * pace[1], rtol=1e-6, atol=0.0)))
    return [host_line(f"{bounded} of {len(times)} points", *pace)] if pace and bounded else []


def _rates(answer: WhatIf, table: Columns) -> Columns:
    """The column of a rate where points make different amounts, else none."""
    unit = unit_of(answer.question)
    names = [name for name in answer.space.names if name.partition(".")[2] in AMOUNTS and name in table]
    times = table["time_s"]
    if not (unit and names) or not len(times):
        return {}
    columns = {name: table[name] for name in answer.space.names}
    points = ({name: float(column[i]) for name, column in columns.items()} for i in range(len(times)))
    made = [items_of(answer.question, point) / float(time) for point, time in zip(points, times, strict=True)]
    return {f"{unit}/s": np.asarray(made, dtype=np.float64)}
