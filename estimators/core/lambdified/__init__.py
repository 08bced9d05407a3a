"""sympy expressions as functions of numpy arrays, each lowered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified.evaluable import Steps
from slipstick.hwmodels.files.readers import InputError

if TYPE_CHECKING:
    import sympy as sp

FloatArray = npt.NDArray[np.float64]


def steps_of(expression: sp.Expr) -> Steps:
    """An expression as steps and the names of their arguments."""
    from slipstick.estimators.core.lambdified.lowering import lowered

    names = names_of(expression)
    return Steps(names, lowered(expression, names))


def evaluate(expression: sp.Expr, values: Mapping[str, Any]) -> FloatArray:
    """An expression on arrays that broadcast against each other, symbols found by name; an array of their shape.

    Where its value is no real number (a root of a power below 0) stands nan.
    Raises InputError where a symbol has no value.
    """
    names = names_of(expression)
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"no value for {', '.join(missing)} in a formula")
    made = compiled(expression, names)(*(values[name] for name in names))
    if np.iscomplexobj(made):
        made = np.where(np.imag(made) == 0, np.real(made), np.nan)
    return np.asarray(made, dtype=np.float64)


@lru_cache(maxsize=4096)
def names_of(expression: sp.Expr) -> tuple[str, ...]:
    """Names of an expression's symbols, sorted."""
    return tuple(sorted(str(s) for s in expression.free_symbols))


@lru_cache(maxsize=4096)
def compiled(expression: sp.Expr, names: tuple[str, ...]) -> Callable[..., Any]:
    """A numpy function of the named symbols, with common sub-expressions computed once."""
    from slipstick.estimators.core.lambdified.lowering import lowered

    return lowered(expression, names)
