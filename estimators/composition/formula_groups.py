"""Operations by formula, as a compiled function adds them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import symbol
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.symbolic.formula import Formula
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class Group:
    """Operations under one formula: the distinct rows of their amounts, and how often each stands on which lane.

    `examples` holds an operation of each row, of which the terms of the formula may read more than the formula does.
    """

    formula: Formula
    amounts: Mapping[str, tuple[Amount, ...]]
    multiplicity: Mapping[str, tuple[Amount, ...]]
    examples: tuple[Op, ...] = ()


def groups_of(
    formulas: Sequence[tuple[Formula, list[int]]],
    operations: Sequence[Op],
    lane: Callable[[Op], str],
    amount: Callable[[Op, str], Amount] = amount_of,
) -> tuple[Group, ...]:
    """Operations by formula, equal rows merged; `amount` says what stands for a symbol ``operation.NAME``."""
    groups = []
    for formula, indices in formulas:
        names = [name for name in formula.names if name.startswith("operation.")]
        rows: dict[tuple[Amount, ...], dict[str, Amount]] = {}
        examples: dict[tuple[Amount, ...], Op] = {}
        for index in indices:
            op = operations[index]
            row = tuple(amount(op, name) for name in names)
            lanes = rows.setdefault(row, {})
            examples.setdefault(row, op)
            lanes[lane(op)] = lanes.get(lane(op), 0) + op.times
        amounts = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
        lanes_seen = sorted({one for lanes in rows.values() for one in lanes})
        multiplicity = {one: tuple(lanes.get(one, 0) for lanes in rows.values()) for one in lanes_seen}
        groups.append(Group(formula, amounts, multiplicity, tuple(examples.values())))
    return tuple(groups)


def constant_group(times: FloatArray, operations: Sequence[Op], lane: Callable[[Op], str]) -> Group:
    """Operations whose times (seconds, shape (operations,)) do not vary, such as a measured table, under a schedule
    that does.
    """
    lanes = [lane(op) for op in operations]
    multiplicity = {
        name: tuple(op.times if its == name else 0 for op, its in zip(operations, lanes, strict=True))
        for name in sorted(set(lanes))
    }
    formula = Formula(symbol("operation.seconds"), "s", "times of operations that do not vary")
    return Group(formula, {"operation.seconds": tuple(map(float, times))}, multiplicity)
