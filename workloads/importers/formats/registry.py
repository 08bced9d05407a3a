"""The formats that are read, each with the sign that its content gives; the order counts, the most particular first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.workloads.importers.formats.look import SEFF_TIME, SQLITE, FileHeader, look, sacct_columns

Target = Literal["timeline", "counters", "serving", "series", "graph", "matrix", "model", "run", "iterations"]
COMMANDS: dict[Target, tuple[str, ...]] = {
    "timeline": ("slipstick replay {file} --on MACHINE",),
    "counters": (),
    "serving": ("slipstick read {file} --on MACHINE",),
    "series": ("slipstick extrapolate {file} --to VALUE",),
    "graph": ("slipstick workloads import {file} --out w.json", "slipstick estimate w.json --on MACHINE"),
    "matrix": ("slipstick spmv predict {file}", "slipstick estimate {file} --on MACHINE"),
    "model": ("slipstick serve {file} --on MACHINE --concurrency 8",),
    "iterations": ("slipstick seqpoint {file}",),
    "run": (
        "slipstick phases {file}",
        "slipstick seqpoint {file}",
        "slipstick estimate WORKLOAD --on MACHINE --known {file}",
        "slipstick plan training CONFIG.json --on MACHINE --devices N --batch B --known {file}",
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
        training run, its iterations with their sequence lengths.
    `seen_in`: whether the beginning of a file shows that it is one.
    """

    key: str
    name: str
    target: Target
    seen_in: Callable[[FileHeader], bool]


def _nsys(seen: FileHeader) -> bool:
    if not seen.first.startswith(SQLITE):
        return False
    from slipstick.workloads.importers.profilers.nsys import is_nsys

    return is_nsys(seen.path)


def _stablehlo(seen: FileHeader) -> bool:
    return "func.func" in seen.text and any(dialect in seen.text for dialect in ("stablehlo.", "mhlo."))


def _llama_bench(seen: FileHeader) -> bool:
    wanted = ("avg_ns", "n_prompt", "n_gen", "model_type")
    return seen.has(*wanted) or seen.heads(*wanted) or _llama_table(seen)


def _llama_table(seen: FileHeader) -> bool:
    """The Markdown that llama-bench prints by default."""
    first = next((line for line in seen.lines if line.strip()), "")
    return first.startswith("|") and {"model", "test", "t/s"} <= {cell.strip() for cell in first.split("|")}


def _vllm(seen: FileHeader) -> bool:
    return seen.has("request_throughput", "completed") and seen.has("total_input_tokens")


def _config(seen: FileHeader) -> bool:
    return seen.has("model_type") and bool(seen.keys & {"hidden_size", "n_embd", "d_model", "text_config", "n_layer"})


def _ncu(seen: FileHeader) -> bool:
    headers = (line for line in seen.lines[:500] if "Kernel Name" in line)
    return any("Metric Value" in line or "__" in line for line in headers)


def _likwid(seen: FileHeader) -> bool:
    return any(line.startswith(("STRUCT,Info", "TABLE,Group", "TABLE,Region")) for line in seen.lines[:200])


def _perf_stat(seen: FileHeader) -> bool:
    if "Performance counter stats for" in seen.text:
        return True
    if '"counter-value"' in seen.text and '"event"' in seen.text:  # below a line "# started on", with -o
        return True
    lines = [line for line in seen.lines if line.strip() and not line.startswith("#")]
    return bool(lines) and all(_PERF_CSV.match(line) for line in lines[:20])


def _perf_script(seen: FileHeader) -> bool:
    heads = [line for line in seen.lines[:200] if line.strip() and not line.startswith("#") and not line[0].isspace()]
    frames = any(line[0].isspace() and "(" in line for line in seen.lines[:200] if line)
    return frames and any(_PERF_SCRIPT.match(line[:400]) for line in heads[:20])


def _rocprof_counters(seen: FileHeader) -> bool:
    return seen.heads("Kernel_Name", "Counter_Name", "Counter_Value")


def _extrap(seen: FileHeader) -> bool:
    return any(line.split(maxsplit=1)[:1] in (["PARAMETER"], ["POINTS"]) for line in seen.lines[:100])


def _chrome(seen: FileHeader) -> bool:
    lone = seen.text.startswith(",{") and '"ph"' in seen.text  # rocprof writes it where it recorded nothing
    return lone or bool(seen.keys & {"traceEvents", "ph"})


def _rocprof_trace(seen: FileHeader) -> bool:
    return seen.heads("Start_Timestamp", "End_Timestamp")


def _chakra(seen: FileHeader) -> bool:
    return seen.has("nodes", "schema") and not seen.keys & {"traceEvents", "ph"}


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
    return bool(SEFF_TIME.search(seen.text)) or any(sacct_columns(line) for line in seen.lines[:20])


def _iterations(seen: FileHeader) -> bool:
    """A row an iteration: its sequence length and its time, nothing that counts workers."""
    names = {re.sub(r"[^a-z]", "", name.lower()) for name in seen.columns}
    return bool(names & _LENGTHS) and bool(names & _STEPS) and any(_TIME.fullmatch(c.lower()) for c in seen.columns)


