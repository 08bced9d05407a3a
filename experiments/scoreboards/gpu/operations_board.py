"""Times of single operations, whole models and power on GPUs that no fit has seen, beside rooflines.

Every machine of a case is left out in turn with all its rows, of every file; relatives of the same chip stay unless the
case names a generation. With `--data` the rows below that folder are scored: their keys leave the training data, and
a machine of which nothing else is left is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.scores import mean_error
from slipstick.experiments.scoreboards.gpu import gpu_data, gpu_speedups, gpu_tables
from slipstick.experiments.scoreboards.gpu.gpu_cases import GpuCase, cases
from slipstick.experiments.scoreboards.gpu.gpu_scores import ENOUGH, LONG, score, scored_parts
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Scored, guarded
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd


def _operations(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every case, speed-ups, and whole models, which are summed from the same fits."""
    boards: dict[tuple[str, ...], gpu_tables.OperationBoard] = {}
    if data.scored is not None:
        for case in {case.source: case for case in reversed(cases())}.values():
            yield from guarded(_title(case), partial(_scored_rows, case), data)
    else:
        for case in cases():
            if case.source not in boards:
                boards[case.source] = case.board(case.frame(data.folder))
            yield from _left_out_rows(case, boards[case.source], data.folder)
        yield from gpu_speedups.rows(list(boards.values()))
    yield from guarded("whole models", partial(_whole_models, boards), data)


def _whole_models(boards: Mapping[tuple[str, ...], gpu_tables.OperationBoard], data: Data) -> list[ValidationRow]:
    from slipstick.experiments.scoreboards.gpu import whole_models

    return whole_models.rows(data.scored, _model_boards(boards, data.folder))


def _power(data: Data) -> list[ValidationRow]:
    from slipstick.experiments.scoreboards.gpu import gpu_power

    return gpu_power.rows(data.scored)


def _other_programs(data: Data) -> Iterator[Scored]:
    from slipstick.experiments.scoreboards.gpu import other_programs

    return other_programs.rows(data)


def _frontier(data: Data) -> Iterator[Scored]:
    from slipstick.experiments.scoreboards.gpu import frontier

    return frontier.rows(data)


def _model_boards(
    boards: Mapping[tuple[str, ...], gpu_tables.OperationBoard], folder: Path
) -> dict[str, gpu_tables.OperationBoard]:
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


def _left_out_rows(case: GpuCase, board: gpu_tables.OperationBoard, folder: Path) -> Iterator[Scored | ValidationRow]:
    training = board.training
    if training.empty:
        yield skipped(case.name, "its files are not in the data folder")
        return
    parts = []
    for group in case.held_out:
        for name in group:
            chosen = training[training["machine"] == name]
            chosen = case.scored(chosen)
            if len(chosen):
                parts.append(score(board, name, chosen, group))
    floor = _stack_floor(folder) if case.name.startswith("BF16") else None
    yield from scored_parts(case, parts, floor)


def _title(case: GpuCase) -> str:
    return case.name.split(",")[0]


def _scored_rows(case: GpuCase, data: Data) -> Iterator[Scored | ValidationRow]:
    """Rows of another folder; those of a stack other than the case's are predicted from the same engine's public rows
    where there are some.
    """
    frame = case.of_all_stacks(data.scored or data.folder)
    title = _title(case)
    if frame.empty:
        raise MissingError(f"none of its files is in {data.scored}")
    if not case.stack:
        yield from _scored_frame(case, title, case.frame(data.folder), frame)
        return
    public = case.of_all_stacks(data.folder)
    for stack, part in frame.groupby("stack"):
        engine = public[public["stack"].str.split().str[0] == str(stack).split()[0]]
        known = engine[~engine["machine"].isin(part["machine"])]
        training = case.frame(data.folder) if stack == case.stack or known.empty else engine
        yield from _scored_frame(case, title if stack == case.stack else f"{title}, {stack}", training, part)


def _scored_frame(
    case: GpuCase, title: str, training: pd.DataFrame, frame: pd.DataFrame
) -> Iterator[Scored | ValidationRow]:
    for device in sorted(set(frame.loc[frame["machine"] == "", "device"])):
        yield skipped(title, f"the catalogue lacks {device}")
    frame = frame[frame["machine"] != ""]
    board = case.board(gpu_data.without(training, frame["key"]))
    counts = board.training["machine"].value_counts()
    parts = []
    for name, chosen in frame.groupby("machine"):
        new = counts.get(name, 0) < ENOUGH
        try:
            parts.append(score(board, str(name), chosen, (str(name),) if new else ()))
        except InputError as error:  # a machine without a rate of this data type
            yield skipped(title, f"{name}: {error}")
    yield from scored_parts(case, parts, None, title)


def _stack_floor(folder: Path) -> float | None:
    """How far two software stacks on one machine lie apart above 20 us: what no model of the machine can know."""
    frame = gpu_data.aiconfigurator(folder, "gemm")
    frame = frame[(frame["machine"] == "l40s") & (frame["dtype"] == "bfloat16")]
    table = frame.pivot_table(index=list(gpu_data.GEMM_DIMS), columns="stack", values="time").dropna()
    if table.shape[1] != 2 or table.empty:
        return None
    one, other = (table.iloc[:, i].to_numpy() for i in (0, 1))
    return mean_error(one[other > LONG], other[other > LONG])


BOARD = Board(
    "How long do single GPU operations and whole models take on a GPU that no fit has seen, and what do they draw?",
    {
        "operations": _operations,
        "products by other programs": _other_programs,
        "kernels of vLLM by Frontier": _frontier,
        "power, aiconfigurator": _power,
    },
    (
        Front(
            "Linear layers on a GPU (FP32)",
            "the GPU",
            "all machines",
            "each in turn",
            "neusight linear, other machines",
        ),
    ),
)
