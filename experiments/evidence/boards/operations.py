"""Times of single operations, whole models and power on GPUs that no fit has seen, beside rooflines.

Every machine of a case is left out in turn with all its rows, of every file; relatives of the same chip stay unless the
case names a generation. With `--data` the rows below that folder are scored: their keys leave the training data, and
a machine of which nothing else is left is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.estimators.learning.scores import mean_error
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.gpu import gpu_data, gpu_speedups
from slipstick.experiments.evidence.validation.gpu.gpu_boards import Board
from slipstick.experiments.evidence.validation.gpu.gpu_cases import Case, cases
from slipstick.experiments.evidence.validation.gpu.gpu_scores import ENOUGH, LONG, score, score_rows

if TYPE_CHECKING:
    import pandas as pd


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard; skipped cases say why."""
    from slipstick.experiments.evidence.validation.gpu import gpu_power
    from slipstick.experiments.evidence.validation.models import whole_models

    folder = data_folder()
    if folder is None:
        return [
            skipped("operations", "no public measurements here (set SLIPSTICK_DATA; `slipstick data list` says where)")
        ]
    boards: dict[tuple[str, ...], Board] = {}
    scores: list[ValidationRow] = []
    done: set[tuple[str, ...]] = set()
    for case in cases():
        if scored is not None:
            if case.source in done:
                continue
            done.add(case.source)
            scores += _scored_rows(case, folder, scored)
            continue
        if case.source not in boards:
            boards[case.source] = case.board(case.frame(folder))
        scores += _left_out_rows(case, boards[case.source], folder)
    scores += gpu_speedups.rows(list(boards.values())) if scored is None else []
    scores += whole_models.rows(scored, _model_boards(boards, folder, scored))
    scores += gpu_power.rows(scored)
    return scores


def _model_boards(boards: Mapping[tuple[str, ...], Board], folder: Path, scored: Path | None) -> dict[str, Board]:
    """The boards that whole models are summed from, by class of operation; fitted ones are used again."""
    names = {
        "bmm": "bmm, H",
        "linear": "linear, H",
        "softmax": "softmax",
        "norm": "layernorm",
        "elementwise": "elementwise",
    }
    result = {}
    for kind, title in names.items():
        case = next(case for case in cases() if title in case.name)
        kept = boards.get(case.source)
        result[kind] = kept if kept is not None else case.board(case.frame(folder))
    return result


def _left_out_rows(case: Case, board: Board, folder: Path) -> list[ValidationRow]:
    training = board.training
    if training.empty:
        return [skipped(case.name, "its files are not in the data folder")]
    parts = []
    for group in case.held_out:
        for name in group:
            chosen = training[training["machine"] == name]
            chosen = case.scored(chosen)
            if len(chosen):
                parts.append(score(board, name, chosen, group))
    floor = _stack_floor(folder) if case.name.startswith("BF16") else None
    return score_rows(case, parts, floor)


def _scored_rows(case: Case, folder: Path, scored: Path) -> list[ValidationRow]:
    """Rows of another folder; those of a stack other than the case's are predicted from the same engine's public rows
    where there are some.
    """
    frame = case.of_all_stacks(scored)
    title = case.name.split(",")[0]
    if frame.empty:
        return [skipped(title, f"none of its files is in {scored}")]
    if not case.stack:
        return _scored_frame(case, title, case.frame(folder), frame)
    public = case.of_all_stacks(folder)
    rows = []
    for stack, part in frame.groupby("stack"):
        engine = public[public["stack"].str.split().str[0] == str(stack).split()[0]]
        known = engine[~engine["machine"].isin(part["machine"])]
        training = case.frame(folder) if stack == case.stack or known.empty else engine
        rows += _scored_frame(case, title if stack == case.stack else f"{title}, {stack}", training, part)
    return rows


def _scored_frame(case: Case, title: str, training: pd.DataFrame, frame: pd.DataFrame) -> list[ValidationRow]:
    unknown = sorted(set(frame.loc[frame["machine"] == "", "device"]))
    rows = [skipped(title, f"the catalogue lacks {device}") for device in unknown]
    frame = frame[frame["machine"] != ""]
    board = case.board(gpu_data.without(training, frame["key"]))
    counts = board.training["machine"].value_counts()
    parts = []
    for name, chosen in frame.groupby("machine"):
        if reason := board.refused(str(name), chosen):
            rows.append(skipped(title, reason))
            continue
        new = counts.get(name, 0) < ENOUGH
        parts.append(score(board, str(name), chosen, (str(name),) if new else ()))
    return rows + score_rows(case, parts, None, title)


def _stack_floor(folder: Path) -> float | None:
    """How far two software stacks on one machine lie apart above 20 us: what no model of the machine can know."""
    frame = gpu_data.aiconfigurator(folder, "gemm")
    frame = frame[(frame["machine"] == "l40s") & (frame["dtype"] == "bfloat16")]
    table = frame.pivot_table(index=list(gpu_data.GEMM_DIMS), columns="stack", values="time").dropna()
    if table.shape[1] != 2 or table.empty:
        return None
    one, other = (table.iloc[:, i].to_numpy() for i in (0, 1))
    return mean_error(one[other > LONG], other[other > LONG])
