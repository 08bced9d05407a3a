"""Scoreboard: whether bands that a remark widens hold as often as those without one, kind of remark by kind.

On published figures of whole models that nothing was fitted to: the list of the board `defaults`, and the other times
of whole networks that NeuSight measured. Errors are of times, |log(ours / measured)|. A remark is a condition that
widens the band (`Condition.widens`), and its kind is the condition's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.scoreboards.defaults import defaults_board
from slipstick.experiments.scoreboards.defaults.published_times import figures
from slipstick.experiments.scoring.score import Board, Data, Front
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import name_of_device

DATASET = "published figures of whole models, by remark"
ANY, ENOUGH = "any remark", 3
FILE = "gpu/neusight/e2e_labels.csv"
CASE = re.compile(r"(bert_large|gpt2_large)-(inf|train)-(\d+)-(\d+)(-fusion)?")
"""Network, pass, words of a sequence, sequences, whether it was compiled; runs on several devices end otherwise."""


@dataclass(frozen=True)
class Remarked:
    """An answer: |log(ours / measured)|, whether the band holds the measured time, and the kinds of its remarks."""

    error: float
    inside: bool
    kinds: frozenset[str]


def _remarked(data: Data) -> Iterator[ValidationRow]:
    """Every kind of remark that some figure has, then any: how often bands hold, and how much worse answers are."""
    answers = [*_published(), *_measured(data)]
    for kind in sorted({kind for one in answers for kind in one.kinds}):
        yield from _rows(kind, answers)
    yield from _rows(ANY, [replace(one, kinds=one.kinds and frozenset({ANY})) for one in answers])


def _published() -> Iterator[Remarked]:
    for figure in figures().figures:
        try:
            known = defaults_board.answered(figure)
        except InputError:
            continue
        yield Remarked(abs(math.log(known.ratio)), known.inside, _kinds(defaults_board.questions(figure)))


def _kinds(questions: Sequence[Question]) -> frozenset[str]:
    return frozenset(one.name for query in questions for one in query.answer().conditions if one.widens)


def measured_networks(data: Data) -> Iterator[tuple[Question, float]]:
    """Whole networks of NeuSight that are no published figure of the board `defaults`, and their seconds."""
    listed = {
        (one.data.where.get("device"), one.data.where.get("case"))
        for one in figures().figures
        if one.data is not None and one.data.file == FILE
    }
    for _, row in read_csv_rows(data.folder / FILE, ("device", "case", "e2e_latency")):
        match, device = CASE.fullmatch(row["case"]), name_of_device(row["device"].replace("_", " "))
        if match is None or device is None or (row["device"], row["case"]) in listed:
            continue
        network, direction, words, sequences, compiled = match.groups()
        name = network.replace("_", "-") + ("-inference" if direction == "inf" else "")
        settings = [f"workload.batch={sequences}", f"workload.seq_len={words}"]
        settings += ["machine.runtime.mode=compiled"] if compiled else []
        yield question(name, device, None, settings), float(row["e2e_latency"]) * 1e-3


def _measured(data: Data) -> Iterator[Remarked]:
    for query, measured in measured_networks(data):
        answer = query.answer()
        low, high = answer.interval() or (answer.time, answer.time)
        yield Remarked(abs(math.log(answer.time / measured)), low <= measured <= high, _kinds([query]))


def _rows(kind: str, answers: Sequence[Remarked]) -> list[ValidationRow]:
    """Of answers with a kind of remark: their share in the band beside that of the others, and their errors."""
    groups = [[one for one in answers if (kind in one.kinds) is there] for there in (True, False)]
    if not all(groups):
        return []
    (error, plain), (held, others) = (
        [float(measure([getattr(one, name) for one in group])) for group in groups]
        for measure, name in ((np.median, "error"), (np.mean, "inside"))
    )
    few = "" if len(groups[0]) >= ENOUGH else f"; fewer than {ENOUGH} figures"
    goal = others if kind == ANY else None
    ok = None if goal is None else held >= goal
    errors = f"median |log(ours / measured)| {error:.3f} with it, {plain:.3f} without{few}"
    metrics = "share in the 80 % band", "median error with it over without"
    known, apart = (DATASET, kind, defaults_board.HELD_OUT, len(groups[0])), {"without it": others}
    return [
        ValidationRow(*known, metrics[0], "1", held, apart, goal=goal, ok=ok),
        ValidationRow(*known, metrics[1], "1", error / plain, reason=errors),
    ]


BOARD = Board(
    "Do bands hold as often where a remark says that they are wider?",
    {DATASET: _remarked},
    (Front("Remarks", "left-out figures", ANY, defaults_board.HELD_OUT),),
    {DATASET: "the figures are part of the board; there is no file to score"},
)
