"""What a time hangs on: elasticities from the formulas' own gradients, ridges, and where one side takes over."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.formula_group_steps import GroupSteps
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import evaluate


@dataclass(frozen=True)
class Sensitivity:
    """How a time follows from each quantity, at some points.

    Parameters
    ----------
    time
        Seconds, shape of the points.
    elasticity
        Name -> d log time / d log quantity: -1 is "twice as much halves the time", 0 "does not matter".
    at_ridge
        Names whose elasticity is one-sided here, because a maximum or a step turns at the point; the active side
        counts (the first where two are equal).
    """

    time: FloatArray
    elasticity: Mapping[str, FloatArray]
    at_ridge: Mapping[str, FloatArray]


def sensitivity(function: Compiled, values: Mapping[str, Any] | None = None) -> Sensitivity:
    """Elasticities of every quantity that the formulas name, and of the free symbols of the workload.

    Parameters
    ----------
    values
        Arrays of the function's free quantities, as for a call; all of one shape.

    Raises
    ------
    InputError
        Where the estimator is no formula.

    Examples
    --------
    >>> import slipstick as ss
    >>> step = ss.workload("gpt2").bind(batch=8, seq_len=1024)
    >>> roofline = ss.ComposedEstimator(ss.Roofline(), ss.Sequential())
    >>> time = roofline.compile(step, ss.machine("H100"), ["machine.clock"])
    >>> slow, fast = ss.analysis.sensitivity(time, {"machine.clock": [0.5e9, 2e9]}).elasticity["machine.clock"]
    >>> bool(-1 <= slow < fast <= 0)  # the slower the clock, the more of the time hangs on it
    True
    """
    if not isinstance(function, Compiled):
        raise InputError("this estimator is no formula (a table or a simulation): it has no gradient")
    free = {name: np.asarray(value, dtype=np.float64) for name, value in (values or {}).items()}
    time = function(free)
    stated: dict[str, Any] = {**function.base, **free}
    known = {**stated, **function.following(free)}
    open_ = {name.partition(".")[2]: name for name in free if name.startswith(("workload.", "run."))}
    totals: dict[str, Any] = {n: 0.0 for n in function.schedule.names if n.startswith(("time.", "count."))}
    slopes: dict[str, dict[str, Any]] = {}  # quantity -> total of a lane -> derivative
    ridges: dict[str, Any] = {}
    for group in function.groups:
        _add_group(group, known, free, open_, totals, slopes, ridges)
    at = {**known, **totals}
    gradient: dict[str, Any] = {}
    for name, slope in function.schedule.gradient(at).items():
        if name in totals:
            for quantity, lanes in slopes.items():
                if name in lanes:
                    gradient[quantity] = gradient.get(quantity, 0.0) + slope * lanes[name]
        else:
            gradient[name] = gradient.get(name, 0.0) + slope
    for name, turns in function.schedule.turns(at).items():
        if name in totals:
            for quantity, lanes in slopes.items():
                if name in lanes:
                    ridges[quantity] = ridges.get(quantity, False) | turns
        ridges[name] = ridges.get(name, False) | turns
    _pass_on(function, stated, gradient, ridges)
    elasticity = {
        name: np.broadcast_to(np.asarray(slope) * stated[name] / time, time.shape) for name, slope in gradient.items()
    }
    turning = {name: np.broadcast_to(ridges.get(name, False), time.shape) for name in elasticity}
    return Sensitivity(time, elasticity, turning)


def _pass_on(function: Compiled, stated: dict[str, Any], gradient: dict[str, Any], ridges: dict[str, Any]) -> None:
    """Slopes by numbers of the machine that follow others become slopes by these."""
    for formula in function.followed.values():
        stated |= {
            name: value for name, value in machine_values(formula, function.machine).items() if name not in stated
        }
    for name in [name for name in function.followed if name in gradient]:
        formula, slope, turned = function.followed[name], gradient.pop(name), ridges.pop(name, False)
        turns = formula.turns(stated)
        for other, each in formula.gradient(stated).items():
            gradient[other] = gradient.get(other, 0.0) + slope * each
            ridges[other] = ridges.get(other, False) | turned | turns.get(other, False)


def _add_group(
    group: GroupSteps,
    known: Mapping[str, Any],
    free: Mapping[str, FloatArray],
    open_: Mapping[str, str],
    totals: dict[str, Any],
    slopes: dict[str, dict[str, Any]],
    ridges: dict[str, Any],
) -> None:
    # All that is free, so that amounts get the shape of the points even where none of them depends on a point.
    by_symbol = {**free, **{inside: known[name] for inside, name in open_.items()}}
    at = {**known, **{name: column.rows(by_symbol) for name, column in group.amounts.items()}}
    times = group.formula.evaluate(at)
    derivatives = group.formula.gradient(at)
    turns = group.formula.turns(at)
    for lane, column in group.multiplicity.items():
        weights = column.rows(by_symbol)
        entries: tuple[tuple[str, Any, Mapping[str, Any]], ...] = (
            (f"time.{lane}", times, derivatives),
            (f"count.{lane}", np.ones_like(weights), {}),
        )
        for total, each, by_name in entries:
            totals[total] = totals.get(total, 0.0) + np.sum(weights * each, axis=0)
            for name, derivative in by_name.items():
                if not name.startswith("operation."):
                    _add(slopes, name, total, np.sum(weights * derivative, axis=0))
            for inside, quantity in open_.items():
                slope: Any = group.lane_slopes(lane, inside, by_symbol) * each
                for name, derivative in by_name.items():
                    if name.startswith("operation."):
                        slope = slope + weights * derivative * group.amount_slopes(name, inside, by_symbol)
                _add(slopes, quantity, total, np.sum(slope, axis=0))
    for name, turning in turns.items():
        symbols = group.amounts[name].symbols if name in group.amounts else ()
        moved = [quantity for inside, quantity in open_.items() if inside in symbols]
        for quantity in moved if name.startswith("operation.") else [name]:
            ridges[quantity] = ridges.get(quantity, False) | np.any(turning, axis=0)


def _add(slopes: dict[str, dict[str, Any]], quantity: str, total: str, slope: Any) -> None:
    lanes = slopes.setdefault(quantity, {})
    lanes[total] = lanes.get(total, 0.0) + slope


@dataclass(frozen=True)
class Crossover:
    """Where an operation changes what bounds it: at `value` of a quantity, `below` it one term, `above` it another."""

    operation: str
    quantity: str
    value: float
    below: str
    above: str


def crossovers(formula: Formula, quantity: str, values: Mapping[str, float], operation: str = "") -> list[Crossover]:
    """The values of one quantity, in its SI unit, at which two terms of a formula are equal and the largest.

    Parameters
    ----------
    values
        Of every other symbol.

    Examples
    --------
    >>> import slipstick as ss
    >>> b = ss.symbol("bytes")
    >>> formula = ss.Formula(3 + b / 2, "s", "example", {"start": 0 * b + 3, "transfer": b / 2})
    >>> [(c.value, c.below, c.above) for c in ss.analysis.crossovers(formula, "bytes", {})]
    [(6.0, 'start', 'transfer')]
    """
    if len(formula.terms) < 2:
        return []
    terms = {name: sp.sympify(term, strict=True) for name, term in formula.terms.items()}
    result: dict[str, Crossover] = {}
    for coefficients in _differences(tuple(terms.values()), symbol(quantity)):
        for value in _positive_roots([float(evaluate(coefficient, values)) for coefficient in coefficients]):
            below, above = _crossing(terms, values, quantity, value)
            if below != above:
                result[f"{value:.9g}"] = Crossover(operation, quantity, value, below, above)
    return sorted(result.values(), key=lambda crossing: crossing.value)


@lru_cache(maxsize=256)
def _differences(terms: tuple[sp.Expr, ...], unknown: sp.Symbol) -> tuple[tuple[sp.Expr, ...], ...]:
    """The polynomials that are 0 where two terms are equal, one for each pair of their branches: coefficients in the
    other symbols, highest power first. Differences that are no ratio of polynomials are left out."""
    differences: dict[tuple[sp.Expr, ...], None] = {}
    branches = [_branches(term, unknown) for term in terms]
    for ones, others in itertools.combinations(branches, 2):
        for one, other in itertools.product(ones, others):
            known: dict[sp.Expr, sp.Dummy] = {}
            numerator = sp.numer(sp.together(_masked(one, unknown, known) - _masked(other, unknown, known)))
            if unknown in numerator.free_symbols and numerator.is_polynomial(unknown):
                back = {dummy: expression for expression, dummy in known.items()}
                differences[tuple(c.xreplace(back) for c in sp.Poly(numerator, unknown).all_coeffs())] = None
    return tuple(differences)


def _masked(expression: sp.Expr, unknown: sp.Symbol, known: dict[sp.Expr, sp.Dummy]) -> sp.Expr:
    """The expression with one dummy for each largest part without the unknown: what stays is small."""
    if unknown not in expression.free_symbols:
        return expression if expression.is_Number else known.setdefault(expression, sp.Dummy())
    if expression.is_Add or expression.is_Mul:
        rest, dependent = expression.as_independent(unknown, as_Add=expression.is_Add)
        parts = expression.func.make_args(dependent)
        return expression.func(_masked(rest, unknown, known), *(_masked(part, unknown, known) for part in parts))
    if expression.is_Pow:
        return _masked(expression.base, unknown, known) ** expression.exp
    return expression


def _branches(term: sp.Expr, unknown: sp.Symbol) -> set[sp.Expr]:
    """What a term may be, with one side in place of each maximum and minimum that depends on the unknown."""
    from slipstick.estimators.symbolic.lambdified.extremum_classes import Largest, Smallest

    nodes = [node for node in term.atoms(Largest, Smallest, sp.Max, sp.Min) if unknown in node.free_symbols]
    if not nodes:
        return {term}
    outer = max(nodes, key=sp.count_ops)
    return set().union(*(_branches(term.xreplace({outer: side}), unknown) for side in outer.args))


def _positive_roots(coefficients: list[float]) -> list[float]:
    """Where a polynomial is 0, highest power first; none where a coefficient has no value."""
    if not np.all(np.isfinite(coefficients)):
        return []
    roots = np.roots(coefficients)
    return [float(root.real) for root in roots if abs(root.imag) <= 1e-12 * abs(root) and root.real > 0]


def _crossing(
    terms: Mapping[str, sp.Expr], values: Mapping[str, float], quantity: str, value: float
) -> tuple[str, str]:
    """The largest term just below and just above a value; twice the same where one has no value there."""
    sides = []
    for factor in (1 - 1e-6, 1 + 1e-6):
        near = {**values, quantity: value * factor}
        at = {name: float(evaluate(term, near)) for name, term in terms.items()}
        if np.isnan(list(at.values())).any():
            return "", ""
        sides.append(max(at, key=lambda name: at[name]))
    return sides[0], sides[1]
