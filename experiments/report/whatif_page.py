"""Pages of a what-if and of an explanation: ratios to today with their bands, the formula, the source of each number,
and sliders that recompute the ratio, its band and what bounds the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.columns import Better
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, ratio_shown, shown
from slipstick.estimators.base.estimate import Estimate, Measurement
from slipstick.experiments.explain.evaluator import value_of
from slipstick.experiments.explain.explanation import COLUMNS, SEEN, interaction
from slipstick.experiments.question.cautions import contradictions, hints
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.objectives import FRONT, Objective, known_only
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.experiments.report.answer_page import bound_cards
from slipstick.experiments.report.page import (
    MAX_TABLE_ROWS,
    Card,
    Section,
    assumptions,
    best,
    folded,
    formula_html,
    front_section,
    machine_rows,
    marked,
    parameter_rows,
    picture_html,
    table_html,
    unique_ends,
    write_page,
    write_with_charts,
)
from slipstick.experiments.report.plots import Bars, Chart, Heat, Marks, PlotLine, Scale, scale_of
from slipstick.experiments.report.slide_rule import slide_rule
from slipstick.experiments.studies.whatif import WhatIf, frame_rows
from slipstick.hwmodels.machine_fields import axis, named_shown, unit_of_name

if TYPE_CHECKING:
    import pandas as pd


MAX_WRITTEN_OPERATIONS = 60
MAX_LINES = 5
UNMOVED = 0.005
"""Relative difference of all points and today below which what varies is said to change nothing."""
MAX_LINE_POINTS = 2000
SUMMARY_STRETCHES = 60


def write(
    answer: WhatIf, path: str | Path, measured: Sequence[Measurement] = (), objectives: Sequence[Objective] = ()
) -> tuple[Path, Path]:
    """Write the page to `path` and its chart beside it as PNG; returns both paths.

    `objectives`: of the Pareto front; none where left out.
    """
    question = answer.question
    frame, names = marked(answer.frame, objectives, lambda _: question, answer.level)
    charts = {"ratios": ratio_chart(answer)}
    if measured:  # else the same picture again, with other numbers along its axis
        charts["times"] = time_chart(answer, measured)
    run = "".join(f", {name} = {value:g}" for name, value in question.run.items())
    settings = [f"today: {question.machine.name}{run}"] if run else []
    title = f"What if: {question.workload.name} on {question.machine.name}"
    script, sliders = slide_rule(replace(question, vary=Space()), answer.space.names)
    sections = [
        *(Section(chart.title, picture_html(chart, name)) for name, chart in charts.items()),
        *front_section(frame, names, "points"),
        Section("From today, any quantity", sliders),
        points_section(
            frame, "points", MAX_TABLE_ROWS // 2, answer.unknown, wanted_ratio(answer), answer.today.headline.better
        ),
        folded("What takes the time today", table_html(part_rows(answer.today), "parts")),
        *formula_sections(answer),
        *assumptions([*contradictions(question), *hints(question), *answer.today.notes, *settings]),
        *source_sections(answer),
    ]
    lead = "; ".join(answer.heads[1:])
    return write_with_charts(path, [*charts.values()], title, lead, cards(answer), sections, script)


def wanted_ratio(answer: WhatIf) -> str:
    """The column of the wanted quantity over today's: time_ratio, output_ratio, ..."""
    wanted = answer.today.headline.name
    return f"{'time' if wanted == answer.today.name else wanted}_ratio"


def cards(answer: WhatIf) -> list[Card]:
    """Today, and the best point."""
    frame, ratio, wanted = equal_work(answer), wanted_ratio(answer), answer.today.headline
    timed = ratio == "time_ratio"
    place = np.nanargmax(frame[ratio]) if wanted.better == "more" else np.nanargmin(frame[ratio])
    point = frame.iloc[int(place)]
    setting = ", ".join(_setting(name, point[name]) for name in answer.space.names)
    low, high = (f"{end}_{'ratio' if timed else ratio}" for end in ("low", "high"))
    band = f", {100 * answer.level:g} % likely: {ends_shown(point[low], point[high], '')}" if low in point else ""
    same = " of today's work" if len(frame) < len(answer.frame) else ""
    which = "fastest" if timed else f"{'most' if wanted.better == 'more' else 'least'} {wanted.name}"
    today = answer.today.interval(answer.level) if timed else wanted.band
    if today:
        sure = f", {100 * answer.level:g} % likely: {ends_shown(*today, 's' if timed else wanted.unit)}"
    else:
        sure = "; how sure is unknown" + (
            ": the estimator is not calibrated" if answer.today.interval() is None else ""
        )
    estimated, bound = answer.today.provenance, bound_cards(facts(answer.question, answer.today))[:1]
    chosen = Card(
        f"{ratio_shown(point[ratio])} {'of today' if timed else 'x today'}",
        f"the {which} of {len(frame)} points{same}: {setting}{band}",
    )
    if max(1.0, frame[ratio].max()) < min(1.0, frame[ratio].min()) * (1 + UNMOVED):
        names = ", ".join(answer.space.names)
        why = f"{bound[0].value} bounds today's time; " if bound else ""
        chosen = Card(
            "no change", f"{why}all {len(frame)} points{same} differ by less than {100 * UNMOVED:g} %: {names}{band}"
        )
    elif _varies_work_alone(answer) and timed:  # less work is no faster machine
        ends = f"{ratio_shown(frame.time_ratio.min())} to {ratio_shown(frame.time_ratio.max())} of today"
        chosen = Card(ends, f"over {len(frame)} sizes of the work: {', '.join(answer.space.names)}")
    return [
        chosen,
        Card(_of_today(answer), f"today's {'time' if timed else wanted.meaning or wanted.name}, {estimated}{sure}"),
        *bound,
    ]