def _times(seen: FileHeader) -> bool:
    """A header with one column of times, and a row of as many cells."""
    header, _, rest = seen.text.partition("\n")
    names = [name.strip().lower() for name in header.split(",")]
    first = rest.partition("\n")[0].split(",")
    return len(names) > 1 and len(first) == len(names) and any(_TIME.fullmatch(name) for name in names)


_LENGTHS = {"seqlen", "sequencelength", "seqlength", "length", "sl"}
_STEPS = {"iteration", "iter", "step", "batchindex", "index"}
_TIME = re.compile(r"(.*[ _])?(run|wall_?)?(time|seconds|duration|elapsed)([ _]\[?(s|ms|us|µs|ns|min|h)\]?)?")
_PERF_CSV = re.compile(r"\s*(<not \w+>|-?[\d.]+(?:,\d+)?)([,;|\t])(?!\d)[\w%/]*\2(?!\d)[^,;|\t]{1,200}(\2|$)")
_PERF_SCRIPT = re.compile(r"\S.{0,64}?\s+\d+(/\d+)?\s+(\[\d+\]\s+)?(\d+\.\d+:\s+)?(\d+\s+)?[\w\-:/.=]{1,80}:(\s|$)")
_CALIPER_JSON = re.compile(r'\{\s*"data"\s*:\s*\[\s*\[')
_SLIPSTICK = re.compile(r'"schema":\s*"slipstick-workload')
_CALIBRATION = re.compile(r'"schema":\s*"slipstick-calibration')

FORMATS: tuple[Format, ...] = (
    Format("nsys", "Nsight Systems, SQLite export", "timeline", _nsys),
    Format("gguf", "GGUF model", "model", lambda seen: seen.first.startswith(b"GGUF")),
    Format("workload", "slipstick, saved workload", "graph", lambda seen: bool(_SLIPSTICK.search(seen.text[:4096]))),
    Format("rocprof-json", "rocprofv3, JSON", "timeline", lambda seen: seen.has("rocprofiler-sdk-tool")),
    Format("vllm-bench", "vLLM bench serve, JSON", "serving", _vllm),
    Format("llama-bench", "llama-bench, JSON, JSON lines, CSV or Markdown", "serving", _llama_bench),
    Format("caliper-json", "Caliper, JSON split", "series", lambda seen: bool(_CALIPER_JSON.match(seen.text))),
    Format("caliper", "Caliper, .cali", "series", lambda seen: seen.text.startswith("__rec=")),
    Format("asv", "asv, results", "series", lambda seen: seen.has("result_columns", "results")),
    Format("chakra", "Chakra execution trace", "timeline", _chakra),
    Format("chrome-trace", "Chrome trace (PyTorch, JAX)", "timeline", _chrome),
    Format("hyperfine", "hyperfine, JSON", "series", lambda seen: seen.has("results", "command", "mean")),
    Format("pytest-benchmark", "pytest-benchmark, JSON", "series", lambda seen: seen.has("benchmarks", "stats")),
    Format("google-benchmark", "Google Benchmark, JSON", "series", lambda seen: seen.has("benchmarks", "real_time")),
    Format("config", "Hugging Face config.json", "model", _config),
    Format("stablehlo", "StableHLO text (JAX, PyTorch/XLA)", "graph", _stablehlo),
    Format("ncu", "Nsight Compute, CSV", "counters", _ncu),
    Format("rocprof-counters", "rocprofv3, counters as CSV", "counters", _rocprof_counters),
    Format("rocprof-csv", "rocprofv3, trace as CSV", "timeline", _rocprof_trace),
    Format("likwid", "likwid-perfctr, CSV", "counters", _likwid),
    Format("extrap", "Extra-P, text", "series", _extrap),
    Format("mllog", "MLPerf training, log", "run", _mllog),
    Format("megatron", "Megatron-LM, training log", "run", _megatron),
    Format("trainer-state", "Hugging Face Trainer, trainer_state.json", "run", _trainer_state),
    Format("matrix-market", "Matrix Market, sparse matrix", "matrix", _matrix_market),
    Format("slurm", "Slurm, sacct or seff", "series", _slurm),
    Format("iterations", "iterations of a training run, CSV", "iterations", _iterations),
    Format("times", "times over parameters, CSV", "series", _times),
    Format("perf-stat", "perf stat, CSV, JSON lines or text", "counters", _perf_stat),
    Format("perf-script", "perf script", "counters", _perf_script),
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
    if _CALIBRATION.search(look(str(path)).text[:4096]):
        return InputError(f"{path}: a calibration: slipstick estimate WORKLOAD --on MACHINE --calibration {path}")
    names = ", ".join(dict.fromkeys(one.name.partition(",")[0].partition(" (")[0] for one in FORMATS))
    return InputError(f"{path}: no known kind of file by its content{printed_instead(str(path))} (known: {names})")
