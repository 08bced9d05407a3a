"""A compiled estimator as JavaScript: the page computes by itself, with the formulas that Python computes with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.jscode import JavascriptCodePrinter

from slipstick.estimators.composites.compiled import Compiled, Group
from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.formula import Formula
from slipstick.estimators.tuned.tuned_ratios import NEAR, OTHER_MACHINE, OTHER_SIZES, SAME_OPERATIONS
from slipstick.experiments.explain.dials import Dials, numbers_of
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.graph.cost import Amount

DRAWS = 100
"""Draws of the fitted parameters that travel with the page."""
MAX_NUMBER = 1e300
KINDS = ("machine", "run", "workload", "estimator")
"""The order of the sliders."""


class _Printer(JavascriptCodePrinter):  # type: ignore[misc]
    """Numbers in full, symbols by their place in the arrays v (quantities), o (operation) and t (totals)."""

    def __init__(self, places: Mapping[str, str]) -> None:
        super().__init__({"precision": 17})
        self._places = places

    def _print_Symbol(self, expr: sp.Symbol) -> str:
        if expr.name not in self._places:
            raise InputError(f"this estimator chooses by {expr.name}, which a page cannot: its page has no sliders")
        return self._places[expr.name]

    def _print_Float(self, expr: sp.Float) -> str:
        return repr(float(expr))

    def _print_Largest(self, expr: sp.Expr) -> str:
        return f"Math.max({self.stringify(expr.args, ', ')})"

    def _print_Smallest(self, expr: sp.Expr) -> str:
        return f"Math.min({self.stringify(expr.args, ', ')})"


def script_value(value: Any) -> str:
    """Plain data as a JavaScript literal that may stand inside a page."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def model_script(function: Compiled, names: Sequence[str]) -> str:
    """A JavaScript object {names, base, totals, groups, schedule}: `names` are the dials, `base` all other numbers."""
    quantities = [*names, *(name for name in function.base if name not in names)]
    places = {name: f"v[{index}]" for index, name in enumerate(quantities)}
    inside = {name.partition(".")[2]: places[name] for name in names if name.startswith(("run.", "workload."))}
    totals = [n for n in function.schedule.names if n.startswith(("time.", "count."))]
    place_of_total = {name: f"t[{index}]" for index, name in enumerate(totals)}
    groups = ",\n".join(_group_script(group, places, inside, totals) for group in function.groups)
    schedule = _expression(function.schedule.expression, {**places, **place_of_total})
    base = [function.base.get(name, 0.0) for name in quantities]
    return (
        f"{{names: {script_value(list(names))}, base: {script_value(base)}, totals: {len(totals)},\n"
        f"groups: [{groups}],\nschedule: (v, t) => {schedule}}}"
    )


def _group_script(group: Group, places: Mapping[str, str], inside: Mapping[str, str], totals: Sequence[str]) -> str:
    columns = list(group.amounts)
    names = {name: f"o[{index}]" for index, name in enumerate(columns)}
    rows = len(next(iter(group.multiplicity.values())))
    amounts = ", ".join(
        "[" + ", ".join(_amount(group.amounts[name][row], inside) for name in columns) + "]" for row in range(rows)
    )
    weights = []
    for lane, column in group.multiplicity.items():
        here = [totals.index(name) if name in totals else -1 for name in (f"time.{lane}", f"count.{lane}")]
        weights.append(f"[{here[0]}, {here[1]}, [{', '.join(_amount(amount, inside) for amount in column)}]]")
    known = {**places, **names}
    named = group.formula.substitute(_own_names(group.formula, places))
    terms = ", ".join(
        f"[{script_value(name)}, (v, o) => {_expression(sp.sympify(term, strict=True), known)}]"
        for name, term in named.terms.items()
        if all(str(one) in known for one in sp.sympify(term, strict=True).free_symbols)  # else the page cannot say it
    )
    return (
        f"{{rows: v => [{amounts}],\n weights: v => [{', '.join(weights)}],\n"
        f" time: (v, o) => {_expression(group.formula.expression, known)},\n terms: [{terms}]}}"
    )


def _own_names(formula: Formula, places: Mapping[str, str]) -> dict[str, Any]:
    """Terms keep the operation model's own names (parameter.NAME): give them the names that the page knows."""
    from slipstick.hwmodels.files.expressions import symbol

    names = {}
    for term in formula.terms.values():
        for name in map(str, sp.sympify(term, strict=True).free_symbols):
            full = f"estimator.operation.{name.removeprefix('parameter.')}"
            if name.startswith("parameter.") and full in places:
                names[name] = symbol(full)
    return names


def _amount(amount: Amount, inside: Mapping[str, str]) -> str:
    return _expression(amount, inside) if isinstance(amount, sp.Basic) else repr(float(amount))


def _expression(expression: sp.Expr, places: Mapping[str, str]) -> str:
    return str(_Printer(places).doprint(sp.sympify(expression, strict=True)))


