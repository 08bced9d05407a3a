"""What an answer assumes where something varies, and not today: from the ends of each axis inwards."""

from __future__ import annotations

import re

from slipstick.common.errors import InputError
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD
from slipstick.experiments.question.question import Question

MOST_AXES = 6
"""Axes whose ends are looked at: each end is an estimate, and where it has something to say its neighbours are."""
MOST_NEIGHBOURS = 16
"""Of an end: values inwards of which it is looked up whether the same holds."""
SO_MANY = "that many"
"""What stands for a point's own value in a line of several points."""
NUMBERS = re.compile(r"[\d.,]+")


def remarks_at_ends(question: Question) -> list[str]:
    """Lines that the estimates from an end of an axis inwards have and today's has not, be it with other numbers."""
    today = {NUMBERS.sub("", text) for text in question.answer().assumptions}

    def new(name: str, value: float) -> dict[str, str]:
        try:
            there = question.estimator.estimate_at(
                question.workload, question.machine, question.run, {name: float(value)}
            )
        except InputError:  # the table says it of each point that cannot be
            return {}
        return {
            text.replace(f"{value:g}", SO_MANY): text
            for text in there.assumptions
            if NUMBERS.sub("", text) not in today
            and not text.startswith((EXCESS, HELD))  # the table says it of all its points
        }

    lines = []
    for name, values in list(question.vary.axes.items())[:MOST_AXES]:
        inwards, outermost = sorted(set(values)), {float(min(values)), float(max(values))}
        for order in (inwards, inwards[::-1])[: len(outermost)]:
            alike, others = new(name, order[0]), iter(order[1:MOST_NEIGHBOURS])
            reach = {words: [order[0]] for words in alike}
            still = set(alike)
            while still and (value := next(others, None)) is not None and value not in outermost:
                still &= new(name, value).keys()
                for words in still:
                    reach[words].append(value)
            for words, text in alike.items():
                shown = ", ".join(f"{value:g}" for value in sorted(reach[words]))
                lines.append(f"at {name} = {shown}: {text if len(reach[words]) == 1 else words}")
    return lines
