"""One workload on several machines: a table with the fastest, and how sure that is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import count_shown, ratio_shown, share_shown, shown
from slipstick.estimators.base.conditions import conditions_lines
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.sureness import sure_shown
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.schedules.host_issue import HostIssue
from slipstick.experiments.question.facts import Facts, bound_of, facts
from slipstick.experiments.question.memory_need import FITS, MAY, NOT
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.unused_inputs import examined
from slipstick.experiments.report.summary import rate_shown
from slipstick.workloads.graph.kinds import BYTE, FLOP

Answered = tuple[Question, Estimate, Facts]


def answered(questions: Sequence[Question], refused: Sequence[str] = ()) -> tuple[list[Answered], list[str]]:
    """The questions that have an answer, and a line for each that has none, behind those that are `refused` already.

    Raises InputError where no question has an answer.
    """
    known, refusals = list[Answered](), list(refused)
    for one in questions:
        try:
            answer = examined(one)
            known.append((one, answer, facts(one, answer)))
        except InputError as error:
            if len(questions) == 1 and not refused:
                raise
            refusals.append(f"{one.machine.name}: refused: {error}")
    if not known:
        raise InputError("; ".join(refusals))
    return known, refusals


INDEPENDENT = (
    "sure: the errors of two machines are taken as independent, in log; where one model errs alike on both, the "
    "faster is surer than this says"
)
"""What `surely_faster` takes for granted, for those who want more of the answer."""


def surely_faster(first: Estimate, second: Estimate) -> float | None:
    """Probability that the first is faster, their errors taken as independent; None where one has no band."""
    spreads = [answer.spread.total for answer in (first, second)]
    if None in spreads or not first.time or not second.time:
        return None
    together = math.hypot(*(spread for spread in spreads if spread is not None))
    if together == 0:
        return 1.0 if first.time < second.time else 0.0
    return 0.5 * (1 + math.erf(math.log(second.time / first.time) / together / math.sqrt(2)))


WORDS = {FITS: "", MAY: "MAYBE: ", NOT: "NO: "}
"""What stands before the bytes that a workload needs, by whether they fit."""
NARROW = 100
"""Columns of a terminal below which a table leaves out what the single answers show."""


def rows(answers: Sequence[Answered], width: int = 200) -> list[dict[str, Any]]:
    """One row a machine, fastest first; `width`: columns of the terminal."""
    ordered = sorted(answers, key=lambda one: one[1].time)
    best = ordered[0][1]
    result = []
    for question, answer, known in ordered:
        need, sure = known.memory, surely_faster(best, answer)
        row: dict[str, Any] = {"machine": question.machine.name, "time_s": answer.time}
        row["low_s"], row["high_s"] = answer.interval() or (None, None)
        if known.throughput:
            of_work = known.throughput.unit in (FLOP, BYTE)
            rate = rate_shown(known.throughput) if of_work else count_shown(known.throughput.rate)
            row["rate" if of_work else f"{known.throughput.unit}/s"] = rate
        if width >= NARROW:
            row["mfu"] = known.mfu
        row["memory"] = "" if need is None else f"{WORDS[need.verdict]}{shown(need.needed, 'byte')}"
        if width >= NARROW:
            row["there"] = "" if need is None else shown(need.there, "byte")
        row["bound_by"] = bound_of(question.machine, answer)
        row["slower"] = f"{ratio_shown(answer.time / best.time)} x"
        row["sure"] = "" if answer is best or sure is None else sure_shown(sure)
        result.append(row)
    return result


CLEAR = 0.6
"""Below this probability that the first beats the second, neither is called the fastest."""


def winner(answers: Sequence[Answered]) -> str:
    """Who is fastest, and how sure that is against the next; machines that cannot hold the workload do not count."""
    able = [one for one in answers if one[2].memory is None or one[2].memory.verdict != NOT]
    if not able:
        return "none of these machines holds the workload"
    ordered = sorted(able, key=lambda one: one[1].time)
    first = ordered[0]
    if len(ordered) == 1:
        return f"the only one that holds it: {first[0].machine.name}"
    second = ordered[1]
    sure = surely_faster(first[1], second[1])
    ratio = second[1].time / first[1].time
    if sure is not None and sure < CLEAR:
        return (
            f"no clear winner: {first[0].machine.name} and {second[0].machine.name} differ by {share_shown(ratio - 1)}"
        )
    note = "" if sure is None else f", {sure_shown(sure)} sure"
    return f"fastest: {first[0].machine.name}, {ratio_shown(ratio)} x {second[0].machine.name}{note}"


def issued(question: Question) -> tuple[float, float] | None:
    """How many operations a host issues one by one, and seconds of each; None where no host is modelled."""
    schedule = getattr(question.estimator.model, "schedule", None)
    if not isinstance(schedule, HostIssue):
        return None
    return schedule.pace(as_compiled(question.workload, question.machine), question.machine)


def host_line(whom: str, count: float, seconds: float) -> str:
    """Whom the host bounds, by how many operations of how many seconds each, and what mends it."""
    each = f"{count:,.0f} operations of the graph before fusion x {shown(seconds, 's')}"
    return f"the host bounds {whom}: {each} to issue (--mode graphs issues them at once)"


def host_lines(answers: Sequence[Answered]) -> list[str]:
    """The machines that take as long as their host needs to issue the operations: a line for each such time."""
    bounded: dict[tuple[float, float], int] = {}
    for question, answer, _ in answers:
        pace = issued(question)
        if pace and math.isclose(answer.time, pace[0] * pace[1], rel_tol=1e-6):
            bounded[pace] = bounded.get(pace, 0) + 1
    return [host_line(f"{count} of {len(answers)} machines", *pace) for pace, count in bounded.items()]


def work_lines(answers: Sequence[Answered]) -> list[str]:
    """What the times are for: one line, or one for each kind of work with the machines that it runs on."""
    works: dict[str, list[str]] = {}
    for question, answer, _ in answers:
        works.setdefault(answer.work, []).append(question.machine.name)
    where = {work: "" if len(works) == 1 else f", {', '.join(whom)}" for work, whom in works.items()}
    return [f"work{whom}: {work}" for work, whom in where.items() if work]


def default_lines(answers: Sequence[Answered]) -> list[str]:
    """The sizes that nobody chose, which decide the time on every machine, and what widens the band of one."""
    sizes = [one for one in answers[0][1].conditions if one.origin == "default" and one.name.startswith("workload.")]
    lines: dict[str, dict[str, list[str]]] = {}
    for question, answer, _ in answers:
        for one in answer.conditions:
            if one.widens or one.origin == "unknown":
                by_machine = lines.setdefault(one.origin, {other.machine.name: [] for other, _, _ in answers})
                by_machine[question.machine.name].append(one.text())
    return [*conditions_lines(sizes), *(text for origin, texts in lines.items() for text in shared(texts, origin))]


_VARIES = re.compile(r"(?:(?<![\w.])|(?<=band x))\d[\d,.]*(?:e[-+]?\d+)?(?= x | wider)")
"""A factor: remarks that differ in factors alone are one remark."""


def shared(remarks: Mapping[str, Sequence[str]], word: str = "beware") -> list[str]:
    """Remarks on several machines, each once, with the machines that it concerns and the range of its factors.

    `word`: what a line begins with.
    """
    groups: dict[str, dict[str, str]] = {}
    for name, texts in remarks.items():
        for text in texts:
            groups.setdefault(_VARIES.sub("{}", text), {}).setdefault(name, text)
    lines = []
    for pattern, by_machine in groups.items():
        texts = list(by_machine.values())
        values = [[float(found.replace(",", "")) for found in _VARIES.findall(text)] for text in texts]
        ranges = [(min(column), max(column)) for column in zip(*values, strict=True)]
        parts = [" to ".join(map(ratio_shown, dict.fromkeys(ends))) for ends in ranges]
        text = texts[0] if len(set(texts)) == 1 else "".join(_interleaved(pattern.split("{}"), parts))
        whom = "" if len(by_machine) == len(remarks) and len(remarks) > 1 else f", {', '.join(by_machine)}"
        lines.append(f"{word}{whom}: {text}")
    return lines


def _interleaved(texts: Sequence[str], parts: Sequence[str]) -> list[str]:
    return [piece for pair in zip_longest(texts, parts, fillvalue="") for piece in pair]
