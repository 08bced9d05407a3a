"""What an answer assumes where something varies, and not today: at the ends of each axis."""

from __future__ import annotations

import re

from slipstick.common.errors import InputError
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD
from slipstick.experiments.question.question import Question

MOST_AXES = 6
"""Axes whose ends are looked at: each end is an estimate."""
NUMBERS = re.compile(r"[\d.,]+")


def remarks_at_ends(question: Question) -> list[str]:
    """Lines that the estimate at an end of an axis has and today's has not, be it with other numbers."""
    today = {NUMBERS.sub("", text) for text in question.answer().assumptions}
    lines = []
    for name, values in list(question.vary.axes.items())[:MOST_AXES]:
        for value in dict.fromkeys((min(values), max(values))):
            try:
                there = question.estimator.estimate_at(
                    question.workload, question.machine, question.run, {name: float(value)}
                )
            except InputError:  # the table says it of each point that cannot be
                continue
            new = [text for text in there.assumptions if NUMBERS.sub("", text) not in today]
            new = [text for text in new if not text.startswith((EXCESS, HELD))]  # the table says it of all its points
            lines += [f"at {name} = {value:g}: {text}" for text in new]
    return lines
