"""Measured runs of llama.cpp and llamafile on one GPU, and the fit of the law of local models to them.

`local_llm/localscore.csv` holds crowd-sourced llamafile runs, `local_llm/llama_cpp_gpus.csv` runs of llama.cpp itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.estimators.learning.bands import calibrated, left_out
from slipstick.estimators.learning.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.learning.folds import folds
from slipstick.estimators.learning.law import UNGROUPED, LawRows
from slipstick.estimators.learning.law_fit import LawFit
from slipstick.estimators.operation.serving.local_step import (
    COLUMNS,
    LAWS,
    LEVELS,
    ON_CPUS,
    PROMPTING,
    LocalWork,
    backend_of,
    fit_name,
    local_groups,
)
from slipstick.estimators.operation.serving.step_amounts import Amounts, Batch, Shares
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.validation.serving.local_cpus import processor
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.hwmodels.files.readers import InputError, read_csv_rows
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model

FloatArray = npt.NDArray[np.float64]
NAME, FILE, DEVICES_FILE = "llama-cpp", "local_llm/localscore.csv", "local_llm/llama_cpp_gpus.csv"
REPORTS_FILE = "local_llm/llmfit_cache.csv.gz"
LLAMA_CPP = "llama.cpp"
SCORED, DEVICES, REPORTED = (
    ("llamafile", "llamafile 2025"),
    (LLAMA_CPP, "llama.cpp 2024"),
    (LLAMA_CPP, "llama.cpp 2026"),
)
"""Program and release of the runs of each file."""
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
STORED = {"BF16": "bf16", "F16": "fp16", "Q4_K_XL": "q4_k_m"}
SCORED_TOKENS, DEVICES_TOKENS = 1300.0, 1024.0
"""Tokens of a prompt: LocalScore's first tokens times its rates of prompts; what the other file's source says."""
ROOM, SHORTEST, LONGEST, MOST_CONTEXT = 0.8, 256, 2048, 8192
"""Reports that are read: weights within this share of the memory, prompts and contexts of so many tokens."""
_NOTHING = Amounts(*(0.0,) * 12)
NEWEST = re.compile(r"-(ada|hopper|blackwell|rdna3|m[345])")
"""Families of 2022 and later."""
HELD_OUT = ("accelerator unseen", "newest unseen")


@dataclass(frozen=True)
class LocalRow:
    """One measured run that can be evaluated; a phase that was not timed is not a number.

    `token` and `prompt` are seconds of a new token and of a prompt's; `release` says which runs were made alike.
    """

    accelerator: str
    chip: str
    family: str
    program: str
    release: str
    model: str
    stored: str
    work: LocalWork
    token: float
    prompt: float

    @property
    def backend(self) -> str:
        """Of llama.cpp."""
        return backend_of(self.family)

    @property
    def groups(self) -> dict[str, str]:
        """Of the law."""
        return local_groups(self.family, self.chip, self.stored, self.program, self.release)

    def seconds(self, phase: str) -> float:
        """Measured seconds of a token of a phase; not a number where it was not timed."""
        return self.prompt if phase == PROMPTING else self.token

    @property
    def newest(self) -> bool:
        """Whether its generation is of 2022 or later."""
        return bool(NEWEST.search(self.family))


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
    if any(word in name.lower() for word in OTHER_CHIPS):
        raise InputError("a laptop's chip: it shares a desktop's name")
    if row["model"] not in MODELS or row["quantisation"] not in TYPES:
        raise InputError("a model or type of weights without a configuration here")
    model, stored = language_model(MODELS[row["model"]]), TYPES[row["quantisation"]]
    if float(row["prompt_tokens_per_s"]) < 1:
        raise InputError("a rate of prompts that was rounded to nothing")
    token, prompt = 1 / float(row["output_tokens_per_s"]), 1 / float(row["prompt_tokens_per_s"])
    chip = name_of_device(name)
    if row["kind"] == "CPU":
        known = processor(name)
        if known is None:
            raise InputError("a processor whose cores and clock are not listed")
        amounts = Shares(model, Layout(), weight_type(stored)).amounts(Batch(decodes=1.0))
        work = LocalWork.at(amounts, model.layers, math.inf, known.rate, ON_CPUS * known.rate)
        return LocalRow(name, chip or known.name, known.family, *SCORED, model.name, stored, work, math.nan, prompt)
    if chip is None:
        raise InputError("an accelerator that the catalogue lacks")
    return _on(chip, name, SCORED, model, stored, (token, prompt), SCORED_TOKENS)


def _on(
    chip: str,
    name: str,
    program: tuple[str, str],
    model: LanguageModel,
    stored: str,
    seconds: tuple[float, float],
    tokens: float,
) -> LocalRow:
    """A run on a device of the catalogue, of prompts of so many tokens."""
    device = machine(chip)
    work = LocalWork.of(model, weight_type(stored), device, _share(name, chip), tokens)
    return LocalRow(name, chip, device.family, *program, model.name, stored, work, *seconds)


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
        phases = (seconds.get("token", math.nan), seconds.get("prompt", math.nan))
        result.append(_on(chip, device, DEVICES, language_model(name), stored, phases, DEVICES_TOKENS))
    return result


def read_reports(path: Path) -> list[LocalRow]:
    """Prompts of dense models, of shapes unknown here, that users of llama.cpp reported and that fit their one device.

    Generation is left out: speculation is often unrecorded there.
    """
    result = []
    needed = (
        "engine", "backend", "device", "devices", "device_memory_bytes", "mixture", "speculative", "parameters",
        "quantisation", "prompt_tokens", "context", "bits_per_weight_guess", "prompt_tokens_per_s", "suspicious",
    )  # fmt: skip
    for _, row in read_csv_rows(path, needed):
        chip = name_of_device(row["device"])
        alone = row["engine"] == LLAMA_CPP and row["devices"] == "1" and row["mixture"] == row["speculative"] == "0"
        given = (row["parameters"], row["bits_per_weight_guess"], row["prompt_tokens"], row["prompt_tokens_per_s"])
        if chip is None or not alone or row["suspicious"] or not all(given) or not row["device_memory_bytes"]:
            continue
        parameters, bits, tokens, rate = (float(text) for text in given)
        device = machine(chip)
        fits = parameters * bits / 8 < ROOM * float(row["device_memory_bytes"])
        short = SHORTEST <= tokens <= LONGEST and float(row["context"] or tokens) <= MOST_CONTEXT
        if row["backend"] not in ("", backend_of(device.family)) or not fits or not short:
            continue
        work = LocalWork.of_amounts(replace(_NOTHING, linear_flop=2 * parameters), 0.0, device)
        name, stored = f"{parameters:g} parameters", STORED.get(row["quantisation"], row["quantisation"].lower())
        result.append(LocalRow(row["device"], chip, device.family, *REPORTED, name, stored, work, math.nan, 1 / rate))
    return result


def known_rows(localscore: Path, devices: Path | None, reports: Path | None) -> list[LocalRow]:
    """The rows of all files."""
    made = read_local(localscore)[0] + (read_devices(devices) if devices else [])
    return made + (read_reports(reports) if reports else [])


def timed(rows: Sequence[LocalRow], phase: str, backend: str = "") -> list[LocalRow]:
    """Rows of which a phase was timed, on one backend; on all GPUs without."""
    there = [row for row in rows if (row.backend == backend if backend else row.backend != "cpu")]
    return [row for row in there if math.isfinite(row.seconds(phase))]


def law_rows(rows: Sequence[LocalRow], phase: str, backend: str = "") -> LawRows:
    """A phase of rows, as rows of its law: those of one backend differ by none."""
    works = [row.work.columns() for row in rows]
    groups = [row.groups | ({"backend": UNGROUPED} if backend else {}) for row in rows]
    return LawRows(
        {name: np.array([float(one[name][0]) for one in works]) for name in COLUMNS},
        {level.name: [one[level.name] for one in groups] for level in LEVELS},
        [f"{row.accelerator} {row.program} {row.model} {row.stored}" for row in rows],
        np.array([row.seconds(phase) for row in rows]),
        [row.program for row in rows],
    )


def fitted_to(rows: Sequence[LocalRow]) -> dict[str, LawFit]:
    """The laws of both phases fitted to rows of all GPUs, and to those of each backend; bands by chips left out.

    The fit to all GPUs answers for machines whose backend has no rows, so that nothing of a chip is kept of it.
    """
    made = {}
    for phase, backend in _parts(rows, with_all=("",)):
        part = law_rows(timed(rows, phase, backend), phase, backend)
        fitted = calibrated(LAWS[phase], part, part.groups["chip"])
        made[fit_name(phase, backend) if backend else phase] = fitted if backend else _without_machines(fitted)
    return made


def _without_machines(fitted: LawFit) -> LawFit:
    """The same without effects of generations and chips, whose widths stay."""
    kept = np.array([c.level not in ("generation", "chip") for c in fitted.coordinates])
    coordinates = tuple(c for c, keep in zip(fitted.coordinates, kept, strict=True) if keep)
    return replace(
        fitted, coordinates=coordinates, logs=fitted.logs[kept], covariance=fitted.covariance[np.ix_(kept, kept)]
    )


def _parts(rows: Sequence[LocalRow], with_all: Sequence[str] = ()) -> list[tuple[str, str]]:
    backends = [*with_all, *sorted({row.backend for row in rows})]
    return [(phase, backend) for phase in LAWS for backend in backends if timed(rows, phase, backend)]


@dataclass(frozen=True, eq=False)
class Met:
    """How rows of a phase were met by fits that saw none of their groups, and in which bands."""

    phase: str
    rows: Sequence[LocalRow]
    seconds: FloatArray
    half: FloatArray

    @property
    def measured(self) -> FloatArray:
        """Seconds that were measured."""
        return np.array([row.seconds(self.phase) for row in self.rows])


def outer(rows: Sequence[LocalRow], held: str) -> list[Met]:
    """Both phases of rows whose chip, or whose generation with all newer ones, is left out; bands by folds within."""
    result: dict[str, list[tuple[LocalRow, float, float]]] = {phase: [] for phase in LAWS}
    for phase, backend in _parts(rows):
        mine = timed(rows, phase, backend)
        part = law_rows(mine, phase, backend)
        chips = part.groups["chip"]
        if held == "newest unseen":
            era = ["newest" if row.newest else "older" for row in mine]
            outer_folds = folds(era, scored={at for at, name in enumerate(era) if name == "newest"})
        else:
            outer_folds = folds(chips, at_most=12)
        made = left_out(LAWS[phase], part, outer_folds, chips)
        met = np.flatnonzero(np.isfinite(made.seconds)).tolist()
        result[phase] += [(mine[at], float(made.seconds[at]), float(made.half[at])) for at in met]
    return [
        Met(phase, [row for row, _, _ in one], np.array([s for _, s, _ in one]), np.array([h for _, _, h in one]))
        for phase, one in result.items()
    ]


def refit() -> FittedFile:
    """The laws of local models fitted to all public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    files = {name: training_file(name) for name in (FILE, DEVICES_FILE, REPORTS_FILE)}
    missing = [name for name, path in files.items() if path is None]
    if missing:
        raise InputError(why_missing(missing[0]))
    paths = {name: path for name, path in files.items() if path is not None}
    rows = known_rows(*(paths[name] for name in files))
    scores = []
    for held in HELD_OUT:
        for met in outer(rows, held):
            for backend in ("", *sorted({row.backend for row in met.rows})):
                at = [i for i, row in enumerate(met.rows) if backend in ("", row.backend)]
                groups = len({met.rows[i].chip for i in at})
                kind = f"{met.phase} on {backend}" if backend else met.phase
                scores.append(OuterScore.of(held, kind, groups, met.seconds[at], met.measured[at], met.half[at]))
    note = (
        "Runs of d893a/localscore-insights (a4f8174), XiongjieDai/GPU-Benchmarks-on-LLM-Inference (aa72e0e) and "
        "AlexsJones/llmfit (3f44fd3)."
    )
    used = sum(len(timed(rows, phase, backend)) for phase, backend in _parts(rows))
    return FittedFile(
        NAME, {name: digest(path) for name, path in paths.items()}, used, fitted_to(rows), tuple(scores), note
    )
