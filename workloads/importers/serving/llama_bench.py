"""`llama-bench -o json | jsonl | csv | md`: rates of prompts and of generation under llama.cpp, for one user.

Source: ggml-org/llama.cpp, tools/llama-bench/README.md; times there are nanoseconds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import bar_tables, read_text, table_rows
from slipstick.workloads.importers.serving.fields import Fields, text_of

MOST_ROWS = 100_000
_TYPE = re.compile(r"\b(I?Q\d(?:_\w+)?|F16|F32|BF16|MXFP4)\b(?:\s*-\s*(Small|Medium|Large))?")
_TEST = re.compile(r"(?:pp(\d{1,9}))?\+?(?:tg(\d{1,9}))?(?: @ d(\d{1,9}))?")
PRINTED = ("model", "test", "t/s")
"""Columns of the Markdown that it prints by default."""
_DEVICE = re.compile(r"\s*(?:Device \d+|ggml_vulkan: \d+ =|ggml_metal_\w+: GPU name):? +([^,(|]{3,80})")
_RATE = re.compile(r"(\d{1,12}(?:\.\d{0,12})?)(?:\s*(?:±|\+-)\s*(\d{1,12}(?:\.\d{0,12})?))?", re.ASCII)
_AMOUNTS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
STEADY = 0.2
"""Relative standard deviation of a test's times below which the mean of its rates is the rate of its mean time."""
_SIZES = {"Small": "_s", "Medium": "_m", "Large": "_l"}
_SAME = {"f16": "fp16", "f32": "fp32"}


@dataclass(frozen=True)
class LocalRun:
    """One test: a prompt, a generation, or both, after `depth` tokens that were in the cache.

    `stored`: type of the weights as GGUF calls it, in lower case ("q4_k_m"); empty where the model's type names none.
    `parameters`: of the model; `size` is the bytes of its weights.
    `seconds`, `spread`: mean time of the test and its standard deviation.
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

    Raises InputError where it is none of these; names all fields that are missing or wrong.
    """
    fields = Fields(path)
    runs = [_test(entry, where, fields) for where, entry in _entries(path)]
    fields.wrong.refuse()
    if not runs:
        raise InputError(f"{path}: holds no tests")
    return tuple(runs)


def _entries(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    text = read_text(path)
    if text.lstrip()[:1] not in ("[", "{") and any(bar_tables(text.splitlines()[:MOST_ROWS], *PRINTED)):
        return _table(text, path)  # below what its backends say
    return [(where.removeprefix(f"{path}: "), entry) for where, entry in table_rows(path, "tests", most=MOST_ROWS)]


def _table(text: str, path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """The rows of the Markdown that llama-bench prints by default, in the words of its JSON; sizes are rounded."""
    lines = text.splitlines()
    devices = dict.fromkeys(match[1].strip() for line in lines[:MOST_ROWS] if (match := _DEVICE.match(line)))
    made: list[tuple[str, Mapping[str, Any]]] = []
    for number, row in itertools.islice(bar_tables(lines, *PRINTED), MOST_ROWS + 1):
        cell = row.get("t/s", "")
        test, rate = _TEST.fullmatch(row.get("test", "")), _RATE.fullmatch(cell)
        if cell and not rate:
            raise InputError(f"{path}: line {number}: t/s = {cell[:40]!r}: want tokens/s, such as '128.40 ± 0.52'")
        entry: dict[str, Any] = {
            "model_type": row.get("model", ""), "model_size": _amount(row.get("size", "")),
            "model_n_params": _amount(row.get("params", "")), "backends": row.get("backend", ""),
            "n_threads": row.get("threads"), "n_batch": row.get("n_batch"), "gpu_info": ", ".join(devices)[:200],
        }  # fmt: skip
        if test and rate:
            prompt, generated = int(test[1] or 0), int(test[2] or 0)
            seconds = (prompt + generated) / max(float(rate[1]), 1e-12)
            spread = seconds * float(rate[2] or 0) / max(float(rate[1]), 1e-12)
            entry |= {"n_prompt": prompt, "n_gen": generated, "n_depth": int(test[3] or 0)}
            entry |= {"avg_ns": seconds * 1e9, "stddev_ns": spread * 1e9}
        made.append((f"line {number}", entry))
    return made


def _amount(text: str) -> int:
    """A size such as "4.58 GiB" or "8.03 B", whole; 0 where it is none."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) (\w+)", text)
    return round(float(match[1]) * _AMOUNTS.get(match[2], 0)) if match else 0


def _test(entry: Mapping[str, Any], where: str, fields: Fields) -> LocalRun:
    def whole(name: str, low: float = 0) -> int:
        return int(fields.number(entry, name, where, low))

    prompt, generated = whole("n_prompt"), whole("n_gen")
    if prompt + generated == 0:
        fields.wrong.append(f"{where}: n_prompt and n_gen are both 0")
    seconds = fields.number(entry, "avg_ns", where, 1) * 1e-9
    spread = (fields.optional(entry, "stddev_ns", where) or 0.0) * 1e-9
    if spread < STEADY * seconds:
        fields.agrees(entry, "avg_ts", (prompt + generated) / seconds, "(n_prompt + n_gen) / avg_ns", where)
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
        seconds,
        spread,
    )


def stored_type(model_type: str) -> str:
    """The type of weights in a model's type.

    >>> stored_type("qwen2 7B Q4_K - Medium"), stored_type("llama 8B F16"), stored_type("llama 7B mostly Q4_0")
    ('q4_k_m', 'fp16', 'q4_0')
    """
    match = _TYPE.search(model_type)
    name = match[1].lower() + _SIZES.get(match[2] or "", "") if match else ""
    return _SAME.get(name, name)
