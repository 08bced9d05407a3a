"""What `slipstick whatif` prints of answers with several quantities: the wanted one over today's, then the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.common.columns import Column, short_names
from slipstick.estimators.base.quantity import Quantity
from slipstick.experiments.question.objectives import FRONT
from slipstick.experiments.report.output import emit, emit_line, line_width
from slipstick.experiments.report.summary import PERCENTILE, assumptions
from slipstick.experiments.studies.quantity_columns import REFUSED
from slipstick.experiments.studies.sweep import Columns
from slipstick.experiments.studies.whatif import WhatIf
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
