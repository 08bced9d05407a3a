"""What `slipstick whatif` prints: today first, then ratios; a rate where the points make different amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstick.experiments.pages.output import emit, emit_line, line_width
from slipstick.experiments.question.answers.facts import items_of, unit_of
from slipstick.experiments.question.answers.lines import assumptions, headline
from slipstick.experiments.question.answers.readable import sweep_row, value_shown
from slipstick.experiments.question.domain import remarks
from slipstick.experiments.question.objectives import known_only
from slipstick.experiments.studies.whatif import WhatIf, frame_rows
from slipstick.hwmodels.files.shown import count_shown

if TYPE_CHECKING:
    import pandas as pd

AMOUNTS = ("batch", "seq_len")


def print_sweep_table(
    answer: WhatIf, frame: pd.DataFrame, front: Sequence[str], rows: int, lines: Sequence[str], *, verbose: bool = False
) -> None:
    """The table of a what-if; `front`: the objectives whose Pareto front it is."""
    notes = [f"today: {headline(answer.question, answer.today)}"]
    if answer.today.interval() and "low_ratio" in frame:
        notes.append("bands of ratios: what was fitted, and most of what the fit misses, is one for both times")
    doubts = remarks(answer.question)  # below the table, with what is assumed
    notes += [text for text in lines if text not in doubts]
    rate = _with_rate(answer, frame)
    if rate:
        at = int(frame[rate].to_numpy(float).argmax())
        where = ", ".join(f"{name} = {value_shown(name, float(frame[name].iloc[at]))}" for name in answer.space.names)
        notes.append(f"most {rate}: {count_shown(float(frame[rate].iloc[at]))} at {where}")
    if front:
        notes.append(f"{int(frame.front.sum())} of {len(frame)} points are beaten by no other in {', '.join(front)}:")
        frame = frame[frame.front]
    if len(frame) > rows:
        order = "with the most " + rate if rate else "fastest"
        notes.append(f"the {rows} {order} of {len(frame)} points (--format csv gives all):")
        frame = frame.nlargest(rows, rate) if rate else frame.nsmallest(rows, "time_ratio")
    shown = known_only(frame_rows(frame))
    if rate:
        shown = [{**row, rate: count_shown(float(value))} for row, value in zip(shown, frame[rate], strict=True)]
    emit([sweep_row(row, answer.space.names, answer.level, line_width()) for row in shown], "table", notes=notes)
    for text in [*assumptions(answer.question, answer.today, verbose=verbose), *answer.unknown]:
        emit_line(text)


def _with_rate(answer: WhatIf, frame: pd.DataFrame) -> str:
    """Adds the column of a rate where points make different amounts; its name, else ""."""
    unit = unit_of(answer.question)
    names = [name for name in answer.space.names if name.partition(".")[2] in AMOUNTS and name in frame]
    if not (unit and names) or not len(frame):
        return ""
    columns = {str(name): frame[name].to_numpy(float) for name in answer.space.names}
    times = frame.time_s.to_numpy(float)
    points = ({name: float(column[i]) for name, column in columns.items()} for i in range(len(times)))
    frame[f"{unit}/s"] = [items_of(answer.question, point) / time for point, time in zip(points, times, strict=True)]
    return f"{unit}/s"
