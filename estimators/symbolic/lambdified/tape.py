"""A formula as a row of steps on numbers and numpy arrays: plain data, that a file may hold, and no code.

Each step applies one operation of a fixed list to what stands in earlier slots; the first slots are the arguments, the
next ones constants. Nothing is compiled or evaluated as source.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.lambdified.last_values import Order, Repeated

MOST_STEPS = 100_000
SMALL = 2**17
"""Numbers of all results of steps together, up to which they are kept for the next call."""
PATIENCE = 8
"""Calls in a row with arguments of other kinds or shapes, after which those count: some are called in turns."""


def _select(*sides: Any) -> Any:
    """Condition, value, condition, value, ...: the value of the first condition that holds, else not a number."""
    conditions = [np.asarray(side, dtype=bool) for side in sides[::2]]
    shape = np.broadcast_shapes(*(np.shape(side) for side in sides))
    return np.select(
        [np.broadcast_to(one, shape) for one in conditions],
        [np.broadcast_to(one, shape) for one in sides[1::2]],
        default=math.nan,
    )


OPERATIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, operator.add),
    "subtract": (2, operator.sub),
    "multiply": (2, operator.mul),
    "divide": (2, operator.truediv),
    "power": (2, operator.pow),
    "negative": (1, operator.neg),
    "maximum": (2, np.maximum),
    "minimum": (2, np.minimum),
    "mod": (2, np.mod),
    "less": (2, np.less),
    "less_equal": (2, np.less_equal),
    "greater": (2, np.greater),
    "greater_equal": (2, np.greater_equal),
    "equal": (2, np.equal),
    "not_equal": (2, np.not_equal),
    "and": (2, np.logical_and),
    "or": (2, np.logical_or),
    "not": (1, np.logical_not),
    "select": (-1, _select),
    **{name: (1, getattr(np, name)) for name in ("floor", "ceil", "sqrt", "log", "exp", "abs", "sign", "heaviside")},
    "heaviside": (2, np.heaviside),
    **{name: (1, getattr(np, name)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan")},
}
"""Name -> how many operands (-1: pairs), and what it does."""

Step = tuple[str, tuple[int, ...]]
_Order: TypeAlias = tuple[Callable[..., Any], int, int, Sequence[int] | None, int, tuple[int, ...]]
"""What a step calls, the places of its one or two operands or of all, where its result goes, and what it ends."""


@dataclass(frozen=True)
class Tape:
    """Steps over slots: `arguments` numbers or arrays, then `constants`, then what each step makes.

    `results`: slots of what is returned: a tuple where `together`, else the one value.

    Raises
    ------
    InputError
        Where a step is unknown, reads a slot that is not there yet, or a constant is no number.

    Examples
    --------
    >>> Tape(2, (2,), (("multiply", (0, 1)), ("add", (3, 2))), (4,))(3.0, 4.0)
    14.0
    """

    arguments: int
    constants: tuple[float | int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    together: bool = False

    def __post_init__(self) -> None:
        if not all(type(one) in (int, float) for one in self.constants) or len(self.steps) > MOST_STEPS:
            raise InputError("formula as steps: a constant is no number, or there are too many steps")
        there = self.arguments + len(self.constants)
        for name, operands in self.steps:
            wanted = OPERATIONS[name][0] if name in OPERATIONS else None
            right = len(operands) > 0 and len(operands) % 2 == 0 if wanted == -1 else len(operands) == wanted
            if not right or not all(type(slot) is int and 0 <= slot < there for slot in operands):
                raise InputError(f"formula as steps: {str(name)[:40]!r} of {str(operands)[:40]} cannot be")
            there += 1
        if not all(type(slot) is int and 0 <= slot < there for slot in self.results):
            raise InputError("formula as steps: a result that no step makes")
        if not self.together and len(self.results) != 1:
            raise InputError("formula as steps: want one result")

    def __call__(self, *arguments: Any) -> Any:
        """The results at numbers or arrays that broadcast.

        Where results are small, what reads only arguments that the call before had too is not computed again: equal
        numbers, or the very arrays, if nobody can write to these.
        """
        last: Repeated | None = self.__dict__.pop("_last", None)  # so that no other thread has it meanwhile
        made = last(arguments) if last is not None else None
        if made is None:
            made = self._at(arguments)
            small = not self.together and len(self.steps) * getattr(made, "size", 1) <= SMALL
            if small and (last is None or last.refused > PATIENCE):
                last = Repeated(arguments, self.constants, self._each, self.results[0])
        if last is not None:
            self.__dict__["_last"] = last
        return made

    def _at(self, arguments: Sequence[Any]) -> Any:
        program, places, results = self._program
        slots: list[Any] = [*arguments, *self.constants, *[None] * places]
        for call, first, second, rest, into, dead in program:
            if second >= 0:
                slots[into] = call(slots[first], slots[second])
            elif rest is None:
                slots[into] = call(slots[first])
            else:
                slots[into] = call(*[slots[slot] for slot in rest])
            if dead:
                for slot in dead:
                    slots[slot] = None
        if self.together:
            return tuple(slots[slot] for slot in results)
        return slots[results[0]]

    @cached_property
    def _program(self) -> tuple[tuple[_Order, ...], int, tuple[int, ...]]:
        """The steps in few places, how many places beside the first slots, and the places of the results.

        What nobody reads any more gives its place to the step that read it last: large arrays are given back at once.
        """
        begin = self.arguments + len(self.constants)
        last = {slot: index for index, (_, operands) in enumerate(self.steps) for slot in operands}
        at, unused, many = list(range(begin)), list[int](), 0
        program = []
        for index, (name, operands) in enumerate(self.steps):
            wanted, call = OPERATIONS[name]
            read = tuple(at[slot] for slot in operands)
            over = {slot for slot in operands if slot >= begin and last[slot] == index and slot not in self.results}
            ended = sorted(at[slot] for slot in over)
            if ended or unused:
                into = ended.pop(0) if ended else unused.pop()
            else:
                into, many = begin + many, many + 1
            at.append(into)
            unused += ended
            rest = read if wanted == -1 else None
            program.append((call, read[0], read[1] if wanted == 2 else -1, rest, into, tuple(ended)))
        return tuple(program), many, tuple(at[slot] for slot in self.results)

    @cached_property
    def _each(self) -> tuple[Order, ...]:
        """The steps, each with a place of its own for its result."""
        begin = self.arguments + len(self.constants)
        orders = []
        for into, (name, operands) in enumerate(self.steps, begin):
            wanted, call = OPERATIONS[name]
            rest = operands if wanted == -1 else None
            orders.append((call, operands[0], operands[1] if wanted == 2 else -1, rest, into))
        return tuple(orders)

    def data(self) -> list[Any]:
        """As lists of numbers and words, which JSON holds; `of` reads them back."""
        steps = [[name, *operands] for name, operands in self.steps]
        return [self.arguments, list(self.constants), steps, list(self.results), int(self.together)]

    @classmethod
    def of(cls, data: Any) -> Tape:
        """The tape of `data`.

        Raises InputError where that is none.
        """
        try:
            arguments, constants, steps, results, together = data
            if type(arguments) is not int or arguments < 0:
                raise TypeError
            rows = tuple((str(row[0]), tuple(row[1:])) for row in steps)
            return cls(arguments, tuple(constants), rows, tuple(results), bool(together))
        except (TypeError, ValueError, IndexError, KeyError):
            raise InputError("formula as steps: not the lists of a tape") from None
