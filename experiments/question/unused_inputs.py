"""What a question sets and its answer does not read, by the answer itself: the same question without it answers alike.

A formula says which names it holds; whatever else answers (a table, a simulation, a law of whole steps, the choice of a
model) says nothing of itself, so that the question is put again. Two reasons are told apart: what is read, but bounds
nothing here, moves the answer at some other value; what is not read moves it at none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, get_args

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.base.conditions import Condition, NotUsed
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.protocols import CompiledEstimator
from slipstick.estimators.composition.energy_and_cost import Consumption
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.objectives import consumptions
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.settings import Value
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_fields import named_shown
from slipstick.hwmodels.runtime import CacheState, Runtime
from slipstick.workloads.graph.workload_kind import WHOLE, workload_kind

NOT_READ = "this answer does not read it"
BOUNDED = "read, but something else bounds the time"
MOST_CROSSED = 6
"""Axes of which all corners are looked at: 64."""
BESIDE = ("energy", "power", "cost", "memory")
"""Quantities beside the time, which may read what the time does not."""
FACTORS = ((1e-3, 0.5), (1e3, 2.0))
"""Other values of a number at which an answer is looked at, over the one that was set: the second where the first is
refused."""
WORDS: Mapping[str, tuple[str, ...]] = {
    "machine.runtime.mode": get_args(Runtime.__pydantic_fields__["mode"].annotation),
    "machine.runtime.cache": get_args(CacheState),
    "dtype": ("float32", "bfloat16", "float16", "float8"),
}
"""Other values of what is no number."""
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?) *([A-Za-z%/]+)")
SAME = 1e-9
"""Relative difference below which two numbers of answers are one."""


@dataclass(frozen=True)
class AnswerNumbers:
    """The numbers of an answer, by name: those of its time, and those beside it (joules, dollars, bytes, shares).

    `beside` is called on demand: where the times differ already, nothing needs it.
    """

    times: Mapping[str, float | None]
    beside: Callable[[], Mapping[str, float | None]] = dict

    @classmethod
    def of(cls, query: Question) -> AnswerNumbers:
        """Of the answer to a question, with its energy, cost and memory; raises InputError where it has none."""
        answer = query.answer()
        made = cls.of_estimate(answer)

        def beside() -> Mapping[str, float | None]:
            consumed, _ = consumptions(query)
            numbers = {**made.beside(), **{one.name: float(one({}, answer.time)) for one in consumed}}
            if memory := facts(query, answer).memory:
                numbers |= {"memory": memory.needed, "memory there": memory.there}
            return numbers

        return cls(made.times, cache(beside))

    @classmethod
    def of_estimate(cls, answer: Estimate) -> AnswerNumbers:
        """Of an estimate alone."""
        numbers: dict[bool, dict[str, float | None]] = {True: {}, False: {}}
        for one in answer.quantities.values():
            ends = {one.name: one.value, f"{one.name} low": one.low, f"{one.name} high": one.high}
            numbers[one.name in BESIDE or one.name in answer.metrics] |= ends
        return cls(numbers[False], lambda: numbers[True])

    def moved(self, other: AnswerNumbers) -> str:
        """ "time" where the times differ, else the names beside it that do; "" where the answers are alike."""
        if _differ(self.times, other.times):
            return "time"
        return " and ".join(_differ(self.beside(), other.beside()))


def _differ(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> list[str]:
    def alike(a: float | None, b: float | None) -> bool:
        return a is b or (a is not None and b is not None and math.isclose(a, b, rel_tol=SAME, abs_tol=0.0))

    return [name for name in {**one, **other} if not alike(one.get(name), other.get(name))]


def examined(query: Question) -> Estimate:
    """The answer with what the question sets and the answer did not use, and what else is known of its conditions."""
    answer, original = query.answer(), query.original
    if original is None or not original.given or query.estimator.alone:
        return answer

    def numbers(given: Mapping[str, Value]) -> AnswerNumbers:
        return AnswerNumbers.of(original.put(given))

    given, sizes = dict(original.given), _sizes_of_operations(query)
    now = AnswerNumbers.of(query)
    others = {name: value for name, value in given.items() if name not in sizes}
    kept = {name: value for name, value in given.items() if name in sizes}
    unused, read = unused_of(others, lambda some: numbers({**kept, **some}), query.machine, now)
    usual = query.estimator.run_defaults(query.machine)  # what is set to its usual value is not dropped
    unused = tuple(one for one in unused if not _is_usual(one, query.run, usual))
    dropped, notes = {one.name for one in unused}, {one.name: one.note for one in read}
    conditions = (
        replace(one, note=one.note or notes.get(one.name, "")) for one in answer.conditions if one.name not in dropped
    )
    return replace(answer, conditions=tuple(conditions), not_used=unused)


def _sizes_of_operations(query: Question) -> frozenset[str]:
    """Sizes that the operations hold, which no default answer over operations passes over: they need no question."""
    if not query.by_default or workload_kind(query.workload) in WHOLE:
        return frozenset()
    bound = {f"workload.{name}" for name in query.sizes if name not in query.run}
    return frozenset(bound | {f"run.{name}" for name in query.run if name in query.workload.symbols})


def _is_usual(one: NotUsed, run: Mapping[str, float], usual: Mapping[str, float]) -> bool:
    space, _, name = one.name.partition(".")
    return space == "run" and name in usual and run.get(name) == usual[name]


def unused_of(
    given: Mapping[str, Value],
    numbers: Callable[[Mapping[str, Value]], AnswerNumbers],
    machine: Machine | None,
    now: AnswerNumbers | None = None,
) -> tuple[tuple[NotUsed, ...], tuple[Condition, ...]]:
    """What of `given` no number of the answer reads, and the rest as conditions.

    `numbers`: the numbers of the answer with these set; raises InputError where it is refused.
    `machine`: as it answers, with the values of its fields; None where none is named.
    `now`: the numbers with all of it set, where they are known.
    """
    unused, read = [], []
    now = numbers(given) if now is None else now
    for name, value in given.items():
        rest = {other: each for other, each in given.items() if other != name}
        moved = _moved(now, numbers, rest, refused="time")  # it is refused without what it needs
        if moved == "time":
            read.append(Condition(name, str(value), "given"))
            continue
        tried = [_moves(now, numbers, rest, name, others) for others in _others(name, value, machine)]
        if "time" in tried:  # where a number of no file moves whichever way it goes, it was set to its usual value
            one_way = bool({*tried} - {"time", "refused"}) or name.startswith("machine.")
            note = BOUNDED if one_way and name not in WORDS and not _is_today(name, machine) else ""
            read.append(Condition(name, str(value), "given", note))
        elif moved:
            read.append(Condition(name, str(value), "given", f"moves {moved}, not the time"))
        else:
            unused.append(NotUsed(name, str(value), NOT_READ))
    return tuple(unused), tuple(read)


def _moved(
    now: AnswerNumbers,
    numbers: Callable[[Mapping[str, Value]], AnswerNumbers],
    given: Mapping[str, Value],
    *,
    refused: str,
) -> str:
    """What moves where the question is put so; `refused` where it cannot be put so."""
    try:
        return now.moved(numbers(given))
    except InputError:
        return refused


def _moves(
    now: AnswerNumbers,
    numbers: Callable[[Mapping[str, Value]], AnswerNumbers],
    rest: Mapping[str, Value],
    name: str,
    others: Sequence[Value],
) -> str:
    """What moves at the first of other values that is not refused; "refused" where all are."""
    moved = (_moved(now, numbers, {**rest, name: other}, refused="refused") for other in others)
    return next((each for each in moved if each != "refused"), "refused")


def _others(name: str, value: Value, machine: Machine | None) -> Iterator[Sequence[Value]]:
    """Other values that could have been set, each with what is tried where it is refused."""
    if name in WORDS:
        yield from ((word,) for word in WORDS[name] if word != str(value))
        return
    number = _number(name, value, machine)
    if number is None:
        if typed := _WITH_UNIT.fullmatch(str(value).strip()):
            yield from ([f"{float(typed[1]) * factor:g} {typed[2]}" for factor in factors] for factors in FACTORS)
        return
    whole = float(number).is_integer() and abs(number) < 1e7
    for factors in FACTORS:
        yield [max(1, round(number * factor)) if whole else number * factor for factor in factors]


def _number(name: str, value: Value, machine: Machine | None) -> float | None:
    try:
        of_machine = machine is not None and name.startswith("machine.")
        present: Any = machine.get(name.removeprefix("machine.")) if machine and of_machine else float(value)
    except (InputError, ValueError):
        return None
    return float(present) if isinstance(present, (int, float)) else None


def _is_today(name: str, machine: Machine | None) -> bool:
    """Whether what is set is what the machine's file says."""
    if machine is None or not name.startswith("machine."):
        return False
    path = name.removeprefix("machine.")
    return bool(machine.get(path) == machine.stated.get(path))


