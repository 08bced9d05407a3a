"""A formula that is ready to be evaluated: steps and names, without the expression that they were made from.

The gradient of a formula at points, by the chain rule backwards along its steps: one pass for all its symbols.

It reads the very steps that evaluate the formula. Symbolic derivatives (`Formula.derivative`) are for reading;
compiling one for each symbol costs seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.cached_parts import cached_list, cached_number, cached_table, cached_text, cached_texts
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.lambdified.argmin_over_menu import least
from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS, Tape

SLOPES: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda a, b, y: 1.0, lambda a, b, y: 1.0),
    "subtract": (lambda a, b, y: 1.0, lambda a, b, y: -1.0),
    "multiply": (lambda a, b, y: b, lambda a, b, y: a),
    "divide": (lambda a, b, y: 1.0 / b, lambda a, b, y: -y / b),
    "power": (lambda a, b, y: b * a ** (b - 1), lambda a, b, y: y * np.log(a)),
    "negative": (lambda a, y: -1.0,),
    "maximum": (lambda a, b, y: np.greater_equal(a, b), lambda a, b, y: np.less(a, b)),
    "minimum": (lambda a, b, y: np.less_equal(a, b), lambda a, b, y: np.greater(a, b)),
    "sqrt": (lambda a, y: 0.5 / y,),
    "log": (lambda a, y: 1.0 / a,),
    "exp": (lambda a, y: y,),
    "abs": (lambda a, y: np.sign(a),),
    "sin": (lambda a, y: np.cos(a),),
    "cos": (lambda a, y: -np.sin(a),),
    "tan": (lambda a, y: 1.0 + y * y,),
    "sinh": (lambda a, y: np.cosh(a),),
    "cosh": (lambda a, y: np.sinh(a),),
    "tanh": (lambda a, y: 1.0 - y * y,),
    "arctan": (lambda a, y: 1.0 / (1.0 + a * a),),
}
"""Of each operation its slope by each operand, of the operands and its result; steps, comparisons and conditions, which
are not listed, are flat. Of equal sides of a maximum the first counts."""


def tape_gradient(tape: Tape, arguments: Sequence[Any]) -> list[Any]:
    """The partial derivative of a tape's one result by each argument, numbers or arrays that broadcast to the points.

    `arguments`: arrays of numbers, which broadcast against each other.
    """
    begin = tape.arguments + len(tape.constants)
    known: list[Any] = [*arguments, *tape.constants]
    varies = [True] * tape.arguments + [False] * len(tape.constants)
    above: dict[int, Any] = {tape.results[0]: 1.0}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for name, operands in tape.steps:
            known.append(OPERATIONS[name][1](*[known[place] for place in operands]))
            varies.append(any(varies[place] for place in operands))
        for at in range(len(known) - 1, begin - 1, -1):
            if at not in above:
                continue
            name, operands = tape.steps[at - begin]
            values = [known[place] for place in operands]
            slopes = _chosen(values) if name == "select" else SLOPES.get(name, ())
            for place, slope in zip(operands, slopes, strict=False):
                if varies[place] and slope is not None:
                    passed = above[at] * slope(*values, known[at])
                    passed = np.where(np.equal(above[at], 0.0), 0.0, passed)  # a side that is left out may be infinite
                    above[place] = above.get(place, 0.0) + passed
    return [np.asarray(above.get(place, 0.0), dtype=np.float64) for place in range(tape.arguments)]


def _chosen(sides: Sequence[Any]) -> list[Callable[..., Any] | None]:
    """The slopes of a value by conditions, which are flat, and by the values between which they choose."""
    slopes: list[Callable[..., Any] | None] = []
    left = np.asarray(True)
    for condition in sides[::2]:
        holds = left & np.asarray(condition, dtype=bool)
        left = left & ~holds
        slopes += [None, lambda *_, holds=holds: holds]
    return slopes


MOST_ROWS = 10_000
"""Of a menu: those of the models have a few hundred."""


@dataclass(frozen=True)
class Steps:
    """A tape and the names of its arguments."""

    names: tuple[str, ...]
    tape: Tape

    def __post_init__(self) -> None:
        if len(self.names) != self.tape.arguments or not all(isinstance(name, str) for name in self.names):
            raise InputError("formula as steps: as many names as arguments are wanted")

    def __call__(self, values: Mapping[str, Any]) -> FloatArray:
        """The value at arrays that broadcast; nan where it is no real number (a root of a power below 0).

        Raises InputError where a name has no value.
        """
        made = self.raw(values)
        if np.iscomplexobj(made):
            made = np.where(np.imag(made) == 0, np.real(made), np.nan)
        return np.asarray(made, dtype=np.float64)

    def raw(self, values: Mapping[str, Any]) -> Any:
        """What the last step makes, a number or an array of its own type; of several results a tuple.

        Raises InputError where a name has no value.
        """
        try:
            arguments = [values[name] for name in self.names]
        except KeyError:
            missing = [name for name in self.names if name not in values]
            raise InputError(f"no value for {', '.join(missing)} in a formula") from None
        return self.tape(*arguments)

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return [list(self.names), self.tape.data()]

    @classmethod
    def of(cls, data: Any) -> Steps:
        """The steps of `data`.

        Raises InputError where that is none.
        """
        try:
            names, tape = cached_list(data, "formula")
            return cls(cached_texts(names, "names"), Tape.of(tape))
        except (TypeError, ValueError):
            raise InputError("formula as steps: want names and a tape") from None


@dataclass(frozen=True)
class Evaluable:
    """The steps of a formula.

    `unit`: of the result.
    `whole`: of the formula.
    `terms`: of its terms by name.
    `menu`, `criterion`: see `formula.MinOverConfigs`; an empty menu where nothing is chosen.
    `source`: of the formula.
    """

    unit: str
    whole: Steps
    terms: FrozenDict[Steps] = FrozenDict()
    menu: FrozenDict[tuple[float, ...]] = FrozenDict()
    criterion: Steps | None = None
    source: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols that are not chosen, sorted."""
        rule = self.criterion.names if self.criterion is not None else ()
        return tuple(sorted({*self.whole.names, *rule} - set(self.menu)))

    @cached_property
    def amounts(self) -> tuple[str, ...]:
        """Names of what the formula and its terms read of an operation, sorted."""
        names = {*self.names, *(name for steps in self.terms.values() for name in steps.names)}
        return tuple(sorted(name for name in names if name.startswith("operation.")))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The value on arrays that broadcast against each other.

        Raises InputError where a name has no value.
        """
        if self.menu:
            return least(self.names, self.menu, self.whole, self.criterion, values)
        return self.whole(values)

    def picked(self, values: Mapping[str, Any]) -> Any:
        """Numbers of the menu's rows that are chosen, on arrays that broadcast against each other."""
        arrays = {name: np.asarray(values[name], dtype=np.float64) for name in self.names}
        dimensions = len(np.broadcast_shapes(*(array.shape for array in arrays.values())))
        columns = {name: np.array(column).reshape(-1, *(1,) * dimensions) for name, column in self.menu.items()}
        return np.argmin((self.criterion or self.whole)({**arrays, **columns}), axis=0)

    def gradient(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Name -> the partial derivative by that symbol, an array of a shape that broadcasts to that of the values.

        At a maximum that of the active side (the first of equal ones), in the row of the menu that is picked.
        """
        known = {name: np.asarray(values[name], dtype=np.float64) for name in self.names}
        if self.menu:
            best = self.picked(values)
            known |= {name: np.array(column)[best] for name, column in self.menu.items()}
        slopes = tape_gradient(self.whole.tape, [known[name] for name in self.whole.names])
        # by name, not as a set has them: callers add slopes up, and the order of a sum decides its last digit
        by_name = dict(zip(self.whole.names, slopes, strict=True))
        return {name: by_name.get(name, np.zeros(())) for name in self.names}

    def data(self) -> list[Any]:
        """As JSON holds it."""
        terms = {name: steps.data() for name, steps in self.terms.items()}
        menu = {name: list(column) for name, column in self.menu.items()}
        rule = self.criterion.data() if self.criterion else None
        return [self.unit, self.whole.data(), terms, menu, rule, self.source]

    @classmethod
    def of(cls, data: Any) -> Evaluable:
        """The formula of `data`.

        Raises InputError where that is none.
        """
        try:
            unit, whole, terms, menu, criterion, source = cached_list(data, "formula")
            columns = {name: _column(column) for name, column in cached_table(menu, "menu").items()}
            if len({len(column) for column in columns.values()}) > 1 or not all(columns.values()):
                raise ValueError("columns")
            return cls(
                cached_text(unit, "unit"),
                Steps.of(whole),
                FrozenDict({name: Steps.of(steps) for name, steps in cached_table(terms, "terms").items()}),
                FrozenDict(columns),
                None if criterion is None else Steps.of(criterion),
                cached_text(source, "source"),
            )
        except InputError:
            raise
        except (TypeError, ValueError, ArithmeticError):
            raise InputError("formula as steps: not what a formula is kept as") from None


def _column(data: Any) -> tuple[float, ...]:
    return tuple(float(cached_number(one, "menu")) for one in cached_list(data, "menu", MOST_ROWS))
