"""Formulas as text: an allow-list parser over Python's syntax tree, never `eval` or `sympify`.

sympy, imported when it is first needed: numbers and formulas that are kept as steps are answered without it.
"""

from __future__ import annotations

import ast
import math
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import LazyModule

if TYPE_CHECKING:
    import sympy as sp
else:
    sp = LazyModule("sympy")

__all__ = ["expression_text", "is_symbolic", "parse_expression", "sp", "symbol", "value_at"]


def is_symbolic(value: object) -> TypeGuard[Any]:
    """Whether a value is an expression of sympy; without sympy nothing is.

    >>> is_symbolic(2.0), is_symbolic(sp.Symbol("batch"))
    (False, True)
    """
    basic = getattr(sys.modules.get("sympy.core.basic"), "Basic", None)
    return basic is not None and isinstance(value, basic)


MAX_LENGTH = 20_000
MAX_NODES = 5_000
MAX_EXPONENT = 64
MAX_DIGITS = 300
LARGEST_NUMBER = 1e300
# of a fraction that is exact: 1 over a power is no float of 1e-300, but sympy writes all of its digits
MAX_EXACT_DIGITS = 10_000
MAX_DEPTH = 100
MAX_CHOICES = 16
MAX_COMPARED = 4
# beyond it a float holds no fractions, and to round an irrational number takes ever more digits
MAX_ROUNDED = 1e15

_FUNCTIONS = ("Max", "Min", "floor", "ceiling", "Mod", "log", "exp", "sqrt", "Abs")
"""Those of sympy that may be called."""
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: sp.floor(a / b),
    ast.Mod: lambda a, b: sp.Mod(a, b),
}


