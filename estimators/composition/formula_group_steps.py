"""Operations by formula as numbers and steps: what a compiled function computes with, and a file may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.cached_parts import cached_list, cached_number, cached_places, cached_table
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp
from slipstick.estimators.composition.formula_groups import Group
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.estimators.symbolic.lambdified import steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts
from slipstick.estimators.symbolic.lambdified.tape import Tape
from slipstick.workloads.graph.cost import Amount, symbols_of

SCHEDULE = "schedule"
"""The place of the schedule's formula; those of the groups are their numbers."""
NOTHING = Steps((), Tape(0, (), (), (), together=True))


@dataclass(frozen=True, eq=False)
class AmountColumn:
    """Amounts of all rows: their numbers (0 where one is open), the places of the open ones, and the steps of these."""

    numbers: tuple[float, ...]
    open: tuple[int, ...]
    steps: Steps = NOTHING

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols of the open ones, sorted."""
        return self.steps.names

    def rows(self, by_symbol: Mapping[str, Any]) -> FloatArray:
        """Amounts of all rows along the first axis; behind it the shape to which the symbols broadcast."""
        shape = np.broadcast_shapes(*(np.shape(value) for value in by_symbol.values()))
        rows = np.empty((len(self.numbers), *shape))
        rows[...] = np.array(self.numbers).reshape(-1, *(1,) * len(shape))
        if self.open:
            for index, value in zip(self.open, self.steps.raw(by_symbol), strict=True):
                rows[index] = value
        return rows

    @classmethod
    def of_amounts(cls, amounts: Sequence[Amount]) -> AmountColumn:
        """The column of some amounts."""
        open_ = tuple(index for index, amount in enumerate(amounts) if symbols_of(amount))
        numbers = tuple(0.0 if index in open_ else float(amount) for index, amount in enumerate(amounts))
        return cls(numbers, open_, steps_of(sp.Tuple(*(amounts[index] for index in open_))) if open_ else NOTHING)

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return [list(self.numbers), list(self.open), self.steps.data() if self.open else None]

    @classmethod
    def of(cls, data: Any) -> AmountColumn:
        """The column of `data`.

        Raises InputError where that is none.
        """
        try:
            listed, open_, steps = cached_list(data, "column", 3)
        except ValueError:
            raise InputError("a column of amounts: want numbers, places and steps") from None
        numbers = tuple(float(cached_number(one, "column")) for one in cached_list(listed, "column"))
        places = tuple(cached_places(open_, "column", len(numbers)))
        made = cls(numbers, places, Steps.of(steps) if places else NOTHING)
        if not made.steps.tape.together or len(made.steps.tape.results) != len(places):
            raise InputError("a column of amounts: want a step for each open one")
        return made


AmountColumns = Mapping[str, AmountColumn]


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The amounts of each group by name, and how often each row stands by lane."""

    groups: tuple[tuple[AmountColumns, AmountColumns], ...]

    @classmethod
    def of_groups(cls, groups: Sequence[Group]) -> GroupRows:
        """Those of groups."""
        return cls(tuple((_columns(group.amounts), _columns(group.multiplicity)) for group in groups))

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return [[{name: one.data() for name, one in part.items()} for part in group] for group in self.groups]

    @classmethod
    def of(cls, data: Any) -> GroupRows:
        """The amounts of `data`.

        Raises InputError where that are none.
        """
        groups = []
        for group in cached_list(data, "groups"):
            parts = [cached_table(part, "group") for part in cached_list(group, "group", 2)]
            read = [{name: AmountColumn.of(column) for name, column in part.items()} for part in parts]
            if len(read) != 2 or len({len(column.numbers) for part in read for column in part.values()}) > 1:
                raise InputError("groups of operations: want columns of one length")
            groups.append((read[0], read[1]))
        return cls(tuple(groups))


def _columns(amounts: Mapping[str, tuple[Amount, ...]]) -> AmountColumns:
    return {name: AmountColumn.of_amounts(column) for name, column in amounts.items()}


class GroupSource(Protocol):
    """Makes groups and formulas anew where what is kept of them does not hold what is asked."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Operations by formula."""
        ...

    def formula(self, place: str) -> Formula:
        """That of the schedule, or of the group of a number."""
        ...


@dataclass(frozen=True, eq=False)
class GroupSteps:
    """Operations under one formula (see `Group`); `place`: their number."""

    formula: FormulaSteps
    amounts: AmountColumns
    multiplicity: AmountColumns
    parts: CachedParts
    place: int
    source: GroupSource

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Open symbols of the amounts and of how often they stand."""
        columns = [*self.amounts.values(), *self.multiplicity.values()]
        return frozenset(name for column in columns for name in column.symbols)

    def amount_slopes(self, name: str, inside: str, by_symbol: Mapping[str, Any]) -> FloatArray:
        """d amount / d symbol for each row; steps (floor, ceiling) count as flat."""
        return self._slopes("amounts", name, inside).rows(by_symbol)

    def lane_slopes(self, lane: str, inside: str, by_symbol: Mapping[str, Any]) -> FloatArray:
        """d (how often a row stands) / d symbol for each row."""
        return self._slopes("multiplicity", lane, inside).rows(by_symbol)

    def _slopes(self, kind: str, name: str, inside: str) -> AmountColumn:
        column: AmountColumn = getattr(self, kind)[name]
        if inside not in column.symbols:
            return AmountColumn((0.0,) * len(column.numbers), ())
        key = f"{self.place} {kind} {name} by {inside}"
        return self.parts.part(key, AmountColumn.of, lambda: _derived(getattr(self._made, kind)[name], inside))

    @property
    def _made(self) -> Group:
        return self.source.groups[self.place]


def _derived(amounts: Sequence[Amount], inside: str) -> AmountColumn:
    slopes: list[Amount] = []
    for amount in amounts:
        hangs = inside in symbols_of(amount)
        slopes.append(Formula(sp.sympify(amount, strict=True), "1", "").derivative(inside).expression if hangs else 0)
    return AmountColumn.of_amounts(slopes)


def group_steps(source: GroupSource, parts: CachedParts) -> tuple[GroupSteps, ...]:
    """The groups as they are kept in `parts`, else as `source` makes them."""
    rows = parts.part("rows", GroupRows.of, lambda: GroupRows.of_groups(source.groups))
    return tuple(
        GroupSteps(FormulaSteps(parts, str(place), source), amounts, multiplicity, parts, place, source)
        for place, (amounts, multiplicity) in enumerate(rows.groups)
    )
