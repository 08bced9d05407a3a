"""Measured runs of llama.cpp and llamafile on one GPU, and the fit of the law of local models to them.

`local_llm/localscore.csv` holds crowd-sourced llamafile runs, `local_llm/llama_cpp_gpus.csv` runs of llama.cpp itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.estimators.learning.bands import LeftOutRows, calibrated, left_out
from slipstick.estimators.learning.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.learning.folds import folds
from slipstick.estimators.learning.law import LawRows
from slipstick.estimators.learning.scores import log_errors, relative_quantile
from slipstick.estimators.operation.serving.local_step import COLUMNS, LocalLaw, LocalWork, backend_of, local_groups
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.hwmodels.files.readers import InputError, read_csv_rows
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model

FloatArray = npt.NDArray[np.float64]
NAME, FILE, DEVICES_FILE = "llama-cpp", "local_llm/localscore.csv", "local_llm/llama_cpp_gpus.csv"
LLAMAFILE, LLAMA_CPP = "llamafile", "llama.cpp"
MODELS = {
    "Meta Llama 3.1 8B Instruct": "llama-3.1-8b", "Qwen2.5 14B Instruct": "qwen2.5-14b",
    "Llama 3.2 1B Instruct": "llama-3.2-1b", "Llama-3.2-1B-Instruct": "llama-3.2-1b",
    "Qwen2.5 7B Instruct": "qwen2.5-7b", "Qwen3 0.6B": "qwen3-0.6b", "Qwen3-0.6B": "qwen3-0.6b", "Qwen3 8B": "qwen3-8b",
    "Qwen3 4B": "qwen3-4b", "Qwen3-4B": "qwen3-4b", "Qwen3 14B": "qwen3-14b", "Qwen3 30B A3B": "qwen3-30b-a3b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
}  # fmt: skip
TYPES = {
    "Q4_K - Medium": "q4_k_m", "Q5_K - Medium": "q5_k_m", "Q3_K - Large": "q3_k_l", "Q6_K": "q6_k", "Q8_0": "q8_0",
    "Q4_0": "q4_0", "F16": "fp16", "BF16": "bf16",
}  # fmt: skip
OTHER_CHIPS = ("laptop", "max-q", "sff", "mobile")
"""Words of accelerators that share a desktop's name and not its rates."""


DEVICE_MODELS = {"LLaMA 3 8B": "llama-3-8b", "LLaMA 3 70B": "llama-3.1-70b"}
DEVICE_TYPES = {"Q4_K_M": "q4_k_m", "F16": "fp16"}
NEWEST = re.compile(r"-(ada|hopper|blackwell|rdna3|m[345])")
"""Families of 2022 and later."""
HELD_OUT = ("accelerator unseen", "newest unseen")


@dataclass(frozen=True)
class LocalRow:
    """One measured run that can be evaluated; a phase that was not timed is not a number.

    `token` and `prompt` are seconds of a new token and of a prompt's.
    """

    accelerator: str
    chip: str
    program: str
    model: LanguageModel
    stored: str
    work: LocalWork
    token: float
    prompt: float

    @property
    def backend(self) -> str:
        """Of llama.cpp."""
        return backend_of(machine(self.chip))

    @property
    def groups(self) -> dict[str, str]:
        """Of the law."""
        return local_groups(machine(self.chip), self.chip, self.stored, self.program)

    @property
    def newest(self) -> bool:
        """Whether its generation is of 2022 or later."""
        return bool(NEWEST.search(machine(self.chip).family))


def read_local(path: Path) -> tuple[list[LocalRow], dict[str, int]]:
    """LocalScore's rows, and those left out by reason."""
    result, refused = [], dict[str, int]()
    needed = (
        "accelerator", "kind", "model", "quantisation", "prompt_tokens_per_s", "output_tokens_per_s", "suspicious",
    )  # fmt: skip
    for _, row in read_csv_rows(path, needed):
        try:
            result.append(_row(row))
        except InputError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
    return result, refused


def _row(row: dict[str, str]) -> LocalRow:
    name = row["accelerator"]
    if row["suspicious"]:
        raise InputError(row["suspicious"])
    if row["kind"] != "GPU":
        raise InputError("a CPU: its memory bandwidth is not in the table")
    if any(word in name.lower() for word in OTHER_CHIPS):
        raise InputError("a laptop's chip: it shares a desktop's name")
    if row["model"] not in MODELS or row["quantisation"] not in TYPES:
        raise InputError("a model or type of weights without a configuration here")
    chip = name_of_device(name)
    if chip is None:
        raise InputError("an accelerator that the catalogue lacks")
    model, stored = language_model(MODELS[row["model"]]), TYPES[row["quantisation"]]
    work = LocalWork.of(model, weight_type(stored), machine(chip), _share(name, chip))
    token, prompt = 1 / float(row["output_tokens_per_s"]), 1 / float(row["prompt_tokens_per_s"])
    return LocalRow(name, chip, LLAMAFILE, model, stored, work, token, prompt)


