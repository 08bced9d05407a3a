"""Validation as files: rows of a scoreboard as JSON, from them a page a board, and a front page of them all.

`rows/NAME.json` holds what `slipstick validate NAME` gave, by which command, when, and at which commit. Everything else
is made from these files: `NAME.md` (not committed: `make docs` makes it), and beside the folder a front page of its
name with a picture: what people ask, our error on things never seen, beside the best simple method and the noise.
Shares are shown in per cent; what is missed stands first.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from slipstick.common.readers import read_json
from slipstick.common.writer import atomic_write
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import Board, Front
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.score_summary import Summary

ROOT = Path(__file__).resolve().parents[2]
PICTURE = "validation.svg"
PLAIN = re.compile(r"interval score|width of|ratio|over without|ours /|pairs|times\b", re.IGNORECASE)
"""Metrics of unit 1 that are no shares."""
SHARE = re.compile(r"log ratio|- 1\|")
"""Metrics that are shares whatever else their names say."""
HEAD = """\
# Validation

How far is an answer off, on something that no fit has seen? Each line is a kind of question. What was left out of the
fit is named; half of the answers lie within the first error, nine of ten within the second. Beside them stand the best
simple method on the same rows, the noise of the measurements where it is known, and how many of the measurements lie
inside our 80 % band.

![Error on things never seen, beside the best simple method]({picture})

## Accuracy by question

{missed} of {count} kinds of question miss their goal: they stand first.

| question | never seen | answers | half within | nine of ten | goal | best simple method | noise | in the band |
|---|---|---|---|---|---|---|---|---|"""
FOOT = """
Bold: the goal is missed. Errors are of times. The band should hold 80 % of the measurements (90 % for the TPU); a share
far above: too wide; below: too narrow. Errors of a logarithm are times 100.

The best simple method, chosen with hindsight, is nearer than ours in: {worse}. A rule of thumb (70 % of the bandwidth,
50 % of the peak, 45 % in training) is nearer at the median in: {ruled}.

## All scoreboards together

{together}

Chance draws again what was left out (`python -m tools.baselines`; `--bands` for classes).

## The {boards} scoreboards

{met} of {goals} goals are met. A page each, with every row, baselines and bands: {pages}.

`make docs` makes the pages from `rows/NAME.json`.

## How to repeat it

`slipstick validate NAME` scores a board; `--save docs/validation` writes its rows (`rows/NAME.json`, with command, date
and commit) and makes these pages anew. Public measurements are read through the environment variable `SLIPSTICK_DATA`
and are never shipped: `slipstick data list` names the sets, `slipstick data get NAME` says where each comes from, at
which commit and under which licence, and whether the files here are those.

`slipstick validate NAME --data DIR` scores measurements of yours: files of the same relative names; rows that stand
there leave the fit. `--machines DIR` adds machine files for devices that the catalogue lacks; what cannot be read is a
skipped row with its reason. `--predictor MODULE:FUNCTION` scores a model of yours on the same rows
([predictors](predictors.md)).
"""


@dataclass(frozen=True)
class Saved:
    """The rows of one scoreboard, and how they were made."""

    board: str
    command: str
    date: str
    commit: str
    rows: tuple[ValidationRow, ...]


def save(board: str, rows: Sequence[ValidationRow], folder: Path, options: str = "") -> None:
    """Write the rows of a scoreboard into `folder`/rows/NAME.json; `options` of the command stand in it."""
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    document = {
        "board": board,
        "command": f"slipstick validate {board} {options}".rstrip(),
        "date": date.today().isoformat(),
        "commit": _commit(),
        "rows": [_finite(row) for row in rows],
    }
    with atomic_write(folder / "rows" / f"{board}.json") as stream:
        stream.write(json.dumps(document, indent=1) + "\n")


def saved(folder: Path) -> dict[str, Saved]:
    """What stands in `folder`/rows, by the name of the board."""
    result = {}
    names = {field.name for field in fields(ValidationRow)}
    for path in sorted((folder / "rows").glob("*.json")):
        document = read_json(path)
        rows = tuple(ValidationRow(**{key: row[key] for key in names & row.keys()}) for row in document["rows"])
        result[path.stem] = Saved(path.stem, document["command"], document["date"], document["commit"], rows)
    return result


def write_pages(folder: Path, boards: Mapping[str, Board]) -> None:
    """Every board's page below `folder`, the front page and its picture beside it."""
    runs = write_board_pages(folder, boards)
    lines = front_lines(runs, boards)
    whole = folder.resolve()
    together = "\n".join(Summary.of(folder / "rows").lines())
    _write(whole.with_name(f"{whole.name}.md"), front_page(lines, runs, whole.name, together))
    draw(lines, folder / PICTURE)


def write_board_pages(folder: Path, boards: Mapping[str, Board]) -> dict[str, Saved]:
    """A page a scoreboard from the saved rows; returns what was saved."""
    runs = saved(folder)
    for name, run in runs.items():
        _write(folder / f"{name}.md", board_page(run, boards[name].question if name in boards else ""))
    return runs


