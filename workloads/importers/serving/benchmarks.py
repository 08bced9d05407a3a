"""What benchmarks of servers write, in the words of `vllm bench serve`: one mapping a run (see `vllm_bench`).

JSON and JSON lines of vLLM and SGLang, GenAI-Perf and AIPerf, GuideLLM, trtllm-bench, SGLang's bench_one_batch,
llama-batched-bench and Ollama's API; printed results of vLLM, SGLang, trtllm-bench, llama-batched-bench, of
`ollama run --verbose` and of llama.cpp's timings. A batch that is read and written together is that many users.

Sources: vllm/benchmarks/serve.py; sglang/bench_serving.py, bench_one_batch.py; genai-perf and aiperf, "JSON exporter";
guidellm/benchmark (GenerativeMetrics); tensorrt_llm/bench/dataclasses/reporting.py; llama.cpp tools/batched-bench;
ollama docs/api.md (durations in nanoseconds).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.readers import bar_tables, decimal_mark, json_lines, number_written, parse_json
from slipstick.common.units import parse_quantity

Entry: TypeAlias = Mapping[str, Any]
MOST_LINES = 1_000_000
LONGEST_LINE = 2000
_LABEL = re.compile(r"\s*([A-Za-z#\[][\w .,#/()\[\]-]{1,60}?)\s*(?::|=)\s+(\S.{0,200}?)\s*$")
_BEGIN = re.compile(
    r"^(=+ ?(Serving|Offline Throughput) Benchmark Result ?=+|= REQUEST DETAILS|total duration: +\d)", re.MULTILINE
)
_LABELS: Mapping[str, str] = {
    "successful requests": "completed", "failed requests": "failed", "number of requests": "completed",
    "maximum request concurrency": "max_concurrency", "max request concurrency": "max_concurrency",
    "number of concurrent requests": "concurrent", "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate", "benchmark duration (s)": "duration",
    "total latency (ms)": "duration_ms", "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens", "average input length (tokens)": "input_len",
    "average output length (tokens)": "output_len", "request throughput (req/s)": "request_throughput",
    "request throughput (req/sec)": "request_throughput", "output token throughput (tok/s)": "output_throughput",
    "total output throughput (tokens/sec)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "input token throughput (tok/s)": "input_throughput", "average time-to-first-token [ttft] (ms)": "mean_ttft_ms",
    "average time-per-output-token [tpot] (ms)": "mean_tpot_ms", "average request latency (ms)": "mean_e2el_ms",
    "backend": "backend", "model": "model_id", "tp size": "tp",
    "total duration": "total", "prompt eval count": "prompt_eval_count", "prompt eval duration": "prompt_eval",
    "eval count": "eval_count", "eval duration": "eval",
}  # fmt: skip
"""Printed labels in lower case, and the field that each is."""
_STATISTIC = re.compile(r"(mean|median|p99) (ttft|tpot|itl|e2el|e2e latency) \(ms\)|\[(tpot|ttft|latency)\] (p50|p99)")
_TIMING = re.compile(r"(?:^|: ) *(prompt )?eval time = +([\d.]+) ms / +(\d+) (?:tokens|runs)")
_TEXTS = ("backend", "model_id")
BATCHED = ("PP", "TG", "B", "T_PP s", "T_TG s", "T s")
"""Columns of llama-batched-bench's table."""


def is_printed(text: str) -> bool:
    """Whether a text holds what one of these programs prints."""
    return bool(_BEGIN.search(text) or _TIMING.search(text)) or any(bar_tables(text.splitlines()[:2000], *BATCHED))


def is_run(keys: frozenset[str]) -> bool:
    """Whether a JSON document with these names of fields is of one of these programs."""
    return any(keys.issuperset(wanted) for wanted, *_ in _FORMS)


def printed_entries(text: str, path: object) -> list[Entry]:
    """The runs of a printed result; several may follow each other in one file.

    Raises InputError where there is none, or a number's mark is doubtful.
    """
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise InputError(f"{path}: more than {MOST_LINES:,} lines")
    if batched := list(_batched(lines, path)):
        return batched
    runs: list[dict[str, Any]] = []
    pairs: list[tuple[int, int, str, str]] = []
    for number, line in enumerate(lines, 1):
        if not runs or _BEGIN.match(line.strip()):
            runs.append({})
        if (timing := _TIMING.search(line[:LONGEST_LINE])) is not None:
            name = "prompt_eval" if timing[1] else "eval"
            runs[-1] |= {f"{name}_count": float(timing[3]), name: f"{timing[2]} ms"}
        elif (match := _LABEL.match(line[:LONGEST_LINE])) and (field := _field(match[1].lower())):
            pairs.append((len(runs) - 1, number, field, match[2]))
    mark = decimal_mark(((number, value, False) for _, number, _, value in pairs), path)
    for run, _, field, value in pairs:
        first = number_written(value.split()[0], mark)
        text_wanted = field in _TEXTS or field in ("total", "prompt_eval", "eval")
        runs[run].setdefault(field, value if text_wanted or first is None else first)
    made = [entry for run in runs for entry in _converted(run, path)]
    if not made:
        raise InputError(f"{path}: no result of a benchmark of servers stands in the text")
    return made


