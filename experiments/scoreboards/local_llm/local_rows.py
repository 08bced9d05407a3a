"""Measured runs of llama.cpp and llamafile on one GPU, and the fit of the law of local models to them.

`local_llm/localscore.csv` holds crowd-sourced llamafile runs, the other files runs of llama.cpp itself: those of
`local_llm/llama_bench.csv.gz` teach of prompts alone.

Processors of one kind of core whose prompts were timed: cores and base clocks of data sheets, by name.

Those with two kinds of cores, boards and virtual machines of unknown size are left out. Memory is not in the tables of
runs, so that generation on a processor is not fitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.llama_cpp_step import (
    ON_CPUS,
    PROMPT_BATCH,
    PROMPTING,
    LocalWork,
    PromptWork,
    backend_of,
    local_groups,
    memory_of,
)
from slipstick.estimators.engine_steps.step_amounts import Amounts, Batch, Shares
from slipstick.experiments.scoring.scored_cases import readable
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import in_gguf, weight_bytes, weight_type
from slipstick.workloads.language_catalog import language_model

FLOP_PER_CYCLE = {
    "amd-zen2": 32, "amd-zen3": 32, "amd-zen4": 32, "amd-zen5": 64, "intel-sandy-bridge": 16, "intel-ivy-bridge": 16,
    "intel-haswell": 32, "intel-broadwell": 32, "intel-skylake": 32, "intel-skylake-sp": 64, "intel-cascade-lake": 64,
    "intel-tiger-lake": 32, "intel-rocket-lake": 32,
}  # fmt: skip
"""FP32 flop a cycle and core: two 256-bit multiply-adds (or one of 512 bits), two of 512 on servers since Skylake and
on Zen 5, an addition and a product of 256 bits before Haswell (optimisation guides of both makers)."""


@dataclass(frozen=True)
class Processor:
    """What a prompt's speed depends on: family as in the catalogue, cores, base clock in Hz."""

    name: str
    family: str
    cores: int
    clock: float

    @property
    def rate(self) -> float:
        """FP32 flop/s of all cores at the base clock."""
        return self.cores * self.clock * FLOP_PER_CYCLE[self.family]


