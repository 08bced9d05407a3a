"""Logs of training as trainers write them: Megatron-LM's lines, and trainer_state.json of the Hugging Face Trainer.

Sources: NVIDIA/Megatron-LM, megatron/training/training.py (`training_log`: "elapsed time per iteration (ms)") and
arguments.py (`_print_args`: names, dots, values); huggingface/transformers, trainer_callback.py (`TrainerState`) and
trainer_utils.py (`speed_metrics`: train_runtime [s], train_samples_per_second, train_steps_per_second).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, head, opened
from slipstick.common.readers import number_of, read_json, require_mapping, whole_of
from slipstick.common.records import FrozenDict
from slipstick.workloads.importers.mllog.mllog_reader import is_mllog, read_mllog
from slipstick.workloads.importers.mllog.training_log import LoggedSteps, TrainingLog

LIMIT_BYTES, LONGEST_LINE, MOST_STEPS, HEAD_BYTES = 512 * MEGABYTE, 100_000, 2_000_000, 1 << 20
LONGEST_STEP, MOST_COUNT = 1e6, 10**12
"""Seconds, and steps or sequences, beyond which a log is not believed."""
MEGATRON = "elapsed time per iteration (ms)"
TRAINED = ("train_runtime", "train_steps_per_second")
_ITERATION = re.compile(r"\biteration +(\d{1,12})\s*/")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\): *([\d.eE+-]{1,30})")
_BATCH = re.compile(r"global batch size: *(\d{1,12})")
_ARGUMENT = re.compile(r"^(?:\S{0,20}:)?\s{1,8}(\w{1,80}) \.{2,60} (\S{1,40})\s*$")
_SETTINGS = {
    "seq_length": "max_sequence_length", "global_batch_size": "global_batch_size", "world_size": "devices",
    "tensor_model_parallel_size": "tensor", "pipeline_model_parallel_size": "pipeline",
    "context_parallel_size": "context", "expert_model_parallel_size": "expert", "micro_batch_size": "micro",
    "virtual_pipeline_model_parallel_size": "chunks",
}  # fmt: skip
"""Numbers among Megatron-LM's arguments, and what a plan of training calls them."""
_PRINTED = re.compile(r"^\s{0,80}\{'(loss|eval_loss|train_runtime)': ", re.MULTILINE)
_WORDS = ("recompute_granularity", "fp8", "fp4", "bf16")