def unused_axes(
    query: Question, function: CompiledEstimator, consumed: Sequence[Consumption] = ()
) -> tuple[NotUsed, ...]:
    """What varies and the answers do not read.

    `function`: what the estimator compiled with these names left free.
    `consumed`: what is given beside the time, which may read what the time does not.
    """
    space = query.vary
    ends = {name: (min(values), max(values)) for name, values in space.axes.items()}
    ends |= {name: (one.low, one.high) for name, one in space.sampled.items()}
    made = []
    for name, (low, high) in ends.items():
        moved = _reads(query, function, name, (low, high))
        elsewhere = [one.name for one in consumed if one.reads(name)]
        bounded = moved and not elsewhere and low < high and function.vectorised and _stays(function, ends, name)
        if not moved or bounded:
            why = f"this answer's time does not read it ({' and '.join(elsewhere)} does)" if elsewhere else NOT_READ
            why = (BOUNDED if len(ends) <= MOST_CROSSED else f"{BOUNDED} at two corners") if bounded else why
            made.append(NotUsed(name, f"{named_shown(name, low)} .. {named_shown(name, high)}", why))
    return tuple(made)


def _stays(function: CompiledEstimator, ends: Mapping[str, tuple[float, float]], name: str) -> bool:
    """Whether the time is the same at both ends of an axis, wherever the others end.

    Of more than `MOST_CROSSED` axes: where all others are at their lower ends, and where all are at their higher ones.
    """
    others = {other: both for other, both in ends.items() if other != name}
    crossed = product(*others.values()) if len(ends) <= MOST_CROSSED else zip(*others.values(), strict=True)
    points = np.array([(*corner, end) for corner in crossed for end in ends[name]])
    times = np.broadcast_to(function(dict(zip([*others, name], points.T, strict=True))), len(points))
    return bool(np.all(times[::2] == times[1::2]))


