"""Values put in place of the symbols of amounts: at once, or when somebody reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

from slipstick.hwmodels.files.records import Table
from slipstick.workloads.graph.cost import Amount, bind_amount


class Binding:
    """Values by the name of the symbol for which they stand; an amount that a graph repeats is bound once."""

    def __init__(self, values: Mapping[str, Amount]) -> None:
        self.values = values
        # then the order in which values are put in does not matter
        self.whole = all(
            isinstance(one, int) or (isinstance(one, float) and one.is_integer()) for one in values.values()
        )
        self._known: dict[Amount, Amount] = {}
        self._after: dict[int, tuple[Binding, Binding]] = {}

    def __reduce__(self) -> tuple[type[Binding], tuple[Mapping[str, Amount]]]:
        return Binding, (self.values,)

    def put(self, amount: Amount) -> Amount:
        """The amount with the values in place of its symbols."""
        if not isinstance(amount, sp.Basic):
            return amount
        if amount not in self._known:
            self._known[amount] = bind_amount(amount, self.values)
        return self._known[amount]

    def after(self, first: Binding) -> Binding:
        """What puts in the values of another and then these."""
        if id(first) not in self._after:
            self._after[id(first)] = first, Binding({**self.values, **first.values})
        return self._after[id(first)][1]

    def put_in(self, amounts: Table[Amount], later: type[Later], *, all_: bool) -> Table[Amount]:
        """Amounts with the values in place of symbols.

        Parameters
        ----------
        all_
            Whether all symbols have values now; else whole ones are put in when somebody reads the amounts.
        """
        first = amounts if self.whole and isinstance(amounts, Later) else None
        made = later(first.open, self.after(first.binding)) if first is not None else later(amounts, self)
        return made if self.whole and not all_ else Table(made.amounts())


class Later(Table[Amount]):
    """Amounts with values in place of symbols, put in when somebody reads them: often more values come first."""

    __slots__ = ("binding", "open")

    def __init__(self, open_: Table[Amount], binding: Binding) -> None:
        self.open = open_
        self.binding = binding
        self._hash = None

    def __getattr__(self, name: str) -> Any:
        if name != "_entries":
            raise AttributeError(name)
        self._entries = self.amounts()
        return self._entries

    def amounts(self) -> dict[str, Amount]:
        """The amounts with the values put in."""
        return {name: self.binding.put(amount) for name, amount in self.open.items()}


class LaterCost(Later):
    """Amounts of a cost, which has no resources of which nothing is used."""

    __slots__ = ()

    def amounts(self) -> dict[str, Amount]:
        """Those of which something is used."""
        return {name: amount for name, amount in super().amounts().items() if amount != 0}
