"""Sizes of torch's symbolic tracing as plain sympy over the user's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import is_symbolic, sp

_TORCH: Mapping[str, Callable[..., Any]] = {
    "FloorDiv": lambda a, b: sp.floor(a / b),
    "CleanDiv": lambda a, b: a / b,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "ModularIndexing": lambda a, b, c: sp.Mod(sp.floor(a / b), c),
    "PythonMod": lambda a, b: sp.Mod(a, b),
    "Mod": lambda a, b: sp.Mod(a, b),
    "Max": lambda *sides: sp.Max(*sides),
    "Min": lambda *sides: sp.Min(*sides),
    "CeilToInt": lambda a: sp.ceiling(a),
    "FloorToInt": lambda a: sp.floor(a),
    "TruncToInt": lambda a: sp.floor(a),
    "RoundToInt": lambda a: sp.floor(a + sp.Rational(1, 2)),
    "ToFloat": lambda a: a,
    "Identity": lambda a: a,
    "PowByNatural": lambda a, b: sp.Pow(a, b),
}


class Sizes:
    """Translates expressions of one ShapeEnv: replacements applied, symbols renamed, torch's functions made sympy's."""

    def __init__(self, environment: Any, names: Mapping[str, str | sp.Expr]) -> None:
        self._environment = environment
        self._names = names
        self._plain: dict[Any, Any] = {}
        self._final: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        """An int, or a sympy expression over the user's names."""
        if not is_symbolic(value):
            return value
        if value not in self._final:
            self._final[value] = self.plain(sp.sympify(self._environment.replace(value), strict=True))
        return self._final[value]

    def plain(self, expression: Any) -> Any:
        """As `__call__`, without replacements."""
        if expression not in self._plain:
            self._plain[expression] = self._translate(expression)
        return self._plain[expression]

    def _translate(self, expression: Any) -> Any:
        if expression.is_Symbol:
            name = self._names.get(expression.name, expression.name)
            return symbol(name) if isinstance(name, str) else self._translate(name)
        if expression.is_Integer:
            return int(expression)
        if expression.is_number or expression in (sp.true, sp.false):
            return expression
        parts = [sp.sympify(self.plain(part), strict=True) for part in expression.args]
        name = type(expression).__name__
        if name in _TORCH:
            return _TORCH[name](*parts)
        plain = (sp.Add, sp.Mul, sp.Pow, sp.floor, sp.ceiling, sp.core.relational.Relational, sp.And, sp.Or, sp.Not)
        if isinstance(expression, plain):
            return expression.func(*parts)
        raise InputError(f"size {expression}: function {name} of torch is not known here")