_LISTED = {
    "amd-zen2": (
        ("Ryzen 7 4800H", 8, 2.9), ("Ryzen 7 4700U", 8, 2.0), ("Ryzen 9 3900X", 12, 3.8), ("Ryzen 7 4800U", 8, 1.8),
        ("Ryzen Threadripper PRO 3955WX", 16, 3.9), ("Ryzen 5 4600G", 6, 3.7), ("Ryzen 7 PRO 4750G", 8, 3.6),
        ("EPYC 7352", 24, 2.3),
    ),
    "amd-zen3": (
        ("Ryzen 9 5950X", 16, 3.4), ("Ryzen 7 5700X3D", 8, 3.0), ("Ryzen 7 5800X3D", 8, 3.4), ("Ryzen 7 5800X", 8, 3.8),
        ("Ryzen 5 5600X", 6, 3.7), ("Ryzen 9 5900HX", 8, 3.3), ("Ryzen 7 5700G", 8, 3.8), ("Ryzen 5 5600U", 6, 2.3),
        ("Ryzen 7 5800H", 8, 3.2), ("Ryzen 5 7535HS", 6, 3.3), ("Ryzen 7 7730U", 8, 2.0),
    ),
    "amd-zen4": (
        ("Ryzen 9 7940HS", 8, 4.0), ("Ryzen 7 7800X3D", 8, 4.2), ("Ryzen 9 7950X3D", 16, 4.2),
        ("Ryzen 9 7950X", 16, 4.5),
        ("Ryzen 9 7900X", 12, 4.7), ("Ryzen 9 7900 12", 12, 3.7), ("Ryzen 5 7600X", 6, 4.7),
        ("Ryzen 9 7945HX", 16, 2.5),
        ("Ryzen 7 7840HS", 8, 3.8), ("Ryzen 7 7840U", 8, 3.3), ("Ryzen 7 PRO 8840U", 8, 3.3),
        ("Ryzen 7 8845HS", 8, 3.8),
        ("Threadripper PRO 7995WX", 96, 2.5),
    ),
    "amd-zen5": (("Ryzen 9 9950X3D", 16, 4.3), ("Ryzen 9 9900X", 12, 4.4)),
    "intel-ivy-bridge": (("E5-2697 v2", 12, 2.7), ("E3-1245 V2", 4, 3.4), ("i7-3720QM", 4, 2.6)),
    "intel-sandy-bridge": (("i5-2500 ", 4, 3.3),),
    "intel-haswell": (
        ("E5-2699 v3", 18, 2.3), ("E5-2667 v3", 8, 3.2), ("E5-2630 v3", 8, 2.4), ("i7-4790", 4, 3.6),
        ("i5-4200M", 2, 2.5), ("i5-4250U", 2, 1.3), ("E3-1240L v3", 4, 2.0),
    ),
    "intel-broadwell": (
        ("E5-1620 v4", 4, 3.5), ("E5-2695 v4", 18, 2.1), ("E5-2680 v4", 14, 2.4), ("E5-2697A v4", 16, 2.6),
        ("i5-5300U", 2, 2.3),
    ),
    "intel-skylake": (
        ("i7-10750H", 6, 2.6), ("i5-8500T", 6, 2.1), ("i7-6600U", 2, 2.6), ("i7-8550U", 4, 1.8), ("i5-10310U", 4, 1.7),
        ("i5-8300H", 4, 2.3), ("i7-6770HQ", 4, 2.6), ("i7-10710U", 6, 1.1), ("i7-8565U", 4, 1.8), ("i5-8350U", 4, 1.7),
        ("i7-8700K", 6, 3.7), ("i7-7700T", 4, 2.9), ("i7-7700 ", 4, 3.6), ("i7-7700HQ", 4, 2.8), ("i7-6920HQ", 4, 2.9),
        ("i7-10870H", 8, 2.2), ("i7-10850H", 6, 2.7), ("i5-6200U", 2, 2.3), ("i5-6600K", 4, 3.5), ("i5-6500T", 4, 2.5),
        ("i9-9900KF", 8, 3.6), ("E3-1260L v5", 4, 2.9),
    ),
    "intel-skylake-sp": (("W-2150B", 10, 3.0),),
    "intel-cascade-lake": (("Platinum 8280 ", 28, 2.7), ("Gold 5218 ", 16, 2.3), ("Silver 4210R", 10, 2.4)),
    "intel-tiger-lake": (
        ("i7-1185G7", 4, 3.0), ("i5-1135G7", 4, 2.4), ("i7-1165G7", 4, 2.8), ("i7-11800H", 8, 2.3),
        ("i5-11400H", 6, 2.7),
    ),
    "intel-rocket-lake": (
        ("i7-11700F", 8, 2.5), ("i7-11700K", 8, 3.6), ("i7-11700 ", 8, 2.5), ("i5-11400 ", 6, 2.6),
    ),
}  # fmt: skip
PROCESSORS = tuple(
    Processor(name, family, cores, 1e9 * clock) for family, chips in _LISTED.items() for name, cores, clock in chips
)


def processor(name: str) -> Processor | None:
    """The processor that a run names; None where none is listed."""
    return next((one for one in sorted(PROCESSORS, key=lambda p: -len(p.name)) if one.name in name + " "), None)


FILE, DEVICES_FILE = "local_llm/localscore.csv", "local_llm/llama_cpp_gpus.csv"
REPORTS_FILE, BENCHES_FILE = "local_llm/llmfit_cache.csv.gz", "local_llm/llmfit_community.csv"
RATES_FILE = "local_llm/llama_bench.csv.gz"
FILES = (FILE, DEVICES_FILE, REPORTS_FILE, BENCHES_FILE, RATES_FILE)
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
SCORED_TOKENS = (1024.0, 4096.0, 2048.0, 2048.0, 1024.0, 1280.0, 384.0, 64.0, 16.0)
"""Prompts of LocalScore's nine tests, over whose rates it takes the mean (localscore/ of Mozilla-Ocho/llamafile)."""
DEVICES_TOKENS = 1024.0
"""Tokens of a prompt, as the file's source says."""
BENCHED = {
    "Q4_K-Medium": "q4_k_m", "Q5_K-Medium": "q5_k_m", "Q3_K-Medium": "q3_k_m", "Q3_K-Small": "q3_k_s", "Q6_K": "q6_k",
    "Q8_0": "q8_0", "Q4_0": "q4_0", "IQ4_NL": "q4_0", "F16": "fp16", "BF16": "bf16", "MXFP4MoE": "mxfp4_gguf",
}  # fmt: skip
BACKENDS = {"CUDA": "cuda", "ROCm": "rocm", "Vulkan": "vulkan", "MTL,BLAS": "metal"}
BENCHED_MODELS = {"shisa-v2-llama3.1-8b.i1": "llama-3.1-8b", "llama 7B": "llama-2-7b"}
BENCHED_LEAST, YEAR_ENDS, LAYERS = 16.0, 7600.0, 40.0
"""Tokens of the shortest prompt that is read; the first build of 2026; layers of a model that states none."""
LIBRARIES = ("hipblaslt", "rocwmma", "amdvlk", "hip")
"""Of AMD's runs, where named: what multiplies, or whose driver it is."""
ROOM, SHORTEST, LONGEST, MOST_CONTEXT = 0.8, 256, 2048, 8192
"""Reports that are read: weights within this share of the memory, prompts and contexts of so many tokens."""
_NOTHING = Amounts(*(0.0,) * 12)
NEWEST = re.compile(r"-(ada|hopper|blackwell|rdna3|m[345])")
"""Families of 2022 and later."""


