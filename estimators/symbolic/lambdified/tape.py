"""A formula as a row of steps on numbers and numpy arrays: plain data, that a file may hold, and no code.

Each step applies one operation of a fixed list to what stands in earlier slots; the first slots are the arguments, the
next ones constants. Nothing is compiled or evaluated as source.

What a formula computed last: in a loop only some of its arguments change, and only what reads these is computed.
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

Order: TypeAlias = tuple[Callable[..., Any], int, int, Sequence[int] | None, int]
"""What a step calls, the places of its one or two operands or of all, and where its result goes."""
NUMBERS = (float, int, np.float64)
MOST_PROGRAMS = 8
"""Sets of arguments that changed of which the steps that read them are kept."""
ALL, ALWAYS = -1, 1
"""Every step; and what reads a result."""


class Repeated:
    """The steps of a formula, each with its result of the last call.

    Parameters
    ----------
    arguments, constants
        Those of the last call; their places come first.
    steps
        In their order, each with a place of its own.
    result
        The place of what is returned: computed at every call, since whoever gets it may write to it.

    Attributes
    ----------
    refused
        Calls since the last one that it computed.
    """

    def __init__(
        self, arguments: Sequence[Any], constants: Sequence[float], steps: Sequence[Order], result: int
    ) -> None:
        self._slots: list[Any] = [*arguments, *constants, *[None] * len(steps)]
        self._known, self._kinds = [None] * len(arguments), [type(one) for one in arguments]
        self._steps, self._result = steps, result
        self._programs: dict[int, list[Order]] = {}
        reads = [2 << place for place in range(len(arguments))] + [0] * (len(constants) + len(steps))
        for _, first, second, rest, into in steps:
            for place in rest if rest is not None else (first, second if second >= 0 else first):
                reads[into] |= reads[place]
            if into == result:
                reads[into] |= ALWAYS
        self._reads = reads
        self._begun = False
        self.refused = 0

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result; None where arguments are of other kinds or shapes than those of the last call."""
        slots, known, others = self._slots, self._known, []
        for place, new in enumerate(arguments):
            if new is known[place] and new is not None:
                continue
            kind = type(new)
            if kind is not self._kinds[place] or (kind is np.ndarray and new.shape != slots[place].shape):
                self.refused += 1
                return None
            value = _fixed(new)
            if type(value) not in NUMBERS or value != known[place] or not value:
                others.append((place, new, value))
        changed = self.refused = 0
        for place, new, value in others:
            changed |= 2 << place
            slots[place], known[place] = new, value
        for call, first, second, rest, into in self._of(changed if self._begun else ALL):
            if second >= 0:
                slots[into] = call(slots[first], slots[second])
            elif rest is None:
                slots[into] = call(slots[first])
            else:
                slots[into] = call(*[slots[slot] for slot in rest])
        self._begun = True
        return slots[self._result]

    def _of(self, changed: int) -> list[Order]:
        """The steps that read what changed."""
        known = self._programs.get(changed)
        if known is None:
            known = [step for step in self._steps if changed == ALL or self._reads[step[-1]] & (changed | ALWAYS)]
            if len(self._programs) < MOST_PROGRAMS:
                self._programs[changed] = known
        return known


def _fixed(one: Any) -> Any:
    """What tells whether an argument is the same at the next call: a number, or an array that nobody can write to."""
    if type(one) is not np.ndarray:
        return one if type(one) in NUMBERS else None
    if not one.ndim:
        return one.item()
    base = one.base
    alone = base is None or (type(base) is np.ndarray and not base.flags.writeable)
    return one if alone and not one.flags.writeable else None


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