def _field(label: str) -> str:
    if match := _STATISTIC.fullmatch(label):
        if match[1]:
            return f"{match[1]}_{match[2].replace('e2e latency', 'e2el')}_ms"
        return f"{'median' if match[4] == 'p50' else match[4]}_{match[3].replace('latency', 'e2el')}_ms"
    return _LABELS.get(label, "")


def json_entries(text: str, path: object) -> list[Entry]:
    """The runs of a JSON document or of JSON lines, in the same words.

    Raises InputError where it is no JSON.
    """
    try:
        document = parse_json(text, path)
    except InputError:
        if not text.strip().partition("\n")[0].rstrip().endswith("}"):
            raise
        document = [entry for _, entry in json_lines(text, path, MOST_LINES)]
    entries = document if isinstance(document, list) else [document]
    if len(entries) == 1 and isinstance(entries[0], Mapping) and isinstance(entries[0].get("benchmarks"), list):
        given = entries[0].get("args")  # GuideLLM: a benchmark a rate or number of users
        facts = (
            {"guide_backend": given.get("backend"), "model_id": given.get("model")}
            if isinstance(given, Mapping)
            else {}
        )
        entries = [{**facts, **one} if isinstance(one, Mapping) else one for one in entries[0]["benchmarks"]]
    return [made for entry in entries for made in (_converted(entry, path) if isinstance(entry, Mapping) else [entry])]


def _converted(entry: Entry, path: object) -> list[Entry]:
    keys = frozenset(entry)
    for wanted, tool, form in _FORMS:
        if keys.issuperset(wanted):
            try:
                return [{"tool": tool, **{name: value for name, value in form(entry).items() if value is not None}}]
            except (AttributeError, TypeError, ValueError, ZeroDivisionError, IndexError, KeyError) as error:
                raise InputError(
                    f"{path}: {', '.join(wanted)}: not as their program writes them ({type(error).__name__}: {error})"
                ) from None
    return [entry] if keys & {"completed", "duration", "total_output_tokens", "request_throughput"} else []


def _vllm(entry: Entry) -> dict[str, Any]:
    made = dict(entry)
    if "failed" in entry and "num_prompts" not in entry and isinstance(entry["failed"], (int, float)):
        made["num_prompts"] = entry["completed"] + entry["failed"]
    for statistic in ("mean", "median", "p99"):  # SGLang's word for end to end
        if f"{statistic}_e2e_latency_ms" in entry:
            made[f"{statistic}_e2el_ms"] = entry[f"{statistic}_e2e_latency_ms"]
    return made


def _batch(users: float, prompt: float, made: float, first: float, rest: float, whole: float) -> dict[str, Any]:
    """A batch of prompts that is read, then written together: seconds of reading, of all further tokens, of both."""
    seconds = whole or first + rest
    return {
        "completed": users, "max_concurrency": users, "duration": seconds, "total_input_tokens": users * prompt,
        "total_output_tokens": users * made, "output_throughput": users * made / seconds,
        "mean_ttft_ms": first * 1e3, "mean_tpot_ms": rest / made * 1e3,
    }  # fmt: skip


def _one_batch(entry: Entry) -> dict[str, Any]:
    users, prompt, made = (float(entry[name]) for name in ("batch_size", "input_len", "output_len"))
    whole = float(entry.get("total_latency") or entry.get("latency") or 0.0)
    first, each = entry.get("prefill_latency"), entry.get("median_decode_latency")
    run = _batch(users, prompt, made, float(first or 0.0), float(each or 0.0) * made, whole)
    run["mean_ttft_ms"] = None if first is None else run["mean_ttft_ms"]
    run["generation_rate"] = entry.get("median_decode_throughput")
    run["median_tpot_ms"] = None if each is None else run["mean_tpot_ms"]
    return {**run, "mean_tpot_ms": None, "backend": "sglang", "model_id": entry.get("model_path")}


