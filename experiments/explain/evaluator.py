"""The quantities of a question as dials: today's values, and the time with some of them changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.operation_model import grouped
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.power_capped import CAP, IDLE, PowerCappedTimes, keep_function
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.symbolic.cache_residency import sizes_read
from slipstick.estimators.symbolic.formula import parameters
from slipstick.estimators.symbolic.lambdified import names_of
from slipstick.experiments.question.question import Question

STEP = 1.05
"""Factor on both sides of today's value at which a slope of a simulation is taken: its noise is less (1.6 % rms of
first tokens over the cores of an H100)."""
NEAREST = 1e-6
"""Relative distance at which that of a formula is taken on one side of a ridge."""


@dataclass(frozen=True)
class Evaluator:
    """The quantities of a question as dials: the time over today's with some of them turned.

    `function`: of `today`'s names.
    `today`: name -> today's value.
    `whole`: names that count (cores): turned in whole steps.
    `held`: the times under other caps than the board's, which raise no clock above the rated one and slow all of it
        below; None where the cap is no dial, or `function` knows them.
    `cap`: watts under which the idle power stays; infinite where the machine states no cap.
    """

    function: Any
    today: Mapping[str, float]
    whole: frozenset[str]
    held: PowerCappedTimes | None = None
    cap: float = np.inf

    @classmethod
    def of(cls, question: Question, names: Sequence[str] = ()) -> Evaluator:
        """The named quantities, or all that the estimator's formula names."""
        chosen = tuple(names or numbers_of(question))
        function = question.estimator.compile(question.workload, question.machine, chosen, question.run)
        cap = question.machine.power.cap
        at_rated = cap == question.machine.stated.power.cap
        held = function if isinstance(function, PowerCappedTimes) and at_rated else None
        counts = [n for n in chosen if n.startswith("machine.") and isinstance(question.machine.get(n[8:]), int)]
        counts += [f"estimator.{n}" for n, (_, note) in parameters(question.estimator.model).items() if note.whole]
        today = {name: value_of(question, name) for name in chosen}
        return cls(held.plain if held else function, today, frozenset(counts), held, np.inf if cap is None else cap)

    def keep(self) -> None:
        """Keep what the function is made of for the next run."""
        for function in (self.function, self.held):
            keep_function(function)

    @property
    def is_formula(self) -> bool:
        """Whether a point is a formula's, of which slopes are known, not a simulation's."""
        return isinstance(self.function, Compiled)

    @cached_property
    def today_time(self) -> float:
        """Seconds today."""
        return float(self.function(self.today))

    def is_fixed(self, name: str) -> bool:
        """Whether a quantity is the cap of a board, whose times are no formula's with a slope."""
        return name == CAP and self.held is not None

    def is_count(self, name: str) -> bool:
        """Whether a quantity goes in whole steps."""
        return name in self.whole or name.startswith(("run.", "workload."))

    def turned(self, name: str, factor: float) -> float:
        """The value of a quantity times a factor."""
        value = self.today[name] * factor
        return max(1.0, float(round(value))) if name in self.whole else value

    def ratio(self, name: str, factor: float) -> float | None:
        """Time over today's with one quantity times a factor; None where that is out of its range."""
        ratios = self.ratios(name, [factor])
        return float(ratios[0]) if len(ratios) else None

    def ratios(self, name: str, factors: Sequence[float] | FloatArray) -> FloatArray:
        """Time over today's at factors that move away from 1, up to the first that is out of the quantity's range."""
        turned = np.array([self.turned(name, float(factor)) for factor in factors])
        if name == IDLE:
            turned = turned[: int(np.argmax([*(turned >= self.cap), True]))]
        function = self.held if self.held is not None and name == CAP else self.function
        try:
            return np.asarray(function({**self.today, name: turned}) / self.today_time)
        except InputError:
            half = len(factors) // 2
            if not half:
                return np.empty(0)
        near = self.ratios(name, factors[:half])
        return near if len(near) < half else np.concatenate([near, self.ratios(name, factors[half:])])


