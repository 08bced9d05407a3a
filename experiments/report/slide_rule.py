"""A compiled estimator as JavaScript: the page computes by itself, with the formulas that Python computes with.

Formulas as JavaScript: the steps that Python takes over arrays, each as far outside of the loops as it may stand.

A step that reads the dials alone is computed once, one that reads the choices of a library (tiles, splits) once for
each choice, one that reads an operation once for each row; only what reads both stands in the innermost loop.

Sliders where an estimator is no formula (a table of measured operations, a law of whole programs): tables instead.

Each quantity is varied alone by what `slipstick whatif` does, and the page reads between the points in logarithms. One
slider moved shows what the command prints; several are multiplied, which the page says.

The sliders of a page, what they compute, and the picture that follows them; it needs no library.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.formatting import common_scale
from slipstick.common.readers import read_text
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.base.ratio_band import NEAR, SAME_OPERATIONS
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.formula_groups import Group
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.fitting.ratio_uncertainty import shipped
from slipstick.estimators.symbolic.formula import Formula, Parameter
from slipstick.estimators.symbolic.lambdified import names_of, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS
from slipstick.experiments.explain.evaluator import Evaluator, numbers_of, value_of
from slipstick.experiments.explain.explanation import OF_ESTIMATOR
from slipstick.experiments.question.facts import HOST, facts
from slipstick.experiments.question.memory_need import FITS, MAY, NOT
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.experiments.report.page import breakable
from slipstick.experiments.studies.size_columns import MemoryColumns
from slipstick.experiments.studies.whatif import answer
from slipstick.hwmodels.machine_fields import unit_of_name
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload_kind import workload_kind

NOTHING, DIALS, ROW, CHOICE = 0, 1, 2, 4
"""What a value depends on: bits."""
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARED = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "===",
    "not_equal": "!==",
    "and": "&&",
    "or": "||",
}
_CALLED = {
    "power": "Math.pow",
    "maximum": "Math.max",
    "minimum": "Math.min",
    "mod": "modulo",
    "arctan": "Math.atan",
    **{name: f"Math.{name}" for name in ("floor", "ceil", "sqrt", "log", "exp", "abs", "sign")},
    **{name: f"Math.{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
HELPERS = "const modulo = (a, b) => a - b * Math.floor(a / b);\n"


def script_value(value: Any) -> str:
    """Plain data as a JavaScript literal that may stand inside a page."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


@dataclass(frozen=True)
class StepValue:
    """A number, or the text of a variable and what that depends on."""

    text: str
    depends: int = NOTHING
    number: float | None = None

    @classmethod
    def of(cls, number: float) -> StepValue:
        """A constant, in its SI unit."""
        if not math.isfinite(number):
            return cls("Infinity" if number > 0 else "-Infinity" if number < 0 else "NaN", NOTHING, number)
        return cls(f"({number!r})" if number < 0 else repr(number), NOTHING, number)


@dataclass
class Code:
    """Statements by what they depend on; equal steps are computed once."""

    statements: dict[int, list[str]] = field(default_factory=dict)
    known: dict[tuple[str, ...], StepValue] = field(default_factory=dict)

    def steps(self, steps: Steps, values: Mapping[str, StepValue]) -> StepValue:
        """What the steps make of values by name.

        Raises InputError where a name has no value.
        """
        for name in steps.names:
            if name not in values:
                raise InputError(f"this estimator reads {name}, which a page does not know: its page has no sliders")
        tape = steps.tape
        slots = [*(values[name] for name in steps.names), *(StepValue.of(float(one)) for one in tape.constants)]
        for name, operands in tape.steps:
            slots.append(self._made(name, [slots[place] for place in operands]))
        return slots[tape.results[0]]

    def of(self, depends: int) -> str:
        """The statements that depend on this."""
        return " ".join(self.statements.get(depends, ()))

    def _made(self, name: str, operands: Sequence[StepValue]) -> StepValue:
        numbers = [one.number for one in operands if one.number is not None]
        if len(numbers) == len(operands):
            with np.errstate(all="ignore"):
                return StepValue.of(float(OPERATIONS[name][1](*map(np.float64, numbers))))
        key = (name, *(one.text for one in operands))
        if key not in self.known:
            depends = 0
            for one in operands:
                depends |= one.depends
            variable = f"x{len(self.known)}"
            one_a_choice = bool(depends & CHOICE) and not depends & ROW
            target = f"{variable}[j]" if one_a_choice else variable
            declared = target if one_a_choice else f"const {target}"
            self.statements.setdefault(depends, []).append(f"{declared} = {_text(name, [v.text for v in operands])};")
            self.known[key] = StepValue(target, depends)
        return self.known[key]

    def arrays(self) -> list[str]:
        """Variables that hold a number for each choice."""
        return [one.text[:-3] for one in self.known.values() if one.text.endswith("[j]")]


