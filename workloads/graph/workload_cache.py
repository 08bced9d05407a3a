"""Workloads kept from run to run as numbers and steps: sizes are put in without sympy.

An open amount is kept as its text and as steps on whole numbers. It is an expression of sympy, parsed from the text,
as soon as somebody reads it; bound to whole sizes it never is. Only what reads back as the very same expression is
kept, so an answer has the same digits either way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from slipstick.common.cached_parts import (
    cached_list,
    cached_number,
    cached_places,
    cached_table,
    cached_text,
    cached_texts,
)
from slipstick.common.disk_cache import cache_path, read_cached, write_cached
from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text, is_symbolic, parse_expression, sp
from slipstick.common.prebuilt import prebuilt
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.alike import Distinct
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.exact import steps_of
from slipstick.workloads.graph.given import CachedAmount, CachedTable, Later, unread
from slipstick.workloads.graph.op import Attribute, Op
from slipstick.workloads.graph.workload import Workload

FEWEST = 8
"""Operations below which a workload is built as fast as it is read."""
UNCHANGED = {"unchanged": True}
"""What is kept of a rewrite that gives back its workload."""
UNREADABLE = (CycleError, InputError, ArithmeticError, KeyError, TypeError, ValueError)
"""What is raised where data is no workload that was kept."""


def cached_workload(name: str, build: Callable[[], Workload], before: Workload | None = None) -> Workload:
    """The workload of a name, as it was kept or as `build` makes it; then it is kept for the next time.

    `before`: the workload that `build` rewrites; where it gives back that, no more than this is kept.
    """
    path = cache_path("workloads", name)
    content = read_cached(path)
    ships = content is None
    if ships:
        content = prebuilt(path)
    if content is not None:
        try:
            known = before if before is not None and content == UNCHANGED else restored_workload(content)
        except UNREADABLE:
            pass  # as if it were not there
        else:
            if ships and path is not None:
                write_cached(path, content)
            return known
    made = build()
    data = UNCHANGED if made is before else cached_data(made) if path and len(made.names) >= FEWEST else None
    if path is not None and data is not None:
        write_cached(path, data)
    return made


def cached_data(workload: Workload) -> dict[str, Any] | None:
    """A workload as JSON holds it; None of a workload that cannot be read back as it is."""
    formulas = _Formulas()
    if type(workload) is not Workload or any(op.body is not None for op in workload.distinct.operations):
        return None
    index = {name: place for place, name in enumerate(workload.names)}
    try:
        data = {
            "name": workload.name,
            "names": workload.names,
            "times": [formulas.data(count) for count in workload.times],
            "place": workload.distinct.place.tolist(),
            "edges": [[index[before], index[after]] for before, after in workload.edges],
            "defaults": dict(workload.defaults),
            "metadata": dict(workload.metadata),
            "uncounted": workload.uncounted,
            "operations": [
                {
                    "name": op.name,
                    "kind": op.kind,
                    "dtype": op.dtype,
                    "dims": {name: formulas.data(amount) for name, amount in op.dims.items()},
                    "cost": {name: formulas.data(amount) for name, amount in op.cost.items()},
                    "attributes": dict(op.attributes),
                    "payload": op.payload,
                }
                for op in workload.distinct.operations
            ],
        }
        data["formulas"] = formulas.listed
        plain = (data["metadata"], data["defaults"], [op["attributes"] for op in data["operations"]])
        return data if _frozen(json.loads(json.dumps(plain, allow_nan=False))) == _frozen(plain) else None
    except (TypeError, ValueError):  # what JSON does not hold, or what is not read back
        return None


def content_text(workload: Workload) -> str | None:
    """All of a workload that decides the times of its operations, the same of one that was kept and one that was built.

    None where an operation holds others, or an amount holds a number with more digits than its text.
    """
    operations = workload.distinct.operations
    if any(op.body is not None for op in operations):
        return None
    try:
        listed = [
            [op.kind, op.dtype, op.payload, op.attributes, _table_text(op.dims), _table_text(op.cost.amounts)]
            for op in operations
        ]
        times = list(map(_amount_text, workload.raw_times))
    except ValueError:
        return None
    return repr([listed, times, workload.distinct.place.tolist(), workload.metadata, workload.defaults])


def _table_text(amounts: FrozenDict[Amount]) -> list[object]:
    """A table of amounts as text: what they were before sizes were put in, and the sizes."""
    if not isinstance(amounts, Later):
        return [(name, _amount_text(amount)) for name, amount in unread(amounts)]
    sizes = sorted((name, _amount_text(value)) for name, value in amounts.binding.values.items())
    return [_table_text(amounts.open), sizes]


def _amount_text(amount: Amount | CachedAmount) -> str:
    if isinstance(amount, CachedAmount):
        return amount.text
    return _exact_text(amount) if is_symbolic(amount) else repr(amount)


@lru_cache(maxsize=16_384)
def _exact_text(amount: Any) -> str:
    """The text of an expression; raises ValueError where another could have the same."""
    if any(float(str(number)) != number for number in amount.atoms(sp.Float)):
        raise ValueError("a number with more digits than its text")
    return expression_text(amount)


def restored_workload(data: Any) -> Workload:
    """The workload of `data`.

    Raises
    ------
    InputError
        Where a part is not of its type, or does not fit the others.
    CycleError, KeyError, TypeError, ValueError
        Where operations wait for each other, a part is not there, or one has too few or too many entries.
    """
    data = cached_table(data, "workload")
    formulas = [
        CachedAmount.of(cached_text(text, "formula"), steps, cached_texts(symbols, "symbols of a formula"))
        for text, steps, symbols in cached_list(data["formulas"], "formulas")
    ]
    if any(one.steps is not None and one.symbols != set(one.steps.sizes) for one in formulas):
        raise InputError("kept workload: the steps of a formula have other symbols than it")
    operations = tuple(_operation(one, formulas) for one in cached_list(data["operations"], "operations"))
    names = cached_texts(data["names"], "names")
    times = tuple(_amount(one, formulas, "times") for one in cached_list(data["times"], "times"))
    places = cached_places(data["place"], "place", len(operations))
    if not len(names) == len(times) == len(places) or set(places) != set(range(len(operations))):
        raise InputError("kept workload: want a place for each operation")
    place = np.array(places, dtype=np.intp)
    place.flags.writeable = False
    known = (each.symbols for each in times if isinstance(each, CachedAmount))
    defaults = cached_table(data["defaults"], "defaults")
    return Workload.kept(
        name=cached_text(data["name"], "name"),
        edges=tuple((names[before], names[after]) for before, after in _edges(data["edges"], len(names))),
        defaults=FrozenDict({name: cached_number(size, "defaults") for name, size in defaults.items()}),
        metadata=_facts(data["metadata"], "metadata"),
        uncounted=tuple(cached_text(one, "uncounted") for one in cached_list(data["uncounted"], "uncounted")),
        names=names,
        raw_times=times,
        distinct=Distinct(operations, place),
        symbols=frozenset().union(*known, *(op.symbols for op in operations)),
    )


def _operation(data: Any, formulas: Sequence[CachedAmount]) -> Op:
    one = cached_table(data, "operation")
    dims, cost = (
        {name: _amount(kept, formulas, part) for name, kept in cached_table(one[part], part).items()}
        for part in ("dims", "cost")
    )
    op = Op(
        cached_text(one["name"], "name"),
        cached_text(one["kind"], "kind"),
        CachedTable(dims),
        cached_text(one["dtype"], "dtype"),
        Cost().using(CachedTable(cost)),
        attributes=_facts(one["attributes"], "attributes"),
        payload=None if one["payload"] is None else cached_text(one["payload"], "payload"),
    )
    inside = (each.symbols for each in (*dims.values(), *cost.values()) if isinstance(each, CachedAmount))
    op.__dict__["symbols"] = frozenset().union(*inside)
    return op


def _amount(kept: Any, formulas: Sequence[CachedAmount], field: str) -> int | float | CachedAmount:
    """A number, or [the place of a formula]."""
    if type(kept) is not list:
        return cached_number(kept, field)
    (place,) = cached_places(kept, field, len(formulas))
    return formulas[place]


def _edges(data: Any, count: int) -> list[list[int]]:
    """Pairs of places of operations, none of which waits for itself by way of others."""
    edges = [cached_places(edge, "edges", count) for edge in cached_list(data, "edges")]
    waits: dict[int, set[int]] = {}
    for before, after in edges:
        waits.setdefault(after, set()).add(before)
    if any(before >= after for before, after in edges):  # else there can be no circle
        TopologicalSorter(waits).prepare()
    return edges


def _facts(data: Any, field: str) -> FrozenDict[Attribute]:
    """Metadata or attributes: texts, numbers and lists of them."""
    facts = FrozenDict({name: _frozen(fact) for name, fact in cached_table(data, field).items()})
    hash(facts)  # a fact is no table
    return facts


def _frozen(fact: Any) -> Any:
    """Lists as the tuples that they were."""
    if isinstance(fact, (list, tuple)):
        return tuple(map(_frozen, fact))
    return {name: _frozen(one) for name, one in fact.items()} if isinstance(fact, dict) else fact


class _Formulas:
    """Open amounts, each once: a graph repeats a few hundreds of times."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self._places: dict[Amount, int] = {}

    def data(self, amount: Amount) -> Any:
        """A number as it is, an open amount as [its place]."""
        if not is_symbolic(amount):
            if not isinstance(amount, (int, float)):
                raise TypeError("amount")
            return amount
        if amount not in self._places:
            text = expression_text(amount)
            if parse_expression(text) != amount:
                raise ValueError(text)
            steps = steps_of(amount)
            symbols = sorted(str(one) for one in amount.free_symbols)
            self._places[amount] = len(self.listed)
            self.listed.append([text, None if steps is None else steps.data(), symbols])
        return [self._places[amount]]
