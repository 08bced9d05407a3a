"""LocalScore's rows: crowd-sourced llamafile runs (`local_llm/localscore.csv`), and the fit of backends to them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from slipstick.estimators.operation.serving.local_step import LocalCalibration, LocalParameters, LocalWork, backend_of
from slipstick.estimators.tuned.tuned_local import FAMILY_ROWS, SCATTER, WIDTH
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.files.readers import InputError, atomic_write, read_csv_rows
from slipstick.hwmodels.files.records import Table
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model

FloatArray = npt.NDArray[np.float64]
FILE = "local_llm/localscore.csv"
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
RATES = ("prompt_tokens_per_s", "output_tokens_per_s")


@dataclass(frozen=True)
class LocalRow:
    """One measured run that can be evaluated."""

    accelerator: str
    backend: str
    model: LanguageModel
    stored: str
    work: LocalWork
    token: float
    prompt: float


def read_local(path: Path) -> tuple[list[LocalRow], dict[str, int]]:
    """Rows of a file, and those left out by reason."""
    result, refused = [], dict[str, int]()
    needed = (
        "accelerator",
        "kind",
        "model",
        "quantisation",
        "prompt_tokens_per_s",
        "output_tokens_per_s",
        "suspicious",
    )
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
    machine = machine_of_device(name)
    if machine is None:
        raise InputError("an accelerator that the catalogue lacks")
    model, stored = language_model(MODELS[row["model"]]), TYPES[row["quantisation"]]
    cores = re.search(r"(\d+)GPU", name)  # Apple's chips are sold with fewer cores
    share = int(cores[1]) / machine.cores if cores else 1.0
    work = LocalWork.of(model, weight_type(stored), machine, share)
    token, prompt = 1 / float(row["output_tokens_per_s"]), 1 / float(row["prompt_tokens_per_s"])
    return LocalRow(name, backend_of(machine), model, stored, work, token, prompt)


def fit_backend(rows: Sequence[LocalRow]) -> LocalParameters:
    """Parameters of one backend, in log time; runs of one accelerator, model and type count as one."""
    memory, layers, plain, matrix = works(rows)
    token, prompt = np.log([r.token for r in rows]), np.log([r.prompt for r in rows])
    names = list(WIDTH)
    expected = np.log([getattr(LocalParameters(), name) for name in names])
    keys = [(r.accelerator, r.model.name, r.stored) for r in rows]
    weight = np.sqrt([FAMILY_ROWS / keys.count(key) for key in keys]) / SCATTER

    def residuals(logs: FloatArray) -> FloatArray:
        made = LocalParameters(**dict(zip(names, np.exp(logs), strict=True)))
        off = [np.log(made.generation(memory, layers, plain)) - token, np.log(made.prompt(matrix, plain)) - prompt]
        soft = [np.sign(o) * np.sqrt(2 * (np.sqrt(1 + (o / SCATTER) ** 2) - 1)) * SCATTER * weight for o in off]
        return np.concatenate([*soft, (logs - expected) / list(WIDTH.values())])

    values = np.exp(least_squares(residuals, expected).x)
    return LocalParameters(**{name: float(value) for name, value in zip(names, values, strict=True)})


def works(rows: Sequence[LocalRow]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Memory, layers, plain and matrix arithmetic of all rows."""
    columns = [[getattr(r.work, name) for r in rows] for name in ("memory", "layers", "plain", "matrix")]
    memory, layers, plain, matrix = (np.array(column, dtype=float) for column in columns)
    return memory, layers, plain, matrix


def predicted(fitted: LocalParameters, rows: Sequence[LocalRow]) -> tuple[FloatArray, FloatArray]:
    """Seconds of a new token and of a prompt's token of each row."""
    memory, layers, plain, matrix = works(rows)
    return np.asarray(fitted.generation(memory, layers, plain)), np.asarray(fitted.prompt(matrix, plain))


Predicted = tuple[list[LocalRow], FloatArray, FloatArray]


def left_out(rows: Sequence[LocalRow], group: Callable[[LocalRow], str]) -> Predicted:
    """Every row predicted by fits that have not seen its group; backends apart."""
    scored: list[LocalRow] = []
    tokens, prompts = [], []
    for backend in sorted({r.backend for r in rows}):
        alike = [r for r in rows if r.backend == backend]
        for value in sorted({group(r) for r in alike}):
            known, wanted = [r for r in alike if group(r) != value], [r for r in alike if group(r) == value]
            if not known:
                continue
            token, prompt = predicted(fit_backend(known), wanted)
            scored += wanted
            tokens.append(token)
            prompts.append(prompt)
    return scored, np.concatenate(tokens), np.concatenate(prompts)


def calibrated(rows: Sequence[LocalRow]) -> LocalCalibration:
    """All backends, with bands from left-out accelerators."""
    scored, tokens, prompts = left_out(rows, lambda r: r.accelerator)
    token_errors = np.abs(np.log(tokens / [r.token for r in scored]))
    prompt_errors = np.abs(np.log(prompts / [r.prompt for r in scored]))
    backends = sorted({r.backend for r in rows})

    def width(errors: FloatArray, backend: str) -> float:
        errors_here = [e for e, r in zip(errors, scored, strict=True) if r.backend == backend]
        return round(float(np.percentile(errors_here, 80)), 4)

    return LocalCalibration(
        Table({b: fit_backend([r for r in rows if r.backend == b]) for b in backends}),
        Table({b: width(token_errors, b) for b in backends}),
        Table({b: width(prompt_errors, b) for b in backends}),
        f"{len(rows)} runs of d893a/localscore-insights (a4f8174) on GPUs, fitted by "
        "python -m slipstick.experiments.evidence.validation.serving.local_rows",
    )


def main(path: str) -> None:
    """Write the calibration of the public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    file = training_file(FILE)
    if file is None:
        raise InputError(why_missing(FILE))
    with atomic_write(path) as stream:
        json.dump(calibrated(read_local(file)[0]).to_dict(), stream, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
