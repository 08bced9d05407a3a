"""The gradient of a formula at points, by the chain rule backwards through its tree: one pass for all its symbols.

The tree is a row of nodes, each after those that it reads: plain data, which a file may hold and which needs no sympy.
Symbolic derivatives (`Formula.derivative`) are for reading; compiling one for each symbol costs seconds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.cached_parts import cached_list, cached_number, cached_places, cached_text, cached_texts
from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable, FloatArray, Steps

MOST_NODES = 100_000
SYMBOL, NUMBER, OTHER, BRANCHES, FLAT = "symbol", "number", "other", "branches", "flat"


def _product(sides: Sequence[Any]) -> Any:
    return reduce(operator.mul, sides, 1.0)


COMPUTED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "add": lambda sides: sum(sides[1:], start=sides[0]),
    "multiply": _product,
    "power": lambda sides: sides[0] ** sides[1],
    "raised": lambda sides: sides[0] ** sides[1],
    "largest": lambda sides: np.maximum.reduce(np.broadcast_arrays(*sides)),
    "smallest": lambda sides: np.minimum.reduce(np.broadcast_arrays(*sides)),
}
"""What a node is of those that it reads. The exponent of a `raised` one varies as well."""
EVALUATED = (OTHER, BRANCHES, FLAT)
"""Nodes that are evaluated from the symbols: with slopes of their own, slopes where a condition holds, and without."""
Slopes: TypeAlias = "list[tuple[int, Any]]"


@dataclass(frozen=True)
class GradientNode:
    """One part of a formula.

    `kind`: of `COMPUTED` or `EVALUATED`; a symbol, or what hangs on none.
    `reads`: places of the nodes that its slopes go to; of a symbol that of its name.
    `number`: of one that hangs on no symbol.
    `value`: the steps of one that is evaluated from the symbols, or whose slopes are.
    `slopes`: the steps of its slope by each node that it reads, or of the condition under which that counts.
    """

    kind: str
    reads: tuple[int, ...] = ()
    number: float = 0.0
    value: Steps | None = None
    slopes: tuple[Steps, ...] = ()

    def data(self) -> list[Any]:
        """As JSON holds it."""
        value = None if self.value is None else self.value.data()
        return [self.kind, list(self.reads), self.number, value, [one.data() for one in self.slopes]]

    @classmethod
    def of(cls, data: Any, before: int, names: int) -> GradientNode:
        """The node of `data` behind `before` others.

        Raises InputError where that is none.
        """
        kind, reads, number, value, slopes = cached_list(data, "node", 5)
        node = cls(
            cached_text(kind, "node"),
            tuple(cached_places(reads, "node", names if kind == SYMBOL else before)),
            float(cached_number(number, "node")),
            None if value is None else Steps.of(value),
            tuple(map(Steps.of, cached_list(slopes, "slopes"))),
        )
        evaluated = node.kind in (*EVALUATED, "raised")
        known = evaluated or node.kind in (*COMPUTED, SYMBOL, NUMBER)
        few = {SYMBOL: 1, "power": 2, "raised": 2}.get(node.kind, len(node.reads))
        by_steps = len(node.reads) if node.kind in (OTHER, BRANCHES, "raised") else 0
        right = (
            len(node.reads) == few and len(node.slopes) == by_steps and (value is not None) == (node.kind in EVALUATED)
        )
        if not known or not right or (node.kind in COMPUTED and not node.reads):
            raise InputError(f"gradient as steps: a node {node.kind[:40]!r} cannot be so")
        return node


@dataclass(frozen=True)
class GradientSteps:
    """The nodes of a formula, the last of which is the whole, and the names of its symbols, sorted."""

    names: tuple[str, ...]
    nodes: tuple[GradientNode, ...]

    def at(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Name -> the partial derivative by that symbol, an array of the shape that the values broadcast to; at a
        maximum of the active side (the first of equal ones).

        `values`: arrays of every symbol, which broadcast against each other.
        """
        given = {name: np.asarray(values[name], dtype=np.float64) for name in self.names}
        known: list[Any] = []
        slopes: dict[int, Any] = {len(self.nodes) - 1: 1.0}
        by_name: dict[str, Any] = {}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for node in self.nodes:
                known.append(self._value(node, known, given))
            for place in range(len(self.nodes) - 1, -1, -1):
                above, node = slopes.get(place), self.nodes[place]
                if above is None or node.kind == NUMBER:
                    continue
                if node.kind == SYMBOL:
                    by_name[self.names[node.reads[0]]] = above
                    continue
                for one, slope in _partials(node, known, given):
                    factor = np.where(np.equal(above, 0.0), 0.0, above * slope)  # an inactive side may be infinite
                    slopes[one] = slopes.get(one, 0.0) + factor
        # by name, not as a set has them: callers add slopes up, and the order of a sum decides its last digit
        return {name: np.asarray(by_name.get(name, 0.0)) for name in self.names}

    def _value(self, node: GradientNode, known: Sequence[Any], values: Mapping[str, Any]) -> Any:
        if node.kind == NUMBER:
            return node.number
        if node.kind == SYMBOL:
            return values[self.names[node.reads[0]]]
        if node.kind in COMPUTED:
            return COMPUTED[node.kind]([known[place] for place in node.reads])
        return node.value.raw(values) if node.value is not None else np.nan

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return [list(self.names), [node.data() for node in self.nodes]]

    @classmethod
    def of(cls, data: Any) -> GradientSteps:
        """The gradient of `data`.

        Raises InputError where that is none.
        """
        try:
            named, rows = cached_list(data, "gradient", 2)
            names = cached_texts(named, "names")
            nodes = [
                GradientNode.of(row, place, len(names))
                for place, row in enumerate(cached_list(rows, "nodes", MOST_NODES))
            ]
        except (TypeError, ValueError):
            raise InputError("gradient as steps: want names and nodes") from None
        if not nodes or not all(set(steps.names) <= set(names) for node in nodes for steps in _all(node)):
            raise InputError("gradient as steps: want nodes of the named symbols")
        return cls(names, tuple(nodes))


