"""Scoreboard: whole questions from published pages, asked by the documented commands, fitted by nothing.

The figures were written down in one commit before the first was answered. A refusal counts. Errors are of times:
|ours / published - 1|, where a rate counts by its inverse.

Published figures as questions to the documented commands, their sources, and what the commands answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from slipstick.common.errors import InputError
from slipstick.common.readers import read_yaml
from slipstick.common.records import Record, validated
from slipstick.estimators.fitting import scores
from slipstick.experiments.scoring.rules_of_thumb import RULE, longer, options, product_peak, products, training_step
from slipstick.experiments.scoring.score import Board, Data, Front, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language_catalog import language_model

FILE = Path(__file__).with_name("published_results.yaml")
BANDS = {
    "time_s": ("low_s", "high_s"),
    "step_s": ("low_s", "high_s"),
    "output_tokens_per_s": ("low_tokens_per_s", "high_tokens_per_s"),
    "prompt_tokens_per_s": ("prompt_low_tokens_per_s", "prompt_high_tokens_per_s"),
}
"""Key of an answer to the keys of its 80 % band."""


class PublishedSource(Record):
    """Who published a figure, and where."""

    name: str
    url: str


class PublishedFigure(Record):
    """One published figure, see the head of figures.yaml.

    `ask`: the documented command, without the program's name and `--format`.
    `answer`: the key of its JSON; `ttft.p50` is a measure of `serve` and its statistic.
    `value`: seconds, or tokens a second; a quotient (work over rate) as text.
    `matrix`: rows, nonzeros, standard deviation of a row's, bandwidth over columns of a random matrix that stands in
        `ask` for MATRIX; empty where there is none.
    """

    id: str
    device_class: str
    kind: str
    ask: str
    answer: str
    value: float | str
    unit: str
    source: str
    note: str = ""
    matrix: tuple[float, ...] = ()

    @property
    def is_rate(self) -> bool:
        """Whether larger is faster."""
        return self.unit != "s"

    @property
    def published(self) -> float:
        """The figure in its unit.

        Raises InputError where a text is neither a number nor a quotient of numbers.
        """
        if isinstance(self.value, float):
            return self.value
        above, _, below = self.value.partition("/")
        try:
            return float(above) / float(below or 1)
        except (ValueError, ZeroDivisionError):
            raise InputError(f"figure {self.id}: value {self.value!r} is no quotient of two numbers") from None

    @property
    def arguments(self) -> list[str]:
        """The command's words."""
        return shlex.split(self.ask)


class PublishedFigures(Record):
    """All figures with their sources."""

    format: str = Field(alias="schema")
    sources: dict[str, PublishedSource]
    figures: list[PublishedFigure]


@dataclass(frozen=True)
class PublishedAnswer:
    """What the command answered in the figure's unit, with its 80 % band where it has one."""

    value: float
    low: float | None
    high: float | None
    remarks: tuple[str, ...]


@cache
def figures() -> PublishedFigures:
    """The published figures.

    Raises InputError where the file is not as its schema says.
    """
    return validated(PublishedFigures, read_yaml(FILE), str(FILE.name))


def answer_json(arguments: list[str]) -> Any:
    """The JSON of a command, run in this process.

    Raises InputError with the command's own line where it refuses.
    """
    from slipstick import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*arguments, "--format", "json"])
        except SystemExit as leave:
            code = leave.code
    if code != 0:
        lines = err.getvalue().strip().splitlines()
        raise InputError(lines[-1] if lines else f"exit code {code}")
    return json.loads(out.getvalue())


def _reply(figure: PublishedFigure) -> Any:
    """The JSON of a figure's command, with a file in the place of its matrix."""
    if not figure.matrix:
        return answer_json(figure.arguments)
    import scipy.sparse as sparse

    rows, nonzeros, spread, bandwidth = figure.matrix
    count, draws = int(rows), np.random.default_rng(0)
    lengths = np.clip(np.rint(draws.normal(nonzeros / rows, spread, count)), 1, count).astype(int)
    at = np.repeat(np.arange(count), lengths)
    columns = (at + np.rint((draws.random(len(at)) - 0.5) * bandwidth * count).astype(int)) % count
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.npz"
        sparse.save_npz(path, sparse.csr_matrix((np.ones(len(at)), (at, columns)), (count, count)))
        return answer_json([str(path) if word == "MATRIX" else word for word in figure.arguments])


