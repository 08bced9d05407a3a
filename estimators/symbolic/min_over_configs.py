"""Formulas with a choice: the least of one expression over a small menu, as a library picks its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_sympy import sp
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray, names_of, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable


@dataclass(frozen=True)
class MinOverConfigs(Formula):
    """The least value of `expression` over the rows of a menu.

    `menu`: symbol -> its value in each row (equal lengths). These symbols are no longer names of the formula.
    `criterion`: what is minimised to pick the row; the expression itself where None. A derivative keeps the row that
        its function picks.

    Raises
    ------
    InputError
        Where the menu is empty or its columns differ in length.

    Examples
    --------
    >>> from slipstick.common.expressions import symbol
    >>> places = sp.ceiling(symbol("n") / symbol("tile")) * symbol("tile")
    >>> tiles = MinOverConfigs(places, "1", "", menu=FrozenDict(tile=(64, 48)))
    >>> tiles.names, [float(tiles.evaluate({"n": n})) for n in (64, 65, 129)]
    (('n',), [64.0, 96.0, 144.0])
    """

    menu: FrozenDict[tuple[float, ...]] = FrozenDict()
    criterion: sp.Expr | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.menu.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(f"menu of a formula: want columns of one length >= 1, got lengths {sorted(lengths)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols that are not chosen, sorted."""
        rule = names_of(self.criterion) if self.criterion is not None else ()
        return tuple(sorted({*names_of(self.expression), *rule} - set(self.menu)))

    @property
    def parts(self) -> tuple[sp.Expr, ...]:
        """All expressions of the formula, and the criterion."""
        return (*super().parts, *([] if self.criterion is None else [self.criterion]))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The least value on arrays that broadcast against each other.

        Raises InputError where a symbol has no value.
        """
        return self.lowered.evaluate(values)

    @cached_property
    def lowered(self) -> Evaluable:
        """The steps of the expression over the menu, and of the criterion."""
        rule = None if self.criterion is None else steps_of(self.criterion)
        return replace(
            Formula(self.expression, self.unit, self.source, self.terms).lowered, menu=self.menu, criterion=rule
        )

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol, in the row that the function picks."""
        slope = Formula(self.expression, self.unit, self.source).derivative(name)
        picked = self.expression if self.criterion is None else self.criterion
        return MinOverConfigs(slope.expression, slope.unit, slope.source, menu=self.menu, criterion=picked)

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions; the menu stays."""
        plain = Formula(self.expression, self.unit, self.source, self.terms).substitute(values)
        criterion = None
        if self.criterion is not None:
            criterion = Formula(self.criterion, self.unit, self.source).substitute(values).expression
        return MinOverConfigs(plain.expression, plain.unit, plain.source, plain.terms, self.menu, criterion)