def _share(name: str, chip: str) -> float:
    """Of a chip's cores: Apple's are sold with fewer."""
    cores = re.search(r"(\d+)[- ]?(?:Core )?GPU", name)
    return int(cores[1]) / machine(chip).cores if cores else 1.0


def read_devices(path: Path) -> list[LocalRow]:
    """Runs of llama.cpp on one device; layers are dealt out to several, whose tokens still pass them in turn."""
    made: dict[tuple[str, str, str], dict[str, float]] = {}
    needed = ("device", "devices", "model", "quantisation", "phase", "tokens_per_s", "suspicious")
    for _, row in read_csv_rows(path, needed):
        generates = row["phase"] == "generate"
        if row["suspicious"] or not row["tokens_per_s"] or (row["devices"] != "1" and not generates):
            continue
        key = (row["device"], DEVICE_MODELS.get(row["model"], ""), DEVICE_TYPES.get(row["quantisation"], ""))
        made.setdefault(key, {}).setdefault("token" if generates else "prompt", 1 / float(row["tokens_per_s"]))
    result = []
    for (device, name, stored), seconds in made.items():
        chip = name_of_device(f"GeForce RTX {device}" if device[0].isdigit() else device)
        if chip is None or not name or not stored:
            continue
        model = language_model(name)
        work = LocalWork.of(model, weight_type(stored), machine(chip), _share(device, chip))
        phases = (seconds.get("token", math.nan), seconds.get("prompt", math.nan))
        result.append(LocalRow(device, chip, LLAMA_CPP, model, stored, work, *phases))
    return result


def known_rows(localscore: Path, devices: Path | None) -> list[LocalRow]:
    """The rows of both files."""
    return read_local(localscore)[0] + (read_devices(devices) if devices else [])


def phases(rows: Sequence[LocalRow]) -> list[tuple[LocalRow, float, float]]:
    """Every timed phase: its row, 1 of a prompt or 0 of a new token, seconds."""
    both = [(row, kind, (row.token, row.prompt)[int(kind)]) for kind in (0.0, 1.0) for row in rows]
    return [one for one in both if math.isfinite(one[2])]


def law_rows(timed: Sequence[tuple[LocalRow, float, float]]) -> LawRows:
    """Phases as rows of the law."""
    groups = [row.groups for row, _, _ in timed]
    works = np.array([[r.work.memory, r.work.layers, r.work.plain, r.work.matrix, kind] for r, kind, _ in timed])
    return LawRows(
        dict(zip(COLUMNS, works.T.astype(float), strict=True)),
        {name: [one[name] for one in groups] for name in groups[0]},
        [f"{row.accelerator} {row.program} {row.model.name} {row.stored} {kind:g}" for row, kind, _ in timed],
        np.array([seconds for _, _, seconds in timed]),
        [row.program for row, _, _ in timed],
    )


def outer(timed: Sequence[tuple[LocalRow, float, float]], rows: LawRows, held: str) -> LeftOutRows:
    """Seconds of phases whose chip, or whose generation with all newer ones, is left out; bands by folds within."""
    chips = rows.groups["chip"]
    if held == "newest unseen":
        era = ["newest" if row.newest else "older" for row, _, _ in timed]
        outer_folds = folds(era, scored={at for at, name in enumerate(era) if name == "newest"})
    else:
        outer_folds = folds(chips, at_most=12)
    return left_out(LocalLaw(), rows, outer_folds, chips)


def refit() -> FittedFile:
    """The law of local models fitted to all public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    files = {name: training_file(name) for name in (FILE, DEVICES_FILE)}
    missing = [name for name, path in files.items() if path is None]
    if missing:
        raise InputError(why_missing(missing[0]))
    paths = {name: path for name, path in files.items() if path is not None}
    timed = phases(known_rows(paths[FILE], paths[DEVICES_FILE]))
    rows = law_rows(timed)
    scores = []
    for held in HELD_OUT:
        made = outer(timed, rows, held)
        scores += [_score(made, rows, held, kind) for kind in (0.0, 1.0)]
    fitted = {LocalLaw().name: calibrated(LocalLaw(), rows, rows.groups["chip"])}
    note = "Runs of d893a/localscore-insights (a4f8174) and XiongjieDai/GPU-Benchmarks-on-LLM-Inference (aa72e0e)."
    return FittedFile(
        NAME, {name: digest(path) for name, path in paths.items()}, len(rows), fitted, tuple(scores), note
    )


def _score(made: LeftOutRows, rows: LawRows, held: str, kind: float) -> OuterScore:
    there = (rows.columns["prompts"] == kind) & np.isfinite(made.seconds)
    seconds, measured, half = made.seconds[there], rows.seconds[there], made.half[there]
    chips = {rows.groups["chip"][at] for at in np.flatnonzero(there).tolist()}
    return OuterScore(
        held, "prompts" if kind else "generation", int(there.sum()), len(chips),
        relative_quantile(0.5, seconds, measured), relative_quantile(0.9, seconds, measured),
        float((log_errors(seconds, measured) <= half).mean()), float(np.exp(2 * np.median(half))),
    )  # fmt: skip