def _llama_batch(entry: Entry) -> dict[str, Any]:
    users, prompt, made = (float(entry[name]) for name in ("pl", "pp", "tg"))
    shared = bool(entry.get("is_pp_shared"))
    run = _batch(users, prompt, made, float(entry["t_pp"]), float(entry["t_tg"]), float(entry.get("t") or 0.0))
    rate = float(entry.get("speed_tg") or users * made / float(entry["t_tg"]))  # less rounded than its seconds
    run |= {"mean_tpot_ms": users / rate * 1e3, "generation_rate": rate}
    return {**run, "backend": "llama.cpp", "total_input_tokens": prompt if shared else run["total_input_tokens"]}


def _ollama(entry: Entry) -> dict[str, Any]:
    def seconds(name: str) -> float:
        value = entry.get(name, entry.get(f"{name}_duration", 0.0))
        return _spelled(value) if isinstance(value, str) else float(value) * 1e-9

    prompt, made = float(entry.get("prompt_eval_count") or 0), float(entry["eval_count"])
    return {
        **_batch(1.0, prompt, made, seconds("prompt_eval"), seconds("eval"), seconds("prompt_eval") + seconds("eval")),
        "generation_rate": made / seconds("eval"),
        "backend": "llama.cpp", "model_id": entry.get("model") or entry.get("model_id"),
    }  # fmt: skip


def _spelled(text: str) -> float:
    """Seconds of a duration as Go prints it: "1m2.5s", "130.4ms", "820µs"."""
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(h|ms|m|µs|us|ns|s)", text[:60])
    return sum(parse_quantity(f"{number} {'min' if unit == 'm' else unit}", "s") for number, unit in parts)