@dataclass(frozen=True)
class LocalRow:
    """One measured run that can be evaluated; a phase that was not timed is not a number.

    `token` and `prompt` are seconds of a new token and of a prompt's; `release` says which runs were made alike,
    `source` who published them, `under` which backend where it is not that of the chip's maker, `memory` its kind.
    """

    accelerator: str
    chip: str
    family: str
    program: str
    release: str
    model: str
    stored: str
    work: LocalWork
    prompts: PromptWork
    token: float
    prompt: float
    source: str
    under: str = ""
    memory: str = ""

    @property
    def backend(self) -> str:
        """Of llama.cpp; llamafile brings kernels of its own to AMD's GPUs, which use no matrix instructions."""
        backend = self.under or backend_of(self.family)
        return OWN_KERNELS if (self.program, backend) == (SCORED[0], "rocm") else backend

    @property
    def groups(self) -> dict[str, str]:
        """Of the law."""
        named = self.family, self.chip, self.stored, self.program, self.release
        return local_groups(*named, self.backend, self.memory)

    def seconds(self, phase: str) -> float:
        """Measured seconds of a token of a phase; not a number where it was not timed."""
        return self.prompt if phase == PROMPTING else self.token

    def work_of(self, phase: str) -> LocalWork | PromptWork:
        """What a token of a phase needs."""
        return self.prompts if phase == PROMPTING else self.work

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
        shares, lanes = Shares(model, Layout(), weight_type(stored)), known.cores * known.clock
        work = LocalWork.at(shares.amounts(Batch(decodes=1.0)), model.layers, math.inf, known.rate)
        each = (shares.amounts(Batch(prompt=n, chunk=n, finished=1.0)) for n in SCORED_TOKENS)
        prompts = _several(
            [PromptWork.at(one, model.layers, math.inf, ON_CPUS * known.rate, lanes, 0.0) for one in each]
        )
        name = chip or known.name
        return LocalRow(
            row["accelerator"], name, known.family, *SCORED, model.name, stored, work, prompts, math.nan, prompt, FILE
        )
    if chip is None:
        raise InputError("an accelerator that the catalogue lacks")
    return _on(chip, name, SCORED, model, stored, (token, prompt), FILE, SCORED_TOKENS)


def _on(
    chip: str,
    name: str,
    program: tuple[str, str],
    model: LanguageModel,
    stored: str,
    seconds: tuple[float, float],
    source: str,
    tokens: Sequence[float],
    **passed: float,
) -> LocalRow:
    """A run on a device of the catalogue, of prompts of so many tokens; `passed`: their `batch` and `depth`."""
    device, kind, share = machine(chip), weight_type(stored), _share(name, chip)
    work = LocalWork.of(model, kind, device, share)
    prompts = _several([PromptWork.of(model, kind, device, one, share, **passed) for one in tokens])
    ran = (*program, model.name, stored, work, prompts, *seconds, source)
    return LocalRow(name, chip, device.family, *ran, memory=memory_of(device))


def _several(works: Sequence[PromptWork]) -> PromptWork:
    """Several prompts in one, as many as LocalScore has: one of them is repeated."""
    many = works if len(works) > 1 else [*works] * len(SCORED_TOKENS)
    return PromptWork(**{name: np.array([float(getattr(one, name)) for one in many]) for name in vars(works[0])})


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
        result.append(_on(chip, device, DEVICES, language_model(name), stored, phases, DEVICES_FILE, (DEVICES_TOKENS,)))
    return result


