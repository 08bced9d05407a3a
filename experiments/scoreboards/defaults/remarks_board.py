"""Scoreboard: whether answers with a remark are worse than answers without, kind of remark by kind.

On published figures of whole models that nothing was fitted to: the list of the board `defaults`, and the other times
of whole networks that NeuSight measured. Errors are of times, |log(ours / measured)|. What a remark must reach to be a
warning stands in `experiments/question/warnings.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.experiments.question.dtype_domain import remarks
from slipstick.experiments.question.question import question
from slipstick.experiments.question.warnings import BARELY, ENOUGH, LEAST, SEPARATION, kind_of
from slipstick.experiments.scoreboards.defaults import defaults_board
from slipstick.experiments.scoreboards.defaults.published_times import Figure, figures
from slipstick.experiments.scoring.score import Board, Data, Front
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import name_of_device

DATASET = "published figures of whole models, by remark"
HELD_OUT = "no calibration was fitted to any of them"
FILE = "gpu/neusight/e2e_labels.csv"
CASE = re.compile(r"(bert_large|gpt2_large)-(inf|train)-(\d+)-(\d+)(-fusion)?")
"""Network, pass, words of a sequence, sequences, whether it was compiled; runs on several devices end otherwise."""


@dataclass(frozen=True)
class Remarked:
    """An answer: |log(ours / measured)|, and the kinds of its remarks."""

    error: float
    kinds: frozenset[str]


def _remarked(data: Data) -> Iterator[ValidationRow]:
    """Every kind of remark that some figure has: its share of the figures, and how much worse they are."""
    answers = [*_published(), *_measured(data)]
    for kind in SEPARATION:
        yield from _row(kind, answers)
    loud = [name for name, ratio in SEPARATION.items() if name != BARELY and (ratio or 0.0) >= LEAST]
    shown = [Remarked(one.error, frozenset({"any"} if one.kinds & set(loud) else ())) for one in answers]
    yield from _row("any", shown, "any warning", goal=LEAST)


def _published() -> Iterator[Remarked]:
    for figure in figures().figures:
        try:
            yield Remarked(
                abs(math.log(defaults_board.answered(figure).ratio)), frozenset(map(kind_of, _texts(figure)))
            )
        except InputError:
            continue


def _texts(figure: Figure) -> set[str]:
    return {text for query in defaults_board.questions(figure) for text in remarks(query)}


def _measured(data: Data) -> Iterator[Remarked]:
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
        query = question(name, device, None, settings)
        error = abs(math.log(query.answer().time / (float(row["e2e_latency"]) * 1e-3)))
        yield Remarked(error, frozenset(map(kind_of, remarks(query))))


def _row(kind: str, answers: Sequence[Remarked], case: str = "", goal: float | None = None) -> list[ValidationRow]:
    with_it, without = ([one.error for one in answers if (kind in one.kinds) is there] for there in (True, False))
    if not with_it or not without:
        return []
    ratio = float(np.median(with_it) / np.median(without))
    few = "" if len(with_it) >= ENOUGH else f"fewer than {ENOUGH} figures"
    median = "median |log(ours / measured)|"
    reason = f"{median} {np.median(with_it):.3f} with it, {np.median(without):.3f} without"
    return [
        ValidationRow(
            DATASET,
            case or kind,
            HELD_OUT,
            len(with_it),
            f"{median} with it over without",
            "1",
            ratio,
            goal=goal,
            ok=None if goal is None else ratio >= goal,
            reason="; ".join(filter(None, (reason, few))),
        )
    ]


BOARD = Board(
    "Are answers worse where a remark says that they may be?",
    {DATASET: _remarked},
    (Front("Warnings", "left-out figures", "any warning", HELD_OUT),),
    {DATASET: "the figures are part of the board; there is no file to score"},
)
