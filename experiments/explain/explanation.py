"""Why a time is what it is, and what would change it: bottlenecks, elasticities, crossovers, the cheapest change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.columns import Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.renamed_arguments import checked
from slipstick.common.units import parse_quantity
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.operation_model import grouped, machine_values
from slipstick.estimators.fitting.calibration import DRAWS, SEED
from slipstick.estimators.sensitivity.elasticities import Sensitivity, crossovers, sensitivity
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.experiments.explain.evaluator import Evaluator, sides
from slipstick.experiments.question.facts import shares
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.unused_inputs import unused_names
from slipstick.hwmodels.machine_fields import unit_of_name

SIDES = ("below", "above")
"""Columns of the slopes on both sides of a ridge or a step."""
COLUMNS = (
    *(Column(name, about="quantity", unit_of=unit_of_name) for name in ("value", "today", "needed")),
    Column("turns_at", "turns at", about="quantity", unit_of=unit_of_name),
    Column("ratio_at_twice", "ratio at twice", better="less"),
    Column("at_ridge", "at a ridge"),
    *(Column(name, f"just {name}") for name in SIDES),
)
"""Columns of the tables below: values of the quantity that their row names."""
ELASTICITY = "elasticity: -1 halves the time where the quantity doubles, 0 does not matter"
OF_ESTIMATOR = "estimator."
"""Names of fitted parameters: nobody can buy them."""
TURN, TURNS = 0.05, 65
"""Slopes that differ by so much between two of so many neighbouring points, up to twice today's value, are a turn."""
SEEN = 0.005
"""Elasticity below which a quantity does not matter."""
FARTHEST = 1e3
"""A change is looked for up to this factor."""
SCAN, SCANS = 40, 7
"""Factors evaluated together, and how often between two neighbours of the last: to 1e-12."""
SLOW_SCAN, SLOW_SCANS = 8, 3
"""The same where each factor is a simulation: to 0.3 %."""


def of_time(query: Question, quantity: str | None = None) -> Question:
    """The question about a time: as it is, or about that of an answer which begins with another quantity.

    `quantity`: the one that was named.
    Raises InputError where the one that was named is no time.
    """
    answer = query.answer()
    if answer.headline.unit == "s":
        return query
    if quantity:
        times = [name for name, one in answer.quantities.items() if one.unit == "s"]
        raise InputError(f"--quantity {quantity} is no time; times of this answer: {', '.join(times)}")
    return replace(query, estimator=query.estimator.about(answer.name))


def notes(question: Question, dials: Evaluator, named: Sequence[str]) -> list[str]:
    """Notes on all tables: names that change nothing, two names of one size, what a simulation leaves out."""
    sizes = [name for name in dials.today if name.startswith("run.") and name[4:] in question.workload.symbols]
    lines = [one.text() for one in unused_names(question, named)] if named else []
    if sizes:
        also = ", ".join(f"workload.{name[4:]}" for name in sizes)
        lines.append(f"{', '.join(sizes)}: of the workload, the same as {also}")
    if not dials.is_formula:
        lines.append(
            "no formula: slopes are differences; the smallest changes to --target are those of what --vary NAME names"
        )
    return lines


def elasticity_rows(question: Question, dials: Evaluator | None = None) -> list[dict[str, Any]]:
    """d log time / d log quantity of every quantity, largest first: the derivative at the point.

    At a ridge or a step the slopes on both sides stand beside it (of a count those to its neighbours), and the first
    value up to twice today's at which a branch of the law turns, where the ratio at twice leaves the slope for another.

    Parameters
    ----------
    dials
        Those of the question, where they are made already; so below.

    Examples
    --------
    >>> import slipstick as ss
    >>> question = ss.question("phi-cnn-small", "xeon-phi-7120p", settings={"run.threads": 240})
    >>> rows = ss.analysis.elasticity_rows(question)
    >>> clock = next(row for row in rows if row["quantity"] == "machine.clock")
    >>> -1 <= clock["elasticity"] < 0
    True
    """
    dials = dials or Evaluator.of(question)
    known = sensitivity(dials.function, dials.today) if dials.is_formula else None
    rows = [_elasticity_row(dials, name, known) for name in dials.today if known is None or name in known.elasticity]
    return sorted(rows, key=lambda row: -abs(float(row["elasticity"] or 0.0)))


def _elasticity_row(dials: Evaluator, name: str, known: Sensitivity | None) -> dict[str, Any]:
    """`known`: the gradient, where a formula answers; else differences."""
    exact = known is not None and not dials.is_fixed(name)
    ridge = exact and known is not None and bool(known.at_ridge[name])
    below, above = (None, None) if exact and not ridge else sides(dials, name)
    there = [side for side in (below, above) if side is not None]
    if not exact:
        ridge = len(there) == 2 and abs(there[0] - there[1]) > TURN
    return {
        "quantity": name,
        "value": float(dials.today[name]),
        "elasticity": float(known.elasticity[name]) if exact and known else sum(there) / len(there) if there else None,
        "ratio_at_twice": dials.ratio(name, 2.0),
        "at_ridge": ridge or dials.is_fixed(name) if known else ridge or None,
        **dict(zip(SIDES, (below, above) if ridge else (None, None), strict=True)),
        "turns_at": _turn(dials, name) if known else None,
    }