def _text(name: str, operands: Sequence[str]) -> str:
    if name in _INFIX:
        return f"{operands[0]} {_INFIX[name]} {operands[1]}"
    if name in _COMPARED:
        return f"Number({operands[0]} {_COMPARED[name]} {operands[1]})"
    if name == "negative":
        return f"-{operands[0]}"
    if name == "not":
        return f"Number(!{operands[0]})"
    if name == "heaviside":
        return f"{operands[0]} > 0 ? 1 : {operands[0]} < 0 ? 0 : {operands[1]}"
    if name == "select":
        pairs = zip(operands[::2], operands[1::2], strict=True)
        return "".join(f"{condition} ? {value} : " for condition, value in pairs) + "NaN"
    return f"{_CALLED[name]}({', '.join(operands)})"


def function_of(steps: Steps, values: Mapping[str, StepValue], arguments: str) -> str:
    """One formula as a function of arrays of numbers, all in one scope."""
    code = Code()
    result = code.steps(steps, values)
    body = " ".join(line for depends in sorted(code.statements) for line in code.statements[depends])
    return f"({arguments}) => {{ {body} return {result.text}; }}"


def times_of(formula: Formula, values: Mapping[str, StepValue]) -> str:
    """A formula over rows as a function ``(v, rows) => [times, choices]``: seconds, and which choice each row takes.

    `values`: of the names of the formula: dials as ``v[i]``, numbers of the operation as ``o[i]``, constants.
    """
    ready, code = formula.lowered, Code()
    columns = list(ready.menu)
    count = len(next(iter(ready.menu.values()))) if columns else 1
    known = {**values, **{name: StepValue(f"menu[{place}][j]", CHOICE) for place, name in enumerate(columns)}}
    whole = code.steps(ready.whole, known)
    rule = code.steps(ready.criterion, known) if ready.criterion is not None else whole
    menu = script_value([list(map(float, ready.menu[name])) for name in columns])
    arrays = "".join(f"const {name} = new Float64Array({count}); " for name in code.arrays())
    outer = f"{code.of(CHOICE)} {code.of(CHOICE | DIALS)}".strip()
    chosen = f"for (let j = 0; j < {count}; j++) {{ {outer} }}" if outer else ""
    inner = f"{code.of(CHOICE | ROW)} {code.of(CHOICE | ROW | DIALS)}"
    pick = f"if ({rule.text} < best) {{ best = {rule.text}; time = {whole.text}; at = j; }}"
    loop = f"let best = Infinity, time = NaN, at = 0; for (let j = 0; j < {count}; j++) {{ {inner} {pick} }}"
    single = f"const time = {whole.text}, at = 0;"
    row = f"{code.of(ROW)} {code.of(ROW | DIALS)} {loop if columns else single} return [time, at];"
    return (
        f"(v, rows) => {{ const menu = {menu}; {code.of(DIALS)} {arrays}{chosen} return rows.map(o => {{ {row} }}); }}"
    )


TABLE_POWERS = tuple(step / 4 for step in range(-12, 13))
"""Powers of two of today's value."""
BOUND_EVERY = 4
"""Of the points of a table the page knows at each so many-th what bounds the time: each is an estimate of its own."""
SEEN = 0.005
"""Change of log time below which a quantity does not matter."""
MOST = 8
TOGETHER = "one slider at a time shows what slipstick whatif prints; those of several are multiplied"
FIELDS = ("clock", "cores", "power.cap", "runtime.issue_overhead", "runtime.launch_overhead")


def dial_tables(question: Question, level: float) -> dict[str, dict[str, Any]]:
    """Quantity -> what the time does over `POWERS` of it: those that matter most first, in SI units.

    Raises InputError where each point would be a simulation, or nothing that is tried changes the time.
    """
    if question.estimator.alone:
        raise InputError("each point of this estimator is a simulation: its page has no sliders")
    mattering = {}
    for name in _candidates(question):
        try:
            ends = _number_table(question, name, level, TABLE_POWERS[:: len(TABLE_POWERS) - 1])
            if max(map(abs, ends["ratio"])) > SEEN:
                mattering[name] = _number_table(question, name, level)
        except InputError:
            continue  # a quantity that this estimator does not read, or that may not be so large
    if not mattering:
        raise InputError("no quantity of the machine changes this estimator's time: its page has no sliders")
    ordered = sorted(mattering, key=lambda name: -max(map(abs, mattering[name]["ratio"])))[:MOST]
    return {name: {**mattering[name], **_bounds(question, name, mattering[name]["at"])} for name in ordered}


