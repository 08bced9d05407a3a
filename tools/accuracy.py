"""python -m tools.accuracy: the README's table "How far to believe it", made from the rows of the scoreboards.

Rows are those that `slipstick validate BOARD --save docs/validation` wrote. `--check` changes nothing and exits with 1
where the README says something else.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
README, ROWS = ROOT / "README.md", ROOT / "docs" / "validation" / "rows"
TABLE = re.compile(r"(?<=<!-- made by python -m tools.accuracy -->\n).*?(?=<!-- end -->)", re.S)


@dataclass(frozen=True)
class Kind:
    """A kind of question, and the rows of a board that say how well it is answered.

    Parameters
    ----------
    asked
        What is counted, in words with ``{n}``.
    error
        Case and metric of the row with the median error.
    bands
        Case and what was held out of the rows with the coverage of the 80 % band; several are joined by their number of
        answers.
    """

    question: str
    asked: str
    board: str
    dataset: str
    held_out: str
    error: tuple[str, str]
    bands: tuple[tuple[str, str], ...]


LINES = 5
KINDS = (
    Kind(
        "a whole run that others published",
        "{n} published figures on eight classes of devices; nothing was fitted to them or chosen by them",
        "abroad",
        "published figures, asked abroad",
        "nothing was fitted to them and no constant was chosen on them",
        ("all", "median error of |ours / published - 1| in time"),
        (("all", "nothing was fitted to them and no constant was chosen on them"),),
    ),
    Kind(
        "your PyTorch program on a card",
        "{n} times of programs; the card's generation was left out",
        "programs",
        "PyTorch programs",
        "device and its generation",
        ("device unseen", "median |log ratio|"),
        (("device unseen", "device and its generation"),),
    ),
    Kind(
        "a token of a language-model server",
        "{n} measured servers; their system was left out",
        "serving",
        "serving/silicon",
        "system unseen",
        ("time of a further token, dense", "median error"),
        (("time of a further token, dense", "system unseen"),),
    ),
    Kind(
        "4 x the threads or nodes measured",
        "{n} run times beyond those that the law was fitted to",
        "scaling",
        "scaling",
        "later values of each series",
        ("strong 4x", "median relative error"),
        (("strong 4x, band", "later values of each series"),),
    ),
    Kind(
        "a training step on many accelerators",
        "{n} measured runs; their system was left out",
        "training",
        "training: llm-foundry",
        "system left out",
        ("system left out, median", "median of |predicted / measured - 1| of a step"),
        (("system left out, median", "system left out"),),
    ),
    Kind(
        "a token of a model on one's own card",
        "{n} measured runs; their accelerator was left out",
        "local-llm",
        "local_llm/localscore",
        "accelerator unseen",
        ("time of a token", "median error"),
        (("time of a token", "accelerator unseen"),),
    ),
    Kind(
        "a token of a server, with experts",
        "{n} measured servers; their system was left out",
        "serving",
        "serving/silicon",
        "system unseen",
        ("time of a further token, experts", "median error"),
        (("time of a further token, experts", "system unseen"),),
    ),
)
"""Kinds of questions in the order of what readers ask; the table shows the first `LINES` whose board was saved."""


@dataclass(frozen=True)
class Row:
    """What the table needs of a scoreboard's row; the error is a fraction, or that of a logarithm."""

    dataset: str
    case: str
    held_out: str
    metric: str
    n: int
    error: float
    coverage: float | None


def rows_of(board: str) -> list[Row]:
    """A board's rows; none where it was not saved."""
    path = ROWS / f"{board}.json"
    return [_row(record) for record in json.loads(path.read_text())["rows"]] if path.exists() else []


def _row(record: Mapping[str, object]) -> Row:
    ours, metric, coverage = record["ours"], str(record["metric"]), record["interval_coverage"]
    value = float(str(ours)) if ours is not None else math.nan
    if record["unit"] == "%":
        value /= 100
    dataset, case, held_out = (str(record[name]) for name in ("dataset", "case", "held_out"))
    covered = None if coverage is None else float(str(coverage))
    return Row(dataset, case, held_out, metric, int(str(record["n"])), value, covered)


def line_of(kind: Kind, rows: Sequence[Row]) -> str:
    """A kind's line of the table.

    Raises
    ------
    LookupError
        Where the board has no such row: its case or its metric was renamed.
    """
    case, metric = kind.error
    errors = [row for row in rows if (row.dataset, row.case, row.held_out) == (kind.dataset, case, kind.held_out)]
    errors = [row for row in errors if row.metric == metric]
    here = [row for row in rows if row.dataset == kind.dataset and row.coverage is not None]
    bands = {(row.case, row.held_out): row for row in here}
    if len(errors) != 1 or not set(kind.bands) <= set(bands):
        raise LookupError(f"board {kind.board}: {len(errors)} rows of {case!r}, {metric!r}; bands of {sorted(bands)}")
    joined = [bands[name] for name in kind.bands]
    inside = sum(row.n * (row.coverage or 0.0) for row in joined) / sum(row.n for row in joined)
    asked = kind.asked.format(n=f"{errors[0].n:,}")
    board = f"`validate {kind.board}`"
    return f"| {kind.question} | {errors[0].error:.0%} | {inside:.0%} | {asked} ({board}) |".replace("%", " %")


def table() -> str:
    """The table in Markdown."""
    answered = [(kind, rows) for kind in KINDS if (rows := rows_of(kind.board))]
    lines = [
        "| kind of question | half of the answers within | inside the 80 % band | asked of |",
        "|---|---|---|---|",
        *(line_of(kind, rows) for kind, rows in answered[:LINES]),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table into the README, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where the README differs")
    check = parser.parse_args().check
    text, made = README.read_text(), table()
    same = TABLE.findall(text) == [made]
    if not check and not same:
        README.write_text(TABLE.sub(lambda _: made, text))
    print(made, end="")
    return int(check and not same)


if __name__ == "__main__":
    raise SystemExit(main())
