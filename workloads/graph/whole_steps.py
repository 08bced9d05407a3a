"""Formulas of sizes as steps on Python's own whole numbers: data, which need no sympy to be computed or kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial, reduce
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.size_column import SizeColumn, is_column, largest, smallest

Exact: TypeAlias = "int | Fraction"
EIGHTHS = 8
"""Floats with larger denominators were rounded already: what sympy makes of them depends on its order."""
LARGEST_FLOAT = 2**53 // EIGHTHS
"""Eighths of whole numbers up to it are floats of their own."""
LARGEST_POWER = 16
"""Of a size, that is computed here."""
POWER = "power"


def _power(exponent: int, one: Sequence[Exact]) -> Exact:
    base = one[0]
    if exponent == -1 and isinstance(base, int):
        return Fraction(1, base)
    return Fraction(base) ** exponent if exponent < 0 else base**exponent


def _product(factors: Sequence[Exact]) -> Exact:
    """Reduced once, where `math.prod` reduces after every factor."""
    above = below = 1
    for factor in factors:
        if type(factor) is int:
            above *= factor
        else:
            above *= factor.numerator
            below *= factor.denominator
    return above if below == 1 else Fraction(above, below)


FUNCTIONS: Mapping[str, Callable[[Sequence[Exact]], Exact]] = {
    "Add": sum,
    "Mul": _product,
    "Max": max,
    "Min": min,
    "floor": lambda one: math.floor(one[0]),
    "ceiling": lambda one: math.ceil(one[0]),
}
"""By the name of sympy's class."""
Step: TypeAlias = "Exact | str | tuple[str, int]"
Call: TypeAlias = "tuple[Callable[[Sequence[Exact]], Exact], int]"


def _called(name: str, count: int) -> Call:
    if name == POWER and abs(count) <= LARGEST_POWER:
        return partial(_power, count), 1
    if name not in FUNCTIONS or count < 1:
        raise InputError(f"formula as steps: {name!r} of {count} is unknown")
    return FUNCTIONS[name], count


