"""Every reader of files that strangers may give, and what is done with what it read.

A reader that is not listed is found by its name (`discovered`), so that a new one is attacked from its first day; seeds
of its own, written by the tool, make the attack go deeper.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Reader:
    """A reader by its full name, the seeds it reads, and the call that reads one and uses what it gives."""

    name: str
    seeds: tuple[str, ...]
    call: Callable[[Path], object]


def _machine(path: Path) -> object:
    from slipstick.experiments.question.question import question
    from slipstick.hwmodels.machine_file import load_machine

    found = load_machine(path)
    found.price and found.fingerprint  # noqa: B018 - derived when they are asked for
    return question("gemm", found, "roofline", []).answer().interval()


def _workload(path: Path) -> object:
    from slipstick.experiments.question.question import question
    from slipstick.workloads.importers.detect import import_file

    found = import_file(path)
    sizes = [f"workload.{name}=8" for name in sorted(found.symbols)]
    return question(found, "v100-sxm", "roofline", sizes).answer()


def _kerncraft(path: Path) -> object:
    from slipstick.hwmodels.importers.kerncraft import load_kerncraft

    return load_kerncraft(path).machine("copy")


def _lscpu(path: Path) -> object:
    from slipstick.hwmodels.files.readers import read_text
    from slipstick.hwmodels.importers.lscpu import parse_lscpu

    return parse_lscpu(read_text(path)).machine()


def _hwloc(path: Path) -> object:
    from slipstick.hwmodels.files.readers import read_text
    from slipstick.hwmodels.importers.lscpu import parse_hwloc

    return parse_hwloc(read_text(path), clock=2e9).machine()


def _matrix(path: Path) -> object:
    from slipstick.experiments.subjects.spmv.spmv_answers import answer

    return answer(path, "", "hot", None, None, None)


def _phases(path: Path) -> object:
    from slipstick.experiments.subjects.iterations.steps import read_steps

    return read_steps(path, r"ProfilerStep#(\d+)")


def _recorded(path: Path) -> object:
    from slipstick.experiments.traces.recorded import read_recorded

    return read_recorded(str(path))


def _lengths(path: Path) -> object:
    from slipstick.workloads.runs.lengths import read_lengths

    return read_lengths(path, "length", "tokens")


def _histogram(path: Path) -> object:
    from slipstick.workloads.runs.lengths import read_histogram

    return read_histogram(path, "length", "count", "tokens")


def _devices(path: Path) -> object:
    from slipstick.estimators.across_devices.files.devices_file import load_device_calibration
    from slipstick.experiments.calibrate.calibrated import read_calibration
    from slipstick.experiments.question.question import question

    load_device_calibration(path)
    fitted = read_calibration(path)
    return question("gemm", "v100-sxm", "roofline", [], calibration=fitted).answer().interval()


def _calibration(path: Path) -> object:
    from slipstick.estimators.calibration.calibration_file import load_calibration
    from slipstick.experiments.question.registry import estimator

    return load_calibration(path, estimator("tpu")).standard_errors


def _study(path: Path) -> object:
    from slipstick.experiments.studies.runner import plan
    from slipstick.experiments.studies.study import load_study

    made = plan(load_study(path))
    index, start, stop = made.chunks[0]
    return made.cases[index].rows(start, min(stop, start + 16))


def _job(path: Path) -> object:
    """By formula, and a few simulated runs; with an estimator of the command line, which is none of the file's."""
    from slipstick.experiments.subjects.jobs.job_file import job_question
    from slipstick.experiments.subjects.jobs.simulated import simulate

    question = job_question(str(path), "v100-sxm")
    question.formula(question.job()[0])
    return simulate(question, runs=2).rows()


def _job_times(path: Path) -> object:
    """The fit itself, of few runs."""
    from slipstick.experiments.subjects.jobs.job_file import job_question
    from slipstick.experiments.subjects.jobs.job_fit import fit_job
    from slipstick.experiments.subjects.jobs.job_measurements import read_job_measurements

    found = read_job_measurements(str(path), ["host", "infeed", "step"])
    question = job_question("resnet50", "tpu-v2-8")
    return fit_job(question, str(path), ["job.step.service"], runs=2) if len(found) < 9 else found


