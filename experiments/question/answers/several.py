"""One workload on several machines: a table with the fastest, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slipstick.estimators.core.estimate import Estimate
from slipstick.experiments.question.answers.facts import Facts
from slipstick.experiments.question.answers.lines import band_shown, count_shown, shown
from slipstick.experiments.question.question import Question

Answered = tuple[Question, Estimate, Facts]


def surely_faster(first: Estimate, second: Estimate) -> float | None:
    """Probability that the first is faster, their errors taken as independent; None where one has no band."""
    spreads = [answer.spread.total for answer in (first, second)]
    if None in spreads or not first.time or not second.time:
        return None
    together = math.hypot(*(spread for spread in spreads if spread is not None))
    if together == 0:
        return 1.0 if first.time < second.time else 0.0
    return 0.5 * (1 + math.erf(math.log(second.time / first.time) / together / math.sqrt(2)))


NARROW = 100
"""Columns of a terminal below which a table leaves out what the single answers show."""


def rows(answers: Sequence[Answered], width: int = 200) -> list[dict[str, Any]]:
    """One row a machine, fastest first; `width`: columns of the terminal."""
    ordered = sorted(answers, key=lambda one: one[1].time)
    best = ordered[0][1]
    result = []
    for question, answer, known in ordered:
        need, sure = known.memory, surely_faster(best, answer)
        row: dict[str, Any] = {"machine": question.machine.name, "time": shown(answer.time, "s")}
        row["80 % band"] = band_shown(answer)
        if known.throughput:
            row[f"{known.throughput.unit}/s"] = count_shown(known.throughput.rate)
        if width >= NARROW:
            row["MFU"] = "" if known.mfu is None else shown(100 * known.mfu, "%")
        row["memory"] = "" if need is None else f"{'' if need.fits else 'NO: '}{shown(need.needed, 'byte')}"
        if width >= NARROW:
            row["there"] = "" if need is None else shown(need.there, "byte")
        row["slower"] = f"{answer.time / best.time:.3g} x"
        row["sure"] = "" if answer is best or sure is None else shown(100 * sure, "%")
        result.append(row)
    return result


def winner(answers: Sequence[Answered]) -> str:
    """Who is fastest, and how sure that is against the next; machines that cannot hold the workload do not count."""
    able = [one for one in answers if one[2].memory is None or one[2].memory.fits]
    if not able:
        return "none of these machines holds the workload"
    ordered = sorted(able, key=lambda one: one[1].time)
    first = ordered[0]
    if len(ordered) == 1:
        return f"the only one that holds it: {first[0].machine.name}"
    second = ordered[1]
    sure = surely_faster(first[1], second[1])
    note = "" if sure is None else f", {shown(100 * sure, '%')} sure"
    return f"fastest: {first[0].machine.name}, {second[1].time / first[1].time:.3g} x {second[0].machine.name}{note}"
