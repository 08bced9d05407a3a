"""A compiled estimator as JavaScript: the page computes by itself, with the formulas that Python computes with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import common_scale
from slipstick.common.lazy_sympy import is_symbolic, sp
from slipstick.common.readers import read_text
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.base.ratio_band import NEAR, SAME_OPERATIONS
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.formula_groups import Group
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.gpu.ratio_uncertainty import shipped
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import names_of, steps_of
from slipstick.estimators.symbolic.parameters import Parameter
from slipstick.experiments.explain.evaluator import Dials, numbers_of, value_of
from slipstick.experiments.question.facts import HOST
from slipstick.experiments.question.memory_need import FITS, MAY, NOT
from slipstick.experiments.question.question import Question
from slipstick.experiments.report.slider_script import (
    CHOICE,
    DIALS,
    HELPERS,
    ROW,
    Code,
    StepValue,
    function_of,
    script_value,
    times_of,
)
from slipstick.experiments.report.slider_tables import TOGETHER, dial_tables
from slipstick.experiments.studies.size_columns import MemoryColumns
from slipstick.hwmodels.machine_fields import unit_of_name
from slipstick.workloads.graph.cost import Amount

DRAWS = 100
"""Draws of the fitted parameters that travel with the page."""
MAX_NUMBER = 1e300
KINDS = ("machine", "run", "workload", "estimator")
"""The order of the sliders."""


def model_script(function: Compiled, names: Sequence[str]) -> str:
    """A JavaScript object {names, totals, groups, schedule}: `names` are the dials, all other numbers are put in."""
    dials = {name: StepValue(f"v[{index}]", DIALS) for index, name in enumerate(names)}
    known = {**{name: StepValue.of(value) for name, value in function.base.items()}, **dials}
    sizes = {name.partition(".")[2]: dials[name] for name in names if name.startswith(("run.", "workload."))}
    totals = [name for name in function.schedule.names if name.startswith(("time.", "count."))]
    groups = ",\n".join(_group_script(group, known, sizes, totals) for group in function.made)
    of_totals = {name: StepValue(f"t[{index}]", DIALS) for index, name in enumerate(totals)}
    schedule = function_of(function.schedule.steps.whole, {**known, **of_totals}, "v, t")
    return f"{{names: {script_value(list(names))}, totals: {len(totals)},\ngroups: [{groups}],\nschedule: {schedule}}}"


def _group_script(
    group: Group, known: Mapping[str, StepValue], sizes: Mapping[str, StepValue], totals: Sequence[str]
) -> str:
    columns = [*group.amounts, *_of_terms(group)]
    values = {**known, **{name: StepValue(f"o[{index}]", ROW) for index, name in enumerate(columns)}}
    count = len(next(iter(group.multiplicity.values())))
    read = {name: tuple(amount_of(op, name) for op in group.examples) for name in _of_terms(group)}
    amounts = {**group.amounts, **read}
    rows = _table([[amounts[name][row] for name in columns] for row in range(count)], sizes)
    lanes = [
        [totals.index(name) if name in totals else -1 for name in (f"time.{lane}", f"count.{lane}")]
        for lane in group.multiplicity
    ]
    weights = _table([list(column) for column in group.multiplicity.values()], sizes)
    menu = getattr(group.formula, "menu", {})
    chosen = {name: StepValue(f"menu[{place}][j]", CHOICE) for place, name in enumerate(menu)}
    named = group.formula.substitute(_own_names(group.formula, known))
    terms = ", ".join(
        f"[{script_value(name)}, {function_of(steps_of(term), {**values, **chosen}, 'v, o, menu, j')}]"
        for name, term in named.terms.items()
        if all(one in {**values, **chosen} for one in names_of(term))  # else the page cannot say it
    )
    columns_of_menu = script_value([list(map(float, column)) for column in menu.values()])
    return (
        f"{{rows: {rows},\n lanes: {script_value(lanes)}, weights: {weights},\n menu: {columns_of_menu},\n"
        f" times: {times_of(group.formula, values)},\n terms: [{terms}]}}"
    )


def _of_terms(group: Group) -> list[str]:
    """Amounts of operations that the terms of the formula read, and the formula does not."""
    named = {name for term in group.formula.terms.values() for name in names_of(sp.sympify(term, strict=True))}
    return sorted(name for name in named if name.startswith("operation.") and name not in group.amounts)


def _table(amounts: Sequence[Sequence[Amount]], sizes: Mapping[str, StepValue]) -> str:
    """A function of the dials that gives a table of amounts, of which some are formulas of the workload's sizes."""
    code = Code()
    rows = ", ".join("[" + ", ".join(_amount(one, sizes, code) for one in row) + "]" for row in amounts)
    return f"v => {{ {code.of(DIALS)} return [{rows}]; }}"


def _amount(amount: Amount, sizes: Mapping[str, StepValue], code: Code) -> str:
    if not is_symbolic(amount):
        return StepValue.of(float(amount)).text
    return code.steps(steps_of(amount), sizes).text


def _own_names(formula: Formula, known: Mapping[str, StepValue]) -> dict[str, Any]:
    """Terms keep the operation model's own names (parameter.NAME): give them the names that the page knows."""
    from slipstick.common.expressions import symbol

    names = {}
    for term in formula.terms.values():
        for name in map(str, sp.sympify(term, strict=True).free_symbols):
            full = f"estimator.operation.{name.removeprefix('parameter.')}"
            if name.startswith("parameter.") and full in known:
                names[name] = symbol(full)
    return names


POWERS = (-3, -2, -1, 0, 1, 2, 3)
"""Powers of two of today's sizes at which the memory is counted; between them it is interpolated."""