def data_of(question: Question, level: float = DEFAULT_LEVEL) -> tuple[str, list[str]]:
    """The script of a question's slide rule, and its dials: quantities of machine, run, workload, estimator.

    Raises
    ------
    InputError
        Where the estimator is no formula: a page cannot compute a table or a simulation.
    """
    names = sorted(numbers_of(question), key=lambda name: (KINDS.index(name.partition(".")[0]), name))
    dials = Dials.of(question, names)
    if not dials.is_formula:
        raise InputError("this estimator is no formula: its page has no sliders")
    draws: list[list[float]] = []
    residual, seconds, width, tail, fitted = None, 0.0, 0.0, 0.0, []
    calibration = question.estimator.uncertainty
    if calibration is not None:
        sample = calibration.parameter_draws(DRAWS)
        known = [f"estimator.{name}" for name in calibration.names]
        chosen = [index for index, name in enumerate(known) if name in names]
        fitted = [names.index(known[index]) for index in chosen]
        draws = [] if sample is None else np.asarray(sample)[:, chosen].tolist()
        residual, seconds = calibration.residual_std, calibration.residual_seconds or 0.0
        width = quantile(level, calibration.degrees_of_freedom)
        tail = quantile(level, calibration.residual_freedom or calibration.degrees_of_freedom)
    notes = dials.function.bounds
    limits = [notes.get(name.removeprefix("estimator.")) if name.startswith("estimator.") else None for name in names]
    about = {
        "low": [max(note.low, -MAX_NUMBER) if note else -MAX_NUMBER for note in limits],
        "high": [min(note.high, MAX_NUMBER) if note else MAX_NUMBER for note in limits],
        "today": [dials.today[name] for name in names],
        "whole": [name in dials.whole or name.startswith("run.") for name in names],
        "fitted": fitted,
        "draws": draws,
        "residual": residual,
        "kept": [SAME_OPERATIONS, OTHER_SIZES],
        "other": [OTHER_MACHINE, NEAR],
        "seconds": seconds,
        "width": width,
        "tail": tail,
        "level": level,
    }
    return f"const model = {model_script(dials.function, names)};\nconst about = {script_value(about)};\n{RULE}", names


def slider_html(names: Sequence[str]) -> str:
    """The sliders, the ratio they give, its band, and what bounds the time."""
    sliders = "".join(
        f"<label class=slider><span>{escape(name)}</span>"
        f'<input type=range min=-3 max=3 step=0.01 value=0 data-dial="{index}">'
        f'<output id="dial{index}"></output></label>'
        for index, name in enumerate(names)
    )
    choices = "".join(f'<option value="{index}">{escape(name)}</option>' for index, name in enumerate(names))
    return (
        "<div class=cards><div class=card><b id=ratio></b><small>of today's time, with its band</small>"
        "<div id=ratio-band class=note></div></div>"
        "<div class=card><b id=time></b><small>time</small><div id=time-band class=note></div></div>"
        "<div class=card><b id=bound></b><small>bounds most of the time</small>"
        "<div id=bound-shares class=note></div></div></div>"
        f"{sliders}<p><button id=reset>today</button> <label>curve over <select id=over>{choices}</select></label></p>"
        '<div id=curve class=figure style="height:340px"></div>'
    )


