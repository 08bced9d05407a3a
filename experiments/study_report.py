"""The page of a study: every case's what-if, best points first, light also for 100,000 points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments import whatif_report
from experiments.plots import Chart, draw_charts, plotly_chart
from experiments.report import Card, Section, figure_html, table_html, write_page
from experiments.runner import Plan
from experiments.studies import Study
from experiments.sweep import WhatIf, frame_rows
from hwmodels.files import InputError

if TYPE_CHECKING:
    import pandas as pd

BEST_ROWS = 200


def write(study: Study, made: Plan, frame: pd.DataFrame, path: Path) -> tuple[Path, Path]:
    """Write the page and its PNG; returns both paths."""
    sections: list[Section] = []
    cards: list[Card] = []
    charts: list[Chart] = []
    assumptions: list[str] = []
    for case in made.cases:
        own = frame[(frame.workload == case.workload) & (frame.machine == case.machine)]
        if not len(own):
            continue
        asked = study.question(case.workload, case.machine)
        answers = own.drop(columns=["workload", "machine"]).reset_index(drop=True)
        found = WhatIf(asked, case.work.space, asked.answer(), answers, study.level)
        name = f"{asked.workload.name} on {asked.machine.name}"
        chart = whatif_report.ratio_chart(found)
        charts.append(chart)
        assumptions += [text for text in found.today.assumptions if text not in assumptions]
        best = found.frame.nsmallest(BEST_ROWS, "time_ratio")
        identifier = f"case{len(cards)}"
        cards.append(Card(whatif_report.cards(found)[0].value, f"{name}: {whatif_report.cards(found)[0].meaning}"))
        title = f"{name}: the {len(best)} fastest of {len(found.frame)} points"
        sections.append(Section(name, figure_html(plotly_chart(chart), f"{identifier}-ratio")))
        sections.append(Section(title, table_html(frame_rows(best), identifier)))
        sections += whatif_report.formula_sections(found)
        sections += whatif_report.source_sections(found, identifier)
    if not cards:
        raise InputError(f"study {study.name!r}: no point meets the conditions, or none is answered yet")
    lead = f"{study.description} Assuming: {'; '.join(assumptions)}. Fingerprint {made.fingerprint}."
    page = write_page(path, study.name, lead.strip(), cards, sections)
    picture = path.with_suffix(".png")
    draw_charts(charts[:4], picture)
    return page, picture
