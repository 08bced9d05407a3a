"""Maximum and minimum that stay as written (see `extremum_classes`), without sympy until one is made."""

from __future__ import annotations

from collections.abc import Mapping

from slipstick.common.expressions import sp


def Largest(*sides: sp.Expr | float) -> sp.Expr:
    """The maximum of its arguments."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    return extremum_classes.Largest(*sides)


def Smallest(*sides: sp.Expr | float) -> sp.Expr:
    """The minimum of its arguments."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    return extremum_classes.Smallest(*sides)


def replaced(expression: sp.Expr, put: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    """The expression with some symbols replaced, as `xreplace` does it, each part once.

    sympy's own Max and Min are not compared anew, which takes longer than all else, unless their sides are numbers.
    """
    done = dict(put)

    def of(node: sp.Basic) -> sp.Basic:
        if node not in done:
            sides = [of(side) for side in node.args]
            done[node] = node if all(a is b for a, b in zip(sides, node.args, strict=True)) else made(node, sides)
        return done[node]

    def made(node: sp.Basic, sides: list[sp.Basic]) -> sp.Basic:
        if not isinstance(node, (sp.Max, sp.Min)) or all(one.is_number for one in sides) or {sp.oo, -sp.oo} & {*sides}:
            return node.func(*sides)
        flat = [part for side in sides for part in (side.args if side.func is node.func else (side,))]
        return node.func(*flat, evaluate=False)

    return of(expression)
