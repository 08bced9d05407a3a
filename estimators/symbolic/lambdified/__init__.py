"""sympy expressions as functions of numpy arrays, each lowered once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slipstick.common.array_types import FloatArray
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.tape import Tape

if TYPE_CHECKING:
    import sympy as sp


def steps_of(expression: sp.Expr) -> Steps:
    """An expression as steps and the names of their arguments."""
    from slipstick.estimators.symbolic.lambdified.lowering import lowered

    names = names_of(expression)
    return Steps(names, lowered(expression, names))


def evaluate(expression: sp.Expr, values: Mapping[str, Any]) -> FloatArray:
    """An expression on arrays that broadcast against each other, symbols found by name; an array of their shape.

    Where its value is no real number (a root of a power below 0) stands nan.
    Raises InputError where a symbol has no value.
    """
    names = names_of(expression)
    return Steps(names, compiled(expression, names))(values)


@lru_cache(maxsize=4096)
def names_of(expression: sp.Expr) -> tuple[str, ...]:
    """Names of an expression's symbols, sorted."""
    return tuple(sorted(str(s) for s in expression.free_symbols))


@lru_cache(maxsize=4096)
def compiled(expression: sp.Expr, names: tuple[str, ...]) -> Tape:
    """The steps of an expression of the named symbols, with common sub-expressions computed once."""
    from slipstick.estimators.symbolic.lambdified.lowering import lowered

    return lowered(expression, names)