def memory_table(question: Question, names: Sequence[str]) -> dict[str, Any] | None:
    """Bytes that the work needs over the sizes among the dials, and how many there are; None where that is not known.

    The fullest moment of a graph is no formula of its sizes, so the page carries a table: logarithms of the bytes at
    `POWERS` of each size, exact at today's.
    """
    sizes = [name for name in names if name.partition(".")[2] in question.workload.symbols]
    today = {name: value_of(question, name) for name in sizes}
    count = MemoryColumns(question)
    here = count.need(today)
    if here is None or len(sizes) > 2:
        return None
    values = []
    for powers in itertools.product(POWERS, repeat=len(sizes)):
        turned = {name: max(1.0, round(today[name] * 2.0**p)) for name, p in zip(sizes, powers, strict=True)}
        need = count.need(turned)
        if need is None:
            return None
        values.append(math.log(need.needed))
    capacity = f"machine.memory.{here.level}.capacity"
    return {
        "sizes": [names.index(name) for name in sizes],
        "powers": list(POWERS),
        "values": values,
        "wide": math.exp(QUANTILE * here.scatter),
        "there": here.there,
        "capacity": names.index(capacity) if capacity in names else -1,
        "level": here.level,
        "words": [FITS if here.activations is not None else MAY, MAY, NOT],
    }


def _unit(name: str, today: float, notes: Mapping[str, Parameter]) -> list[Any]:
    """What the slider of a quantity divides by, and the unit behind it: those in which today's value is readable."""
    note = notes.get(name.removeprefix("estimator.")) if name.startswith("estimator.") else None
    unit = note.unit if note is not None else unit_of_name(name)
    scale = common_scale([today], "" if unit == "1" else unit)
    return [scale.factor, scale.name] if scale else [1.0, unit]


def data_of(question: Question, level: float = DEFAULT_LEVEL) -> tuple[str, list[str], str]:
    """The script of a question's slide rule, its dials (quantities of machine, run, workload, estimator), and a note.

    A formula travels as its steps; for other estimators the page reads tables of what `slipstick whatif` answers.
    Raises InputError where each point would be a simulation.
    """
    dials = _formula_dials(question)
    if dials is None:
        return _by_tables(question, level)
    names = list(dials.today)
    draws: list[list[float]] = []
    residual, common, seconds, width, tail, fitted = None, 0.0, 0.0, 0.0, 0.0, []
    calibration = question.estimator.uncertainty
    if calibration is not None:
        sample = calibration.parameter_draws(DRAWS)
        known = [f"estimator.{name}" for name in calibration.names]
        chosen = [index for index, name in enumerate(known) if name in names]
        fitted = [names.index(known[index]) for index in chosen]
        draws = [] if sample is None else np.asarray(sample)[:, chosen].tolist()
        residual, common = calibration.residual_std, calibration.common_std
        seconds = calibration.residual_seconds or 0.0
        width = quantile(level, calibration.degrees_of_freedom)
        tail = quantile(level, calibration.residual_freedom or calibration.degrees_of_freedom)
    read, ratios = dials.function.schedule.names, shipped()
    about = {
        **_about(question, dials.today, dials.whole, dials.function.bounds, level),
        "fitted": fitted,
        "draws": draws,
        "residual": residual,
        "common": common,
        "kept": [SAME_OPERATIONS, ratios.kept(len(question.answer().parts))],
        "other": [ratios.other_machine, NEAR],
        "seconds": seconds,
        "width": width,
        "tail": tail,
        "rest": HOST if any(name.startswith("count.") or "issue" in name for name in read) else "the schedule",
    }
    return _script(model_script(dials.function, names), about), names, ""


def _formula_dials(question: Question) -> Dials | None:
    """The quantities that a formula reads; None where the estimator is none, or its operations are a table."""
    try:
        names = sorted(numbers_of(question), key=lambda name: (KINDS.index(name.partition(".")[0]), name))
    except InputError:
        return None
    dials = Dials.of(question, names)
    if dials.held is not None:  # the page has the formula alone, under which a cap above the rated one would help
        names = [name for name in names if not dials.is_held(name)]
        dials = Dials.of(question, names)
    of_machine = any(name.startswith("machine.") and not name.startswith("machine.runtime.") for name in names)
    return dials if dials.is_formula and of_machine else None


def _by_tables(question: Question, level: float) -> tuple[str, list[str], str]:
    tables = dial_tables(question, level)
    names = list(tables)
    model = {"names": names, "seconds": question.answer().time, "tables": [tables[name] for name in names]}
    today = {name: value_of(question, name) for name in names}
    whole = frozenset(n for n in names if n.startswith("machine.") and isinstance(question.machine.get(n[8:]), int))
    return _script(script_value(model), {**_about(question, today, whole, {}, level), "draws": []}), names, TOGETHER


def _about(
    question: Question,
    today: Mapping[str, float],
    whole: frozenset[str],
    notes: Mapping[str, Parameter],
    level: float,
) -> dict[str, Any]:
    """What the page knows of its dials: ranges, today's values, units, and the memory over sizes."""
    names = list(today)
    limits = [notes.get(name.removeprefix("estimator.")) if name.startswith("estimator.") else None for name in names]
    return {
        "low": [max(note.low, -MAX_NUMBER) if note else -MAX_NUMBER for note in limits],
        "high": [min(note.high, MAX_NUMBER) if note else MAX_NUMBER for note in limits],
        "today": list(today.values()),
        "whole": [name in whole or name.startswith("run.") for name in names],
        "units": [_unit(name, today[name], notes) for name in names],
        "memory": memory_table(question, names),
        "level": level,
    }


def _script(model: str, about: Mapping[str, Any]) -> str:
    rule = read_text(Path(__file__).with_name("slide_rule.js"))
    return f"{HELPERS}const model = {model};\nconst about = {script_value(about)};\n{rule}"
