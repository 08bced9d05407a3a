"""Formulas: a sympy expression with the units of its symbols and its source, evaluated on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from typing import Any

from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.lambdified import FloatArray, evaluate, names_of, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.symbolic_max import replaced
from slipstick.estimators.symbolic.parameters import parameters


@dataclass(frozen=True)
class Formula:
    """An expression one can read, differentiate, print and evaluate on arrays.

    Parameters
    ----------
    expression
        Its symbols are named by namespace: operation.*, machine.*, run.*, parameter.*, time.*, count.*.
    unit
        Of the result.
    source
        Paper and table or equation, or URL.
    terms
        Named sub-expressions of which the largest decides (what an operation is bound by).

    Examples
    --------
    >>> t = Formula(symbol("flop") / symbol("machine.clock"), "s", "definition")
    >>> float(t.evaluate({"flop": 4.0, "machine.clock": 2.0}))
    2.0
    """

    expression: sp.Expr
    unit: str
    source: str
    terms: FrozenDict[sp.Expr] = FrozenDict()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols, sorted."""
        return names_of(self.expression)

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The value on arrays that broadcast against each other.

        Raises
        ------
        InputError
            Where a symbol has no value.
        """
        return evaluate(self.expression, values)

    @cached_property
    def lowered(self) -> Evaluable:
        """The formula and its terms as steps, without the expressions."""
        terms = {name: steps_of(term) for name, term in self.terms.items()}
        return Evaluable(self.unit, steps_of(self.expression), FrozenDict(terms), source=self.source)

    def bound_by(self, values: Mapping[str, Any]) -> str | None:
        """The name of the largest term at one point; None where the formula has no terms."""
        if not self.terms:
            return None
        return max(self.terms, key=lambda name: float(evaluate(self.terms[name], values)))

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol; at a maximum that of the active side, of a step 0.

        Raises
        ------
        InputError
            Where the formula has no such symbol.
        """
        if name not in self.names:
            raise unknown_name("symbol of the formula", name, self.names)
        return Formula(_derivative(self.expression, symbol(name)), f"{self.unit} per unit of {name}", self.source)

    def gradient(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """The derivative by every symbol at points, as numbers: what `derivative` says of each, much faster."""
        return self.lowered.gradient(values)

    @property
    def parts(self) -> tuple[sp.Expr, ...]:
        """All expressions of the formula."""
        return (self.expression, *self.terms.values())

    def outside(self, part: Any, place: str) -> Formula:
        """The formula of a part in the names that its parameters have outside: estimator.PLACE.NAME."""
        known, read = parameters(part), {name for one in self.parts for name in names_of(one)}
        inside = [name for name in read if name.startswith("parameter.") and name[10:] in known]
        return self.substitute({name: symbol(f"estimator.{place}.{name[10:]}") for name in inside})

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions."""
        put = {symbol(name): sp.sympify(value, strict=True) for name, value in values.items()}
        return Formula(
            replaced(self.expression, put),
            self.unit,
            self.source,
            FrozenDict({name: replaced(term, put) for name, term in self.terms.items()}),
        )

    def latex(self) -> str:
        """The formula for a page; dotted names keep their last two words."""
        names = {s: _latex_name(str(s)) for s in self.expression.free_symbols}
        return str(sp.latex(self.expression, symbol_names=names))

    def _repr_html_(self) -> str:
        return f"$$ {escape(self.latex())} $$ <small>{escape(f'{self.unit}; {self.source}')}</small>"


@lru_cache(maxsize=1024)
def _derivative(expression: sp.Expr, by: sp.Symbol) -> sp.Expr:
    steps = {node: sp.Dummy() for node in expression.atoms(sp.floor, sp.ceiling, sp.Mod)}
    smooth = expression.xreplace(steps)
    smooth = smooth.replace(sp.Max, lambda *sides: _branches(sides, largest=True))
    smooth = smooth.replace(sp.Min, lambda *sides: _branches(sides, largest=False))
    back = {dummy: node for node, dummy in steps.items()}
    return sp.diff(smooth, by).xreplace(back)


def _branches(sides: tuple[sp.Expr, ...], *, largest: bool) -> sp.Piecewise:
    pairs = [
        (side, sp.And(*((side >= other) if largest else (side <= other) for other in sides if other is not side)))
        for side in sides[:-1]
    ]
    return sp.Piecewise(*pairs, (sides[-1], True))


def _latex_name(name: str) -> str:
    words = name.split(".")[-2:] if name.count(".") > 1 else name.split(".")[-1:]
    text = r"\_".join(words).replace("_", r"\_").replace(r"\\_", r"\_")
    return rf"\mathrm{{{text}}}"
