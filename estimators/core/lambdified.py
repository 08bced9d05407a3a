"""sympy expressions as numpy functions of arrays, each compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.numpy import NumPyPrinter

from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError

FloatArray = npt.NDArray[np.float64]


def evaluate(expression: sp.Expr, values: Mapping[str, Any]) -> FloatArray:
    """An expression on arrays that broadcast against each other, symbols found by name; an array of their shape.

    Raises
    ------
    InputError
        Where a symbol has no value.
    """
    names = names_of(expression)
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"no value for {', '.join(missing)} in a formula")
    return np.asarray(compiled(expression, names)(*(values[name] for name in names)), dtype=np.float64)


@lru_cache(maxsize=4096)
def names_of(expression: sp.Expr) -> tuple[str, ...]:
    """Names of an expression's symbols, sorted."""
    return tuple(sorted(str(s) for s in expression.free_symbols))


class _ArrayPrinter(NumPyPrinter):  # type: ignore[misc]
    """Prints Max and Min so that they broadcast, and floats as they are: fifteen digits move a value over a step."""

    def _print_Float(self, expr: sp.Float) -> str:
        return repr(float(expr))

    def _print_Max(self, expr: sp.Max) -> str:
        return str(reduce(lambda a, b: f"numpy.maximum({a}, {b})", map(self._print, expr.args)))

    def _print_Min(self, expr: sp.Min) -> str:
        return str(reduce(lambda a, b: f"numpy.minimum({a}, {b})", map(self._print, expr.args)))


def refuse_strays(expression: sp.Basic, arguments: Sequence[sp.Symbol]) -> None:
    """Check that a formula holds nothing but its arguments and known functions.

    The printer writes names of symbols and unknown functions into Python source as they are: none may come from a file.

    Raises
    ------
    InputError
        Where it holds more.
    """
    strays = sorted(map(str, expression.free_symbols - set(arguments)))
    strays += sorted({str(node.func) for node in expression.atoms(AppliedUndef)})
    if strays:
        raise InputError(f"formula: no value for {', '.join(name[:60] for name in strays[:5])}")


@lru_cache(maxsize=4096)
def compiled(expression: sp.Expr, names: tuple[str, ...]) -> Callable[..., Any]:
    """A numpy function of the named symbols, with common sub-expressions computed once."""
    printer = _ArrayPrinter({"fully_qualified_modules": True, "inline": True, "allow_unknown_functions": True})
    # Dotted names are no Python names. Put in at once, and without a docstring: half of lambdify's time otherwise.
    arguments = [symbol(f"a{i}") for i in range(len(names))]
    plain = expression.xreplace(dict(zip(map(symbol, names), arguments, strict=True)))
    refuse_strays(plain, arguments)
    function: Callable[..., Any] = sp.lambdify(
        arguments, plain, modules="numpy", printer=printer, cse=True, docstring_limit=0
    )
    return function