def answered(figure: PublishedFigure) -> PublishedAnswer:
    """The command's answer to a figure's question.

    Raises InputError where the command refuses, or its answer lacks the key.
    """
    reply = _reply(figure)
    row = reply[0] if isinstance(reply, list) else reply
    remarks = tuple(row.get("remarks") or ())
    measure, _, statistic = figure.answer.partition(".")
    if statistic:
        wanted = [one for one in row["measures"] if (one["measure"], one["statistic"]) == (measure, statistic)]
        if not wanted:
            raise InputError(f"the answer has no {statistic} of {measure}")
        return PublishedAnswer(wanted[0]["value_s"], wanted[0]["low_s"], wanted[0]["high_s"], remarks)
    if row.get(figure.answer) is None:
        raise InputError(f"the answer has no {figure.answer}")
    low, high = BANDS[figure.answer]
    return PublishedAnswer(row[figure.answer], row.get(low), row.get(high), remarks)


DATASET = "published figures, asked abroad"
HELD_OUT = "nothing was fitted to them and no constant was chosen on them"
MEDIAN_GOAL, NINETIETH_GOAL, ANSWERED_GOAL = 0.18, 0.55, 0.95
NARROW_GOAL, RANK_GOAL = 0.7, 0.25
LEVEL = scores.LEVEL
METRICS = tuple(
    relative(share, f"{name} of |ours / published - 1| in time")
    for share, name in ((0.5, "median error"), (0.9, "90th percentile"))
)


@dataclass(frozen=True)
class Judged:
    """A figure beside its answer and the rule of thumb's, as times: a rate of tokens counts as the time of one."""

    figure: PublishedFigure
    published: float
    ours: float
    low: float
    high: float
    rule: float | None
    warned: bool

    @property
    def error(self) -> float:
        """|ours / published - 1|."""
        return abs(self.ours / self.published - 1)


def _figures(_: Data) -> Iterator[Scored | ValidationRow]:
    """Over all figures, by class of device and by kind of question; then every figure as ours / published."""
    judged: list[Judged] = []
    refused: list[tuple[PublishedFigure, str]] = []
    for figure in figures().figures:
        try:
            judged.append(_judged(figure, answered(figure)))
        except InputError as error:
            refused.append((figure, str(error)))
    count = len(figures().figures)
    share = len(judged) / count
    yield _scored("all", judged, f"{len(refused)} of {count} refused", (MEDIAN_GOAL, NINETIETH_GOAL))
    yield ValidationRow(
        DATASET, "all", HELD_OUT, count, "share answered", "1", share, goal=ANSWERED_GOAL, ok=share >= ANSWERED_GOAL
    )
    yield from _warnings(judged)
    yield from _widths(judged)
    for kind in ("device_class", "kind"):
        for name in dict.fromkeys(getattr(figure, kind) for figure in figures().figures):
            if some := [one for one in judged if getattr(one.figure, kind) == name]:
                yield _scored(name, some)
    yield from map(_row, judged)
    for figure, why in refused:
        yield ValidationRow(DATASET, figure.id, "", 0, "ours / published", "1", None, reason=f"refused: {why}")


def _judged(figure: PublishedFigure, answer: PublishedAnswer) -> Judged:
    low = answer.value if answer.low is None else answer.low
    high = answer.value if answer.high is None else answer.high
    ours, least, most = (1 / answer.value, 1 / high, 1 / low) if figure.is_rate else (answer.value, low, high)
    published = 1 / figure.published if figure.is_rate else figure.published
    return Judged(figure, published, ours, least, most, _rule(figure), bool(answer.remarks))