def _job_calibration(path: Path) -> object:
    from slipstick.estimators.calibration.job_calibration import load_job_calibration
    from slipstick.experiments.subjects.jobs.simulated import simulate

    return simulate(
        "stragglers", settings=["job.steps=3", "job.copies=2"], runs=2, calibration=load_job_calibration(path)
    ).rows()


def _requests(path: Path) -> object:
    from slipstick.workloads.runs.requests import recorded

    recorded(path)
    return run_line(["serve", str(path.parent / ".seeds" / "config.json"), "--on", "h100-sxm", "--requests", str(path)])


def _store(path: Path) -> object:
    import shutil

    from slipstick.experiments.studies.store import load

    folder = path.parent / "store"
    home = path.parent / ".seeds" / "store"
    shutil.copytree(home, folder)
    target = folder / "study.json" if path.name == "study.json" else next((folder / "results").iterdir())
    target.unlink()
    if path.exists() or path.is_symlink():
        path.rename(target)
    return load(folder).frame()


def _times(path: Path) -> object:
    from slipstick.experiments.calibrate.measurements import read_measurements
    from slipstick.hwmodels.catalog import machine
    from slipstick.workloads.catalog import workload

    return read_measurements(str(path), workload("gemm"), machine("xeon-phi-7120p"))


def _extrapolate(path: Path) -> object:
    return run_line(["extrapolate", str(path), "--to", "64"])


def _mllog(path: Path) -> object:
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, read_training_log

    log = read_training_log(path)
    return is_training_log(path), log.lines(), log.profiles(), log.steps and log.step_seconds


def _sheet(path: Path) -> object:
    from slipstick.experiments.measure.bricks.brick_sheet import load_sheet

    found = load_sheet(path)
    for module, inputs in list(found.values())[:1]:
        if sum(value.numel() for value in inputs) < 1e6:
            with contextlib.suppress(Exception):  # `measure bricks` says it in one line
                module(*inputs)
    return found


def _bricks(path: Path) -> object:
    return run_line(["bricks", "compose", "mlp", "--store", str(path)])


def _measured_steps(path: Path) -> object:
    from slipstick.experiments.calibrate.measured_steps import read_measured_steps
    from slipstick.hwmodels.catalog import machine

    return read_measured_steps(path, machine("h100-sxm"))


def _anchors(path: Path) -> object:
    import shutil

    from slipstick.experiments.subjects.spmv.spmv_answers import read_anchors

    shutil.copy(path.parent / ".seeds" / "matrix.mtx", path.parent)
    return read_anchors(path)


def _cpuinfo(path: Path) -> object:
    from slipstick.hwmodels.files.readers import read_text
    from slipstick.hwmodels.importers.cpuinfo import parse_cpuinfo

    return parse_cpuinfo(read_text(path))


def _timeline(path: Path) -> object:
    from slipstick.workloads.importers.timeline import timeline_graph

    return timeline_graph(path)


def _read_any(path: Path) -> object:
    from slipstick.experiments.traces.files_read import With, read_any

    return read_any(str(path), With("v100-sxm", dtype="float64"))


