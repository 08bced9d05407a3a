"""What `slipstick whatif` prints: today first, then ratios; a rate where the points make different amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slipstick.common.columns import LEVEL, RATE, Column
from slipstick.common.formatting import count_shown
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD
from slipstick.experiments.question.dtype_domain import remarks
from slipstick.experiments.question.facts import items_of, unit_of
from slipstick.experiments.question.memory_need import FITS, NOT
from slipstick.experiments.question.objectives import FIT, FRONT, known_only
from slipstick.experiments.report.machine_comparison import host_line, issued
from slipstick.experiments.report.output import emit, emit_line
from slipstick.experiments.report.quantity_sweeps import print_quantities
from slipstick.experiments.report.summary import A_DEVICE, assumptions, heads
from slipstick.experiments.studies.range_assumptions import remarks_at_ends
from slipstick.experiments.studies.size_columns import MEMORY, able
from slipstick.experiments.studies.sweep import Columns
from slipstick.experiments.studies.whatif import WhatIf, column_rows
from slipstick.hwmodels.machine_fields import named_shown

AMOUNTS = ("batch", "seq_len")
HOST_FIELDS = ("machine.runtime.", "estimator.")
"""What is varied where a host's seconds differ from point to point."""


def print_sweep_table(
    answer: WhatIf, table: Columns, front: Sequence[str], rows: int, lines: Sequence[str], *, verbose: bool = False
) -> None:
    """The table of a what-if; `front`: the objectives whose Pareto front it is."""
    now, *work = heads(answer.question, answer.today)
    notes = [f"today: {now}", *work]
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
        notes.append("no point fits in memory")
    if rate and np.any(fitting):
        at = int(np.where(fitting, table[rate], 0.0).argmax())
        where = ", ".join(f"{name} = {named_shown(name, float(table[name][at]))}" for name in answer.space.names)
        word = f", which {table[FIT][at]}" if FIT in table else ""
        notes.append(f"most {rate}: {count_shown(float(table[rate][at]))} at {where}{word}")
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