def _rule(figure: PublishedFigure) -> float | None:
    """The rule of thumb's time of a figure: graphs operation by operation, training by its model flop, tokens by the
    weights that are read, prompts by their flop; None where it has none."""
    verb, name, *rest = figure.arguments
    if figure.matrix:
        given, (rows, nonzeros, *_) = dict(zip(rest[1::2], rest[2::2], strict=True)), figure.matrix
        at = machine(given["--on"])
        return float(longer(0.0, (12 * nonzeros + 20 * rows) / at.bandwidth(at.main_memory)))
    if figure.answer == "time_s":
        words = shlex.split(re.sub(r" --threads \d+", "", figure.ask))  # the rule knows the whole machine alone
        return float(answer_json([*words, *options()])[0]["time_s"])
    if verb == "plan":
        row = answer_json(figure.arguments)[0]
        return float(training_step(row["step_s"] * row["mfu"]))
    if verb != "serve":
        return None
    given, row = dict(zip(rest[::2], rest[1::2], strict=True)), answer_json(figure.arguments)[0]
    model, at, users = language_model(name), machine(given["--on"]), int(given.get("--concurrency", 1))
    flop = 2.0 * model.token_weights / (product_peak(at) * row.get("devices", 1))
    if figure.answer == "prompt_tokens_per_s":
        return float(products(flop))
    if figure.answer.startswith("ttft"):
        return float(products(flop * int(given["--input-tokens"])))
    share = min(1.0, model.active_parameters / model.parameters * users)
    weights = row.get("weight_bytes_per_device") or row["weight_bytes"]
    reading = weights * share / at.bandwidth(at.main_memory)
    return float(longer(flop * users, reading)) / users


def _scored(case: str, judged: Sequence[Judged], note: str = "", goals: Sequence[float] = ()) -> Scored:
    published, ours, low, high = (
        np.array([(one.published, one.ours, one.low, one.high) for one in judged]).reshape(-1, 4).T
    )
    plain = np.array([np.nan if one.rule is None else one.rule for one in judged])
    sources = [one.figure.source for one in judged]
    return Scored(
        case, HELD_OUT, published, ours, METRICS, goals, {RULE: plain}, None, low, high, LEVEL, reason=note,
        groups=sources,
    )  # fmt: skip


def _warnings(judged: Sequence[Judged]) -> list[ValidationRow]:
    """Whether bands with a remark hold no less often, and whether remarks stand where answers are worse."""
    groups = [[one for one in judged if one.warned is warned] for warned in (True, False)]
    if not all(groups):
        return []
    held, others = (float(np.mean([one.low <= one.published <= one.high for one in group])) for group in groups)
    errors = [float(np.median([one.error for one in group])) for group in groups]
    ratio = errors[0] / errors[1]
    metrics = "share in the band with a remark", "median error with a remark over without"
    known, apart = (DATASET, "remarks", HELD_OUT, len(groups[0])), {"without": others}
    return [
        ValidationRow(*known, metrics[0], "1", held, apart, goal=others, ok=held >= others),
        ValidationRow(*known, metrics[1], "1", ratio, goal=1.5, ok=ratio >= 1.5),
    ]


def _widths(judged: Sequence[Judged]) -> Iterator[ValidationRow]:
    """Whether narrow bands are the nearer answers, and Winkler's score of all bands in log time."""
    from scipy.stats import spearmanr

    low, ours, high, published = np.array([(one.low, one.ours, one.high, one.published) for one in judged]).T
    width, held, known = np.log(high / low), scores.inside(low, high, published), (DATASET, "bands", HELD_OUT)
    narrow = held[np.argsort(width)[: max(1, len(judged) // 3)]]
    share, rank = float(narrow.mean()), float(spearmanr(np.abs(np.log(ours / published)), width).statistic)
    score = scores.interval_score(low, high, published, LEVEL)
    yield ValidationRow(
        *known,
        len(narrow),
        "share in the band of the narrowest third",
        "1",
        share,
        goal=NARROW_GOAL,
        ok=share >= NARROW_GOAL,
    )
    metric = "rank correlation of error and width, times 1"
    yield ValidationRow(*known, len(held), metric, "1", rank, goal=RANK_GOAL, ok=rank >= RANK_GOAL)
    yield ValidationRow(*known, len(held), "interval score of log time", "1", score)


def _row(one: Judged) -> ValidationRow:
    figure = one.figure
    reason = "; ".join(
        filter(None, (figure.device_class, figure.kind, figures().sources[figure.source].name, figure.note))
    )
    return ValidationRow(
        DATASET,
        figure.id,
        "",
        1,
        "ours / published, in time",
        "1",
        one.ours / one.published,
        {} if one.rule is None else {RULE: one.rule / one.published},
        interval_level=LEVEL,
        interval_coverage=float(one.low <= one.published <= one.high),
        interval_width=one.high / one.low,
        reason=reason,
    )


BOARD = Board(
    "How far is what the documented commands answer from what others published?",
    {DATASET: _figures},
    (Front("Published figures, asked by command", "all of them", "all", HELD_OUT),),
    {DATASET: "the figures are part of the board; there is no file to score"},
)
