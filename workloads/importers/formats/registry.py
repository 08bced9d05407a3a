"""The formats that are read, each with the sign that its content gives; the order counts, the most particular first."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.readers import bar_tables, csv_separator, number_written, read_csv_rows, split_cells
from slipstick.common.units import time_columns
from slipstick.workloads.importers.counters.perf_script import SAMPLE
from slipstick.workloads.importers.counters.perf_stat import CSV_COUNT
from slipstick.workloads.importers.counters.summaries import summary_columns
from slipstick.workloads.importers.counters.telemetry import is_telemetry
from slipstick.workloads.importers.formats.look import (
    SEFF_TIME,
    SQLITE,
    FileHeader,
    headless_jobs,
    look,
    sacct_columns,
)
from slipstick.workloads.importers.serving.benchmarks import is_printed, is_run
from slipstick.workloads.importers.serving.llama_bench import PRINTED

Target = Literal[
    "timeline", "counters", "serving", "series", "graph", "matrix", "model", "run", "iterations", "machine", "telemetry"
]  # fmt: skip
COMMANDS: dict[Target, tuple[str, ...]] = {
    "timeline": ("slipstick replay {file} --on MACHINE",),
    "counters": ("slipstick estimate WORKLOAD --on MACHINE --top 10",),
    "serving": ("slipstick read {file} --on MACHINE",),
    "series": ("slipstick extrapolate {file} --to VALUE",),
    "graph": ("slipstick workloads import {file} --out w.json", "slipstick estimate {file} --on MACHINE"),
    "matrix": ("slipstick spmv predict {file}", "slipstick estimate {file} --on MACHINE"),
    "model": ("slipstick serve {file} --on MACHINE --concurrency 8",),
    "iterations": ("slipstick seqpoint {file}",),
    "machine": ("slipstick machines import {file} --out m.yaml",),
    "telemetry": ("slipstick estimate WORKLOAD --on MACHINE",),
    "run": (
        "slipstick phases {file}",
        "slipstick seqpoint {file}",
        "slipstick estimate WORKLOAD --on MACHINE --measured {file}",
        "slipstick plan training CONFIG.json --on MACHINE --devices N --batch B --measured {file}",
    ),
}
"""What goes on with a file, by what it holds."""


@dataclass(frozen=True)
class Format:
    """A kind of file.

    `key`: its name here, of one word.
    `name`: the tool, and what it calls such a file.
    `target`: what is made of it: a timeline of events, counters of regions, measurements of a server, a series of times
        over parameters, a graph of operations, a sparse matrix, a language model's configuration, the steps of a
        training run, its iterations with their sequence lengths, a machine, or what a device reported of itself.
    `seen_in`: whether the beginning of a file shows that it is one.
    `made_by`: how people make it.
    `holds`, `left_out`: what is read of it, and what is not.
    """

    key: str
    name: str
    target: Target
    seen_in: Callable[[FileHeader], bool]
    made_by: str
    holds: str
    left_out: str = ""


def _nsys(seen: FileHeader) -> bool:
    if not seen.first.startswith(SQLITE):
        return False
    from slipstick.workloads.importers.profilers.nsys import is_nsys

    return is_nsys(seen.path)


def _llama_bench(seen: FileHeader) -> bool:
    wanted = ("avg_ns", "n_prompt", "n_gen", "model_type")
    return seen.has(*wanted) or seen.heads(*wanted) or any(bar_tables(seen.lines[:500], *PRINTED))


def _served(seen: FileHeader) -> bool:
    return (is_run(seen.keys) or _guidellm(seen)) if seen.json else is_printed(seen.text)


def _guidellm(seen: FileHeader) -> bool:
    return seen.has("benchmarks", "metrics") or ('"benchmarks"' in seen.text[:2000] and '"guidellm' in seen.text)


def _ncu(seen: FileHeader) -> bool:
    headers = (line for line in seen.lines[:500] if "Kernel Name" in line)
    return any("Metric Value" in line or "__" in line for line in headers)


def _perf_stat(seen: FileHeader) -> bool:
    if "Performance counter stats for" in seen.text:
        return True
    if '"counter-value"' in seen.text and '"event"' in seen.text:  # below a line "# started on", with -o
        return True
    lines = [line for line in seen.lines if line.strip() and not line.startswith("#")]
    plain = [_PERF_INTERVAL.sub("", line) for line in lines[:20]]
    intervals = "counts" in seen.text[:2000] and "events" in seen.text[:2000]  # the header of -I
    return bool(lines) and (intervals or all(CSV_COUNT.match(line) for line in plain))


def _perf_script(seen: FileHeader) -> bool:
    heads = [line for line in seen.lines[:200] if line.strip() and not line.startswith("#") and not line[0].isspace()]
    frames = any(line[0].isspace() and "(" in line for line in seen.lines[:200] if line)
    return frames and any(SAMPLE.match(line[:400]) for line in heads[:20])


def _extrap_lines(seen: FileHeader) -> bool:
    """JSON Lines, or Talpas, which parts its fields with semicolons."""
    return seen.json and "value" in seen.keys and bool(seen.keys & {"params", "parameters"})


def _onnx(seen: FileHeader) -> bool:
    """A protocol buffer of ONNX: the version of its format stands first, then who wrote it."""
    ends = seen.path.name.removesuffix(".gz").lower().endswith((".onnx", ".onnx.prototxt"))
    return (ends and b"\0" in seen.first) or bool(_ONNX.match(seen.first))


def _sacct_json(seen: FileHeader) -> bool:
    return seen.has("jobs", "meta") and bool(seen.keys & {"job_id", "allocation_nodes", "elapsed"})


def _chrome(seen: FileHeader) -> bool:
    lone = seen.text.startswith(",{") and '"ph"' in seen.text  # rocprof writes it where it recorded nothing
    return lone or bool(seen.keys & {"traceEvents", "ph"})


def _mllog(seen: FileHeader) -> bool:
    """A launcher may say much before the first line."""
    from slipstick.workloads.importers.mllog.mllog_reader import is_mllog

    return bool(seen.text) and is_mllog(seen.path)


def _megatron(seen: FileHeader) -> bool:
    """Its arguments stand before the first line with a time."""
    from slipstick.workloads.importers.mllog.trainer_logs import MEGATRON

    return MEGATRON in seen.text or "tensor_model_parallel_size ...." in seen.text


def _trainer_state(seen: FileHeader) -> bool:
    from slipstick.workloads.importers.mllog.trainer_logs import is_trainer_state

    return is_trainer_state(seen.text)


def _matrix_market(seen: FileHeader) -> bool:
    """Its reader refuses what the first line lacks, such as one of its percent signs."""
    return seen.text[:1] == "%" and seen.text[:14].lstrip("%").lower().startswith("matrixmarke")


def _slurm(seen: FileHeader) -> bool:
    return (
        bool(SEFF_TIME.search(seen.text))
        or any(sacct_columns(line) for line in seen.lines[:20])
        or headless_jobs(seen.lines)
        or _sacct_json(seen)
    )


def _iterations(seen: FileHeader) -> bool:
    """A row an iteration: its sequence length and its time, nothing that counts workers."""
    names = {re.sub(r"[^a-z]", "", name.lower()) for name in seen.columns}
    return bool(names & _LENGTHS) and bool(names & _STEPS) and bool(time_columns(seen.columns))


def _times(seen: FileHeader) -> bool:
    """A header with a column of times, and a row of as many cells."""
    return _table(seen) and bool(time_columns(seen.columns))


def _any_table(seen: FileHeader) -> bool:
    """A table, or rows of named values with a time as JSON: what is left when no tool's sign was seen."""
    return _table(seen) or (seen.json and bool(_FLAT.match(seen.text) and time_columns(seen.keys)))