def _of_today(answer: WhatIf) -> str:
    """The wanted quantity today, in its unit."""
    wanted = answer.today.headline
    return shown(answer.today.time, "s") if wanted_ratio(answer) == "time_ratio" else shown(wanted.value, wanted.unit)


def _of_work(answer: WhatIf) -> list[str]:
    """What varies of the work itself: its sizes."""
    sizes = {f"run.{name}" for name in answer.question.workload.symbols}
    return [name for name in answer.space.names if name.startswith("workload.") or name in sizes]


def _varies_work_alone(answer: WhatIf) -> bool:
    return len(_of_work(answer)) == len(answer.space.names)


def equal_work(answer: WhatIf) -> pd.DataFrame:
    """The points whose workload.* is nearest to today's: less work is no faster machine. All where only work varies."""
    frame = answer.frame
    if _varies_work_alone(answer):
        return frame
    for name in _of_work(answer):
        today = {**answer.question.workload.defaults, **answer.question.run}.get(name.partition(".")[2])
        if today is not None and len(frame):
            apart = (frame[name] - today).abs()
            frame = frame[apart == apart.min()]
    return frame


def time_chart(answer: WhatIf, measured: Sequence[Measurement] = ()) -> Chart:
    """Time over the axis with the most values, one line for each combination of the others."""
    x_name = longest_axis(answer)
    points = [(measurement_value(m, x_name), m.value) for m in measured if m.quantity == "time"]
    marks = [point for point in points if point[0] is not None]
    measured_marks = (Marks("measured", [float(x or 0) for x, _ in marks], [y for _, y in marks]),) if marks else ()
    scales = _scales(answer.frame, x_name, "time_s")
    return Chart("Time", _axis(x_name), "time [s]", _lines(answer, x_name, "time_s", "s"), measured_marks, *scales)


def ratio_chart(answer: WhatIf) -> Chart:
    """Time over today's time, or the wanted quantity over today's, over the axis with the most values.

    Examples
    --------
    >>> import slipstick as ss
    >>> answer = ss.whatif("gpt2", "H100", {"machine.clock": ["1 GHz", "2 GHz"]}, estimator="roofline")
    >>> slow, fast = ss.charts.ratio_chart(answer).lines[0].y
    >>> bool(slow > 1 > fast)
    True
    """
    x_name, ratio, wanted = longest_axis(answer), wanted_ratio(answer), answer.today.headline
    timed = ratio == "time_ratio"
    scales = _scales(answer.frame, x_name, ratio)
    lines = _lines(answer, x_name, ratio, "ratio" if timed else ratio)
    y_title = f"{'time' if timed else wanted.name} / today's {_of_today(answer)}"
    side = "below 1: faster" if timed else f"{'above' if wanted.better == 'more' else 'below'} 1: better"
    return Chart(f"Ratio to today ({side})", _axis(x_name), y_title, lines, (), *scales)


def points_section(
    frame: pd.DataFrame,
    name: str,
    most: int,
    unknown: Sequence[str] = (),
    ratio: str = "time_ratio",
    better: Better = "less",
) -> Section:
    """The table of the points, best first: all, or the best and those of the front; and what is not known."""
    chosen = best(frame, most, ratio, better)
    rows = known_only(frame_rows(chosen))
    first = "fastest" if ratio == "time_ratio" else "best"
    title = "Every point" if len(chosen) == len(frame) else f"The {most} {first} of {len(frame)} points"
    if FRONT in frame and len(chosen) < len(frame):
        title += f", and {int(chosen[FRONT].sum())} of the front"
    notes = "".join(f"<p class=note>{escape(text)}</p>" for text in unknown)
    columns = [axis(column) for column in map(str, frame.columns) if "." in column]
    return Section(f"{title}, {first} first", table_html(rows, name, columns) + notes)


