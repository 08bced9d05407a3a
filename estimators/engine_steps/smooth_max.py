"""The larger and the smaller of two numbers of a server's step, exactly or smoothly: on floats, arrays or formulas."""

from __future__ import annotations

from typing import Any, TypeAlias

from slipstick.common.errors import InputError

SHARPNESS = 3.0
"""Of the smooth maximum."""
Numbers: TypeAlias = Any
"""A float, an array of one for each of many steps, or an expression of sympy."""


def largest(a: Numbers, b: Numbers) -> Numbers:
    """The larger of two floats, arrays or expressions of sympy."""
    if a.__class__ is float is b.__class__:  # a simulated step asks ten times
        return a if a >= b else b
    if hasattr(a, "free_symbols") or hasattr(b, "free_symbols"):
        from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest

        return Largest(a, b)
    return (a + b + abs(a - b)) / 2


def smallest(a: Numbers, b: Numbers) -> Numbers:
    """The smaller of two floats or arrays."""
    return (a + b - abs(a - b)) / 2


def overlapped(a: Numbers, b: Numbers) -> Numbers:
    """The larger of two times in seconds, smoothly: what overlaps does so imperfectly where the two are alike.

    Raises
    ------
    InputError
        Where the times are beyond what a float can hold.
    """
    try:
        return (a**SHARPNESS + b**SHARPNESS) ** (1.0 / SHARPNESS)
    except OverflowError:
        raise InputError(f"a step of {max(a, b):.3g} s: no machine is so slow; check its rates") from None
