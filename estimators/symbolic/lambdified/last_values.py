"""What a formula computed last: in a loop only some of its arguments change, and only what reads these is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

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
