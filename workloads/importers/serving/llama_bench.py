"""`llama-bench -o json | jsonl | csv`: rates of prompts and of generation under llama.cpp, for one user.

Source: ggml-org/llama.cpp, tools/llama-bench/README.md; times there are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.hwmodels.files.readers import InputError, parse_json, read_csv_rows, read_text, require_mapping
from slipstick.workloads.importers.serving.fields import Fields, text_of

MOST_ROWS = 100_000
_TYPE = re.compile(r"\b(I?Q\d(?:_\w+)?|F16|F32|BF16|MXFP4)\b(?:\s*-\s*(Small|Medium|Large))?")
_SIZES = {"Small": "_s", "Medium": "_m", "Large": "_l"}
_SAME = {"f16": "fp16", "f32": "fp32"}


@dataclass(frozen=True)
class LocalRun:
    """One test: a prompt, a generation, or both, after `depth` tokens that were in the cache.

    Parameters
    ----------
    stored
        Type of the weights as GGUF calls it, in lower case ("q4_k_m"); empty where the model's type names none.
    parameters
        Of the model; `size` is the bytes of its weights.
    seconds, spread
        Mean time of the test and its standard deviation.
    """

    model: str
    stored: str
    parameters: int
    size: int
    device: str
    backends: str
    prompt: int
    generated: int
    depth: int
    batch: int
    threads: int
    seconds: float
    spread: float

    @property
    def rate(self) -> float:
        """Tokens/s of the whole test."""
        return (self.prompt + self.generated) / self.seconds


def read_llama_bench(path: Path) -> tuple[LocalRun, ...]:
    """The tests of a file.

    Raises
    ------
    InputError
        Where it is none of these; names all fields that are missing or wrong.
    """
    fields = Fields(path)
    runs = [_test(entry, where, fields) for where, entry in _entries(path)]
    fields.finish()
    if not runs:
        raise InputError(f"{path}: holds no tests")
    return tuple(runs)


def _entries(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    text = read_text(path)
    start = text.lstrip()[:1]
    if start == "[":
        entries = list(parse_json(text, path))[: MOST_ROWS + 1]
        result = [(f"test {number}", entry) for number, entry in enumerate(entries)]
    elif start == "{":
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        result = [
            (f"line {number}", parse_json(line, f"{path}: line {number}")) for number, line in lines[: MOST_ROWS + 1]
        ]
    else:
        result = [(f"line {line}", row) for line, row in read_csv_rows(path, ("avg_ns", "n_prompt", "n_gen"))]
    if len(result) > MOST_ROWS:
        raise InputError(f"{path}: more than {MOST_ROWS:,} tests")
    return [(where, require_mapping(entry, path, where)) for where, entry in result]


def _test(entry: Mapping[str, Any], where: str, fields: Fields) -> LocalRun:
    def whole(name: str, low: float = 0) -> int:
        return int(fields.number(entry, name, where, low))

    prompt, generated = whole("n_prompt"), whole("n_gen")
    if prompt + generated == 0:
        fields.wrong.append(f"{where}: n_prompt and n_gen are both 0")
    return LocalRun(
        text_of(entry, "model_type"),
        stored_type(text_of(entry, "model_type")),
        whole("model_n_params", 1),
        whole("model_size", 1),
        text_of(entry, "gpu_info") or text_of(entry, "cpu_info"),
        text_of(entry, "backends"),
        prompt,
        generated,
        int(fields.optional(entry, "n_depth", where) or 0),
        int(fields.optional(entry, "n_batch", where) or 0),
        int(fields.optional(entry, "n_threads", where) or 0),
        fields.number(entry, "avg_ns", where, 1) * 1e-9,
        (fields.optional(entry, "stddev_ns", where) or 0.0) * 1e-9,
    )


def stored_type(model_type: str) -> str:
    """The type of weights in a model's type.

    >>> stored_type("qwen2 7B Q4_K - Medium"), stored_type("llama 8B F16"), stored_type("llama 7B mostly Q4_0")
    ('q4_k_m', 'fp16', 'q4_0')
    """
    match = _TYPE.search(model_type)
    if not match:
        return ""
    name = match.group(1).lower() + _SIZES.get(match.group(2) or "", "")
    return _SAME.get(name, name)
