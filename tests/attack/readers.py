"""Every reader of files that strangers may give, and what is done with what it read.

A reader that is not listed is found by its name (`discovered`), so that a new one is attacked from its first day; seeds
of its own, written by the tool, make the attack go deeper.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from tests.attack import uses
from tests.pasted import PASTED


@dataclass(frozen=True)
class Reader:
    """A reader by its full name, the seeds it reads, and the call that reads one and uses what it gives."""

    name: str
    seeds: tuple[str, ...]
    call: Callable[[Path], object]


TIMELINES = ("nsys.sqlite", "rocprof.json", "rocprof.csv")
MADE = (
    *TIMELINES,
    "vllm.json",
    "llama-bench.json",
    "llama-bench.jsonl",
    "llama-bench.md",
    "profile.cali",
    "caliper.json",
    "trace.json",
)
MADE += ("ncu.csv", "ncu-raw.csv", "pmc.csv", "perf-stat.csv", "perf-stat.txt", "perf-stat.json", "perf-script.txt")
MADE += tuple(PASTED)
MADE += ("likwid.csv", "step.mlir", "generic.mlir", "megatron.log", "trainer_state.json")
USED: Mapping[str, tuple[tuple[str, ...], Callable[[Path], object]]] = {
    "load_machine": (("xeon-phi-7120p.yaml", "h100-sxm.yaml", "a100-80-dgx.yaml"), uses.use_machine),
    "import_file": (
        ("gemm.json", "phi-cnn-small.json", "packed.json.gz", "model.onnx", "trace.json"),
        uses.use_workload,
    ),
    "load_kerncraft": (("kerncraft.yml",), uses.use_kerncraft),
    "parse_lscpu": (("lscpu.json",), uses.use_lscpu),
    "parse_hwloc": (("hwloc.xml",), uses.use_hwloc),
    "parse_cpuinfo": (("cpuinfo.txt",), uses.use_cpuinfo),
    "read_matrix": (("matrix.mtx", "matrix.npz", "matrix.edges", "matrix.triplet0"), uses.use_matrix),
    "phases": (("trace.json", "trace.json.gz", "steps.jsonl", "input_pipeline.json", "events.csv"), uses.use_phases),
    "read_recorded": (("steps.jsonl", "trace.json"), uses.use_recorded),
    "read_lengths": (("lengths.csv",), uses.use_lengths),
    "load_device_calibration": (("calibration-gpus.json",), uses.use_devices),
    "load_calibration": (("calibration-tpu.json",), uses.use_calibration),
    "load_study": (("study.toml",), uses.use_study),
    "job_question": (("job.yaml", "job-workload.yaml"), uses.use_job),
    "read_job_measurements": (("job-times.csv",), uses.use_job_times),
    "load_job_calibration": (("calibration-job.json",), uses.use_job_calibration),
    "recorded": (("requests.jsonl",), uses.use_requests),
    "load": (("store/study.json", "store/part"), uses.use_store),
    "read_measurements": (("times.csv",), uses.use_times),
    "extrapolate": (("series.csv",), uses.use_extrapolate),
    "read_training_log": (("run.mllog", "megatron.log", "trainer_state.json"), uses.use_mllog),
    "load_sheet": (("sheet.json",), uses.use_sheet),
    "BrickStore": (("bricks.sqlite",), uses.use_bricks),
    "read_anchors": (("anchors.csv",), uses.use_anchors),
    "read_measured_steps": (("served-steps.csv",), uses.use_measured_steps),
    "read_timeline": (TIMELINES, uses.use_timeline),
    "read_any": (MADE, uses.use_any),
}
"""Readers whose result is used, too: their seeds, and the call."""
SEEDS: Mapping[str, tuple[str, ...]] = {
    "load_host_kernels": ("spmv.json",),
    "load_devices": ("devices.json",),
    "read_trace_graph": ("trace.json", "trace.json.gz"),
    "read_kernel_operations": ("trace.json",),
    "import_execution_trace": ("trace.json",),
    "read_input_pipeline": ("input_pipeline.json",),
    "read_operation_times": ("operations.csv",),
    "read": ("series.csv", "series.txt", "hyperfine.json", "lines.jsonl"),
    "read_log": ("log.csv", "run.mllog", "megatron.log", "trainer_state.json"),
    "read_known": ("known.csv", "megatron.log"),
    "read_run": ("metered.csv",),
    "read_config": ("config.json",),
    "read_gguf": ("model.gguf",),
    "read_xplane": ("profile.xplane.pb",),
    "read_steps": ("steps.csv",),
    "read_calibration": ("calibration-gpus.json", "calibration-tpu.json"),
}
"""Seeds of the readers that are found by their name and called as they are."""

ALREADY = {
    "read_nsys": "read_timeline",
    "read_rocprof_json": "read_timeline",
    "read_rocprof_csv": "read_timeline",
    "read_mllog": "read_training_log",
    "read_megatron": "read_training_log",
    "read_trainer_state": "read_training_log",
    "read_vllm_bench": "read_any",
    "read_llama_bench": "read_any",
    "read_llama_series": "read_any",
    "read_profile": "read_any",
    "read_caliper": "read_any",
    "read_ncu": "read_any",
    "read_rocprof_counters": "read_any",
    "read_likwid": "read_any",
    "read_perf_stat": "read_any",
    "read_perf_script": "read_any",
    "read_summary": "read_any",
    "read_telemetry": "read_any",
    "read_hyperfine_csv": "read_any",
    "read_hlo": "read_any",
    "read_caliper_folder": "a folder of what read_any reads",
    "import_onnx": "import_file",
    "import_stablehlo": "read_any",
    "read_functions": "read_any",
    "load_workload": "import_file",
    "read_traced_steps": "import_file",
    "load_steps": "read_steps",
    "read_event_csv": "phases",
    "read_cube_folder": "needs pycubexr",
    "read_private": "the opener",
    "read_cached": "what the project wrote itself, by its digest: test_kept_and_written.py",
    "import_torch_by_name": "the user's own code",
    "read_products": "public data, by validate --data",
}
"""Readers that another one calls, or that no stranger's file reaches: why they are not called by themselves."""


