"""Values put in place of the symbols of amounts: at once, or when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.expressions import is_symbolic, parse_expression, sp
from slipstick.common.records import FrozenDict
from slipstick.common.size_column import SizeColumn, by_parts, is_column
from slipstick.workloads.graph.cost import LARGEST, Amount, bind_amount, symbols_of
from slipstick.workloads.graph.exact import steps_of
from slipstick.workloads.graph.whole_steps import SizeSteps


class Binding:
    """Values by the name of the symbol for which they stand; an amount that a graph repeats is bound once."""

    def __init__(self, values: Mapping[str, Amount]) -> None:
        self.values = values
        # then the order in which values are put in does not matter
        self.whole = all(isinstance(one, int) or _is_whole(one) for one in values.values())
        self.columns = frozenset(name for name, one in values.items() if is_column(one))
        self._known: dict[Amount | CachedAmount, Amount] = {}
        self._after: dict[int, tuple[Binding, Binding]] = {}

    def __reduce__(self) -> tuple[type[Binding], tuple[Mapping[str, Amount]]]:
        return Binding, (self.values,)

    def put(self, amount: Amount | CachedAmount) -> Amount:
        """The amount with the values in place of its symbols."""
        if isinstance(amount, (int, float)) or not (isinstance(amount, CachedAmount) or is_symbolic(amount)):
            return amount
        known = self._known.get(amount)
        if known is None:
            known = self._known[amount] = self._put(amount)
        return known

    def _put(self, amount: Amount | CachedAmount) -> Amount:
        bind = amount.bound if isinstance(amount, CachedAmount) else partial(bind_amount, amount)
        names = self.columns and self.columns & symbols_in(amount)
        if not names or not symbols_in(amount) <= self.values.keys():
            return bind(self.values)
        steps = amount.steps if isinstance(amount, CachedAmount) else steps_of(amount)
        made = None if steps is None else steps.at_columns(self.values)
        if made is not None and np.all(np.abs(made) <= LARGEST):
            return made
        columns = {name: self.values[name] for name in names}
        alone = {name: value for name, value in self.values.items() if name not in self.columns}
        (each,) = by_parts(columns, lambda at: [_alone(bind, {**alone, **at})])
        return each.view(SizeColumn)

    def left_in(self, amount: Amount | CachedAmount) -> frozenset[str]:
        """The symbols that are open once the values are put in."""
        if self.whole and isinstance(amount, CachedAmount):
            return amount.symbols.difference(self.values)
        return symbols_of(self.put(amount))

    def after(self, first: Binding) -> Binding:
        """What puts in the values of another and then these."""
        if id(first) not in self._after:
            self._after[id(first)] = first, Binding({**self.values, **first.values})
        return self._after[id(first)][1]

    def put_in(self, amounts: FrozenDict[Amount], later: type[Later], *, all_: bool) -> FrozenDict[Amount]:
        """Amounts with the values in place of symbols.

        `all_`: whether all symbols have values now; else whole ones are put in when somebody reads the amounts.
        """
        first = amounts if self.whole and isinstance(amounts, Later) else None
        made = later(first.open, self.after(first.binding)) if first is not None else later(amounts, self)
        return made if self.whole and not all_ else FrozenDict(made.amounts())


def _is_whole(value: Amount) -> bool:
    if is_column(value):
        return bool(np.all(value == np.floor(value)))
    return isinstance(value, float) and value.is_integer()


def _alone(bind: Callable[[Mapping[str, Amount]], Amount], values: Mapping[str, Any]) -> Amount:
    """An amount at numbers; of columns at each of their points."""
    return bind({name: float(value) if is_column(value) else value for name, value in values.items()})


class Later(FrozenDict[Amount]):
    """Amounts with values in place of symbols, put in when somebody reads them: often more values come first."""

    __slots__ = ("binding", "open")

    def __init__(self, open_: FrozenDict[Amount], binding: Binding) -> None:
        self.open = open_
        self.binding = binding
        self._hash = None

    def __getattr__(self, name: str) -> Any:
        if name != "_entries":
            raise AttributeError(name)
        self._entries = self.amounts()
        return self._entries

    def __getitem__(self, name: str) -> Amount:
        return self.binding.put(self.open.kept[name] if isinstance(self.open, CachedTable) else self.open[name])

    def amounts(self) -> dict[str, Amount]:
        """The amounts with the values put in."""
        return {name: self.binding.put(amount) for name, amount in unread(self.open)}


@dataclass(frozen=True, eq=False)
class CachedAmount:
    """An open amount as text and steps (see `kept`), known by being the very same object.

    `steps`: on whole numbers; None where sympy has to compute it.
    """

    text: str
    steps: SizeSteps | None
    symbols: frozenset[str]

    @classmethod
    def of(cls, text: object, steps: object, symbols: Iterable[object]) -> CachedAmount:
        """From plain data.

        Raises InputError where the steps are none.
        """
        return cls(str(text), None if steps is None else SizeSteps.of(steps), frozenset(map(str, symbols)))

    @cached_property
    def expression(self) -> sp.Expr:
        """As sympy has it."""
        return parse_expression(self.text)

    def bound(self, values: Mapping[str, Amount]) -> Amount:
        """See `bind_amount`."""
        exact = None if self.steps is None else self.steps.again_at(values)
        if exact is not None and -LARGEST <= exact <= LARGEST:
            return exact
        return bind_amount(self.expression, values)


def symbols_in(amount: Amount | CachedAmount) -> frozenset[str]:
    """Names of the symbols in an amount."""
    return amount.symbols if isinstance(amount, CachedAmount) else symbols_of(amount)


def opened(amount: Amount | CachedAmount) -> Amount:
    """An amount as numbers and sympy have it."""
    return amount.expression if isinstance(amount, CachedAmount) else amount


def unread(amounts: FrozenDict[Amount]) -> Iterable[tuple[str, Amount | CachedAmount]]:
    """The entries of a table, shape (entries,); of one that is kept without making an expression of any."""
    return amounts.kept.items() if isinstance(amounts, CachedTable) else amounts.items()


def unread_amount(amounts: FrozenDict[Amount], name: str) -> Amount | CachedAmount:
    """One entry of a table in its own unit; of one that is kept without making an expression of it.

    Raises KeyError where there is none.
    """
    return amounts.kept[name] if isinstance(amounts, CachedTable) else amounts[name]


def is_one(amounts: FrozenDict[Amount], name: str) -> bool:
    """Whether an entry is the number 1: an open amount is not, nor is one that is not there."""
    before, binding = (amounts.open, amounts.binding) if isinstance(amounts, Later) else (amounts, Binding({}))
    if name not in before or binding.left_in(unread_amount(before, name)):
        return False
    return bool(amounts[name] == 1)


class CachedTable(FrozenDict[Amount]):
    """Amounts of which some are kept: each is an expression as soon as it is read."""

    __slots__ = ("kept",)

    def __init__(self, kept: Mapping[str, int | float | CachedAmount]) -> None:
        self.kept = kept
        self._hash = None

    def __getattr__(self, name: str) -> Any:
        if name != "_entries":
            raise AttributeError(name)
        self._entries = {name: opened(amount) for name, amount in self.kept.items()}
        return self._entries

    def __contains__(self, name: object) -> bool:
        return name in self.kept

    def __getitem__(self, name: str) -> Amount:
        return opened(self.kept[name])

    if not TYPE_CHECKING:

        def get(self, name: str, default: Any = None) -> Any:
            """The entry, which alone is made an expression."""
            return opened(self.kept[name]) if name in self.kept else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


class LaterCost(Later):
    """Amounts of a cost, which has no resources of which nothing is used."""

    __slots__ = ()
    __getitem__ = FrozenDict.__getitem__

    def amounts(self) -> dict[str, Amount]:
        """Those of which something is used."""
        return {name: amount for name, amount in super().amounts().items() if amount != 0}