def is_training_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a log of MLPerf training, of Megatron-LM or of the Hugging Face Trainer."""
    if not Path(path).is_file():
        return False
    if is_mllog(path):
        return True
    text = head(path, HEAD_BYTES)
    return MEGATRON in text or is_trainer_state(text)


def printed_instead(path: str | os.PathLike[str]) -> str:
    """What to give instead of the losses that the Hugging Face Trainer prints, which hold no times; "" for others."""
    printed = Path(path).is_file() and _PRINTED.search(head(path, HEAD_BYTES))
    return (
        "; the Trainer prints no times: give its trainer_state.json (in checkpoint-N of its output)" if printed else ""
    )


def is_trainer_state(text: str) -> bool:
    """Whether the beginning of a JSON document is the state of the Hugging Face Trainer, or its last metrics."""
    state = '"log_history"' in text and '"global_step"' in text
    return text.lstrip()[:1] == "{" and (state or all(f'"{name}"' in text for name in TRAINED))


def read_training_log(path: str | os.PathLike[str]) -> TrainingLog:
    """The run of a log, whichever of these trainers wrote it.

    Raises InputError where the file is none of these logs, or holds no time of a step; names file, line and field.
    """
    if is_mllog(path):
        return read_mllog(path)
    text = head(path, HEAD_BYTES)
    if MEGATRON in text:
        return read_megatron(path)
    if is_trainer_state(text):
        return read_trainer_state(path)
    raise InputError(
        f"{path}: no log of MLPerf training, Megatron-LM or the Hugging Face Trainer{printed_instead(path)}"
    )


def read_megatron(path: str | os.PathLike[str]) -> TrainingLog:
    """What Megatron-LM prints: its arguments where they stand in the log, and the mean step between two lines.

    The first line of a run holds its warm-up and is left out where others follow.
    Raises InputError where no line has a time, or one is out of range.
    """
    settings: dict[str, float] = {}
    words: dict[str, str] = {}
    steps: list[LoggedSteps] = []
    before: int | None = None
    clock = 0.0
    with opened(path, LIMIT_BYTES) as stream:
        for number in range(1, 10**9):
            raw = stream.readline(LONGEST_LINE)
            if not raw:
                break
            line = raw.decode("utf-8", errors="replace")
            if argument := _ARGUMENT.match(line):
                _take(argument[1], argument[2], settings, words)
                continue
            elapsed, place = _ELAPSED.search(line), _ITERATION.search(line)
            if elapsed is None or place is None:
                continue
            where = f"{path}: line {number}: elapsed time per iteration"
            seconds = number_of(elapsed[1], where, 1e-9, LONGEST_STEP * 1e3, "ms") * 1e-3
            count = int(place[1]) - before if before is not None else 1
            before = int(place[1])
            if not 0 < count <= MOST_STEPS:
                count = 1  # a run that started again from a checkpoint
            if len(steps) > MOST_STEPS:
                raise InputError(f"{path}: more than {MOST_STEPS:,} lines of steps")
            if (batch := _BATCH.search(line)) and not settings.get("global_batch_size"):
                settings["global_batch_size"] = float(batch[1])
            steps.append(LoggedSteps(clock, count, seconds, before))
            clock += count * seconds
    if not steps:
        raise InputError(f"{path}: no line has an iteration and its {MEGATRON!r}")
    read_from = "lines of iterations"
    if len(steps) > 1:
        steps, read_from = steps[1:], f"{read_from} after the first, which warms up"
    return TrainingLog(
        str(path), "", "", "", FrozenDict(settings), None, "", (), tuple(steps), read_from,
        FrozenDict(words), "Megatron-LM",
    )  # fmt: skip


def _take(name: str, value: str, settings: dict[str, float], words: dict[str, str]) -> None:
    """An argument that the log states."""
    if name in _SETTINGS and value.isascii() and value.isdigit() and len(value) <= 9 and int(value):
        settings[_SETTINGS[name]] = float(value)
    if name not in _WORDS:
        return
    if name == "recompute_granularity":
        words["recompute"] = {"None": "none"}.get(value, value)
    elif value not in ("None", "False"):
        narrow = {"fp8": "fp8", "fp4": "nvfp4"}.get(name, "bf16")
        words["precision"] = narrow if name != "bf16" else words.get("precision", narrow)


def read_trainer_state(path: str | os.PathLike[str]) -> TrainingLog:
    """The mean step of a run of the Hugging Face Trainer: its run time less its evaluations, over its steps.

    Raises InputError where the run has not ended (its state holds no train_runtime), or a number is out of range.
    """
    document = require_mapping(read_json(path), path, "file")
    history = document.get("log_history")
    entries = [document] if history is None else _entries(history, path)
    trained = next((entry for entry in reversed(entries) if TRAINED[0] in entry), None)
    if trained is None:
        raise InputError(
            f"{path}: log_history has no train_runtime, which the Trainer writes when a run has ended: want "
            "trainer_state.json of the finished run, or its train_results.json"
        )
    runtime = number_of(trained[TRAINED[0]], f"{path}: {TRAINED[0]}", 1e-9, LONGEST_STEP * 1e3, "s")
    rate = number_of(trained.get(TRAINED[1], 0.0), f"{path}: {TRAINED[1]}", 0.0, 1e6)
    stated = trained.get("step", document.get("global_step"))
    count = whole_of(stated, f"{path}: steps", 1, MOST_COUNT) if stated is not None else round(runtime * rate)
    if count < 1:
        raise InputError(f"{path}: no global_step, and train_steps_per_second is too small to say how many steps ran")
    evaluations = [entry["eval_runtime"] for entry in entries if {"eval_loss", "eval_runtime"} <= {*entry}]
    evaluated = sum(number_of(one, f"{path}: eval_runtime", 1e-9, LONGEST_STEP * 1e3, "s") for one in evaluations)
    left = runtime - evaluated
    if left <= 0:
        raise InputError(f"{path}: train_runtime = {runtime:g} s: its evaluations took {evaluated:g} s of it")
    settings: dict[str, float] = {}
    samples = trained.get("train_samples_per_second")
    if isinstance(samples, (int, float)) and not isinstance(samples, bool) and 0 < samples < MOST_COUNT:
        settings["global_batch_size"] = float(max(1, round(samples * runtime / count)))
    return TrainingLog(
        str(path), "", "", "", FrozenDict(settings), runtime, "", (),
        (LoggedSteps(0.0, count, left / count),), "the run time over its steps", program="Hugging Face Trainer",
    )  # fmt: skip


def _entries(history: object, path: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(history, list) or len(history) > MOST_STEPS:
        raise InputError(f"{path}: log_history: want a list of at most {MOST_STEPS:,} entries")
    return [require_mapping(entry, path, f"log_history[{at}]") for at, entry in enumerate(history)]
