"""sympy expressions as the nodes of their gradient (see `gradient`): each distinct part is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from slipstick.common.lazy_sympy import sp
from slipstick.estimators.symbolic.gradient import BRANCHES, FLAT, NUMBER, OTHER, SYMBOL, GradientNode, GradientSteps
from slipstick.estimators.symbolic.lambdified import FloatArray, compiled, names_of
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.extremum_classes import Largest, Smallest

LARGEST, SMALLEST = (sp.Max, Largest), (sp.Min, Smallest)
STEPS = (sp.floor, sp.ceiling, sp.Mod)
"""Flat, as in `Formula.derivative`."""


def gradient(expression: sp.Expr, values: Mapping[str, Any]) -> dict[str, FloatArray]:
    """The partial derivatives of an expression by its symbols, each of the shape of the values (`GradientSteps.at`)."""
    return gradient_steps(expression).at(values)


@lru_cache(maxsize=256)
def gradient_steps(expression: sp.Expr) -> GradientSteps:
    """The nodes of an expression, each behind those that it reads."""
    names = names_of(expression)
    parts = dict.fromkeys(sp.postorder_traversal(expression))
    open_: set[sp.Basic] = set()  # what hangs on a symbol: free_symbols would walk the tree below each node again
    for part in parts:
        if part.is_Symbol or any(argument in open_ for argument in part.args):
            open_.add(part)
    passed = {expression}  # to which a slope comes: what lies below a step or in a condition has none, and is no node
    for part in reversed(parts):
        if part in passed and part in open_:
            passed.update(_read(part))
    places = {part: place for place, part in enumerate(part for part in parts if part in passed)}
    nodes = (_node(one, places, names) if one in open_ else GradientNode(NUMBER, number=float(one)) for one in places)
    return GradientSteps(names, tuple(nodes))


def _read(part: sp.Expr) -> tuple[sp.Expr, ...]:
    """The parts to which the slope of a part goes on."""
    if isinstance(part, STEPS):
        return ()
    return tuple(value for value, _ in part.args) if isinstance(part, sp.Piecewise) else part.args


def _node(part: sp.Expr, places: dict[sp.Expr, int], names: tuple[str, ...]) -> GradientNode:
    """The node of a part that hangs on a symbol."""
    if part.is_Symbol:
        return GradientNode(SYMBOL, (names.index(str(part)),))
    reads = tuple(places[argument] for argument in _read(part))
    if isinstance(part, STEPS):
        return GradientNode(FLAT, value=_steps(part))
    if isinstance(part, sp.Piecewise):
        conditions = tuple(_steps(condition) for _, condition in part.args)
        return GradientNode(BRANCHES, reads, value=_steps(part), slopes=conditions)
    if part.is_Add:
        return GradientNode("add", reads)
    if part.is_Mul:
        return GradientNode("multiply", reads)
    if isinstance(part, LARGEST):
        return GradientNode("largest", reads)
    if isinstance(part, SMALLEST):
        return GradientNode("smallest", reads)
    plain = part.is_Pow and part.base is not sp.E
    if plain and not part.exp.free_symbols:
        return GradientNode("power", reads)
    inner = [sp.Dummy(positive=argument.is_positive) for argument in part.args]  # any other function: sympy's slope
    outer = part.func(*inner)
    back = dict(zip(inner, part.args, strict=True))
    slopes = tuple(_steps(outer.diff(dummy).xreplace(back)) for dummy in inner)
    if plain:
        return GradientNode("raised", reads, slopes=slopes)
    return GradientNode(OTHER, reads, value=_steps(part), slopes=slopes)


def _steps(part: sp.Basic) -> Steps:
    names = names_of(part)
    return Steps(names, compiled(part, names))