def _table(seen: FileHeader) -> bool:
    """A header of words, and a row of as many cells with a number among them."""
    rows = [line for line in seen.lines if line.strip("|-: ") and not line.startswith("#")][:2]
    if not rows or len(seen.columns) < 2 or seen.text[:1] in "{[<%":
        return False
    cells = split_cells(rows[-1], csv_separator(rows[0]))
    plain = all(number_written(name) is None for name in seen.columns)
    return plain and len(cells) == len(seen.columns) and any(number_written(cell) is not None for cell in cells)


_LENGTHS = {"seqlen", "sequencelength", "seqlength", "length", "sl"}
_STEPS = {"iteration", "iter", "step", "batchindex", "index"}
WIDTHS = {"hidden_size", "n_embd", "d_model", "text_config", "n_layer"}
GOOGLE = "name,iterations,real_time,cpu_time,time_unit"
"""Of the header of Google Benchmark's CSV, below lines on the machine."""
_FLAT = re.compile(r"\[?\s*\{[^{}\[\]]*\}\s*(,|\]|\{)")
"""Rows of named values as JSON: a list of them, or lines."""
_ONNX = re.compile(rb"\x08[\x03-\x0f]\x12.{1,60}", re.DOTALL)
_LSCPU = re.compile(r"^(Architecture|CPU op-mode\(s\)|Vendor ID|CPU\(s\)): +\S", re.MULTILINE)
_PERF_INTERVAL = re.compile(r"^\s*\d{1,9}\.\d{6,9}[,;|\t]")
_CALIPER_JSON = re.compile(r'\{\s*"data"\s*:\s*\[\s*\[')
_SLIPSTICK = re.compile(r'"schema":\s*"slipstick-workload')
_CALIBRATION = re.compile(r'"schema":\s*"slipstick-calibration')