def numbers_of(question: Question) -> list[str]:
    """The quantities that the estimator reads and that are not 0: of machine, run, workload and estimator."""
    known = {**question.workload.defaults, **question.run}
    symbols = {f"run.{name}" for name in question.workload.symbols if name in known}
    for sizes in (tuple(sorted(symbols)), ()):  # as all quantities are opened after, where that is a formula
        function = question.estimator.compile(question.workload, question.machine, sizes, question.run)
        if function.read is not None:
            break
    else:
        return likely_numbers(question)
    kinds = ("machine.", "estimator.", "run.")
    read = {name for name in function.read if name.startswith(kinds) and function.base.get(name)}
    return sorted(name for name in symbols | read if value_of(question, name))  # no factor turns what is 0 today


def likely_numbers(question: Question) -> list[str]:
    """The quantities varied for a question without a formula where none is named.

    The machine's numbers that the formulas of its operations name, those of its runtime, the open sizes of the
    workload, and plain numbers of the user's own schedule: it may read more.
    Raises InputError where the operations have no formulas either.
    """
    inner = question.estimator.model
    if inner.operation_formulas is None:
        raise InputError("this estimator is no formula: name the quantities to look at (--vary machine.clock)")
    bound = as_compiled(question.workload, question.machine).bound(question.run)
    formulas = [formula for formula, _ in grouped(inner.operation_formulas, bound.operations, question.machine)]
    inside = frozenset().union(*(names_of(sizes_read(formula.expression)) for formula in formulas))
    of_machine = {name for name in inside if name.startswith("machine.")}
    of_machine |= {f"machine.{name}" for name in question.machine.numbers if name.startswith("runtime.")}
    sizes = {
        f"run.{name}" for name in question.workload.symbols if name in {**question.workload.defaults, **question.run}
    }
    plain = {f"estimator.{name}" for name, (value, note) in parameters(inner).items() if note.folded and value}
    return sorted(sizes | plain | {name for name in of_machine if question.machine.get(name.removeprefix("machine."))})


def value_of(question: Question, name: str) -> float:
    """Today's value of a quantity, in its SI unit.

    Raises InputError where it has none.
    """
    space, _, path = name.partition(".")
    if space == "machine":
        return float(question.machine.get(path))
    inner = question.estimator.model
    if space == "estimator":
        return parameters(inner)[path][0]
    known = {**question.workload.defaults, **inner.run_defaults(question.machine), **question.run}
    if path not in known:
        raise InputError(f"{name} has no value today")
    return float(known[path])


def neighbour(count: float) -> float:
    """How far the neighbours of a size lie: the largest power of two that divides it, up to a sixteenth of it.

    Kernels run tiles: 1,025 tokens are a cliff beside 1,024, and no slope; 1,088 are as well cut as these.

    Examples
    --------
    >>> [neighbour(count) for count in (1, 25, 64, 132, 1024)]
    [1.0, 1.0, 4.0, 4.0, 64.0]
    """
    step = 1.0
    while count % (2 * step) == 0 and 2 * step <= count / FEWEST:
        step *= 2
    return step


FEWEST = 16
"""Steps to a neighbour that a count has at least."""


def sides(dials: Evaluator, name: str) -> tuple[float | None, float | None]:
    """d log time / d log quantity just below and just above today's value; None where there is no value.

    Of a count those to its neighbours (of a size `neighbour`); of a formula at `NEAREST`, of a simulation at `STEP`,
    or at a count's nearest whole value beyond it: between neighbours lies its noise.
    """
    today, slopes = dials.today[name], list[float | None]()
    if not today:
        return None, None
    step = NEAREST if dials.is_formula else STEP - 1
    if dials.is_count(name):
        whole = 1.0 if name.startswith("machine.") else neighbour(today)
        step = (whole if dials.is_formula else max(whole, ceil((STEP - 1) * today))) / today
    for factor in (1 - step, 1 + step):
        ratio = dials.ratio(name, factor) if factor > 0 else None
        slopes.append(None if ratio is None else float(np.log(ratio) / np.log(factor)))
    return slopes[0], slopes[1]