@dataclass(frozen=True, eq=False)
class SizeSteps:
    """A formula as operations on a stack.

    `steps`: each a number that is put on the stack, the name of a size, or a function with how many numbers it takes
        (of a power: the exponent).
    `read`: sizes that stand outside of floor and ceiling: where one is a float, so is the result.
    `has_float`: whether a float stands there.
    `polynomial`: whether there are but sums, products and powers of fractions.
    """

    steps: tuple[Step, ...]
    read: tuple[str, ...]
    has_float: bool
    polynomial: bool

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """Names of the symbols."""
        return tuple({step for step in self.steps if isinstance(step, str)})

    @cached_property
    def _calls(self) -> tuple[Call | None, ...]:
        """What each step calls, and with how many numbers."""
        calls: list[Call | None] = []
        depth = 0
        for step in self.steps:
            call = _called(*step) if isinstance(step, tuple) else None
            calls.append(call)
            depth += 1 - (call[1] if call else 0)
            if depth < 1:
                raise InputError("formula as steps: a function finds too few numbers")
        if depth != 1 or not set(self.read) <= set(self.sizes):
            raise InputError("formula as steps: want one number at the end, of sizes that it reads")
        return tuple(calls)

    def __reduce__(self) -> tuple[type[SizeSteps], tuple[object, ...]]:
        return SizeSteps, (self.steps, self.read, self.has_float, self.polynomial)

    def at(self, values: Mapping[str, object]) -> int | float | None:
        """The number where all sizes are whole numbers; None where sympy has to compute it.

        The result is a float where it is no whole number or a float has a say; where a float may have been rounded on
        the way, None is given.
        """
        numbers: dict[str, int] = {}
        for name in self.sizes:
            value = values.get(name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value != int(value):
                return None
            numbers[name] = int(value)
        try:
            rounded = self.has_float or any(isinstance(values[name], float) for name in self.read)
            result = self._run(numbers, in_floats=rounded and not self.polynomial)
            if result is None:
                return None
            if rounded:
                whole = result.denominator == 1 and abs(result.numerator) <= LARGEST_FLOAT
                return float(result) if whole else None
            return result.numerator if result.denominator == 1 else float(result)
        except (ZeroDivisionError, OverflowError):
            return None

    def at_columns(self, values: Mapping[str, Any]) -> SizeColumn | None:
        """The numbers at sizes of which some are columns; None where they have to be computed point by point.

        Fractions are a whole number, or a column of them, over one denominator, so that what is rounded is exact.
        """
        stack: list[tuple[Any, int]] = []
        for step, call in zip(self.steps, self._calls, strict=True):
            if not isinstance(step, tuple) or call is None:
                value = values[step] if isinstance(step, str) else step
                one = value if isinstance(value, SizeColumn) else Fraction(value)  # type: ignore[arg-type]
                stack.append((one, 1) if isinstance(one, SizeColumn) else (one.numerator, one.denominator))
                continue
            taken = stack[-call[1] :]
            del stack[-call[1] :]
            below = math.lcm(*(under for _, under in taken))
            above = [over * (below // under) for over, under in taken]
            match step[0]:
                case "Add":
                    made = sum(above), below
                case "Mul":
                    made = math.prod(over for over, _ in taken), math.prod(under for _, under in taken)
                case "Max" | "Min":
                    made = reduce(largest if step[0] == "Max" else smallest, above), below
                case "floor" | "ceiling":
                    sign = 1 if step[0] == "floor" else -1
                    if is_column(above[0]) and np.max(np.abs(above[0])) > LARGEST_FLOAT:
                        return None
                    made = sign * (sign * above[0] // below), 1
                case _ if step[1] >= 0:
                    made = above[0] ** step[1], below ** step[1]
                case _:
                    return None
            stack.append(made)
        over, under = stack[0]
        whole = all(np.all(values[name] == np.floor(values[name])) for name in self.sizes)
        return np.asarray(over / under, dtype=float).view(SizeColumn) if whole else None

    def again_at(self, values: Mapping[str, object]) -> int | float | None:
        """`at`; the last sizes are remembered, for of many questions most differ in a size that is not read here."""
        read = tuple([values.get(name) for name in self.sizes])
        key = read, tuple(map(type, read))  # 2 and 2.0 are equal and do not give the same
        last = self.__dict__.get("_last")
        if last is None or last[0] != key:
            last = self.__dict__["_last"] = key, self.at(values)
        return last[1]

    def _run(self, numbers: Mapping[str, int], *, in_floats: bool) -> Exact | None:
        """The number; None where a float of one on the way would be rounded and that matters."""
        stack: list[Exact] = []
        for step, call in zip(self.steps, self._calls, strict=True):
            if call is not None:
                function, count = call
                taken = stack[-count:]
                del stack[-count:]
                number = function(taken)
                if in_floats and number.denominator & (number.denominator - 1):
                    return None
                stack.append(number)
            else:
                stack.append(numbers[step] if isinstance(step, str) else step)  # type: ignore[arg-type]
        return stack[0]

    def data(self) -> list[Any]:
        """As JSON holds it."""
        steps = [[one.numerator, one.denominator] if isinstance(one, Fraction) else one for one in self.steps]
        return [steps, self.read, self.has_float, self.polynomial]

    @classmethod
    def of(cls, data: Any) -> SizeSteps:
        """The steps of `data`.

        Raises InputError where that is none.
        """
        try:
            steps, read, has_float, polynomial = data
            made = cls(tuple(map(_step, steps)), tuple(map(str, read)), has_float is True, polynomial is True)
            made._calls  # noqa: B018 - checks them
            return made
        except (TypeError, ValueError, ZeroDivisionError):
            raise InputError("formula as steps: not what a formula is kept as") from None


def _step(one: Any) -> Step:
    if isinstance(one, (int, str)) and not isinstance(one, bool):
        return one
    first, second = one
    if not isinstance(second, int):
        raise InputError("formula as steps: want whole numbers")
    return (first, second) if isinstance(first, str) else Fraction(int(first), second)
