"""Formulas as JavaScript: the steps that Python takes over arrays, each as far outside of the loops as it may stand.

A step that reads the dials alone is computed once, one that reads the choices of a library (tiles, splits) once for
each choice, one that reads an operation once for each row; only what reads both stands in the innermost loop.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS

NOTHING, DIALS, ROW, CHOICE = 0, 1, 2, 4
"""What a value depends on: bits."""
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARED = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "===",
    "not_equal": "!==",
    "and": "&&",
    "or": "||",
}
_CALLED = {
    "power": "Math.pow",
    "maximum": "Math.max",
    "minimum": "Math.min",
    "mod": "modulo",
    "arctan": "Math.atan",
    **{name: f"Math.{name}" for name in ("floor", "ceil", "sqrt", "log", "exp", "abs", "sign")},
    **{name: f"Math.{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
HELPERS = "const modulo = (a, b) => a - b * Math.floor(a / b);\n"


def script_value(value: Any) -> str:
    """Plain data as a JavaScript literal that may stand inside a page."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


@dataclass(frozen=True)
class StepValue:
    """A number, or the text of a variable and what that depends on."""

    text: str
    depends: int = NOTHING
    number: float | None = None

    @classmethod
    def of(cls, number: float) -> StepValue:
        """A constant, in its SI unit."""
        if not math.isfinite(number):
            return cls("Infinity" if number > 0 else "-Infinity" if number < 0 else "NaN", NOTHING, number)
        return cls(f"({number!r})" if number < 0 else repr(number), NOTHING, number)


@dataclass
class Code:
    """Statements by what they depend on; equal steps are computed once."""

    statements: dict[int, list[str]] = field(default_factory=dict)
    known: dict[tuple[str, ...], StepValue] = field(default_factory=dict)

    def steps(self, steps: Steps, values: Mapping[str, StepValue]) -> StepValue:
        """What the steps make of values by name.

        Raises InputError where a name has no value.
        """
        for name in steps.names:
            if name not in values:
                raise InputError(f"this estimator reads {name}, which a page does not know: its page has no sliders")
        tape = steps.tape
        slots = [*(values[name] for name in steps.names), *(StepValue.of(float(one)) for one in tape.constants)]
        for name, operands in tape.steps:
            slots.append(self._made(name, [slots[place] for place in operands]))
        return slots[tape.results[0]]

    def of(self, depends: int) -> str:
        """The statements that depend on this."""
        return " ".join(self.statements.get(depends, ()))

    def _made(self, name: str, operands: Sequence[StepValue]) -> StepValue:
        numbers = [one.number for one in operands if one.number is not None]
        if len(numbers) == len(operands):
            with np.errstate(all="ignore"):
                return StepValue.of(float(OPERATIONS[name][1](*map(np.float64, numbers))))
        key = (name, *(one.text for one in operands))
        if key not in self.known:
            depends = 0
            for one in operands:
                depends |= one.depends
            variable = f"x{len(self.known)}"
            one_a_choice = bool(depends & CHOICE) and not depends & ROW
            target = f"{variable}[j]" if one_a_choice else variable
            declared = target if one_a_choice else f"const {target}"
            self.statements.setdefault(depends, []).append(f"{declared} = {_text(name, [v.text for v in operands])};")
            self.known[key] = StepValue(target, depends)
        return self.known[key]

    def arrays(self) -> list[str]:
        """Variables that hold a number for each choice."""
        return [one.text[:-3] for one in self.known.values() if one.text.endswith("[j]")]


def _text(name: str, operands: Sequence[str]) -> str:
    if name in _INFIX:
        return f"{operands[0]} {_INFIX[name]} {operands[1]}"
    if name in _COMPARED:
        return f"Number({operands[0]} {_COMPARED[name]} {operands[1]})"
    if name == "negative":
        return f"-{operands[0]}"
    if name == "not":
        return f"Number(!{operands[0]})"
    if name == "heaviside":
        return f"{operands[0]} > 0 ? 1 : {operands[0]} < 0 ? 0 : {operands[1]}"
    if name == "select":
        pairs = zip(operands[::2], operands[1::2], strict=True)
        return "".join(f"{condition} ? {value} : " for condition, value in pairs) + "NaN"
    return f"{_CALLED[name]}({', '.join(operands)})"


def function_of(steps: Steps, values: Mapping[str, StepValue], arguments: str) -> str:
    """One formula as a function of arrays of numbers, all in one scope."""
    code = Code()
    result = code.steps(steps, values)
    body = " ".join(line for depends in sorted(code.statements) for line in code.statements[depends])
    return f"({arguments}) => {{ {body} return {result.text}; }}"


def times_of(formula: Formula, values: Mapping[str, StepValue]) -> str:
    """A formula over rows as a function ``(v, rows) => [times, choices]``: seconds, and which choice each row takes.

    `values`: of the names of the formula: dials as ``v[i]``, numbers of the operation as ``o[i]``, constants.
    """
    ready, code = formula.lowered, Code()
    columns = list(ready.menu)
    count = len(next(iter(ready.menu.values()))) if columns else 1
    known = {**values, **{name: StepValue(f"menu[{place}][j]", CHOICE) for place, name in enumerate(columns)}}
    whole = code.steps(ready.whole, known)
    rule = code.steps(ready.criterion, known) if ready.criterion is not None else whole
    menu = script_value([list(map(float, ready.menu[name])) for name in columns])
    arrays = "".join(f"const {name} = new Float64Array({count}); " for name in code.arrays())
    outer = f"{code.of(CHOICE)} {code.of(CHOICE | DIALS)}".strip()
    chosen = f"for (let j = 0; j < {count}; j++) {{ {outer} }}" if outer else ""
    inner = f"{code.of(CHOICE | ROW)} {code.of(CHOICE | ROW | DIALS)}"
    pick = f"if ({rule.text} < best) {{ best = {rule.text}; time = {whole.text}; at = j; }}"
    loop = f"let best = Infinity, time = NaN, at = 0; for (let j = 0; j < {count}; j++) {{ {inner} {pick} }}"
    single = f"const time = {whole.text}, at = 0;"
    row = f"{code.of(ROW)} {code.of(ROW | DIALS)} {loop if columns else single} return [time, at];"
    return (
        f"(v, rows) => {{ const menu = {menu}; {code.of(DIALS)} {arrays}{chosen} return rows.map(o => {{ {row} }}); }}"
    )