READS = r"(read|load|import)(_|\b)"


def discovered() -> dict[str, Reader]:
    """Every function of the project named read_*, load*, import_* whose first parameter is a path."""
    import slipstick

    home = Path(slipstick.__file__).parent
    found = {}
    for layer in ("hwmodels", "workloads", "estimators", "experiments"):
        root = (home / layer).resolve()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if {"papers", "scoreboards", "scoring"} & {*parts[:2]}:
                continue
            text = path.read_text()
            for node in ast.parse(text).body if re.search(rf"^def {READS}", text, re.M) else ():
                if isinstance(node, ast.FunctionDef) and _reads(node):
                    name = ".".join(("slipstick", *parts, node.name))
                    if node.name not in USED and node.name not in ALREADY:
                        found[name] = Reader(name, SEEDS.get(node.name, GENERIC), partial(_called, name))
    return found


def _reads(node: ast.FunctionDef) -> bool:
    given = node.args.args
    wanted = len(given) - len(node.args.defaults)
    if not re.match(READS, node.name) or not given or wanted > 1:
        return False
    kind = ast.unparse(given[0].annotation) if given[0].annotation else ""
    return "Path" in kind


def _called(name: str, path: Path) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)(path)


GENERIC = ("trace.json", "config.json", "series.csv", "steps.jsonl", "study.toml", "xeon-phi-7120p.yaml", "matrix.npz")
READERS: Mapping[str, Reader] = {
    **{name: Reader(name, seeds, call) for name, (seeds, call) in USED.items()},
    **discovered(),
}
