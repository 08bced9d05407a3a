"""The gradient of a formula at points, by the chain rule backwards through its tree: one pass for all its symbols.

Symbolic derivatives (`Formula.derivative`) are for reading; compiling one for each symbol costs seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray, compiled, names_of
from slipstick.estimators.core.lambdified.extremum_classes import Largest, Smallest
from slipstick.hwmodels.files.symbolic import sp

LARGEST, SMALLEST = (sp.Max, Largest), (sp.Min, Smallest)
STEPS = (sp.floor, sp.ceiling, sp.Mod)
"""Flat, as in `Formula.derivative`."""


def gradient(expression: sp.Expr, values: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Name -> the partial derivative by that symbol, an array of the shape that the values broadcast to; at a maximum
    of the active side (the first of equal ones).

    `values`: arrays of every symbol, which broadcast against each other.
    """
    values = {name: np.asarray(values[name], dtype=np.float64) for name in names_of(expression)}
    known: dict[sp.Basic, Any] = {}
    nodes = dict.fromkeys(sp.postorder_traversal(expression))
    order = [node for node in nodes if isinstance(node, sp.Expr)]
    open_: set[sp.Basic] = set()  # what hangs on a symbol: free_symbols would walk the tree below each node again
    for node in nodes:
        if node.is_Symbol or any(argument in open_ for argument in node.args):
            open_.add(node)
    slopes: dict[sp.Basic, Any] = {expression: 1.0}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for node in order:
            known[node] = _value(node, known, values) if node in open_ else float(node)
        for node in reversed(order):
            above = slopes.get(node)
            if above is None or node not in open_:
                continue
            for argument, slope in _partials(node, known, values):
                factor = np.where(np.equal(above, 0.0), 0.0, above * slope)  # an inactive side may be infinite
                slopes[argument] = slopes.get(argument, 0.0) + factor
    # by name, not as a set has them: callers add slopes up, and the order of a sum decides its last digit
    return {str(s): np.asarray(slopes.get(s, 0.0)) for s in sorted(expression.free_symbols, key=str)}


def _value(node: sp.Expr, known: Mapping[sp.Basic, Any], values: Mapping[str, Any]) -> Any:
    if node.is_Symbol:
        return values[str(node)]
    arguments: list[Any] = [known.get(argument) for argument in node.args]
    if node.is_Add:
        return sum(arguments[1:], start=arguments[0])
    if node.is_Mul:
        return _product(arguments)
    if node.is_Pow and node.base is not sp.E:
        return arguments[0] ** arguments[1]
    if isinstance(node, LARGEST):
        return np.maximum.reduce(np.broadcast_arrays(*arguments))
    if isinstance(node, SMALLEST):
        return np.minimum.reduce(np.broadcast_arrays(*arguments))
    return _evaluate(node, values)


def _partials(node: sp.Expr, known: Mapping[sp.Basic, Any], values: Mapping[str, Any]) -> list[tuple[sp.Basic, Any]]:
    """The arguments of a node with its slope by each."""
    arguments = node.args
    if node.is_Symbol or isinstance(node, STEPS):
        return []
    if node.is_Add:
        return [(argument, 1.0) for argument in arguments]
    if node.is_Mul:
        sides = [known[argument] for argument in arguments]
        return [(one, _product([*sides[:i], *sides[i + 1 :]])) for i, one in enumerate(arguments)]
    if node.is_Pow and not node.exp.free_symbols:
        power = known[node.exp]
        return [(node.base, power * known[node.base] ** (power - 1))]
    if isinstance(node, (*LARGEST, *SMALLEST)):
        table = np.stack(np.broadcast_arrays(*(known[argument] for argument in arguments)))
        active = np.argmax(table, axis=0) if isinstance(node, LARGEST) else np.argmin(table, axis=0)
        return [(argument, np.where(active == i, 1.0, 0.0)) for i, argument in enumerate(arguments)]
    if isinstance(node, sp.Piecewise):
        partials, left = [], np.asarray(True)
        for value, condition in arguments:
            holds = left & np.asarray(_evaluate(condition, values), dtype=bool)
            partials.append((value, np.where(holds, 1.0, 0.0)))
            left = left & ~holds
        return partials
    inner = [sp.Dummy(positive=argument.is_positive) for argument in arguments]  # any other function: sympy's slope
    outer = node.func(*inner)
    slopes = [outer.diff(dummy).xreplace(dict(zip(inner, arguments, strict=True))) for dummy in inner]
    return [(one, _evaluate(slope, values)) for one, slope in zip(arguments, slopes, strict=True)]


def _product(sides: list[Any]) -> Any:
    total: Any = 1.0
    for side in sides:
        total = total * side
    return total


def _evaluate(expression: sp.Basic, values: Mapping[str, Any]) -> Any:
    names = names_of(expression)
    return compiled(expression, names)(*(values[name] for name in names))