def run_line(words: list[str]) -> object:
    """The command in this process; a code that is none of 0, 1, 2 is an error."""
    from slipstick.experiments.commands.cli import run

    code = run(words)
    if code not in (0, 1, 2):
        raise RuntimeError(f"exit code {code}")
    return code


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
MADE += ("likwid.csv", "step.mlir", "generic.mlir", "megatron.log", "trainer_state.json")
USED: Mapping[str, tuple[tuple[str, ...], Callable[[Path], object]]] = {
    "load_machine": (("xeon-phi-7120p.yaml", "h100-sxm.yaml", "a100-80-dgx.yaml"), _machine),
    "import_file": (("gemm.json", "phi-cnn-small.json", "packed.json.gz", "model.onnx", "trace.json"), _workload),
    "load_kerncraft": (("kerncraft.yml",), _kerncraft),
    "parse_lscpu": (("lscpu.json",), _lscpu),
    "parse_hwloc": (("hwloc.xml",), _hwloc),
    "parse_cpuinfo": (("cpuinfo.txt",), _cpuinfo),
    "read_matrix": (("matrix.mtx", "matrix.npz", "matrix.edges", "matrix.triplet0"), _matrix),
    "phases": (("trace.json", "trace.json.gz", "steps.jsonl", "input_pipeline.json", "events.csv"), _phases),
    "read_recorded": (("steps.jsonl", "trace.json"), _recorded),
    "read_lengths": (("lengths.csv",), _lengths),
    "read_histogram": (("histogram.csv",), _histogram),
    "load_device_calibration": (("calibration-gpus.json",), _devices),
    "load_calibration": (("calibration-tpu.json",), _calibration),
    "load_study": (("study.toml",), _study),
    "job_question": (("job.yaml", "job-workload.yaml"), _job),
    "read_job_measurements": (("job-times.csv",), _job_times),
    "load_job_calibration": (("calibration-job.json",), _job_calibration),
    "recorded": (("requests.jsonl",), _requests),
    "load": (("store/study.json", "store/part"), _store),
    "read_measurements": (("times.csv",), _times),
    "extrapolate": (("series.csv",), _extrapolate),
    "read_training_log": (("run.mllog", "megatron.log", "trainer_state.json"), _mllog),
    "load_sheet": (("sheet.json",), _sheet),
    "BrickStore": (("bricks.sqlite",), _bricks),
    "read_anchors": (("anchors.csv",), _anchors),
    "read_measured_steps": (("served-steps.csv",), _measured_steps),
    "read_timeline": (TIMELINES, _timeline),
    "read_any": (MADE, _read_any),
}
"""Readers whose result is used, too: their seeds, and the call."""
SEEDS: Mapping[str, tuple[str, ...]] = {
    "load_spmv_model": ("spmv.npz",),
    "load_devices": ("devices.json",),
    "read_trace_graph": ("trace.json", "trace.json.gz"),
    "read_kernel_operations": ("trace.json",),
    "import_execution_trace": ("trace.json",),
    "read_chakra_graph": ("trace.json",),
    "read_input_pipeline": ("input_pipeline.json",),
    "read_top_operations": ("input_pipeline.json",),
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
    "read_caliper_folder": "a folder of what read_any reads",
    "import_onnx": "import_file",
    "import_stablehlo": "read_any",
    "read_functions": "read_any",
    "load_workload": "import_file",
    "import_measured_steps": "import_file",
    "load_steps": "read_steps",
    "read_event_csv": "phases",
    "load_net": "needs torch; read_arrays reads it, as load_spmv_model does",
    "read_cube_folder": "needs pycubexr",
    "read_private": "the opener",
    "read_kept": "what the project wrote itself, by its digest: test_kept_and_written.py",
    "import_torch_by_name": "the user's own code",
    "read_products": "public data, by validate --data",
}
"""Readers that another one calls, or that no stranger's file reaches: why they are not called by themselves."""


def discovered() -> dict[str, Reader]:
    """Every function of the project named read_*, load*, import_* whose first parameter is a path."""
    import slipstick

    home = Path(slipstick.__file__).parent
    found = {}
    for layer in ("hwmodels", "workloads", "estimators", "experiments"):
        root = (home / layer).resolve()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if "evidence" in parts or "files" in parts[:2]:
                continue
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and _reads(node):
                    name = ".".join(("slipstick", *parts, node.name))
                    if node.name not in USED and node.name not in ALREADY:
                        found[name] = Reader(name, SEEDS.get(node.name, GENERIC), partial(_called, name))
    return found


def _reads(node: ast.FunctionDef) -> bool:
    given = node.args.args
    wanted = len(given) - len(node.args.defaults)
    if not re.match(r"(read|load|import)(_|$)", node.name) or not given or wanted > 1:
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