def symbol(name: str) -> sp.Symbol:
    """The one symbol of that name. All our symbols are positive, so that roots and maxima simplify.

    Examples
    --------
    >>> import slipstick as ss
    >>> 2 * ss.symbol("batch")
    2*batch
    """
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip(), mode="eval")
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise InputError(f"{where}: formula has more than {MAX_NODES} parts")
        result = _read(tree.body, names, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: formula {text[:60]!r} cannot be read ({type(error).__name__})") from None
    if result.has(sp.zoo, sp.nan, sp.oo, -sp.oo):
        raise InputError(f"{where}: formula {text[:60]!r} divides by zero")
    if text.count("(") > MAX_DEPTH // 2 and _depth(result) > MAX_DEPTH:
        raise InputError(f"{where}: formula is nested deeper than {MAX_DEPTH} levels")
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
            return _finite(_power(_read(left, names, where), _read(right, names, where), where), where)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            sides = [_read(left, names, where), _read(right, names, where)]
            if isinstance(operator, (ast.FloorDiv, ast.Mod)):
                _check_rounded(sides, where)
            return _finite(sp.sympify(_OPERATORS[type(operator)](*sides)), where)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            values = [_read(argument, names, where) for argument in arguments]
            if name in ("Max", "Min"):
                _check_choices(values, where)
                # sympy compares each with each to drop some: not worth it where there are many
                return _finite(getattr(sp, name)(*values, evaluate=len(values) <= MAX_COMPARED), where)
            if name in ("floor", "ceiling", "Mod"):
                _check_rounded(values, where)
            return _finite(sp.sympify(getattr(sp, name)(*values)), where)
        case ast.Call():
            raise InputError(f"{where}: only these functions may be called in a formula: {', '.join(_FUNCTIONS)}")
    raise InputError(f"{where}: {type(node).__name__} is not accepted in a formula")


def _power(base: sp.Expr, exponent: sp.Expr, where: str) -> sp.Expr:
    """base ** exponent, where no number in the exponent makes more digits than a float has range."""
    # sympy takes numbers out of a symbolic exponent: 2**(n + 10**40) would become 2**(10**40) * 2**n
    for number in [exponent] if exponent.is_number else sorted(exponent.atoms(sp.Number)):
        if not abs(float(number)) <= MAX_EXPONENT:
            raise InputError(f"{where}: exponent {number} lies outside [-{MAX_EXPONENT}, {MAX_EXPONENT}]")
    if base.is_number and exponent.is_number and base != 0:
        digits = abs(float(sp.log(abs(base), 10).evalf())) * abs(float(exponent))
        if digits > MAX_DIGITS:
            raise InputError(f"{where}: power with {digits:.0f} digits in formula")
    return base**exponent


def _finite(value: sp.Expr, where: str) -> sp.Expr:
    """The expression; where it is a number, one that a float can hold."""
    if value.is_number and not isinstance(value, (sp.Integer, sp.Float)):
        if value.has(sp.zoo, sp.nan, sp.oo, -sp.oo):
            return value
        size = sp.Abs(value).evalf(3)
        if not size <= sp.Float(f"1e{MAX_DIGITS}"):
            raise InputError(f"{where}: number beyond 1e{MAX_DIGITS} in formula")
        if not value.is_real:
            raise InputError(f"{where}: {str(value)[:40]} is no real number")
    return value


def _check_rounded(values: list[sp.Expr], where: str) -> None:
    """Refuse to round what is no fraction of whole numbers and too large for exact digits."""
    for value in values:
        for part in (value, *value.args):
            if part.is_number and not part.is_Rational and abs(float(part)) > MAX_ROUNDED:
                raise InputError(f"{where}: {float(part):g} is too large to be rounded in a formula")


def _check_choices(values: list[sp.Expr], where: str) -> None:
    """Refuse more choices than can be compared with one another, those of nested choices among them."""
    count = sum(len(value.args) if isinstance(value, (sp.Max, sp.Min)) else 1 for value in values)
    if count > MAX_CHOICES:
        raise InputError(f"{where}: more than {MAX_CHOICES} values to choose from in formula")


def _depth(expression: sp.Basic) -> int:
    """Levels of an expression, counted without recursion."""
    level, depth = [expression], 0
    while level:
        depth += 1
        level = [argument for part in level for argument in part.args]
    return depth


def _dotted(node: ast.expr, where: str) -> str:
    match node:
        case ast.Name(id=name) if not name.startswith("__"):
            return name
        case ast.Attribute(value=value, attr=name) if not name.startswith("_"):
            return f"{_dotted(value, where)}.{name}"
    raise InputError(f"{where}: names in a formula are letters, digits and dots")


def value_at(expression: sp.Expr, values: Mapping[str, Any], where: str = "") -> Any:
    """The expression with values in place of symbols by name: a plain number where none is left open.

    Parameters
    ----------
    where
        File and field, for the message.

    Raises
    ------
    InputError
        Where that or a part of it is no real number, or beyond 1e300: sympy would compute all digits of
        exp(exp(exp(8))), or fail at it.
    """
    named = {one: values[str(one)] for one in expression.free_symbols if str(one) in values}
    try:
        _in_floats(expression, {str(one): value for one, value in named.items()})
        bound = expression.xreplace({one: sp.sympify(value, strict=True) for one, value in named.items()})
        if bound.free_symbols:
            return bound
        number = bound.doit()
        if number.is_real and abs(number) <= LARGEST_NUMBER:
            return int(number) if number.is_integer else float(number)
        is_ = f"is {number.evalf(4)}"[:23]
    except OverflowError:
        is_ = f"has a part beyond {LARGEST_NUMBER:g}"
    except ZeroDivisionError:
        is_ = "divides by zero"
    except (ArithmeticError, ValueError, TypeError):
        is_ = "has a part that is no real number"
    at = ", ".join(f"{one} = {named[one]}" for one in sorted(named, key=str))
    place = f"{where}: " if where else ""
    raise InputError(f"{place}{str(expression)[:60]} at {at} {is_}: want a number up to {LARGEST_NUMBER:g}")


def _in_floats(part: sp.Basic, values: Mapping[str, Any]) -> float | None:
    """About what a part of a formula is; None where a symbol is open.

    Raises OverflowError where it, or anything in it, is beyond `LARGEST_NUMBER`, and what floats raise where
    it is no number.
    """
    if part.is_Symbol:
        value = values.get(str(part))
        return None if value is None or is_symbolic(value) else float(value)
    if part.is_Number or part.is_NumberSymbol:
        return float(part)
    numbers = [_in_floats(argument, values) for argument in part.args]
    known = [number for number in numbers if number is not None]
    call = _FLOATS.get(type(part).__name__)
    if len(known) < len(numbers) or call is None:
        return None
    number = call(known)
    if isinstance(number, complex):
        raise ValueError
    if abs(number) > LARGEST_NUMBER:
        raise OverflowError
    return float(number)


def _float_power(sides: Sequence[float]) -> Any:
    base, exponent = sides
    if base and abs(exponent * math.log10(abs(base))) > MAX_EXACT_DIGITS:
        return math.inf
    return base**exponent


_FLOATS: dict[str, Callable[[Sequence[float]], Any]] = {
    "Add": math.fsum,
    "Mul": lambda factors: math.prod(sorted(factors, key=abs)),
    "Pow": _float_power,
    "Max": max,
    "Min": min,
    "floor": lambda one: one[0],  # its size is all that matters here
    "ceiling": lambda one: one[0],
    "Mod": lambda sides: sides[0] % sides[1],
    "log": lambda one: math.log(one[0]),
    "exp": lambda one: math.exp(one[0]),
    "Abs": lambda one: abs(one[0]),
}
"""About what those of sympy give that a formula may hold, by the names of their classes."""


def expression_text(expression: sp.Expr | float | int) -> str:
    """A formula, or a plain number without a unit, as text that `parse_expression` reads back."""
    return _text(expression) if is_symbolic(expression) else repr(expression)


@lru_cache(maxsize=16_384)
def _text(expression: sp.Expr) -> str:
    # A graph repeats a few expressions thousands of times.
    return str(sp.sstr(expression, full_prec=False))