def _all(node: GradientNode) -> tuple[Steps, ...]:
    return node.slopes if node.value is None else (node.value, *node.slopes)


def _partials(node: GradientNode, known: Sequence[Any], values: Mapping[str, Any]) -> Slopes:
    """The nodes that a node reads with its slope by each."""
    sides = [known[place] for place in node.reads]
    match node.kind:
        case "add":
            return [(place, 1.0) for place in node.reads]
        case "multiply":
            return [(place, _product([*sides[:i], *sides[i + 1 :]])) for i, place in enumerate(node.reads)]
        case "power":
            base, power = sides
            return [(node.reads[0], power * base ** (power - 1))]
        case "largest" | "smallest":
            table = np.stack(np.broadcast_arrays(*sides))
            active = np.argmax(table, axis=0) if node.kind == "largest" else np.argmin(table, axis=0)
            return [(place, np.where(active == i, 1.0, 0.0)) for i, place in enumerate(node.reads)]
        case "branches":
            partials, left = [], np.asarray(True)
            for place, condition in zip(node.reads, node.slopes, strict=True):
                holds = left & np.asarray(condition.raw(values), dtype=bool)
                partials.append((place, np.where(holds, 1.0, 0.0)))
                left = left & ~holds
            return partials
    return [(place, slope.raw(values)) for place, slope in zip(node.reads, node.slopes, strict=True)]


def slopes_of(formula: Evaluable, steps: GradientSteps, values: Mapping[str, Any]) -> dict[str, FloatArray]:
    """The derivatives of a formula by its symbols at points, each of their shape, in the row of its menu that it picks.

    `steps`: of its expression, to which the menu's symbols are such as others.
    """
    if not formula.menu:
        return steps.at(values)
    arrays = {name: np.asarray(values[name], dtype=np.float64) for name in formula.names}
    best = formula.picked(values)
    slopes = steps.at({**arrays, **{name: np.array(column)[best] for name, column in formula.menu.items()}})
    return {name: slopes.get(name, np.zeros(())) for name in formula.names}