FORMATS: tuple[Format, ...] = (
    Format(
        "nsys", "Nsight Systems, SQLite export", "timeline", _nsys,
        "nsys profile -t cuda,nvtx --export=sqlite PROGRAM",
        "kernels, copies, fills, calls of CUDA, NVTX ranges",
        "samples, context switches, other interfaces",
    ),
    Format(
        "gguf", "GGUF model", "model", lambda seen: seen.first.startswith(b"GGUF"),
        "convert_hf_to_gguf.py, llama-quantize",
        "sizes of the model, types of its tensors",
        "weights, tokenizer",
    ),
    Format(
        "onnx", "ONNX model", "graph", _onnx,
        "torch.onnx.export, tf2onnx",
        "operations with shapes, named axes, attributes",
        "weights, files beside it, training information",
    ),
    Format(
        "workload", "slipstick, saved workload", "graph", lambda seen: bool(_SLIPSTICK.search(seen.text[:4096])),
        "slipstick workloads import FILE --out w.json",
        "all",
    ),
    Format(
        "rocprof-json", "rocprofv3, JSON", "timeline", lambda seen: seen.has("rocprofiler-sdk-tool"),
        "rocprofv3 --sys-trace --output-format json -- PROGRAM",
        "kernels, copies, calls of HIP, markers",
        "counters, code objects",
    ),
    Format(
        "vllm-bench", "benchmark of a server", "serving", _served,
        "vllm bench serve --save-result, python -m sglang.bench_serving or bench_one_batch, genai-perf profile, "
        "aiperf profile, guidellm benchmark, trtllm-bench --report_json, llama-batched-bench, ollama run --verbose;"
        " what they print as well",
        "load, rates, first and further tokens (mean, median, p99)",
        "single requests, goodput, other percentiles",
    ),
    Format(
        "llama-bench", "llama-bench, JSON, JSON lines, CSV or Markdown", "serving", _llama_bench,
        "llama-bench -m MODEL.gguf (-o json, jsonl, csv, md)",
        "rates of prompts and of generation, model, device, threads",
        "lines before its table, samples",
    ),
    Format(
        "caliper-json", "Caliper, JSON split", "series", lambda seen: bool(_CALIPER_JSON.match(seen.text)),
        'cali-query -q "... FORMAT json-split"',
        "times of regions over the run's attributes",
        "other metrics",
    ),
    Format(
        "caliper", "Caliper, .cali", "series", lambda seen: seen.text.startswith("__rec="),
        "CALI_CONFIG=runtime-report,profile PROGRAM",
        "times of regions over the run's attributes",
        "other metrics, globals that are no numbers",
    ),
    Format(
        "asv", "asv, results", "series", lambda seen: seen.has("result_columns", "results"),
        "asv run",
        "times over one parameter",
        "memory, tracked values, failed runs (counted)",
    ),
    Format(
        "chakra", "Chakra execution trace", "timeline",
        lambda seen: seen.has("nodes", "schema") and not seen.keys & {"traceEvents", "ph"},
        "ExecutionTraceObserver, chakra_converter",
        "operations with shapes, their order, durations where stated",
        "tensors' values",
    ),
    Format(
        "chrome-trace", "Chrome trace (PyTorch, JAX)", "timeline", _chrome,
        "torch.profiler export_chrome_trace, jax.profiler.trace",
        "events with their times, launches, streams, shapes, steps",
        "counters, stacks, memory (counted as passed over)",
    ),
    Format(
        "hyperfine", "hyperfine, JSON", "series", lambda seen: seen.has("results", "command", "mean"),
        "hyperfine --parameter-scan N 1 8 --export-json FILE",
        "times of every run over the parameters",
        "failed runs (counted), user and system time",
    ),
    Format(
        "pytest-benchmark", "pytest-benchmark, JSON", "series", lambda seen: seen.has("benchmarks", "stats"),
        "pytest --benchmark-json FILE",
        "times of every round over the numeric parameters",
        "machine and commit information",
    ),
    Format(
        "google-benchmark", "Google Benchmark, JSON or CSV", "series",
        lambda seen: seen.has("benchmarks", "real_time") or any(line.startswith(GOOGLE) for line in seen.lines[:100]),
        "PROGRAM --benchmark_format=json (or csv)",
        "real times over the arguments in the name",
        "aggregates, CPU times, failed runs (counted)",
    ),
    Format(
        "extrap-json", "Extra-P, JSON", "series", lambda seen: seen.has("measurements", "parameters"),
        "Extra-P 3 and 4, extrap --json",
        "times of regions over the parameters",
        "other metrics, models",
    ),
    Format(
        "extrap-lines", "Extra-P, JSON lines or Talpas", "series", _extrap_lines,
        "extrap --jsonlines, --talpas",
        "times of regions over the parameters",
        "other metrics",
    ),
    Format(
        "lscpu", "lscpu, JSON or text", "machine",
        lambda seen: seen.has("lscpu") or bool(_LSCPU.search(seen.text) and "CPU(s):" in seen.text),
        "lscpu --json (or lscpu)",
        "cores of each kind, clock, caches, sockets, domains, units by flags",
        "bandwidths (assumed until measured), vulnerabilities",
    ),
    Format(
        "hwloc", "hwloc, lstopo as XML or text", "machine",
        lambda seen: "<topology" in seen.text[:2000] or (seen.text.startswith("Machine") and "PU L#" in seen.text),
        "lstopo --of xml FILE, or lstopo-no-graphics > FILE",
        "cores, threads, caches, packages, domains, memory",
        "clock (--clock gives it), devices, distances",
    ),
    Format(
        "cpuinfo", "Linux, /proc/cpuinfo", "machine", lambda seen: bool(re.match(r"processor\s*:\s*\d", seen.text)),
        "cat /proc/cpuinfo",
        "cores, threads, sockets, clock, units by flags",
        "caches, bandwidths (lscpu --json states caches)",
    ),
    Format(
        "kerncraft",
        "kerncraft, machine file",
        "machine", lambda seen: "memory hierarchy:" in seen.text and "cacheline" in seen.text,
        "likwid_bench_auto, kerncraft's examples/machine-files",
        "cores, clock, flop a cycle, caches, measured bandwidths",
        "in-core models, compilers, other benchmarks",
    ),
    Format(
        "config", "Hugging Face config.json", "model",
        lambda seen: seen.has("model_type") and bool(seen.keys & WIDTHS),
        "hf download ORG/NAME config.json",
        "all sizes of the layers, how weights and cache are stored",
        "what is named as not counted: towers' time, fields of unknown meaning",
    ),
    Format(
        "stablehlo", "StableHLO text (JAX, PyTorch/XLA)", "graph",
        lambda seen: "func.func" in seen.text and any(dialect in seen.text for dialect in ("stablehlo.", "mhlo.")),
        "jax.jit(f).lower(x).as_text()",
        "operations with shapes, calls, loops of known trips",
        "constants, layouts",
    ),
    Format(
        "hlo", "HLO text (XLA)", "graph",
        lambda seen: any(line.startswith("HloModule ") for line in seen.lines[:200]),
        "XLA_FLAGS=--xla_dump_to=DIR, compiled.as_text()",
        "operations with shapes, fusions, calls, loops of known trips",
        "layouts, schedules, constants",
    ),
    Format(
        "ncu", "Nsight Compute, CSV", "counters", _ncu,
        "ncu --csv --set roofline PROGRAM",
        "time, flop, bytes and shares of peaks by kernel",
        "other metrics",
    ),
    Format(
        "rocprof-counters", "rocprofv3, counters as CSV", "counters",
        lambda seen: seen.heads("Kernel_Name", "Counter_Name", "Counter_Value"),
        "rocprofv3 --pmc COUNTERS --output-format csv -- PROGRAM",
        "counters, flop and bytes by kernel",
        "resources of kernels",
    ),
    Format(
        "rocprof-csv", "rocprofv3, trace as CSV", "timeline",
        lambda seen: seen.heads("Start_Timestamp", "End_Timestamp"),
        "rocprofv3 --kernel-trace --output-format csv -- PROGRAM",
        "events of one kind",
        "what is in the other files of the run",
    ),
    Format(
        "telemetry", "nvidia-smi, query as CSV, or dmon", "telemetry",
        lambda seen: is_telemetry(seen.lines),
        "nvidia-smi --query-gpu=power.draw,... --format=csv -l 1, nvidia-smi dmon, rocm-smi --csv",
        "mean, least and most of each column by device",
        "cells without a value (counted), columns of text",
    ),
    Format(
        "summary",
        "summary of kernels or functions (nsys stats, rocprof, nvprof, torch.profiler)",
        "counters",
        lambda seen: summary_columns(seen.lines) is not None,
        "nsys stats --format csv -r cuda_gpu_kern_sum, rocprof --stats, nvprof --csv, key_averages().table()",
        "calls and total time by name",
        "shares, extremes, memory, order of the events",
    ),
    Format(
        "likwid", "likwid-perfctr, CSV", "counters",
        lambda seen: any(line.startswith(("STRUCT,Info", "TABLE,Group", "TABLE,Region")) for line in seen.lines[:200]),
        "likwid-perfctr -O -g GROUP PROGRAM",
        "time, flop, bytes by region and group",
        "cores apart",
    ),
    Format(
        "extrap", "Extra-P, text", "series",
        lambda seen: any(line.split(maxsplit=1)[:1] in (["PARAMETER"], ["POINTS"]) for line in seen.lines[:100]),
        "written by hand or by scripts for Extra-P",
        "times of regions over the parameters",
        "other metrics",
    ),
    Format(
        "mllog", "MLPerf training, log", "run", _mllog,
        "MLPerf training's reference code",
        "steps, evaluations, settings",
        "the launcher's lines",
    ),
    Format(
        "megatron", "Megatron-LM, training log", "run", _megatron,
        "pretrain_gpt.py > FILE",
        "times of iterations, settings, layout",
        "losses, timers",
    ),
    Format(
        "trainer-state", "Hugging Face Trainer, trainer_state.json", "run", _trainer_state,
        "transformers Trainer, in its checkpoints",
        "steps, times, settings",
        "losses",
    ),
    Format(
        "matrix-market", "Matrix Market, sparse matrix", "matrix", _matrix_market,
        "scipy.io.mmwrite, SuiteSparse",
        "places of the non-zeros, symmetry",
        "values",
    ),
    Format(
        "hyperfine-csv", "hyperfine, CSV", "series",
        lambda seen: seen.heads("command", "mean", "stddev", "median"),
        "hyperfine --parameter-scan N 1 8 --export-csv FILE",
        "median times over the parameters",
        "single runs, user and system time",
    ),
    Format(
        "slurm", "Slurm, sacct (text, JSON, without a header) or seff", "series", _slurm,
        "sacct -P -o JobID,Elapsed,NNodes,State; sacct --json; seff JOB",
        "elapsed times of completed jobs over nodes, tasks or CPUs",
        "jobs that did not complete (counted), steps of jobs",
    ),
    Format(
        "iterations", "iterations of a training run, CSV", "iterations", _iterations,
        "by one's own program: iteration,seq_len,time_s",
        "lengths and times",
        "other columns",
    ),
    Format(
        "times", "times over parameters, CSV", "series", _times,
        "by one's own program: threads,time_s",
        "times, parameters, regions",
        "failed runs (counted), columns of text that differ in every row",
    ),
    Format(
        "perf-stat", "perf stat, CSV, JSON lines or text", "counters", _perf_stat,
        "perf stat (-x, or -j, -I MS, -r N) PROGRAM",
        "counts summed over intervals and kinds of cores, elapsed time, flop and bytes where counted",
        "events that were not counted (named)",
    ),
    Format(
        "perf-script", "perf script", "counters", _perf_script,
        "perf record -g PROGRAM; perf script > FILE",
        "samples by function",
        "addresses, call chains",
    ),
    Format(
        "table", "table, CSV or JSON", "series", _any_table,
        "by one's own program",
        "the column that --column names",
        "columns of text that differ in every row",
    ),
)  # fmt: skip


