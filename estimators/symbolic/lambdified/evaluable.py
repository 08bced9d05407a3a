"""A formula that is ready to be evaluated: steps and names, without the expression that they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.cached_parts import cached_list, cached_number, cached_table, cached_text, cached_texts
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.lambdified.argmin_over_menu import least
from slipstick.estimators.symbolic.lambdified.gradient import tape_gradient
from slipstick.estimators.symbolic.lambdified.tape import Tape

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
