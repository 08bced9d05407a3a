"""Sliders where an estimator is no formula (a table of measured operations, a law of whole programs): tables instead.

Each quantity is varied alone by what `slipstick whatif` does, and the page reads between the points in logarithms. One
slider moved shows what the command prints; several are multiplied, which the page says.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.records import Table
from slipstick.experiments.explain.evaluator import value_of
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.experiments.studies.whatif import answer

POWERS = tuple(step / 4 for step in range(-12, 13))
"""Powers of two of today's value."""
SEEN = 0.005
"""Change of log time below which a quantity does not matter."""
MOST = 8
TOGETHER = "one slider at a time shows what slipstick whatif prints; those of several are multiplied"
FIELDS = ("clock", "cores", "power.cap", "runtime.issue_overhead", "runtime.launch_overhead")


def dial_tables(question: Question, level: float) -> dict[str, dict[str, Any]]:
    """Quantity -> what the time does over `POWERS` of it: those that matter most first, in SI units.

    Raises InputError where each point would be a simulation, or nothing that is tried changes the time.
    """
    if question.estimator.alone:
        raise InputError("each point of this estimator is a simulation: its page has no sliders")
    tried = {}
    for name in _candidates(question):
        try:
            tried[name] = _table(question, name, level)
        except InputError:
            continue  # a quantity that this estimator does not read, or that may not be so large
    mattering = {name: one for name, one in tried.items() if max(map(abs, one["ratio"])) > SEEN}
    if not mattering:
        raise InputError("no quantity of the machine changes this estimator's time: its page has no sliders")
    ordered = sorted(mattering, key=lambda name: -max(map(abs, mattering[name]["ratio"])))[:MOST]
    return {name: {**mattering[name], "bounds": _bounds(question, name, mattering[name])} for name in ordered}


def _candidates(question: Question) -> list[str]:
    machine, main = question.machine, question.machine.main_memory
    of_memory = [f"memory.{level}.{field}" for level in machine.memory for field in ("capacity", "bytes_per_cycle")]
    engines = [name for name in machine.numbers if ".flop_per_cycle." in name]
    fields = [name for name in (*FIELDS, f"memory.{main}.bandwidth", *of_memory, *engines) if name in machine.numbers]
    known = {**question.workload.defaults, **question.run}
    sizes = [f"run.{name}" for name in sorted(question.workload.symbols) if name in known]
    return [*sizes, *(f"machine.{name}" for name in fields if machine.get(name))]


def _table(question: Question, name: str, level: float) -> dict[str, Any]:
    today = value_of(question, name)
    counted = name.startswith("run.") or isinstance(question.machine.get(name.partition(".")[2]), int)
    values = sorted({_turned(today, power, counted) for power in POWERS})
    frame = answer(replace(question, vary=Space(Table({name: tuple(values)}))), level).frame
    banded = "low_ratio" in frame
    return {
        "at": [math.log2(value / today) for value in values],
        "ratio": [math.log(one) for one in frame.time_ratio],
        "half": [math.log(high / one) for high, one in zip(frame.high_ratio, frame.time_ratio, strict=True)]
        if banded
        else None,
        "of_time": [math.log(high / one) for high, one in zip(frame.high_s, frame.time_s, strict=True)]
        if banded
        else None,
    }


def _turned(today: float, power: float, counted: bool) -> float:  # noqa: FBT001
    value = today * 2.0**power
    return max(1.0, float(round(value))) if counted else value


def _bounds(question: Question, name: str, table: dict[str, Any]) -> list[dict[str, float]]:
    """Shares of the time by what bounds it, at each point of the table."""
    today, result = value_of(question, name), []
    for power in table["at"]:
        value = today * 2.0**power
        if name.startswith("run."):
            changed = replace(question, run=Table({**question.run, name[4:]: value}))
        else:
            whole = isinstance(question.machine.get(name[8:]), int)
            changed = replace(question, machine=question.machine.using({name[8:]: round(value) if whole else value}))
        given = changed.answer()
        result.append({key: round(share, 4) for key, share in facts(changed, given).bounds})
    return result