def read_reports(path: Path) -> list[LocalRow]:
    """Prompts that users of llama.cpp reported and that fit their one device.

    Of models that the catalogue lacks, flop and bytes follow from their numbers of parameters. Generation is
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
            result.append(_on(chip, row["device"], REPORTED, *known, (math.nan, prompt), REPORTS_FILE, (tokens,)))
            continue
        amounts = _NOTHING._replace(linear_flop=2 * used * tokens, tokens=tokens)
        amounts = amounts._replace(
            **{f"{'expert' if row['mixture'] == '1' else 'weight'}_bytes": parameters * bits / 8}
        )
        work, name = LocalWork.of_amounts(amounts, 0.0, device), f"{parameters:g} parameters, {used:g} active"
        prompts = _several([PromptWork.of_amounts(amounts, LAYERS, device, stored)])
        phases = (math.nan, prompt)
        made = LocalRow(
            row["device"], chip, device.family, *REPORTED, name, stored, work, prompts, *phases, REPORTS_FILE
        )
        result.append(made)
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
        result.append(_on(chip, row["device"], REPORTED, *known, phases, BENCHES_FILE, (PROMPT_BATCH,)))
    return result


def read_rates(path: Path, phase: str = PROMPTING) -> list[LocalRow]:
    """A phase that llama-bench timed on one device: medians over a year's builds, with flash attention and without.

    New tokens are those of an empty cache, however many.
    """
    made: dict[tuple[str, ...], list[float]] = {}
    needed = (
        "source", "device", "devices", "backend", "backend_version", "build", "model", "quantisation", "phase",
        "tokens", "depth", "batch", "ubatch", "options", "tokens_per_s", "suspicious",
    )  # fmt: skip
    for _, row in read_csv_rows(path, needed):
        stored = BENCHED.get(row["quantisation"], "")
        alone = row["phase"] == phase.removesuffix("s") and row["devices"] == "1" and not row["suspicious"]
        if phase != PROMPTING and float(row["depth"] or 0):
            continue
        if not alone or not stored or row["backend"] not in BACKENDS:
            continue
        words = f"{row['options']} {row['backend_version']}".lower()
        library = next((one for one in LIBRARIES if one in words), "")
        year = 2025 if 0 < float(row["build"] or 0) < YEAR_ENDS else 2026
        release = f"{LLAMA_CPP} ({library}) {year}" if library else f"{LLAMA_CPP} {year}"
        batch = min(float(row["ubatch"] or PROMPT_BATCH), float(row["batch"] or math.inf))
        many = row["tokens"] if phase == PROMPTING else str(BENCHED_LEAST)
        key = (row["source"], row["device"], row["backend"], release, row["model"], stored, many, row["depth"])
        made.setdefault((*key, str(batch)), []).append(_seconds(row["tokens_per_s"]))
    rows = (_rate(key, median(seconds)) for key, seconds in made.items())
    swapped = phase != PROMPTING
    return [replace(row, token=row.prompt, prompt=math.nan) if swapped else row for row in rows if row is not None]


def _rate(key: Sequence[str], seconds: float) -> LocalRow | None:
    source, device, backend, release, named, stored, *sizes = key
    tokens, depth, batch = map(float, sizes)
    plain = re.sub(r"[-. ](UD-)?(I?Q\d\w*|MXFP4|B?F16|DYNAMIC)$", "", named, flags=re.IGNORECASE)
    stem = re.sub(r"(-it|-Instruct|-2507)+$", "", plain) if plain not in BENCHED_MODELS else BENCHED_MODELS[plain]
    known, chip = _known_model(plain, stored) or _known_model(stem, stored), name_of_device(device)
    if known is None or chip is None or tokens < BENCHED_LEAST:
        return None
    phases = (math.nan, seconds)
    row = _on(chip, device, (LLAMA_CPP, release), *known, phases, source, (tokens,), batch=batch, depth=depth)
    return replace(row, under=BACKENDS[backend])


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
    made, readers = read_local(localscore)[0], (read_devices, read_reports, read_benches, read_rates)
    return made + [row for read, path in zip(readers, others, strict=True) if path for row in read(path)]


def timed(rows: Sequence[LocalRow], phase: str, backend: str = "") -> list[LocalRow]:
    """Rows of which a phase was timed, on one backend; on all GPUs without."""
    there = [row for row in rows if (row.backend == backend if backend else row.backend != "cpu")]
    return [row for row in there if math.isfinite(row.seconds(phase))]