def _turn(dials: Evaluator, name: str) -> float | None:
    """The first value, up to twice today's, at which the slope jumps; None where it changes slowly."""
    factors = np.geomspace(1.0, 2.0, TURNS)
    ratios = dials.ratios(name, factors)
    values, places = np.unique([dials.turned(name, factor) for factor in factors[: len(ratios)]], return_index=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.diff(np.log(ratios[places])) / np.diff(np.log(values))
    jumps = np.flatnonzero(np.abs(np.diff(slopes)) > TURN)
    return float(values[jumps[0] + 1]) if len(jumps) else None


def shown(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows for people: without columns of kinks and turns where none of them has one."""
    empty = [name for name in (*SIDES, "turns_at") if all(row.get(name) is None for row in rows)]
    return [{name: cell for name, cell in row.items() if name not in empty} for row in rows]


def bottleneck_rows(answer: Estimate) -> list[dict[str, Any]]:
    """Share of the time by what bounds it, as an estimate says it; `operations`: how many parts stand under it.

    Examples
    --------
    >>> import slipstick as ss
    >>> rows = ss.analysis.bottleneck_rows(ss.question("gpt2", "H100", "roofline").answer())
    >>> rows[0]["bound_by"], round(sum(row["share"] for row in rows), 6)
    ('compute', 1.0)
    """
    counts = Counter(part.bound_by or part.kind for part in answer.parts)
    return [{"bound_by": name, "share": share, "operations": counts.get(name, 1)} for name, share in shares(answer)]


def crossover_rows(question: Question, quantities: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Where each operation changes what bounds it, for the quantities that its terms name, nearest to today first."""
    inner = question.estimator.model
    model = inner.operation_formulas
    if model is None:
        return []
    fitted = {f"parameter.{name}": value for name, (value, _) in parameters(model).items()}
    bound = question.workload.bound(question.run)
    rows: list[dict[str, Any]] = []
    seen = set()
    for formula, indices in grouped(model, bound.operations, question.machine):
        # Terms may name what the whole does not (bytes, where the whole counts tiles).
        sides = [formula, *(Formula(term, "s", "") for term in formula.terms.values())]
        named = sorted({name for side in sides for name in side.names})
        on_machine = {name: value for side in sides for name, value in machine_values(side, question.machine).items()}
        wanted = quantities or [name for name in formula.names if name.startswith("machine.")]
        for index in indices:
            op = bound.operations[index]
            amounts = {n: float(model.amount(op, n)) for n in named if n.startswith("operation.")}
            if (key := (op.kind, tuple(amounts.items()))) in seen:
                continue
            seen.add(key)
            values = {**fitted, **on_machine, **amounts}
            for name in filter(values.get, wanted):  # what is 0 is turned by no factor
                for crossing in crossovers(formula, name, values, op.name):
                    rows.append(
                        {
                            "operation": crossing.operation,
                            "quantity": crossing.quantity,
                            "today": float(values[name]),
                            "turns_at": crossing.value,
                            "below": crossing.below,
                            "above": crossing.above,
                        }
                    )

    def distance(row: Mapping[str, Any]) -> float:
        return round(abs(float(np.log(row["turns_at"] / row["today"]))), 9)  # ties stay as they were met

    return _alike_once(sorted(rows, key=distance))


def _alike_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that differ in the operation alone as one, under the first name and how many more there are."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["quantity"], f"{row['turns_at']:.2g}", row["below"], row["above"])
        groups.setdefault(key, []).append(row)
    return [
        {**some[0], "operation": some[0]["operation"] + (f" and {len(some) - 1} alike" if len(some) > 1 else "")}
        for some in groups.values()
    ]


def tornado_rows(
    question: Question, names: Sequence[str] = (), factor: float = 2.0, dials: Evaluator | None = None
) -> list[dict[str, Any]]:
    """Time over today's with each quantity divided and multiplied by a factor, largest span first."""
    dials, rows = dials or Evaluator.of(question, names), []
    for name in dials.today:
        ends = [dials.ratio(name, scale) for scale in (1 / factor, factor)]
        known = [end for end in [1.0, *ends] if end is not None]
        rows.append({"quantity": name, "divided": ends[0], "multiplied": ends[1], "span": max(known) / min(known)})
    return sorted(rows, key=lambda row: -float(row["span"] or 0.0))


def interaction(question: Question, one: str, other: str, factors: Sequence[float]) -> FloatArray:
    """Time over today's with two quantities times factors, shape (other, one): rows and columns of a heat map.

    What counts (cores) goes in whole steps.
    """
    dials = Evaluator.of(question, (one, other))
    across, along = (np.array([dials.turned(name, factor) for factor in factors]) for name in (one, other))
    times = (dials.held or dials.function)({one: across[None, :], other: along[:, None]})
    return np.asarray(times / question.answer().time)


@checked
def cheapest_changes(
    question: Question,
    target: float,
    vary: Sequence[str] = (),
    cost: Mapping[str, float] | None = None,
    dials: Evaluator | None = None,
) -> list[dict[str, Any]]:
    """The smallest change of each quantity alone that brings the time down to `target` times today's.

    Parameters
    ----------
    cost
        What twice (or half) of a quantity costs, 1 where left out; the order is by |log2 factor| times this price, and
        rows show it where any is given.

    Raises
    ------
    InputError
        Where `target` is no ratio between 0 and 1.

    Examples
    --------
    >>> import slipstick as ss
    >>> question = ss.question("phi-cnn-small", "xeon-phi-7120p", settings={"run.threads": 240})
    >>> rows = ss.analysis.cheapest_changes(question, 0.8, ["machine.clock"])
    >>> rows[0]["quantity"], rows[0]["factor"] > 1
    ('machine.clock', True)
    """
    target_ratio(target, 1.0)
    dials, rows = dials or Evaluator.of(question, vary), []
    declared = {f"estimator.{name}": one for name, (_, one) in parameters(question.estimator.model).items()}
    for name in dials.today:
        factor = _factor_to(dials, name, target)
        if factor and name in declared and not declared[name].holds(dials.turned(name, factor)):
            factor = None  # an efficiency above 1: no machine reaches it
        if factor and dials.is_count(name):
            today, exact = dials.today[name], dials.turned(name, factor)
            count = float(np.floor(exact) if exact < today else np.ceil(exact))  # away from today's
            factor = count / today if count >= 1 else None
        price = abs(np.log2(factor)) * (cost or {}).get(name, 1.0) if factor else None
        needed = dials.turned(name, factor) if factor else None
        row = {"quantity": name, "factor": factor, "today": dials.today[name], "needed": needed}
        rows.append((np.inf if price is None else price, row | ({"price": price} if cost else {})))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def target_ratio(target: float | str, today: float) -> float:
    """What the time is to come down to, over today's.

    `target`: a ratio, or a time as text with its unit ("10 ms").
    `today`: seconds of today's answer.
    Raises InputError where it is no ratio between 0 and 1, or no time below today's.
    """
    try:
        ratio, words = float(target), f"target = {target}"
    except ValueError:
        ratio = parse_quantity(target, "s") / today
        words = f"target = {target} of today's {format_quantity(today, 's')}"
    if not 0 < ratio < 1:
        raise InputError(f"{words}: want a ratio to today's time between 0 and 1, or a time below today's (10ms)")
    return ratio


def _factor_to(dials: Evaluator, name: str, target: float) -> float | None:
    """The factor nearest to 1 at which the ratio is `target`, by ever finer scans; None where out of reach."""
    scan, scans = (SCAN, SCANS) if dials.is_formula else (SLOW_SCAN, SLOW_SCANS)
    for direction in (1.0, -1.0):
        factors = np.geomspace(1.0, FARTHEST**direction, scan)
        reached = np.flatnonzero(dials.ratios(name, factors[1:]) <= target)
        if not len(reached):
            continue
        for _ in range(scans):
            near, far = factors[reached[0]], factors[reached[0] + 1]
            factors = np.geomspace(near, far, scan)
            inside = np.append(dials.ratios(name, factors[1:-1]), target)  # the far end is known to reach it
            reached = np.flatnonzero(inside <= target)
        return float(factors[reached[0] + 1])
    return None


def ranking(questions: Mapping[str, Question], draws: int = DRAWS) -> list[dict[str, Any]]:
    """How surely each is faster than each other, over draws of the fitted parameters and of the scatter.

    Parameters that two calibrations share by name and value are drawn once for both; the scatter of each is its own.
    Raises InputError where one is not calibrated.
    """
    times: dict[str, FloatArray] = {}
    generator = np.random.default_rng(SEED)
    for name, question in questions.items():
        known = question.estimator.uncertainty
        if known is None:
            raise InputError(f"{name}: a ranking under uncertainty needs a calibrated estimator")
        drawn = known.draws(question.workload, question.machine, question.run, draws)
        best = question.answer().time
        tails = known.residual_freedom
        unit = generator.standard_normal(draws) if tails is None else generator.standard_t(tails, draws)
        scatter = np.exp((known.residual(best) or 0.0) * unit)
        times[name] = (np.full(draws, best) if drawn is None else drawn) * scatter
    whole = np.stack(list(times.values()))
    first = np.mean(whole == whole.min(axis=0), axis=1)
    rows: list[dict[str, Any]] = []
    for index, name in enumerate(times):
        row: dict[str, Any] = {"name": name, "median_time_s": float(np.median(times[name])), "fastest": first[index]}
        row |= {f"faster_than {other}": float(np.mean(times[name] < times[other])) for other in times if other != name}
        rows.append({**row, f"faster_than {name}": None})
    ordered = ["name", "median_time_s", "fastest", *(f"faster_than {name}" for name in times)]
    return [{key: row[key] for key in ordered} for row in sorted(rows, key=lambda row: row["median_time_s"])]