RULE = """
const slipstick = {
  names: model.names,
  values(dials) { return [...dials, ...model.base.slice(dials.length)]; },
  run(dials) {
    const v = this.values(dials), t = new Array(model.totals).fill(0), bound = {};
    for (const group of model.groups) {
      const rows = group.rows(v), times = rows.map(o => group.time(v, o));
      const ties = rows.map(o => group.terms.map(([name, term]) => [name, term(v, o)]));
      for (const [time, count, weights] of group.weights(v)) weights.forEach((weight, i) => {
        if (time >= 0) t[time] += weight * times[i];
        if (count >= 0) t[count] += weight;
        if (ties[i].length) { const name = ties[i].reduce((a, b) => b[1] > a[1] ? b : a)[0];
          bound[name] = (bound[name] || 0) + weight * times[i]; }
      });
    }
    return {time: model.schedule(v, t), bound};
  },
  time(dials) { return this.run(dials).time; },
  spread(logs) { const mean = logs.reduce((a, b) => a + b, 0) / logs.length;
    return Math.sqrt(logs.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, logs.length - 1)); },
  drawn(dials) { return about.draws.map(draw => { const turned = [...dials];
    about.fitted.forEach((place, i) => { turned[place] = draw[i]; }); return Math.log(this.time(turned)); }); },
  band(dials) {
    if (about.residual === null && !about.draws.length) return null;
    const here = this.drawn(dials), today = this.todayDraws ??= this.drawn(about.today);
    const same = dials.every((value, i) => value === about.today[i]);
    const scatter = point => about.tail * Math.hypot(about.residual || 0, about.seconds / this.time(point));
    const time = Math.hypot(here.length ? about.width * this.spread(here) : 0, scatter(dials));
    const sizes = dials.some((value, i) => value !== about.today[i] && !model.names[i].startsWith('machine.'));
    const apart = Math.sqrt(1 - Math.exp(-Math.abs(Math.log(this.time(dials) / this.time(about.today)))
                                         / about.kept[sizes ? 1 : 0]));
    const change = Math.max(0, ...dials.map((value, i) => model.names[i].startsWith('machine.')
      ? Math.abs(Math.log(value / about.today[i])) : 0));
    const other = about.tail * about.other[0] * Math.sqrt(1 - Math.exp(-change / about.other[1]));
    const ratio = same ? 0 : Math.hypot(here.length ? about.width * this.spread(here.map((x, i) => x - today[i])) : 0,
                                        Math.hypot(scatter(dials), scatter(about.today)) * apart, other);
    return {time: Math.exp(time), ratio: Math.exp(ratio)};
  },
  unit(seconds) {
    if (seconds >= 5400) return (seconds / 3600).toPrecision(4) + ' h';
    if (seconds >= 60) return (seconds / 60).toPrecision(4) + ' min';
    const [scale, name] = seconds >= 1 ? [1, 's'] : seconds >= 1e-3 ? [1e3, 'ms'] : [1e6, '\\u00b5s'];
    return (seconds * scale).toPrecision(4) + ' ' + name;
  },
};
window.slipstick = slipstick;
(() => {
  const inputs = [...document.querySelectorAll('input[data-dial]')];
  if (!inputs.length) return;
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  const turned = (place, power) => {
    const value = Math.min(about.high[place], Math.max(about.low[place], about.today[place] * 2 ** power));
    return about.whole[place] && power !== 0 ? Math.max(1, Math.round(value)) : value; };
  const short = value => {
    const scales = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1, ''], [1e-3, ' m'], [1e-6, ' \u00b5']];
    const [scale, name] = scales.find(([size]) => Math.abs(value) >= size) || [1, ''];
    return Number((value / scale).toPrecision(5)).toString() + name; };
  const dials = () => about.today.map((_, place) => turned(place, Number(inputs[place].value)));
  const base = slipstick.time(about.today);
  const percent = Math.round(about.level * 100) + ' %: ';
  const show = () => {
    const now = dials(), {time, bound} = slipstick.run(now), band = slipstick.band(now), ratio = time / base;
    put('ratio', ratio.toPrecision(3)); put('time', slipstick.unit(time));
    const [least, most] = band ? [ratio / band.ratio, ratio * band.ratio].map(x => x.toPrecision(3)) : [];
    put('ratio-band', band ? percent + least + ' .. ' + most : 'how sure is unknown: not calibrated');
    const [early, late] = band ? [time / band.time, time * band.time].map(slipstick.unit) : [];
    put('time-band', band ? percent + early + ' .. ' + late : '');
    const whole = Object.values(bound).reduce((a, b) => a + b, 0);
    const sorted = Object.entries(bound).sort((a, b) => b[1] - a[1]);
    put('bound', sorted.length ? sorted[0][0] : 'one formula');
    put('bound-shares', sorted.map(([name, part]) => name + ' ' + (100 * part / whole).toFixed(0) + ' %').join(', '));
    now.forEach((value, place) => put('dial' + place, short(value)));
    const place = Number(document.getElementById('over').value), x = [], y = [], low = [], high = [];
    for (let power = -3; power <= 3.0001; power += 0.1) {
      const there = [...now]; there[place] = turned(place, power);
      const value = slipstick.time(there) / base, width = slipstick.band(there);
      x.push(there[place]); y.push(value); low.push(width ? value / width.ratio : value);
      high.push(width ? value * width.ratio : value);
    }
    const faint = 'rgba(31,90,145,0.16)', plain = {showlegend: false, mode: 'lines'};
    const around = {x: [...x, ...[...x].reverse()], y: [...high, ...low.reverse()]};
    Plotly.react('curve', [
      {...plain, ...around, fill: 'toself', fillcolor: faint, line: {width: 0, color: faint}, hoverinfo: 'skip'},
      {...plain, x, y, name: 'ratio', line: {color: '#1f5a91'}},
      {...plain, x: [now[place]], y: [ratio], mode: 'markers', name: 'here', marker: {size: 10, color: '#c2571a'}},
    ], {margin: {l: 56, r: 12, t: 12, b: 46},
        xaxis: {title: {text: model.names[place].replaceAll('<', '&lt;')}, type: 'log'},
        yaxis: {title: {text: "time / today's time"}, type: 'log'}}, {displayModeBar: false, responsive: true});
  };
  let waiting = false;
  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; show(); }); } };
  inputs.forEach(input => input.addEventListener('input', later));
  document.getElementById('over').addEventListener('change', later);
  document.getElementById('reset').addEventListener('click', () => { inputs.forEach(i => { i.value = 0; }); later(); });
  show();
})();
"""