def longest_axis(answer: WhatIf) -> str:
    """The name with the most values."""
    return max(answer.space.names, key=lambda name: answer.frame[name].nunique())


def measurement_value(measurement: Measurement, name: str) -> float | None:
    """Where a measurement stands on the axis `name`, in its SI unit; None where it does not state it."""
    space, _, path = name.partition(".")
    if space == "run":
        return measurement.run.get(path)
    if space == "machine":
        return float(measurement.machine.get(path))
    return None


def part_rows(today: Estimate) -> list[dict[str, Any]]:
    """The operations of today's estimate, slowest first."""
    frame = today.to_frame().sort_values("total_s", ascending=False)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def source_sections(answer: WhatIf, name: str = "whatif") -> list[Section]:
    """Where each parameter and each number of the machine comes from."""
    question = answer.question
    parameters = table_html(parameter_rows(question.estimator), f"{name}-parameters")
    machine = table_html(machine_rows(question.machine), f"{name}-machine")
    return [
        folded("Where each parameter comes from", parameters),
        folded("Where each number of the machine comes from", machine),
    ]


def formula_sections(answer: WhatIf) -> list[Section]:
    """The formula, where the estimator is one."""
    workload = answer.question.workload
    if len(workload) > MAX_WRITTEN_OPERATIONS:
        note = f"The formula is the sum over {len(workload)} operations; slipstick explain prints it by part."
        return [folded("The formula", f"<p class=note>{note}</p>")]
    try:
        formula = answer.question.estimator.model.formula(workload, answer.question.machine)
    except (InputError, AttributeError):
        return [folded("The formula", "<p class=note>This estimator is no formula (a table or a simulation).</p>")]
    if formula.expression.count_ops() > 400:
        note = f"The formula has {formula.expression.count_ops()} operations; slipstick explain prints it by part."
        return [folded("The formula", f"<p class=note>{note}</p>")]
    return [folded("The formula", formula_html(formula))]


def _lines(answer: WhatIf, x_name: str, column: str, unit: str) -> tuple[PlotLine, ...]:
    """One line for each combination of the other axes; of many, for a few values of one, the rest as today."""
    frame = answer.frame.sort_values(x_name)
    others = [name for name in answer.space.axes if name != x_name]
    if others and len(frame[others].drop_duplicates()) > MAX_LINES:
        others.sort(key=lambda name: -frame[name].nunique())
        for name in others[1:]:
            frame = frame[frame[name] == _nearest(frame[name].unique(), value_of(answer.question, name))]
        values = np.sort(frame[others[0]].unique())
        kept = values[np.unique(np.linspace(0, len(values) - 1, MAX_LINES).round().astype(int))]
        frame = frame[frame[others[0]].isin(kept)]
    groups: list[tuple[Any, pd.DataFrame]] = list(frame.groupby(others)) if others else [((), frame)]
    rest = [name for name in answer.space.sampled if name != x_name]
    lines = []
    for key, part in groups:
        label = ", ".join(_setting(name, value) for name, value in zip(others, key, strict=True))
        if len(part) > MAX_LINE_POINTS or (rest and part[x_name].duplicated().any()):
            lines.append(_summary(part, x_name, column, label, rest))
            continue
        columns = [np.asarray(part[name]) for name in (x_name, column)]
        band = [np.asarray(part[f"{end}_{unit}"]) if f"{end}_{unit}" in part else None for end in ("low", "high")]
        lines.append(PlotLine(label or "predicted", columns[0], columns[1], band[0], band[1]))
    return tuple(lines)


def _nearest(values: Any, today: float) -> float:
    return float(values[np.argmin(np.abs(np.log(values / today)))])


def _summary(frame: pd.DataFrame, x_name: str, column: str, label: str, over: Sequence[str]) -> PlotLine:
    """Many points as one line: the median, and the range, of those at each value, or in stretches of equal count."""
    x, y = frame[x_name].to_numpy(), frame[column].to_numpy()
    values, starts = np.unique(x, return_index=True)
    parts = np.split(np.arange(len(x)), starts[1:])
    if len(values) > SUMMARY_STRETCHES:
        parts = np.array_split(np.arange(len(x)), SUMMARY_STRETCHES)
    note = f"median and range of {len(frame):,} points" + (f" over {', '.join(over)}" if over else "")
    middle = [float(np.median(x[part])) for part in parts]
    ends = [[float(reduce(y[part])) for part in parts] for reduce in (np.median, np.min, np.max)]
    return PlotLine(f"{label}: {note}" if label else note, middle, ends[0], ends[1], ends[2])


