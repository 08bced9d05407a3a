"""The cheapest change of several quantities together that reaches a target, at prices that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstick.common.answer import Answer
from slipstick.common.array_types import FloatArray
from slipstick.common.columns import Column
from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.sensitivity.elasticities import sensitivity
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.explain.explanation import FARTHEST, target_ratio
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.machine_fields import unit_of_name

ROUNDS = 80
CLOSE = 1e-4
"""The search ends where the change costs at most this share more than the least that any change can cost."""


@dataclass(frozen=True)
class Together(Answer):
    """What several quantities change to.

    `changes`: quantity, today, needed, factor, price: of each quantity that was given a price.
    `price`: of all: the sum of price per doubling times |log2 factor|.
    `ratio`: time over today's that is reached, counts rounded up.
    `at_least`: what any change that reaches the target costs, if the time's logarithm is convex in those of the
        quantities (as sums and maxima of products are); the price itself where the search closed the gap.
    """

    changes: tuple[dict[str, Any], ...]
    price: float
    ratio: float
    at_least: float

    def rows(self) -> list[dict[str, Any]]:
        """One row a quantity: quantity, today, needed, factor, price."""
        return [dict(row) for row in self.changes]

    @property
    def declared(self) -> tuple[Column, ...]:
        """Values of the quantity that each row names."""
        return tuple(Column(name, about="quantity", unit_of=unit_of_name) for name in ("today", "needed"))

    @property
    def heads(self) -> tuple[str, ...]:
        """The price, with the least that any change could have, and what it buys."""
        return (f"price {self.price:.4g} (at least {self.at_least:.4g}), time ratio {self.ratio:.4g}",)


@checked
def cheapest_together(question: Question, target: float, cost: Mapping[str, float]) -> Together:
    """The change of least price that brings the time down to `target` times today's.

    In logarithms a time made of sums and maxima of products is convex and its elasticities are its slopes; each round
    solves the linear programme of all slopes seen so far (Kelley's cutting planes, scipy's HiGHS) and adds the slope
    where that leads, until the slopes' promise is kept.

    Parameters
    ----------
    cost
        Quantity -> what twice (or half) of it costs, > 0, in any unit.

    Raises
    ------
    InputError
        Where the estimator is no formula, a price is not positive, or the target is out of reach within a factor of
        1,000 of each quantity.

    Examples
    --------
    >>> import slipstick as ss
    >>> question = ss.question("gpt2", "H100", "roofline")
    >>> prices = {"machine.clock": 1.0, "machine.memory.HBM3.bandwidth": 2.0}
    >>> answer = ss.analysis.cheapest_together(question, 0.8, prices)
    >>> [change["quantity"] for change in answer.changes]
    ['machine.clock', 'machine.memory.HBM3.bandwidth']
    """
    target_ratio(target, 1.0)
    if not cost:
        raise InputError("no prices: name at least one quantity and what twice of it costs (machine.clock=2)")
    for name, price in cost.items():
        if not (np.isfinite(price) and price > 0):
            raise InputError(f"price of {name} = {price!r}: want a number > 0")
    dials = Evaluator.of(question, tuple(cost))
    if not dials.is_formula or any(map(dials.is_fixed, cost)):
        raise InputError("this estimator is no formula: a change of several quantities cannot be solved for")
    search = _Search(dials, tuple(cost), np.array(list(cost.values())) / np.log(2), float(np.log(target)))
    change, at_least = search.solve()
    return search.answer(change, at_least)


@dataclass(frozen=True)
class _Search:
    dials: Evaluator
    names: tuple[str, ...]
    weights: FloatArray
    goal: float

    def slope(self, change: FloatArray) -> tuple[float, FloatArray]:
        """log(time / today's) and its gradient by the logarithms of the quantities' factors."""
        function = replace(self.dials.function, counts="continuous")
        values = {n: self.dials.today[n] * np.exp(c) for n, c in zip(self.names, change, strict=True)}
        result = sensitivity(function, values)
        slopes = [float(result.elasticity.get(name, np.zeros(()))) for name in self.names]
        return float(np.log(result.time / self.dials.today_time)), np.array(slopes)

    def solve(self) -> tuple[FloatArray, float]:
        """The cheapest change found that reaches the goal, and the least that any can cost."""
        from scipy.optimize import linprog

        count, far = len(self.names), float(np.log(FARTHEST))
        cuts: list[FloatArray] = []
        sides: list[float] = []
        best, price, least = None, np.inf, 0.0
        change = np.zeros(count)
        for _ in range(ROUNDS):
            value, slope = self.slope(change)
            inside = change if value <= self.goal else self._along(change, far)
            if inside is not None and self.weights @ np.abs(inside) < price:
                best, price = inside, float(self.weights @ np.abs(inside))
            if best is not None and price <= least * (1 + CLOSE):
                break
            cuts.append(np.concatenate([slope, -slope]))
            sides.append(self.goal - value + float(slope @ change))
            # up and down apart, both >= 0: the price of a change is linear in them
            solved = linprog([*self.weights, *self.weights], np.array(cuts), sides, bounds=[(0.0, far)] * (2 * count))
            if not solved.success:
                break
            least = float(solved.fun)
            change = np.asarray(solved.x[:count] - solved.x[count:])
        if best is None:
            raise InputError(
                f"{', '.join(self.names)}: do not bring the time to {np.exp(self.goal):.3g} of today's, each within a "
                f"factor of {FARTHEST:g}"
            )
        return best, min(least, price)

    def _along(self, change: FloatArray, far: float) -> FloatArray | None:
        """The change made larger until it reaches the goal; None where it does not."""
        largest = float(np.max(np.abs(change)))
        if largest == 0 or self.slope(change * (far / largest))[0] > self.goal:
            return None
        low, high = 1.0, far / largest
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.slope(change * middle)[0] <= self.goal else (middle, high)
        return change * high

    def answer(self, change: FloatArray, at_least: float) -> Together:
        """The change with counts rounded to whole numbers away from today's, evaluated once more."""
        needed = {}
        for name, log in zip(self.names, change, strict=True):
            value = self.dials.today[name] * float(np.exp(log))
            whole = name in self.dials.whole or name.startswith("run.")
            needed[name] = (
                (float(np.ceil(value - 1e-9)) if log > 0 else float(np.floor(value + 1e-9))) if whole else value
            )
        ratio = float(self.dials.function(needed)) / self.dials.today_time
        rows, total = [], 0.0
        for name, weight in zip(self.names, self.weights, strict=True):
            today = self.dials.today[name]
            price = float(weight * abs(np.log(needed[name] / today)))
            total += price
            row = {"quantity": name, "today": today, "needed": needed[name], "factor": needed[name] / today}
            rows.append({**row, "price": price})
        return Together(tuple(rows), total, ratio, at_least)