_GENAI_TIMES = (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"), ("e2el", "request_latency"))


def _genai(entry: Entry) -> dict[str, Any]:
    """GenAI-Perf and AIPerf; their latency between tokens leaves the first out, as vLLM's TPOT does."""

    def figure(name: str, statistic: str = "avg") -> float | None:
        value = entry.get(name)
        if not isinstance(value, Mapping) or value.get(statistic) is None:
            return None
        unit = str(value.get("unit", ""))
        return float(value[statistic]) * (1e3 if unit in ("s", "sec", "seconds") and "latency" in name else 1.0)

    section = entry.get("input_config")
    given: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    load, point = ((given.get(name) or {}) for name in ("loadgen", "endpoint"))
    models = given.get("model") or given.get("model_names") or point.get("model_names") or ""
    users = (
        given.get("concurrency")
        or load.get("concurrency")
        or (given.get("perf_analyzer") or {}).get("stimulus", {}).get("concurrency")
    )
    rate, prompt, made = figure("request_throughput"), figure("input_sequence_length"), figure("output_sequence_length")
    out = figure("output_token_throughput")
    count = figure("request_count") or given.get("request_count") or load.get("request_count")
    seconds = figure("benchmark_duration") or (float(count) / rate if count and rate else 0.0)
    uncounted = not count
    if not count:  # the file states rates alone: as many requests as a minute holds
        seconds, count = 60.0, max(1, round(60 * (rate or 0.0)))
        seconds = count / rate if rate else seconds
    times = {
        f"{ours}_{name}_ms": figure(theirs, statistic)
        for name, theirs in _GENAI_TIMES
        for ours, statistic in (("mean", "avg"), ("median", "p50"), ("p99", "p99"))
    }  # fmt: skip
    return {
        "completed": float(count), "max_concurrency": users or 1, "duration": seconds, "uncounted": uncounted,
        "total_input_tokens": float(count) * (prompt or 0.0),
        "total_output_tokens": float(count) * (made if made is not None else (out or 0.0) * seconds / float(count)),
        "output_throughput": out, "request_throughput": rate,
        "model_id": models[0] if isinstance(models, list) and models else str(models or ""),
        "backend": given.get("backend") or point.get("type"), **times,
    }  # fmt: skip


def _guide(entry: Entry) -> dict[str, Any]:
    metrics: Mapping[str, Any] = entry["metrics"]

    def figure(name: str, statistic: str = "mean") -> float | None:
        value = (metrics.get(name) or {}).get("successful") or {}
        figured = (value.get("percentiles") or {}).get(statistic) if statistic.startswith("p") else value.get(statistic)
        return None if figured is None else float(figured)

    rate, made, prompt = figure("requests_per_second"), figure("output_token_count"), figure("prompt_token_count")
    counted = (metrics.get("request_totals") or entry.get("request_totals") or {}).get("successful")
    count = float(counted or (metrics.get("output_token_count") or {}).get("successful", {}).get("count") or 1)
    seconds = float(entry.get("duration") or (count / rate if rate else 0.0))
    config = entry.get("config") if isinstance(entry.get("config"), Mapping) else entry.get("args") or {}
    strategy = config.get("strategy") or {} if isinstance(config, Mapping) else {}
    sent = strategy.get("rate") if strategy.get("type_") in ("constant", "poisson", "async") else None
    in_flight = figure("request_concurrency")
    users = strategy.get("streams") or strategy.get("max_concurrency") or (in_flight and max(1, round(in_flight)))
    times = {
        f"{ours}_{name}_ms": figure(theirs, statistic)
        for name, theirs in (("ttft", "time_to_first_token_ms"), ("tpot", "inter_token_latency_ms"))
        for ours, statistic in (("mean", "mean"), ("median", "median"), ("p99", "p99"))
    }  # fmt: skip
    return {
        "completed": count, "duration": seconds, "max_concurrency": None if sent else users, "request_rate": sent,
        "total_input_tokens": count * (prompt or 0.0), "total_output_tokens": count * (made or 0.0),
        "output_throughput": count * (made or 0.0) / seconds, "backend": entry.get("guide_backend") or None,
        "model_id": entry.get("model_id") or None, **times,
    }  # fmt: skip


def _trtllm(entry: Entry) -> dict[str, Any]:
    request, reached = entry["request_info"], entry["performance"]
    streaming, engine = entry.get("streaming_metrics") or {}, entry.get("engine") or {}
    count, users = float(request["num_requests"]), request.get("avg_num_concurrent_requests")
    return {
        "completed": count, "max_concurrency": users and max(1, round(float(users))),
        "duration": float(reached["total_latency_ms"]) * 1e-3,
        "total_input_tokens": count * float(request["avg_input_length"]),
        "total_output_tokens": count * float(request["avg_output_length"]),
        "output_throughput": reached["system_output_throughput_tok_s"],
        "mean_e2el_ms": reached.get("avg_request_latency_ms"), "mean_ttft_ms": streaming.get("avg_ttft_ms"),
        "mean_tpot_ms": streaming.get("avg_tpot_ms"), "backend": "trtllm", "model_id": engine.get("model"),
        "tp": (entry.get("world_info") or {}).get("tp_size"),
    }  # fmt: skip


def _trtllm_printed(entry: Entry) -> dict[str, Any]:
    count, users = float(entry["completed"]), entry.get("concurrent")
    made = {
        **entry, "duration": float(entry["duration_ms"]) * 1e-3,
        "total_input_tokens": count * float(entry["input_len"]),
        "total_output_tokens": count * float(entry["output_len"]), "backend": "trtllm",
        "max_concurrency": users and max(1, round(float(users))),
    }  # fmt: skip
    return {**made, "total_token_throughput": None}


_FORMS: Sequence[tuple[tuple[str, ...], str, Callable[[Entry], dict[str, Any]]]] = (
    (("completed", "duration_ms", "input_len", "output_len"), "trtllm-bench", _trtllm_printed),
    (("request_throughput", "completed", "total_input_tokens"), "vllm bench serve or sglang.bench_serving", _vllm),
    (("completed", "duration", "total_input_tokens", "total_output_tokens"), "vllm bench serve", _vllm),
    (("request_throughput", "request_latency", "output_token_throughput"), "GenAI-Perf or AIPerf", _genai),
    (("metrics", "request_totals"), "GuideLLM", _guide),
    (("metrics", "args"), "GuideLLM", _guide),
    (("metrics", "config"), "GuideLLM", _guide),
    (("performance", "request_info"), "trtllm-bench", _trtllm),
    (("batch_size", "input_len", "output_len"), "sglang.bench_one_batch", _one_batch),
    (("pp", "tg", "pl", "t_pp", "t_tg"), "llama-batched-bench", _llama_batch),
    (("eval_count", "eval_duration"), "Ollama", _ollama),
    (("eval_count", "eval"), "Ollama or llama.cpp", _ollama),
)  # fmt: skip
"""Names of fields by which each form is known, its program, and what makes the words of vLLM of it."""


def _batched(lines: Sequence[str], path: object) -> Iterator[Entry]:
    for number, cells in bar_tables(lines, *BATCHED):
        row = {name: number_written(cell) for name, cell in cells.items()}
        if any(row.get(name) is None for name in BATCHED):
            raise InputError(f"{path}: line {number}: want numbers under {', '.join(BATCHED)}")
        words = ("pp", "tg", "pl", "t_pp", "t_tg", "t", "speed_tg")
        yield from _converted(dict(zip(words, (row.get(name) for name in (*BATCHED, "S_TG t/s")), strict=True)), path)