@dataclass(frozen=True)
class Line:
    """A question of the front page with the rows that answer it: the usual error, and that of one in ten."""

    front: Front
    board: str
    usual: ValidationRow
    tenth: ValidationRow | None

    @property
    def missed(self) -> bool:
        """Whether a goal of either is missed."""
        return any(row is not None and row.ok is False for row in (self.usual, self.tenth))


def front_lines(runs: Mapping[str, Saved], boards: Mapping[str, Board]) -> list[Line]:
    """The lines whose rows are there; those that miss a goal first, the largest error first in each half."""
    result = []
    for name, run in runs.items():
        for front in boards[name].front if name in boards else ():
            rows = [row for row in run.rows if front.chooses(row)]
            if rows:
                tenth = next((row for row in rows[1:] if "90th" in row.metric), None)
                result.append(Line(front, name, rows[0], tenth))
    return sorted(result, key=lambda line: (not line.missed, -_percent(line.usual, line.usual.ours)))


def board_page(run: Saved, question: str) -> str:
    """A page: what is asked, how it was made, which goals are missed, then a table of every data set."""
    lines = [f"# Scoreboard: {run.board}", "", question, ""]
    lines += [f"`{run.command}`, {run.date}, commit {run.commit}. Made from `rows/{run.board}.json`."]
    judged = [row for row in run.rows if row.ok is not None]
    missed = [row for row in judged if row.ok is False]
    lines += ["", f"{len(judged)} goals, {len(missed)} missed."] if judged else []
    if missed:
        lines += ["", "## Missed", ""]
        for dataset, group in groupby(missed, key=lambda row: row.dataset):
            cases = dict.fromkeys(row.case for row in group)
            lines += [f"- {dataset}: {'; '.join(cases)}"]
    for dataset, group in groupby(run.rows, key=lambda row: row.dataset):
        rows = list(group)
        lines += ["", f"## {dataset}", "", *_table(rows)]
    return "\n".join(lines).rstrip() + "\n"


def front_page(lines: Sequence[Line], runs: Mapping[str, Saved], folder: str = "validation", together: str = "") -> str:
    """The front page: one table, one picture, all boards together, and where everything is below the folder."""
    missed = sum(line.missed for line in lines)
    goals = [row for run in runs.values() for row in run.rows if row.ok is not None]
    met = sum(row.ok is True for row in goals)
    text = [HEAD.format(picture=f"{folder}/{PICTURE}", missed=missed, count=len(lines))]
    for line in lines:
        row, tenth = line.usual, line.tenth
        cells = [
            f"[{line.front.question}]({folder}/{line.board}.md)",
            line.front.unseen,
            str(row.n),
            ("**{}**" if row.ok is False else "{}").format(_value(row, row.ours)),
            "" if tenth is None else ("**{}**" if tenth.ok is False else "{}").format(_value(tenth, tenth.ours)),
            " / ".join(filter(None, (_value(row, row.goal), _value(tenth, tenth.goal) if tenth else ""))),
            _value(row, min(row.baselines.values(), default=None)),
            _value(row, row.noise_floor),
            "" if row.interval_coverage is None else f"{100 * row.interval_coverage:.0f} %",
        ]
        text.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    pages = ", ".join(f"[{name}]({folder}/{name}.md)" for name in runs)
    worse = "; ".join(
        f"{line.front.question} ({line.front.unseen})"
        for line in lines
        if min(line.usual.baselines.values(), default=float("inf")) < (line.usual.ours or 0.0)
    )
    text.append(
        FOOT.format(
            ruled=ruled(runs) or "none",
            worse=worse or "none",
            boards=len(runs),
            met=met,
            goals=len(goals),
            pages=pages,
            together=together,
        )
    )
    return "\n".join(text)


def ruled(runs: Mapping[str, Saved]) -> str:
    """On which boards the rule of thumb errs less at the median than ours does, and in how many of their cases."""
    made = []
    for name, run in runs.items():
        cases = [row for row in run.rows if RULE in row.baselines and "median" in row.metric and row.n > 1]
        lost = [row for row in cases if row.baselines[RULE] < (row.ours or 0.0)]
        made += [f"{name} ({len(lost)} of {len(cases)} cases)"] if lost else []
    return ", ".join(made)