def _candidates(question: Question) -> list[str]:
    machine, main = question.machine, question.machine.main_memory
    of_memory = [f"memory.{level}.{field}" for level in machine.memory for field in ("capacity", "bytes_per_cycle")]
    engines = [name for name in machine.numbers if ".flop_per_cycle." in name]
    fields = [name for name in (*FIELDS, f"memory.{main}.bandwidth", *of_memory, *engines) if name in machine.numbers]
    known = {**question.workload.defaults, **question.run}
    sizes = [f"run.{name}" for name in sorted(question.workload.symbols) if name in known]
    return [*sizes, *(f"machine.{name}" for name in fields if machine.get(name))]


def _number_table(
    question: Question, name: str, level: float, powers: Sequence[float] = TABLE_POWERS
) -> dict[str, Any]:
    today = value_of(question, name)
    counted = name.startswith("run.") or isinstance(question.machine.get(name.partition(".")[2]), int)
    values = sorted({_turned(today, power, counted) for power in powers})
    frame = answer(replace(question, vary=Space(FrozenDict({name: tuple(values)}))), level).frame
    banded = "low_ratio" in frame
    return {
        "at": [math.log2(value / today) for value in values],
        "ratio": [math.log(one) for one in frame.time_ratio],
        "half": [math.log(high / one) for high, one in zip(frame.high_ratio, frame.time_ratio, strict=True)]
        if banded
        else None,
        "of_time": [math.log(high / one) for high, one in zip(frame.high_s, frame.time_s, strict=True)]
        if banded
        else None,
    }


def _turned(today: float, power: float, counted: bool) -> float:  # noqa: FBT001
    value = today * 2.0**power
    return max(1.0, float(round(value))) if counted else value


def _bounds(question: Question, name: str, powers: Sequence[float]) -> dict[str, Any]:
    """Shares of the time by what bounds it, today and at each `BOUND_EVERY`th point of a table."""
    today, at, bounds = value_of(question, name), sorted({0.0, *powers[::BOUND_EVERY]}), []
    for power in at:
        value = today * 2.0**power
        if name.startswith("run."):
            changed = replace(question, run=FrozenDict({**question.run, name[4:]: float(round(value))}))
        else:
            whole = isinstance(question.machine.get(name[8:]), int)
            changed = replace(question, machine=question.machine.using({name[8:]: round(value) if whole else value}))
        given = changed.answer()
        bounds.append({key: round(share, 4) for key, share in facts(changed, given).bounds})
    return {"bounds_at": at, "bounds": bounds}


SLIDERS = 10
"""Sliders that stand open: of the quantities that matter most."""


def slide_rule(question: Question, ordered: Sequence[str] = ()) -> tuple[str, str]:
    """The script and its sliders; a sentence instead where a page cannot compute what the estimator does.

    `ordered`: names that matter, most first; where they are fewer than `SLIDERS`, sizes and the usual fields follow.
    """
    try:
        script, names, note = data_of(question)
    except InputError as error:
        return "", f"<p class=note>{escape(str(error))}</p>"
    wanted = dict.fromkeys([*ordered, *_by_use(names)])
    return script, slider_html(names, [name for name in wanted if not name.startswith(OF_ESTIMATOR)][:SLIDERS], note)


def _by_use(names: Sequence[str]) -> list[str]:
    """Sizes of the work, then clock, cores and bandwidths, then the rest, in their order."""
    usual = ("run.", "workload.", "machine.clock", "machine.cores")
    first = [name for name in names if name.startswith(usual) or name.endswith((".bandwidth", ".arrays"))]
    return [*first, *(name for name in names if name not in first)]


def in_words(name: str) -> str:
    """A quantity as one says it: ``machine.memory.HBM3.bandwidth`` is "HBM3 bandwidth"."""
    words = name.replace("_", " ").split(".")[1:]
    if len(words) > 1 and words[0] in ("memory", "engines", "links", "runtime"):
        words = [f"{words[1]} {words[0][:-1]}", *words[2:]] if words[0] in ("engines", "links") else words[1:]
    return " ".join(words)


