"""The part of a page that shows what nothing beats in time, energy, cost or another objective."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.columns import Better
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.experiments.question.objectives import FRONT, PROBABILITY, Objective, QueryOf, with_front, work_columns
from slipstick.experiments.report.page import Section, picture_html
from slipstick.experiments.report.plots import Chart, Marks

if TYPE_CHECKING:
    import pandas as pd

MAX_MARKS = 2000
"""Points off the front that a picture shows."""
MAYBE = 0.2
"""Probability from which on a point off the front is drawn apart."""
LOG_FROM = 20.0
"""Axes whose values span this ratio are logarithmic."""
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
    scales = [scale_of(frame[name].to_numpy(dtype=float)) for name in (x, y)]
    marks = [Marks("the front", front[x].tolist(), front[y].tolist(), 1)]
    if len(shown):
        marks.insert(0, Marks(label, shown[x].tolist(), shown[y].tolist(), 0, "dot"))
    if len(maybe):
        marks.append(Marks(f"on it by {100 * MAYBE:g} % or more", maybe[x].tolist(), maybe[y].tolist(), 2))
    names = [TITLES.get(name, name) for name in (x, y)]
    return Chart(f"{names[1]} against {names[0]}", names[0], names[1], (), tuple(marks), scales[0], scales[1])


def scale_of(values: Any) -> Any:
    """Logarithmic where positive values span much."""
    known = values[np.isfinite(values)]
    return "log" if len(known) and known.min() > 0 and known.max() / known.min() >= LOG_FROM else "linear"
