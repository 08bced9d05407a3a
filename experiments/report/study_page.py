"""The page of a study: every case's what-if, best points first, light also for 100,000 points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError
from slipstick.experiments.report import whatif_page
from slipstick.experiments.report.page import Card, Section, assumptions, front_section, picture_html, write_with_charts
from slipstick.experiments.report.plots import Chart
from slipstick.experiments.studies.runner import PreparedStudy
from slipstick.experiments.studies.study import Study
from slipstick.experiments.studies.whatif import WhatIf, columns_of

if TYPE_CHECKING:
    import pandas as pd

BEST_ROWS = 200


def write(
    study: Study, made: PreparedStudy, frame: pd.DataFrame, names: Sequence[str], path: Path
) -> tuple[Path, Path]:
    """Write the page and its PNG; returns both paths.

    `names`: the objectives of the table's column `front`; none where it has none.
    Raises InputError where no point meets the conditions, or none is answered yet.
    """
    sections: list[Section] = []
    for number, (workload, rows) in enumerate(frame.groupby("workload", sort=False) if names else ()):
        label = f"{workload}: " if len(study.workloads) > 1 else ""
        sections += [
            replace(one, title=f"{label}{one.title}") for one in front_section(rows, names, f"workload{number}")
        ]
    cards: list[Card] = []
    charts: list[Chart] = []
    assumed: list[str] = []
    for case in made.cases:
        rows = frame[(frame.workload == case.workload) & (frame.machine == case.machine)]
        if not len(rows):
            continue
        question = study.question(case.workload, case.machine)
        answers = rows.drop(columns=["workload", "machine"]).reset_index(drop=True)
        table = columns_of(answers)
        answer = WhatIf(replace(question, vary=case.work.space), question.answer(), table, study.level)
        name = f"{question.workload.name} on {question.machine.name}"
        chart = whatif_page.ratio_chart(answer)
        charts.append(chart)
        assumed += answer.today.notes
        identifier = f"case{len(cards)}"
        cards.append(Card(whatif_page.cards(answer)[0].value, f"{name}: {whatif_page.cards(answer)[0].meaning}"))
        sections.append(Section(name, picture_html(chart, f"{identifier}-ratio")))
        notes = (
            *case.work.unknown,
            *case.work.lines,
            *case.work.over_cap(question.machine, table),
        )
        points = whatif_page.points_section(answers, identifier, BEST_ROWS, notes)
        sections.append(points if len(made.cases) == 1 else replace(points, title=f"{name}: {points.title.lower()}"))
        sections += whatif_page.formula_sections(answer)
        sections += whatif_page.source_sections(answer, identifier)
    if not cards:
        raise InputError(f"study {study.name!r}: no point meets the conditions, or none is answered yet")
    sections += assumptions([*assumed, f"fingerprint of the study: {made.fingerprint}"])
    return write_with_charts(path, charts[:4], study.name, study.description, cards, sections)