def unused_names(query: Question, names: Sequence[str]) -> tuple[NotUsed, ...]:
    """The same of names alone, where a formula answers."""
    function = query.estimator.compile(query.workload, query.machine, tuple(names), query.run)
    return tuple(
        NotUsed(name, "", NOT_READ) for name in names if function.read is not None and name not in function.read
    )


KINDS_OF_ANSWERS: Mapping[str, str] = {
    "kernel": "gemm",
    "program": "gpt2-inference",
    "step of a server": "decode:llama-3.1-8b",
    "requests": "llama-3.1-8b",
    "training": "train:llama-3.1-8b",
    "collective": "all-reduce",
}
"""Kinds of answers, and the work that stands for each."""


def readers_of_fields(machine: Machine) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Each numeric field of a machine with what reads it by default: kinds of answers, energy, cost, memory; and why a
    kind has no answer on it. Kernels are asked in each data type of which the machine states a rate."""
    numbers = {name: float(value) for name, value in machine.numbers.items() if value is not None}
    readers: dict[str, list[str]] = {name: [] for name in machine.numbers}
    refused: dict[str, str] = {}
    types = sorted({one for engine in machine.engines.values() for one in engine.flop_per_cycle})
    kinds = [(kind, workload, None) for kind, workload in KINDS_OF_ANSWERS.items()]
    for kind, workload, dtype in (*kinds, *(("kernel", KINDS_OF_ANSWERS["kernel"], one) for one in types)):
        try:
            query = question(workload, machine, dtype=dtype)
            paths = tuple(f"machine.{name}" for name in numbers)
            function = query.estimator.compile(query.workload, query.machine, paths, query.run)
            beside = [] if kind in WHOLE else consumptions(query)[0]
            moved = {
                name
                for name, value in numbers.items()
                if _reads(query, function, f"machine.{name}", (value / 2, value * 2))
            }
        except InputError as error:
            refused |= {kind: str(error)} if dtype is None else {}
            continue
        for name in numbers:
            read = [kind] if name in moved else []
            read += [one.name for one in beside if one.reads(f"machine.{name}")]
            readers[name] += [each for each in read if each not in readers[name]]
    main = f"memory.{machine.main_memory}.capacity"
    return {name: (*each, *(["memory"] if name == main else [])) for name, each in readers.items()}, refused


def _reads(query: Question, function: CompiledEstimator, name: str, ends: tuple[float, float]) -> bool:
    """Whether answers read a name: by the formula, else by the answers at both ends of an axis."""
    if function.read is not None:
        return name in function.read
    if query.estimator.alone or ends[0] == ends[1]:
        return True

    def at(value: float) -> AnswerNumbers:
        return AnswerNumbers.of_estimate(
            query.estimator.estimate_at(query.workload, query.machine, query.run, {name: value})
        )

    try:
        return bool(at(ends[0]).moved(at(ends[1])))
    except InputError:  # refused at one end: it is read
        return True
