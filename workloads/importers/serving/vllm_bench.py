"""Runs of a server by its benchmark: `vllm bench serve --save-result`, and what others write (see `benchmarks`).

Lists of several runs (a sweep's summary, `--append-result`) are read as several runs.

Source: vllm-project/vllm, vllm/benchmarks/serve.py (fields of `result_json`); times there are milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_text, require_mapping
from slipstick.workloads.importers.serving.benchmarks import json_entries, printed_entries
from slipstick.workloads.importers.serving.fields import AGREEMENT, Fields, text_of

LIMIT_BYTES = 256 * MEGABYTE
MOST_RUNS = 10_000
MOST_REQUESTS = 1e9
MEASURES = ("ttft", "tpot", "itl", "e2el")
STATISTICS = ("mean", "median", "p99")
TENSOR, MOST_RANKS = ("tp", "tensor_parallel_size"), 1024
"""What people call tensor ranks in a benchmark's metadata."""


@dataclass(frozen=True)
class ServedRun:
    """A run of a server as its benchmark saw it.

    `users`: requests in flight at most; None where the benchmark set no limit.
    `rate`: Requests/s that were sent; None where all were sent at once.
    `input_tokens`, `output_tokens`: means of the requests that were completed.
    `tensor`: devices that share each product, where the benchmark's metadata says it (`--metadata tp=2`); None
        elsewhere.
    `times`: seconds by measure and statistic ("ttft mean"): time to first token, time per output token without the
        first, inter-token latency, end to end.
    `tool`: the program that wrote it.
    `counted`: whether the file says how many requests there were; else they are those of a minute.
    `generation_rate`: Further tokens/s of all users, where a program reads all prompts first and says it.
    """

    model: str
    backend: str
    requests: int
    failed: int
    users: int | None
    rate: float | None
    burstiness: float
    seconds: float
    input_tokens: float
    output_tokens: float
    output_rate: float
    times: Mapping[str, float]
    tensor: int | None = None
    generation_rate: float | None = None
    tool: str = ""
    counted: bool = True

    @property
    def tpot(self) -> float | None:
        """Seconds of a further token: the mean, else the median; None where neither was written."""
        return self.times.get("tpot mean", self.times.get("tpot median"))


def read_vllm_bench(path: Path) -> tuple[ServedRun, ...]:
    """The runs of a file.

    Raises InputError where it is none of these; names all fields that are missing or wrong.
    """
    entries = _entries(path)
    fields = Fields(path)
    runs = [
        _run(entry, f"run {number}" if len(entries) > 1 else "the run", fields) for number, entry in enumerate(entries)
    ]
    fields.wrong.refuse()
    return tuple(runs)


def _entries(path: Path) -> list[Mapping[str, Any]]:
    text = read_text(path, LIMIT_BYTES)
    entries = json_entries(text, path) if text.lstrip()[:1] in ("{", "[") else printed_entries(text, path)
    if not 0 < len(entries) <= MOST_RUNS:
        raise InputError(f"{path}: holds {len(entries):,} runs, want 1 to {MOST_RUNS:,}")
    return [require_mapping(entry, path, f"run {number}") for number, entry in enumerate(entries)]


def _run(entry: Mapping[str, Any], where: str, fields: Fields) -> ServedRun:
    before = len(fields.wrong)
    completed = fields.number(entry, "completed", where, 1, MOST_REQUESTS)
    sent = fields.optional(entry, "num_prompts", where) or completed
    wanted_rate = entry.get("request_rate")
    rate = None if wanted_rate in ("inf", None, math.inf) else fields.number(entry, "request_rate", where, 1e-9, 1e9)
    users = fields.optional(entry, "max_concurrency", where, 1)
    burstiness = fields.optional(entry, "burstiness", where)
    times = {}
    for measure in MEASURES:
        for statistic in STATISTICS:
            value = fields.optional(entry, f"{statistic}_{measure}_ms", where)
            if value is not None:
                times[f"{measure} {statistic}"] = value * 1e-3
    seconds = fields.number(entry, "duration", where, 1e-9, 1e9)
    tokens_in = fields.number(entry, "total_input_tokens", where)
    tokens_out = fields.number(entry, "total_output_tokens", where, 1)
    output_rate = fields.number(entry, "output_throughput", where, 1e-9)
    if len(fields.wrong) == before:
        for name, what, total in (
            ("request_throughput", "completed", completed),
            ("input_throughput", "total_input_tokens", tokens_in),
            ("output_throughput", "total_output_tokens", tokens_out),
            ("total_token_throughput", "(total_input_tokens + total_output_tokens)", tokens_in + tokens_out),
        ):
            fields.agrees(entry, name, total / seconds, f"{what} / duration", where)
        longest = max(times, key=lambda name: times[name], default="")
        if longest and times[longest] > (1 + AGREEMENT) * seconds:
            fields.wrong.append(f"{where}: {longest} = {times[longest]:g} s is longer than duration = {seconds:g} s")
    return ServedRun(
        text_of(entry, "model_id"),
        text_of(entry, "backend"),
        int(completed),
        max(0, int(sent - completed)),
        int(users) if users else None,
        rate,
        1.0 if burstiness is None else burstiness,
        seconds,
        tokens_in / max(completed, 1),
        tokens_out / max(completed, 1),
        output_rate,
        times,
        _tensor(entry, where, fields),
        fields.optional(entry, "generation_rate", where),
        text_of(entry, "tool"),
        not entry.get("uncounted"),
    )


def _tensor(entry: Mapping[str, Any], where: str, fields: Fields) -> int | None:
    for name in TENSOR:
        if (ranks := fields.optional(entry, name, where, 1)) is not None:
            return int(min(ranks, MOST_RANKS))
    return None