def _setting(name: str, value: float) -> str:
    return f"{name} = {named_shown(name, value)}"


def _axis(name: str) -> str:
    unit = unit_of_name(name)
    return f"{name} [{unit}]" if unit else name


def _scales(frame: pd.DataFrame, x_name: str, y_name: str) -> tuple[Scale, Scale]:
    return scale_of(frame[x_name]), scale_of(frame[y_name])


TORNADO_BARS = 14
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def write_explanation(
    question: Question,
    answer: Estimate,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    target: float,
    path: str | Path,
) -> Path:
    """Write the page; returns its path.

    `target`: the ratio to today's time that the changes reach.
    """
    script, sliders = slide_rule(question, [str(row["quantity"]) for row in tables["elasticities"]])
    tornado = tables["tornado"][:TORNADO_BARS]
    ends = [[row["divided"] or 1.0, row["multiplied"] or 1.0] for row in tornado]
    bars = Bars(
        "Each quantity halved and doubled",
        "time / today's time",
        short_labels([str(row["quantity"]) for row in tornado]),
        [min(pair) for pair in ends],
        [max(pair) for pair in ends],
    )
    reached = [row for row in tables["changes"] if row.get("factor")]
    mattering = [row for row in tables["elasticities"] if abs(row["elasticity"] or 0.0) >= SEEN]
    sections = [
        Section("", sliders),
        *([Section("What the time hangs on", picture_html(bars, "tornado"))] if tornado and mattering else []),
        *_section("Elasticities", mattering, "elasticities"),
        *_interaction(question, [str(row["quantity"]) for row in mattering]),
        Section("What bounds the time", table_html(tables["bottlenecks"], "bottlenecks")),
        *_section("Where an operation changes what bounds it", tables["crossovers"], "crossovers"),
        *_section(f"What alone brings the time to {target:.3g} of today's", reached, "changes"),
    ]
    if "together" in tables:
        title = f"The cheapest change of several that brings the time to {target:g}"
        sections.append(Section(title, table_html(tables["together"], "together", COLUMNS)))
    if "ranking" in tables:
        sections.append(Section("How surely which is faster", table_html(tables["ranking"], "ranking")))
    sections.append(folded("What takes the time today", table_html(part_rows(answer), "parts")))
    whatif = WhatIf(question, None, answer, None, 0.8)  # type: ignore[arg-type]
    sections += formula_sections(whatif)
    sections += assumptions([*contradictions(question), *hints(question), *answer.notes])
    sections += source_sections(whatif, "sources")
    band = answer.interval()
    sure = f"80 % likely: {ends_shown(*band)}" if band else "how sure is unknown"
    cards = [] if script else [Card(shown(answer.time, "s"), f"today's time; {sure}")]
    title = f"{question.workload.name} on {question.machine.name}"
    return write_page(path, f"Slide rule: {title}", "; ".join(answer.heads[1:]), cards, sections, script)


LONGEST_LABEL = 22
"""Characters of a bar's label: longer ones leave no room for the bars on a phone."""


def short_labels(names: Sequence[str]) -> list[str]:
    """Names of quantities by their last words: as many as fit, more where two would be one."""
    fitting = [[end for end in ends if len(end) <= LONGEST_LABEL] or ends[:1] for ends in unique_ends(names)]
    return [ends[-1] for ends in fitting]


def _section(title: str, rows: Sequence[Mapping[str, Any]], name: str) -> list[Section]:
    """A table under its title; none where it has no rows."""
    return [Section(title, table_html(rows, name, COLUMNS))] if rows else []


def _interaction(question: Question, names: Sequence[str]) -> list[Section]:
    """Two quantities of the machine together; none where fewer than two matter."""
    chosen = [name for name in names if name.startswith("machine.")][:2]
    if len(chosen) < 2:
        return []
    grid = interaction(question, chosen[0], chosen[1], FACTORS)
    alone = np.outer(grid[:, FACTORS.index(1.0)], grid[FACTORS.index(1.0)])
    title = "Time over today's; rows and columns are factors on today's values"
    figure = Heat(title, f"factor on {chosen[0]}", f"factor on {chosen[1]}", FACTORS, FACTORS, grid)
    most = float(np.max(np.abs(np.log(grid / alone))))
    text = f"Were they independent, each cell would be the product of its edges; they differ by up to {most:.1%}."
    note = f"<p class=note>{text}</p>"
    return [Section("Two together", picture_html(figure, "interaction") + note)]
