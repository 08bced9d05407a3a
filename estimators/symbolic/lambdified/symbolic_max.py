"""Maximum and minimum that stay as written (see `extremum_classes`), without sympy until one is made."""

from __future__ import annotations

from slipstick.common.lazy_sympy import sp


def Largest(*sides: sp.Expr | float) -> sp.Expr:
    """The maximum of its arguments."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    return extremum_classes.Largest(*sides)


def Smallest(*sides: sp.Expr | float) -> sp.Expr:
    """The minimum of its arguments."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    return extremum_classes.Smallest(*sides)
