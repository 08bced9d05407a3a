"""sympy expressions as tapes: each distinct part is one step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp
from slipstick.estimators.symbolic.lambdified.extremum_classes import Largest, Smallest
from slipstick.estimators.symbolic.lambdified.tape import Step, Tape

_ONE = {
    "floor": "floor",
    "ceiling": "ceil",
    "log": "log",
    "exp": "exp",
    "Abs": "abs",
    "sign": "sign",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "atan": "arctan",
}
_COMPARED = {
    "StrictLessThan": "less",
    "LessThan": "less_equal",
    "StrictGreaterThan": "greater",
    "GreaterThan": "greater_equal",
    "Equality": "equal",
    "Unequality": "not_equal",
}
_JOINED = {"And": "and", "Or": "or"}


def lowered(expression: sp.Basic, names: Sequence[str]) -> Tape:
    """The tape of an expression (or of a Tuple of some) of the named symbols, common parts computed once.

    Raises InputError where it has another symbol, or a function that no tape knows.
    """
    together = isinstance(expression, sp.Tuple)
    places = {name: index for index, name in enumerate(names)}
    strays = sorted({str(s) for s in expression.free_symbols} - set(places))
    if strays:
        raise InputError(f"formula: no value for {', '.join(name[:60] for name in strays[:5])}")
    maker = _Maker(places)
    results = [maker.slot(one) for one in (expression.args if together else [expression])]
    return maker.tape(results, together=together)


class _Maker:
    """Arguments, constants and steps, each numbered as they come; put one behind the other at the end."""

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.known: dict[sp.Basic, tuple[str, int]] = {}
        self.constants: dict[tuple[type, float | int], int] = {}
        self.steps: dict[tuple[str, tuple[tuple[str, int], ...]], int] = {}

    def slot(self, node: sp.Basic) -> tuple[str, int]:
        if node not in self.known:
            self.known[node] = self._made(node)
        return self.known[node]

    def number(self, value: float | int) -> tuple[str, int]:
        return "constant", self.constants.setdefault((type(value), value), len(self.constants))

    def step(self, name: str, *operands: tuple[str, int]) -> tuple[str, int]:
        return "step", self.steps.setdefault((name, operands), len(self.steps))

    def _made(self, node: sp.Basic) -> tuple[str, int]:
        kind = type(node).__name__
        if isinstance(node, sp.Symbol):
            if str(node) not in self.places:
                raise InputError(f"formula: no value for {str(node)[:60]}")
            return "argument", self.places[str(node)]
        if isinstance(node, sp.Integer):
            return self.number(int(node))
        if isinstance(node, (sp.Number, sp.NumberSymbol)):
            return self.number(float(node))
        if node in (sp.true, sp.false):
            return self.number(int(bool(node)))
        if node.is_Add:
            return self._sum(node)
        if node.is_Mul:
            return self._product(node)
        if node.is_Pow:
            return self._power(node.base, node.exp)
        if isinstance(node, (sp.Max, Largest)):
            return reduce(lambda a, b: self.step("maximum", a, b), map(self.slot, node.args))
        if isinstance(node, (sp.Min, Smallest)):
            return reduce(lambda a, b: self.step("minimum", a, b), map(self.slot, node.args))
        if isinstance(node, sp.Mod):
            return self.step("mod", *map(self.slot, node.args))
        if isinstance(node, sp.Heaviside):
            return self.step("heaviside", *map(self.slot, node.args))
        if isinstance(node, sp.Piecewise):
            sides = [self.slot(side) for value, condition in node.args for side in (condition, value)]
            return self.step("select", *sides)
        if kind in _ONE and len(node.args) == 1:
            return self.step(_ONE[kind], self.slot(node.args[0]))
        if kind in _COMPARED:
            return self.step(_COMPARED[kind], *map(self.slot, node.args))
        if kind in _JOINED:
            return reduce(lambda a, b: self.step(_JOINED[kind], a, b), map(self.slot, node.args))
        if isinstance(node, sp.Not):
            return self.step("not", self.slot(node.args[0]))
        if isinstance(node, sp.ITE):  # between conditions, as derivatives of Max make them
            condition, this, other = node.args
            return self.slot(sp.And(sp.Or(sp.Not(condition), this), sp.Or(condition, other)))
        raise InputError(f"formula: no value for {str(node.func)[:60]}: no function that can be evaluated")

    def _sum(self, node: sp.Expr) -> tuple[str, int]:
        plus = [term for term in node.args if not _negative(term)]
        minus = [-term for term in node.args if _negative(term)]
        total = None
        for term in plus:
            total = self.slot(term) if total is None else self.step("add", total, self.slot(term))
        for term in minus:
            total = (
                self.step("negative", self.slot(term))
                if total is None
                else self.step("subtract", total, self.slot(term))
            )
        return total if total is not None else self.number(0)

    def _product(self, node: sp.Expr) -> tuple[str, int]:
        if _negative(node):
            return self.step("negative", self.slot(-node))
        above, below = [], []
        for factor in node.args:
            if factor.is_Rational and not factor.is_Integer and factor.p == 1:
                below.append(self.number(int(factor.q)))
            elif factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
                below.append(self._power(factor.base, -factor.exp))
            else:
                above.append(self.slot(factor))
        top = reduce(lambda a, b: self.step("multiply", a, b), above) if above else self.number(1)
        if not below:
            return top
        return self.step("divide", top, reduce(lambda a, b: self.step("multiply", a, b), below))

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> tuple[str, int]:
        if exponent == 1:
            return self.slot(base)
        if exponent == sp.Rational(1, 2):
            return self.step("sqrt", self.slot(base))
        if base is sp.E:
            return self.step("exp", self.slot(exponent))
        if exponent.is_Rational and exponent.is_negative:
            return self.step("divide", self.number(1), self._power(base, -exponent))
        return self.step("power", self.slot(base), self.slot(exponent))

    def tape(self, results: Sequence[tuple[str, int]], *, together: bool) -> Tape:
        begin = {"argument": 0, "constant": len(self.places), "step": len(self.places) + len(self.constants)}
        steps: list[Step] = [
            (name, tuple(begin[kind] + index for kind, index in operands)) for name, operands in self.steps
        ]
        return Tape(
            len(self.places),
            tuple(value for _, value in self.constants),
            tuple(steps),
            tuple(begin[kind] + index for kind, index in results),
            together,
        )


def _negative(term: sp.Expr) -> bool:
    """Whether a term is a negative number, or a product with one."""
    return bool(term.is_Number and term.is_negative) or bool(
        term.is_Mul and term.args[0].is_Number and term.args[0].is_negative
    )