def draw(lines: Sequence[Line], path: Path) -> None:
    """A dot for our error, a ring for the best simple method and a tick for the noise, a line of the table each."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"svg.hashsalt": "slipstick", "font.size": 9, "svg.fonttype": "none"}):
        figure, axes = plt.subplots(figsize=(9, 0.34 * max(1, len(lines)) + 0.9))
        for place, line in enumerate(reversed(lines)):
            row = line.usual
            best = min(row.baselines.values(), default=None)
            ours = _percent(row, row.ours)
            if best is not None:
                axes.plot([ours, _percent(row, best)], [place, place], color="0.8", zorder=1)
                axes.plot(_percent(row, best), place, "o", mfc="white", mec="0.4")
            judged = any(each is not None and each.ok is not None for each in (row, line.tenth))
            axes.plot(ours, place, "o", color="#c0392b" if line.missed else "#1f6f54" if judged else "0.45")
            if row.noise_floor:
                axes.plot(_percent(row, row.noise_floor), place, "|", color="0.3", ms=9)
        axes.set_xscale("log")
        axes.set_yticks(
            range(len(lines)), [f"{one.front.question}; unseen: {one.front.unseen}" for one in reversed(lines)]
        )
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        axes.set_xlabel(
            "half of the errors lie below; red: goal missed, green: met, grey: none; ring: simple method; tick: noise"
        )
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.grid(axis="x", color="0.92")
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def _table(rows: Sequence[ValidationRow]) -> list[str]:
    """A line a case: every metric of it with its goal, then each baseline and the noise in the order of the metrics.

    A remark on one case alone stands in its line, one on several below the table.
    """
    cases: dict[tuple[str, str, int], list[ValidationRow]] = {}
    reasons: dict[str, set[tuple[str, str, int]]] = {}
    for row in rows:
        key = (row.case, row.held_out, row.n)
        cases.setdefault(key, []).append(row)
        if row.reason:
            reasons.setdefault(row.reason, set()).add(key)
    shared = [f"- {reason}" for reason, keys in reasons.items() if len(keys) > 1 or len(cases) == 1]
    noted = len(reasons) > len(shared)
    columns = ["case", "held out", "n", "ours", "baselines", "band", "noise", *(["remarks"] if noted else [])]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for (case, held_out, n), several in cases.items():
        names = dict.fromkeys(name for row in several for name in row.baselines)
        of_names = {name: [_value(row, row.baselines.get(name)) for row in several] for name in names}
        counts = dict.fromkeys(f" in {_groups(row.groups)}" for row in several if row.groups)
        cells = [case, held_out, f"{n}{' /'.join(counts)}", ", ".join(map(_judged, several))]
        cells += [", ".join(f"{name} {_each(values)}" for name, values in of_names.items())]
        cells += [
            " / ".join(dict.fromkeys(filter(None, map(_band, several)))),
            _each([_value(row, row.noise_floor) for row in several]),
        ]
        if noted:
            remarks = dict.fromkeys(row.reason for row in several if row.reason)
            cells += ["; ".join(reason for reason in remarks if f"- {reason}" not in shared)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, "", *shared]


def _groups(count: int) -> str:
    return f"{count} {'group' if count == 1 else 'groups'}"


def _band(row: ValidationRow) -> str:
    """What a band holds and how wide it is; of enough groups also between what the coverage lies."""
    if row.interval_coverage is None or row.interval_width is None or row.interval_level is None:
        return ""
    ends = "" if row.coverage_low is None else f" ({row.coverage_low:.0%} .. {row.coverage_high:.0%})"
    return f"{row.interval_level:.0%}: covers {row.interval_coverage:.0%}{ends} in x{row.interval_width:.2f}"


def _judged(row: ValidationRow) -> str:
    """A metric with our figure, bold where the goal beside it is missed."""
    ours = _value(row, row.ours)
    goal = "" if row.goal is None else f" (goal {_value(row, row.goal)})"
    return f"{row.metric} {f'**{ours}**' if row.ok is False else ours}{goal}".strip()


def _each(values: Sequence[str]) -> str:
    """Values of several metrics; one where they are the same, a dash where one lacks it."""
    return values[0] if len({*values}) == 1 else " / ".join(value or "-" for value in values)


def _scale(row: ValidationRow) -> float | None:
    """What turns a number of the row into per cent; None where it is no share."""
    if row.unit == "%":
        return 1.0
    return 100.0 if row.unit == "1" and (SHARE.search(row.metric) or not PLAIN.search(row.metric)) else None


def _percent(row: ValidationRow, value: float | None) -> float:
    return (value or 0.0) * (_scale(row) or 1.0)


def _value(row: ValidationRow, value: float | None) -> str:
    """A number for people: per cent where it is a share, else three digits and its unit."""
    if value is None:
        return ""
    if _scale(row) is None:
        return f"{value:.3g} {'' if row.unit == '1' else row.unit}".rstrip()
    percent = _percent(row, value)
    return f"{percent:.0f} %" if abs(percent) >= 20 else f"{percent:.2g} %" if abs(percent) < 1 else f"{percent:.1f} %"


def _finite(row: ValidationRow) -> dict[str, Any]:
    """The row in its documented keys; numbers that JSON lacks are null, baselines without a number are left out."""
    values = {key: value if _is_json(value) else None for key, value in row.to_dict().items()}
    return {**values, "baselines": {name: value for name, value in row.baselines.items() if _is_json(value)}}


def _is_json(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as stream:
        stream.write(text)