def identify(path: str | os.PathLike[str]) -> Format | None:
    """The format of a file by its content; None where no sign is known.

    Raises InputError where the file cannot be read, or is an SQLite file that is refused.
    """
    seen = look(path)
    return next((one for one in FORMATS if one.seen_in(seen)), None)


def unknown(path: object) -> InputError:
    """The error for a file that nothing is known of."""
    from slipstick.workloads.importers.mllog.trainer_logs import printed_instead

    if str(path).endswith(".py"):
        return InputError(
            f"{path}: a program, not a file of measurements: slipstick estimate {path}:FUNCTION --on MACHINE"
        )
    seen = look(str(path))
    if _CALIBRATION.search(seen.text[:4096]):
        return InputError(f"{path}: a calibration: slipstick estimate WORKLOAD --on MACHINE --calibration {path}")
    rows = [split_cells(line) for line in seen.lines[:20]] if len(seen.columns) > 1 else []
    if any(number_written(cell) is not None for row in rows[1:] for cell in row):
        try:
            deque(read_csv_rows(str(path)), maxlen=0)
        except InputError as error:  # a table but for this line
            return error
    names = ", ".join(dict.fromkeys(one.name.partition(",")[0].partition(" (")[0] for one in FORMATS))
    what = "not UTF-8 text, and " if seen.first and (not seen.text or "\ufffd" in seen.text) else ""
    return InputError(
        f"{path}: {what}no known kind of file by its content{printed_instead(str(path))} (known: {names})"
    )


