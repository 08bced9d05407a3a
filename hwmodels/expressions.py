"""Formulas as text: an allow-list parser over Python's syntax tree, never `eval` or `sympify`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import sympy as sp

from hwmodels.files import InputError

MAX_LENGTH = 20_000
MAX_NODES = 5_000
MAX_EXPONENT = 64
MAX_DIGITS = 300

_FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "Max": sp.Max,
    "Min": sp.Min,
    "floor": sp.floor,
    "ceiling": sp.ceiling,
    "Mod": sp.Mod,
    "log": sp.log,
    "exp": sp.exp,
    "sqrt": sp.sqrt,
    "Abs": sp.Abs,
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: sp.floor(a / b),
    ast.Mod: lambda a, b: sp.Mod(a, b),
}


def symbol(name: str) -> sp.Symbol:
    """The one symbol of that name. All our symbols are positive, so that roots and maxima simplify."""
    return sp.Symbol(name, positive=True)


def parse_expression(text: str, names: Collection[str] | None = None, where: str = "formula") -> sp.Expr:
    """A formula of numbers, names, + - * / // % ** and a few functions (Max, Min, floor, ceiling, log, exp, sqrt ...).

    Parameters
    ----------
    names
        The symbols that may stand in it; any identifier (with dots) if None.
    where
        File and field, for the message.

    Raises
    ------
    InputError
        Where anything else stands in the text, or it is too long.

    Examples
    --------
    >>> parse_expression("2*batch*floor((t - 1)/2)")
    2*batch*floor(t/2 - 1/2)
    """
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise InputError(f"{where}: formula is no text of at most {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise InputError(f"{where}: formula has more than {MAX_NODES} parts")
        result = _read(tree.body, names, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, OverflowError, ZeroDivisionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: formula {text[:60]!r} cannot be read ({type(error).__name__})") from None
    if result.has(sp.zoo, sp.nan, sp.oo, -sp.oo):
        raise InputError(f"{where}: formula {text[:60]!r} divides by zero")
    return result


def _read(node: ast.expr, names: Collection[str] | None, where: str) -> sp.Expr:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() as value):
            if abs(value) > 10**40:
                raise InputError(f"{where}: number too large in formula")
            return sp.Integer(value)
        case ast.Constant(value=float() as value) if math.isfinite(value):
            return sp.Float(value)
        case ast.Name() | ast.Attribute():
            name = _dotted(node, where)
            if names is not None and name not in names:
                raise InputError(f"{where}: unknown name {name!r} in formula (known: {', '.join(sorted(names))})")
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, names, where)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _read(operand, names, where)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _read(left, names, where), _read(right, names, where)
            if exponent.is_number and not abs(float(exponent)) <= MAX_EXPONENT:
                raise InputError(f"{where}: exponent {exponent} lies outside [-{MAX_EXPONENT}, {MAX_EXPONENT}]")
            if base.is_number and exponent.is_number and base != 0:
                digits = abs(float(sp.log(abs(base), 10).evalf())) * abs(float(exponent))
                if digits > MAX_DIGITS:
                    raise InputError(f"{where}: power with {digits:.0f} digits in formula")
            return base**exponent
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return sp.sympify(_OPERATORS[type(operator)](_read(left, names, where), _read(right, names, where)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return sp.sympify(_FUNCTIONS[name](*(_read(argument, names, where) for argument in arguments)))
        case ast.Call():
            raise InputError(f"{where}: only these functions may be called in a formula: {', '.join(_FUNCTIONS)}")
    raise InputError(f"{where}: {type(node).__name__} is not accepted in a formula")


def _dotted(node: ast.expr, where: str) -> str:
    match node:
        case ast.Name(id=name) if not name.startswith("__"):
            return name
        case ast.Attribute(value=value, attr=name) if not name.startswith("_"):
            return f"{_dotted(value, where)}.{name}"
    raise InputError(f"{where}: names in a formula are letters, digits and dots")


def expression_text(expression: sp.Expr | float | int) -> str:
    """A formula as text that `parse_expression` reads back."""
    return _text(expression) if isinstance(expression, sp.Basic) else repr(expression)


@lru_cache(maxsize=16_384)
def _text(expression: sp.Expr) -> str:
    # A graph repeats a few expressions thousands of times.
    return str(sp.sstr(expression, full_prec=False))
