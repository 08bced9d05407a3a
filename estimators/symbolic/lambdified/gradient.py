"""The gradient of a formula at points, by the chain rule backwards along its steps: one pass for all its symbols.

It reads the very steps that evaluate the formula. Symbolic derivatives (`Formula.derivative`) are for reading;
compiling one for each symbol costs seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS, Tape

SLOPES: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda a, b, y: 1.0, lambda a, b, y: 1.0),
    "subtract": (lambda a, b, y: 1.0, lambda a, b, y: -1.0),
    "multiply": (lambda a, b, y: b, lambda a, b, y: a),
    "divide": (lambda a, b, y: 1.0 / b, lambda a, b, y: -y / b),
    "power": (lambda a, b, y: b * a ** (b - 1), lambda a, b, y: y * np.log(a)),
    "negative": (lambda a, y: -1.0,),
    "maximum": (lambda a, b, y: np.greater_equal(a, b), lambda a, b, y: np.less(a, b)),
    "minimum": (lambda a, b, y: np.less_equal(a, b), lambda a, b, y: np.greater(a, b)),
    "sqrt": (lambda a, y: 0.5 / y,),
    "log": (lambda a, y: 1.0 / a,),
    "exp": (lambda a, y: y,),
    "abs": (lambda a, y: np.sign(a),),
    "sin": (lambda a, y: np.cos(a),),
    "cos": (lambda a, y: -np.sin(a),),
    "tan": (lambda a, y: 1.0 + y * y,),
    "sinh": (lambda a, y: np.cosh(a),),
    "cosh": (lambda a, y: np.sinh(a),),
    "tanh": (lambda a, y: 1.0 - y * y,),
    "arctan": (lambda a, y: 1.0 / (1.0 + a * a),),
}
"""Of each operation its slope by each operand, of the operands and its result; steps, comparisons and conditions, which
are not listed, are flat. Of equal sides of a maximum the first counts."""


def tape_gradient(tape: Tape, arguments: Sequence[Any]) -> list[Any]:
    """The partial derivative of a tape's one result by each argument, numbers or arrays that broadcast to the points.

    `arguments`: arrays of numbers, which broadcast against each other.
    """
    begin = tape.arguments + len(tape.constants)
    known: list[Any] = [*arguments, *tape.constants]
    varies = [True] * tape.arguments + [False] * len(tape.constants)
    above: dict[int, Any] = {tape.results[0]: 1.0}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for name, operands in tape.steps:
            known.append(OPERATIONS[name][1](*[known[place] for place in operands]))
            varies.append(any(varies[place] for place in operands))
        for at in range(len(known) - 1, begin - 1, -1):
            if at not in above:
                continue
            name, operands = tape.steps[at - begin]
            values = [known[place] for place in operands]
            slopes = _chosen(values) if name == "select" else SLOPES.get(name, ())
            for place, slope in zip(operands, slopes, strict=False):
                if varies[place] and slope is not None:
                    passed = above[at] * slope(*values, known[at])
                    passed = np.where(np.equal(above[at], 0.0), 0.0, passed)  # a side that is left out may be infinite
                    above[place] = above.get(place, 0.0) + passed
    return [np.asarray(above.get(place, 0.0), dtype=np.float64) for place in range(tape.arguments)]


def _chosen(sides: Sequence[Any]) -> list[Callable[..., Any] | None]:
    """The slopes of a value by conditions, which are flat, and by the values between which they choose."""
    slopes: list[Callable[..., Any] | None] = []
    left = np.asarray(True)
    for condition in sides[::2]:
        holds = left & np.asarray(condition, dtype=bool)
        left = left & ~holds
        slopes += [None, lambda *_, holds=holds: holds]
    return slopes