READ_BY: Mapping[str, tuple[Target, ...]] = {
    "replay": ("timeline",),
    "phases": ("timeline", "run", "iterations"),
    "seqpoint": ("iterations", "run", "timeline"),
    "extrapolate": ("series", "iterations"),
    "serve": ("model",),
    "plan": ("model",),
    "spmv": ("matrix",),
    "machines": ("machine",),
    "workloads": ("graph", "timeline"),
    "estimate": ("graph", "matrix", "model"),
    "calibrate": (),
}
"""What each verb reads as its file, by the verb's first word."""


def of_another_verb(words: Sequence[str], message: str, flags: Collection[str] = ()) -> str:
    """What an error adds where a verb was handed a file of another verb: the file's kind and that verb; else "".

    `words`: of the command line, where the value of an option is no such file; `flags`: options that have no value.
    `message`: the error, which may say it already.
    """
    targets = READ_BY.get(words[0] if words else "")
    takes = [word.startswith("--") and "=" not in word and word not in flags for word in words]
    given = [word for before, word in zip(takes, words[1:], strict=False) if not before and not word.startswith("-")]
    path = next((word for word in given if os.path.isfile(word)), "")  # noqa: PTH113 - Path raises for long words
    if targets is None or not path or " takes it" in message or path.endswith((".yaml", ".yml", ".toml")):
        return ""
    try:
        kind = identify(path)
    except InputError:
        return ""
    if kind is None or kind.target in targets:
        return ""
    return f" ({str(elsewhere(path, *targets)).removeprefix(f'{path}: ')})"


def elsewhere(path: str | os.PathLike[str], *targets: Target) -> InputError:
    """The error of a verb that reads files of some targets for one that it does not read: names the verb that does.

    Raises InputError where the file cannot be read.
    """
    kind = identify(path)
    if kind is None or kind.target in targets:
        return unknown(path)
    ways = [command.replace("{file}", str(path)) for command in COMMANDS[kind.target][:1] if "{file}" in command]
    return InputError(f"{path}: {kind.name}: {' or '.join(ways or [f'slipstick read {path}'])} takes it")
