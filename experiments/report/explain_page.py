"""The living slide rule: a page whose sliders recompute the ratio to today, its band and what bounds the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.formatting import ends_shown, shown
from slipstick.estimators.base.estimate import Estimate
from slipstick.experiments.explain.explanation import COLUMNS, SEEN, interaction
from slipstick.experiments.question.cautions import contradictions, hints
from slipstick.experiments.question.question import Question
from slipstick.experiments.report.page import Card, Section, assumptions, folded, picture_html, table_html, write_page
from slipstick.experiments.report.plots import Bars, Heat
from slipstick.experiments.report.slide_rule import slide_rule
from slipstick.experiments.report.whatif_page import formula_sections, part_rows, source_sections
from slipstick.experiments.studies.whatif import WhatIf

TORNADO_BARS = 14
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def write(
    question: Question,
    answer: Estimate,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    target: float,
    path: str | Path,
) -> Path:
    """Write the page; returns its path.

    `target`: the ratio to today's time that the changes reach.
    """
    script, sliders = slide_rule(question, [str(row["quantity"]) for row in tables["elasticities"]])
    tornado = tables["tornado"][:TORNADO_BARS]
    ends = [[row["divided"] or 1.0, row["multiplied"] or 1.0] for row in tornado]
    bars = Bars(
        "Each quantity halved and doubled",
        "time / today's time",
        short_labels([str(row["quantity"]) for row in tornado]),
        [min(pair) for pair in ends],
        [max(pair) for pair in ends],
    )
    reached = [row for row in tables["changes"] if row.get("factor")]
    mattering = [row for row in tables["elasticities"] if abs(row["elasticity"] or 0.0) >= SEEN]
    sections = [
        Section("", sliders),
        *([Section("What the time hangs on", picture_html(bars, "tornado"))] if tornado and mattering else []),
        *_section("Elasticities", mattering, "elasticities"),
        *_interaction(question, [str(row["quantity"]) for row in mattering]),
        Section("What bounds the time", table_html(tables["bottlenecks"], "bottlenecks")),
        *_section("Where an operation changes what bounds it", tables["crossovers"], "crossovers"),
        *_section(f"What alone brings the time to {target:.3g} of today's", reached, "changes"),
    ]
    if "together" in tables:
        title = f"The cheapest change of several that brings the time to {target:g}"
        sections.append(Section(title, table_html(tables["together"], "together", COLUMNS)))
    if "ranking" in tables:
        sections.append(Section("How surely which is faster", table_html(tables["ranking"], "ranking")))
    sections.append(folded("What takes the time today", table_html(part_rows(answer), "parts")))
    whatif = WhatIf(question, None, answer, None, 0.8)  # type: ignore[arg-type]
    sections += formula_sections(whatif)
    sections += assumptions([*contradictions(question), *hints(question), *answer.notes])
    sections += source_sections(whatif, "sources")
    band = answer.interval()
    sure = f"80 % likely: {ends_shown(*band)}" if band else "how sure is unknown"
    cards = [] if script else [Card(shown(answer.time, "s"), f"today's time; {sure}")]
    title = f"{question.workload.name} on {question.machine.name}"
    return write_page(path, f"Slide rule: {title}", "; ".join(answer.heads[1:]), cards, sections, script)


LONGEST_LABEL = 22
"""Characters of a bar's label: longer ones leave no room for the bars on a phone."""


def short_labels(names: Sequence[str]) -> list[str]:
    """Names of quantities by their last words: as many as fit, more where two would be one."""
    short = []
    for name in names:
        words = name.split(".")
        ends = [".".join(words[-count:]) for count in range(1, len(words) + 1)]
        alone = [end for end in ends if sum(other.endswith(f".{end}") or other == end for other in names) == 1]
        fitting = [end for end in alone if len(end) <= LONGEST_LABEL]
        short.append(fitting[-1] if fitting else alone[0])
    return short


def _section(title: str, rows: Sequence[Mapping[str, Any]], name: str) -> list[Section]:
    """A table under its title; none where it has no rows."""
    return [Section(title, table_html(rows, name, COLUMNS))] if rows else []


def _interaction(question: Question, names: Sequence[str]) -> list[Section]:
    """Two quantities of the machine together; none where fewer than two matter."""
    chosen = [name for name in names if name.startswith("machine.")][:2]
    if len(chosen) < 2:
        return []
    grid = interaction(question, chosen[0], chosen[1], FACTORS)
    alone = np.outer(grid[:, FACTORS.index(1.0)], grid[FACTORS.index(1.0)])
    title = "Time over today's; rows and columns are factors on today's values"
    figure = Heat(title, f"factor on {chosen[0]}", f"factor on {chosen[1]}", FACTORS, FACTORS, grid)
    most = float(np.max(np.abs(np.log(grid / alone))))
    text = f"Were they independent, each cell would be the product of its edges; they differ by up to {most:.1%}."
    note = f"<p class=note>{text}</p>"
    return [Section("Two together", picture_html(figure, "interaction") + note)]