def slider_html(names: Sequence[str], first: Sequence[str] = (), note: str = "") -> str:
    """The sliders, the ratio they give, its band, memory, and what bounds the time.

    `first`: names that matter, in their order: these stand open, the others are folded. All but fitted parameters where
        none is given.
    `note`: what holds for all sliders together, below them.
    """
    shown = [name for name in first if name in names] or [name for name in names if not name.startswith(OF_ESTIMATOR)]
    folded = [name for name in names if name not in shown]
    named = [(names.index(name), escape(in_words(name))) for name in [*shown, *folded]]
    choices = "".join(f'<option value="{place}">{words}</option>' for place, words in named)
    rest = "".join(_slider(name, names.index(name)) for name in folded)
    more = f"<details><summary>{len(folded)} more quantities</summary>{rest}</details>" if folded else ""
    return (
        "<div class=cards><div class=card><b id=time></b><small>time</small><div id=time-band class=note></div></div>"
        "<div class=card><b id=ratio></b><small>of today's time</small><div id=ratio-band class=note></div></div>"
        "<div class=card><b id=bound></b><small>bounds most of the time</small>"
        "<div id=bound-shares class=note></div></div>"
        "<div class=card id=memory-card hidden><b id=memory></b><small>memory</small>"
        "<div id=memory-fit class=note></div></div></div>"
        f"<div id=curve class=figure></div><p><label>over <select id=over>{choices}</select></label> "
        "<button id=reset>today</button></p>"
        f"{''.join(_slider(name, names.index(name)) for name in shown)}{more}"
        + (f"<p class=note>{escape(note)}</p>" if note else "")
    )


def _slider(name: str, index: int) -> str:
    return (
        f"<label class=slider><span>{escape(in_words(name))}<br><small>{breakable(name)}</small></span>"
        f'<input type=range min=-3 max=3 step=0.01 value=0 data-dial="{index}">'
        f'<output id="dial{index}"></output></label>'
    )


DRAWS = 100
"""Draws of the fitted parameters that travel with the page."""
MAX_NUMBER = 1e300
KINDS = ("machine", "run", "workload", "estimator")
"""The order of the sliders."""


def model_script(function: Compiled, names: Sequence[str]) -> str:
    """A JavaScript object {names, follow, totals, groups, schedule}: `names` are the dials, other numbers are put in.

    What follows the dials, such as a rate the sides of its array, comes after them in the array that formulas read.
    """
    dials = {name: StepValue(f"v[{index}]", DIALS) for index, name in enumerate(names)}
    stated = {name: StepValue.of(value) for name, value in {**function.stated, **function.base}.items()}
    following = [function_of(one.steps.whole, {**stated, **dials}, "v") for one in function.followed.values()]
    follow = f"v => [...v, {', '.join(f'({one})(v)' for one in following)}]"
    places = {name: StepValue(f"v[{len(names) + place}]", DIALS) for place, name in enumerate(function.followed)}
    known = {**stated, **dials, **places}
    sizes = {name.partition(".")[2]: dials[name] for name in names if name.startswith(("run.", "workload."))}
    totals = [name for name in function.schedule.names if name.startswith(("time.", "count."))]
    groups = ",\n".join(_group_script(group, known, sizes, totals) for group in function.made)
    of_totals = {name: StepValue(f"t[{index}]", DIALS) for index, name in enumerate(totals)}
    schedule = function_of(function.schedule.steps.whole, {**known, **of_totals}, "v, t")
    head = f"names: {script_value(list(names))}, follow: {follow}, totals: {len(totals)}"
    return f"{{{head},\ngroups: [{groups}],\nschedule: {schedule}}}"


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
    dials = _formula_evaluator(question)
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
        "kept": [SAME_OPERATIONS, ratios.kept(workload_kind(question.workload))],
        "other": [ratios.other_machine, NEAR],
        "seconds": seconds,
        "width": width,
        "tail": tail,
        "rest": HOST if any(name.startswith("count.") or "issue" in name for name in read) else "the schedule",
    }
    return _script(model_script(dials.function, names), about), names, ""


def _formula_evaluator(question: Question) -> Evaluator | None:
    """The quantities that a formula reads; None where the estimator is none, or its operations are a table."""
    try:
        names = sorted(numbers_of(question), key=lambda name: (KINDS.index(name.partition(".")[0]), name))
    except InputError:
        return None
    dials = Evaluator.of(question, names)
    if dials.held is not None:  # the page has the formula alone, under which a cap above the rated one would help
        names = [name for name in names if not dials.is_fixed(name)]
        dials = Evaluator.of(question, names)
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
