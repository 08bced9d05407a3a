"""Explaining estimators that are no formula (simulations): which numbers, and their slopes by differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.composites.composite import as_compiled
from slipstick.estimators.core.lambdified import names_of
from slipstick.estimators.core.operation_model import grouped
from slipstick.estimators.core.residency import sizes_read
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.files.readers import InputError

if TYPE_CHECKING:
    from slipstick.experiments.explain.explanation import Dials

STEP = 1.01
"""Factor on both sides of today's value between which a slope is taken."""


def likely_numbers(question: Question) -> list[str]:
    """The quantities varied for a question without a formula where none is named.

    The machine's numbers that the formulas of its operations name, those of its runtime, and the open sizes of the
    workload: the schedule may read more.

    Raises
    ------
    InputError
        Where the operations have no formulas either.
    """
    inner = question.estimator.model
    if inner.operation_formulas is None:
        raise InputError("this estimator is no formula: name the quantities to look at (--vary machine.clock)")
    bound = as_compiled(question.workload, question.machine).bind_known(question.run).bound()
    formulas = [formula for formula, _ in grouped(inner.operation_formulas, bound.operations, question.machine)]
    inside = frozenset().union(*(names_of(sizes_read(formula.expression)) for formula in formulas))
    own = {name for name in inside if name.startswith("machine.")}
    own |= {f"machine.{name}" for name in question.machine.numbers if name.startswith("runtime.")}
    sizes = {
        f"run.{name}" for name in question.workload.symbols if name in {**question.workload.defaults, **question.run}
    }
    return sorted(sizes | {name for name in own if question.machine.get(name.removeprefix("machine."))})


def slope(dials: Dials, name: str) -> float | None:
    """d log time / d log quantity between a step below and one above; None where neither can be taken."""
    whole = name in dials.whole or name.startswith(("run.", "workload."))
    today = dials.today[name]
    if not today:
        return None
    factor = max(STEP, (today + 1) / today) if whole else STEP
    ends = [(dials.turned(name, scale), dials.ratio(name, scale)) for scale in (1 / factor, factor)]
    points = sorted({(value, ratio) for value, ratio in [(today, 1.0), *ends] if ratio is not None})
    (low, below), (high, above) = points[0], points[-1]
    return float(np.log(above / below) / np.log(high / low)) if high > low else None
