"""Measured runs of llama.cpp and llamafile on one GPU, and the fit of the law of local models to them.

`local_llm/localscore.csv` holds crowd-sourced llamafile runs, `local_llm/llama_cpp_gpus.csv` runs of llama.cpp itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.llama_cpp_step import (
    ON_CPUS,
    PROMPT_BATCH,
    PROMPTING,
    LocalWork,
    backend_of,
    local_groups,
)
from slipstick.estimators.engine_steps.step_amounts import Amounts, Batch, Shares
from slipstick.experiments.scoreboards.local_llm.local_cpus import processor
from slipstick.experiments.scoring.scored_cases import readable
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import in_gguf, weight_bytes, weight_type
from slipstick.workloads.language_catalog import language_model

FILE, DEVICES_FILE = "local_llm/localscore.csv", "local_llm/llama_cpp_gpus.csv"
REPORTS_FILE, BENCHES_FILE = "local_llm/llmfit_cache.csv.gz", "local_llm/llmfit_community.csv"
FILES = (FILE, DEVICES_FILE, REPORTS_FILE, BENCHES_FILE)
LLAMA_CPP = "llama.cpp"
SCORED, DEVICES, REPORTED = (
    ("llamafile", "llamafile 2025"),
    (LLAMA_CPP, "llama.cpp 2024"),
    (LLAMA_CPP, "llama.cpp 2026"),
)
"""Program and release of the runs of each file."""
OWN_KERNELS = "llamafile on rocm"
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
        """Of llama.cpp; llamafile brings kernels of its own to AMD's GPUs, which use no matrix instructions."""
        backend = backend_of(self.family)
        return OWN_KERNELS if (self.program, backend) == (SCORED[0], "rocm") else backend

    @property
    def groups(self) -> dict[str, str]:
        """Of the law."""
        named = local_groups(self.family, self.chip, self.stored, self.program, self.release)
        return named | {"backend": self.backend}

    def seconds(self, phase: str) -> float:
        """Measured seconds of a token of a phase; not a number where it was not timed."""
        return self.prompt if phase == PROMPTING else self.token

    @property
    def newest(self) -> bool:
        """Whether its generation is of 2022 or later."""
        return bool(NEWEST.search(self.family))


def read_local(path: Path) -> tuple[list[LocalRow], dict[str, int]]:
    """LocalScore's rows, and those left out by reason."""
    needed = (
        "accelerator", "kind", "model", "quantisation", "prompt_tokens_per_s", "output_tokens_per_s", "suspicious",
    )  # fmt: skip
    return readable((row for _, row in read_csv_rows(path, needed)), _row)


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
    """Prompts that users of llama.cpp reported and that fit their one device.

    Of models that the catalogue lacks, flop and bytes of experts follow from their numbers of parameters. Generation is
    left out: speculation is often unrecorded there.
    """
    result = []
    needed = (
        "engine", "backend", "device", "devices", "device_memory_bytes", "mixture", "speculative", "parameters",
        "active_parameters", "active_parameters_guess", "model", "quantisation", "prompt_tokens", "context",
        "suspicious",
        "bits_per_weight_guess", "prompt_tokens_per_s",
    )  # fmt: skip
    for _, row in read_csv_rows(path, needed):
        chip = name_of_device(row["device"])
        alone = row["engine"] == LLAMA_CPP and row["devices"] == "1" and row["speculative"] == "0"
        active = row["active_parameters"] or row["active_parameters_guess"] or row["parameters"]
        given = (row["parameters"], active, row["bits_per_weight_guess"], row["prompt_tokens"])
        if chip is None or not alone or row["suspicious"] or not all(given) or not row["device_memory_bytes"]:
            continue
        parameters, used, bits, tokens = (float(text) for text in given)
        device = machine(chip)
        fits = parameters * bits / 8 < ROOM * float(row["device_memory_bytes"])
        short = SHORTEST <= tokens <= LONGEST and float(row["context"] or tokens) <= MOST_CONTEXT
        if row["backend"] not in ("", backend_of(device.family)) or not fits or not short:
            continue
        stored = STORED.get(row["quantisation"], row["quantisation"].lower())
        known = _known_model(row["model"].rpartition("/")[2], stored)
        prompt = _seconds(row["prompt_tokens_per_s"])
        if known:
            result.append(_on(chip, row["device"], REPORTED, *known, (math.nan, prompt), tokens))
            continue
        amounts = _NOTHING._replace(linear_flop=2 * used)
        if row["mixture"] == "1":
            amounts = amounts._replace(expert_bytes=parameters * bits / 8)
        work = LocalWork.of_amounts(amounts, 0.0, device)
        work = replace(work, experts=work.experts / min(tokens, PROMPT_BATCH))
        name = f"{parameters:g} parameters, {used:g} active"
        result.append(LocalRow(row["device"], chip, device.family, *REPORTED, name, stored, work, math.nan, prompt))
    return result


def read_benches(path: Path) -> list[LocalRow]:
    """Generation by llama.cpp of the catalogue's models, as the tool `llmfit bench` measured it on one device."""
    result = []
    for _, row in read_csv_rows(
        path, ("engine", "device", "device_memory_bytes", "model", "quantisation", "suspicious")
    ):
        chip, stored = name_of_device(row["device"]), row["quantisation"].lower()
        known = _known_model(row["model"], stored)
        if chip is None or row["engine"] != "llamacpp" or row["suspicious"] or not known:
            continue
        if weight_bytes(known[0], weight_type(stored)) > ROOM * float(row["device_memory_bytes"]):
            continue
        phases = (_seconds(row["output_tokens_per_s"]), math.nan)
        result.append(_on(chip, row["device"], REPORTED, *known, phases, 0.0))
    return result


def _known_model(name: str, stored: str) -> tuple[LanguageModel, str] | None:
    """The catalogue's model of a file's name, and its type of weights; None where one of them is not known."""
    plain = re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    plain = re.sub(r"(-GGUF|[-.](Q\d\w*|MXFP4|BF16|F16)(-.*)?)$", "", plain, flags=re.IGNORECASE)
    stored = in_gguf(language_model("gpt-oss-20b").weights) if "gpt-oss" in plain.lower() else stored
    try:
        weight_type(stored)
        return language_model(plain.rpartition("_")[2]), stored
    except InputError:
        return None


def _seconds(rate: str) -> float:
    return 1 / float(rate) if rate else math.nan


def known_rows(localscore: Path, *others: Path | None) -> list[LocalRow]:
    """The rows of all files (`FILES`, in this order)."""
    made, readers = read_local(localscore)[0], (read_devices, read_reports, read_benches)
    return made + [row for read, path in zip(readers, others, strict=True) if path for row in read(path)]


def timed(rows: Sequence[LocalRow], phase: str, backend: str = "") -> list[LocalRow]:
    """Rows of which a phase was timed, on one backend; on all GPUs without."""
    there = [row for row in rows if (row.backend == backend if backend else row.backend != "cpu")]
    return [row for row in there if math.isfinite(row.seconds(phase))]
