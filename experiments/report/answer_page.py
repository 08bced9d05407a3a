"""Estimates as one page: the lines of the terminal, what takes the time, every operation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from slipstick.common.formatting import share_shown, shown
from slipstick.experiments.question.facts import Facts
from slipstick.experiments.question.question import Question
from slipstick.experiments.report import machine_comparison, summary
from slipstick.experiments.report.page import (
    Card,
    Section,
    assumptions,
    folded,
    picture_html,
    table_html,
    timeline_sections,
    write_page,
)
from slipstick.experiments.report.plots import Bars
from slipstick.experiments.report.roofline_chart import roofline_chart
from slipstick.experiments.report.slide_rule import slide_rule

OPERATIONS = 200
MOST_BARS = 12


def write_answers(questions: Sequence[Question], path: str | Path) -> Path:
    """Write the page of one or several questions of one workload; returns its path.

    Raises InputError where none of them has an answer.
    """
    known, refused = machine_comparison.answered(questions)
    sections = [Section("", picture_html(_picture(known), "picture"))]
    sections += [Section("Machines", table_html(machine_comparison.rows(known), "machines"))] if len(known) > 1 else []
    for index, (one, answer, known_facts) in enumerate(known):
        place = f" on {one.machine.name}" if len(known) > 1 else ""
        rows = summary.group_rows(known_facts, len(known_facts.groups))
        sections.append(Section(f"What takes the time{place}", table_html(rows, f"groups{index}")))
        if roofline := roofline_chart(one, answer):
            drawn = picture_html(roofline, f"roofline{index}")
            sections.append(folded(f"Roofline{place}: area is the share of the time", drawn))
        slowest = sorted(answer.rows(), key=lambda row: -float(str(row["total_s"])))[:OPERATIONS]
        sections.append(folded(f"Operations{place}, slowest first", table_html(slowest, f"operations{index}")))
    first, answer, known_facts = min(known, key=lambda entry: entry[1].time)
    cards = [
        Card(
            shown(one[1].time, "s"),
            f"{one[1].provenance} on {one[0].machine.name}; 80 % likely: {summary.band_shown(one[1]) or 'not known'}",
        )
        for one in known
    ]
    if len(known) == 1:
        cards += bound_cards(known_facts)
    assumed = "\n".join(summary.assumptions(first, answer, verbose=True)).replace(f"\n{' ' * 10}", "; ").splitlines()
    dropped = [one.text() for one in answer.not_used]
    texts = "".join(
        f"<p>{escape(text)}</p>" for text in (*dropped, *summary.summary(answer, known_facts, first), *refused)
    )
    sections.insert(
        2 if len(known) > 1 else 1, Section(f"The fastest: {first.machine.name}" if len(known) > 1 else "", texts)
    )
    sections += [one for _, answered, _ in known for one in timeline_sections(answered)]
    script = ""
    if len(known) == 1:
        script, sliders = slide_rule(first)
        sections.insert(3, Section("What if", sliders))
    title = f"{first.workload.name} on {first.machine.name}" if len(known) == 1 else f"{first.workload.name}: estimates"
    return write_page(
        path, title, "; ".join(machine_comparison.work_lines(known)), cards, [*sections, *assumptions(assumed)], script
    )


def bound_cards(known: Facts) -> list[Card]:
    """What bounds most of the time, with the shares, and whether the memory does; none of what nothing says."""
    shares = ", ".join(f"{name} {share_shown(share)}" for name, share in known.bounds[:3])
    cards = [Card(known.bounds[0][0], f"bounds most of the time: {shares}")] if known.bounds else []
    if known.memory is not None:
        need = known.memory
        cards.append(Card(need.verdict, f"{shown(need.needed, 'B')} of {shown(need.there, 'B')} {need.level}"))
    return cards


def _picture(known: Sequence[machine_comparison.Answered]) -> Bars:
    """Times of machines with their bands, or of one what takes its time, by kind of operation."""
    if len(known) == 1:
        groups = known[0][2].groups[:MOST_BARS]
        of = f"share of {shown(known[0][1].time, 's')} [%]"
        return Bars(
            "", of, [one.kind for one in groups], [0.0] * len(groups), [100 * one.share for one in groups], None
        )
    ordered = sorted(known, key=lambda one: one[1].time)
    ends = [answer.interval() or (answer.time, answer.time) for _, answer, _ in ordered]
    names = [question.machine.name for question, _, _ in ordered]
    middle = [answer.time for _, answer, _ in ordered]
    return Bars(
        "", "time with its 80 % band [s]", names, [low for low, _ in ends], [high for _, high in ends], None, middle
    )
