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


def _spmv_model(path: Path) -> object:
    from slipstick.estimators.operation.spmv.spmv_model import load_spmv_model

    return load_spmv_model(path)


def _spmv_devices(path: Path) -> object:
    from slipstick.estimators.operation.spmv.spmv_devices import load_devices

    return load_devices(path)


def _trace(path: Path) -> object:
    from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph

    return read_trace_graph(path)


def _kernels(path: Path) -> object:
    from slipstick.workloads.importers.traces.kernel_shapes import read_kernel_operations

    return read_kernel_operations(path)


def _phases(path: Path) -> object:
    from slipstick.experiments.commands.phases import read_steps

    return read_steps(path, r"ProfilerStep#(\d+)")


def _execution(path: Path) -> object:
    from slipstick.workloads.importers.traces.execution_trace import import_execution_trace

    return import_execution_trace(path)


def _chakra(path: Path) -> object:
    from slipstick.workloads.importers.traces.chakra_graph import read_chakra_graph

    return read_chakra_graph(path)


def _pipeline(path: Path) -> object:
    from slipstick.workloads.importers.traces.tensorboard_profile import read_input_pipeline

    return read_input_pipeline(path)


def _top(path: Path) -> object:
    from slipstick.workloads.importers.traces.tensorboard_profile import read_top_operations

    return read_top_operations(path)


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


def _operation_times(path: Path) -> object:
    from slipstick.experiments.calibrate.operation_measurements import read_operation_times

    return read_operation_times(path)


def _series(path: Path) -> object:
    from slipstick.experiments.extrapolate.series_files import read

    return read(path)


def _extrapolate(path: Path) -> object:
    return run_line(["extrapolate", str(path), "--to", "64"])


def _log(path: Path) -> object:
    from slipstick.experiments.subjects.iterations.logs import read_log

    return read_log(path)


def _mllog(path: Path) -> object:
    from slipstick.workloads.importers.mllog.mllog_reader import read_mllog

    log = read_mllog(path)
    return log.lines(), log.profiles(), log.steps and log.step_seconds


def _known(path: Path) -> object:
    from slipstick.experiments.subjects.training_plan.known_runs import read_known

    return read_known(path)


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


def _anchors(path: Path) -> object:
    import shutil

    from slipstick.experiments.subjects.spmv.spmv_answers import read_anchors

    shutil.copy(path.parent / ".seeds" / "matrix.mtx", path.parent)
    return read_anchors(path)


def _config(path: Path) -> object:
    from slipstick.workloads.importers.configs.huggingface import read_config

    return read_config(path)


def _gguf(path: Path) -> object:
    from slipstick.workloads.importers.configs.gguf import read_gguf

    return read_gguf(path)


def _xplane(path: Path) -> object:
    from slipstick.workloads.importers.xla.xplane import read_xplane

    return read_xplane(path)


def _cpuinfo(path: Path) -> object:
    from slipstick.hwmodels.files.readers import read_text
    from slipstick.hwmodels.importers.cpuinfo import parse_cpuinfo

    return parse_cpuinfo(read_text(path))


def _steps_csv(path: Path) -> object:
    from slipstick.experiments.measure.training.step_files import read_steps

    return read_steps(path)


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
MADE = (*TIMELINES, "vllm.json", "llama-bench.json", "llama-bench.jsonl", "profile.cali", "caliper.json", "trace.json")
MADE += ("ncu.csv", "ncu-raw.csv", "pmc.csv", "perf-stat.csv", "perf-stat.txt", "perf-stat.json", "perf-script.txt")
MADE += ("likwid.csv", "step.mlir", "generic.mlir")
_OWN: Mapping[str, Reader] = {
    name: Reader(name, seeds, call)
    for name, (seeds, call) in {
        "slipstick.hwmodels.machine.load_machine": (
            ("xeon-phi-7120p.yaml", "h100-sxm.yaml", "a100-80-dgx.yaml"),
            _machine,
        ),
        "slipstick.workloads.importers.detect.import_file": (
            ("gemm.json", "phi-cnn-small.json", "packed.json.gz", "model.onnx", "trace.json"),
            _workload,
        ),
        "slipstick.hwmodels.importers.kerncraft.load_kerncraft": (("kerncraft.yml",), _kerncraft),
        "slipstick.hwmodels.importers.lscpu.parse_lscpu": (("lscpu.json",), _lscpu),
        "slipstick.hwmodels.importers.lscpu.parse_hwloc": (("hwloc.xml",), _hwloc),
        "slipstick.workloads.kernels.sparse_files.read_matrix": (
            ("matrix.mtx", "matrix.npz", "matrix.edges", "matrix.triplet0"),
            _matrix,
        ),
        "slipstick.estimators.operation.spmv.spmv_model.load_spmv_model": (("spmv.npz",), _spmv_model),
        "slipstick.estimators.operation.spmv.spmv_devices.load_devices": (("devices.json",), _spmv_devices),
        "slipstick.workloads.importers.traces.kineto_graph.read_trace_graph": (("trace.json", "trace.json.gz"), _trace),
        "slipstick.workloads.importers.traces.kernel_shapes.read_kernel_operations": (("trace.json",), _kernels),
        "slipstick.experiments.commands.phases.read_steps": (
            ("trace.json", "trace.json.gz", "steps.jsonl", "input_pipeline.json"),
            _phases,
        ),
        "slipstick.workloads.importers.traces.execution_trace.import_execution_trace": (("trace.json",), _execution),
        "slipstick.workloads.importers.traces.chakra_graph.read_chakra_graph": (("trace.json",), _chakra),
        "slipstick.workloads.importers.traces.tensorboard_profile.read_input_pipeline": (
            ("input_pipeline.json",),
            _pipeline,
        ),
        "slipstick.workloads.importers.traces.tensorboard_profile.read_top_operations": (
            ("input_pipeline.json",),
            _top,
        ),
        "slipstick.experiments.traces.recorded.read_recorded": (("steps.jsonl", "trace.json"), _recorded),
        "slipstick.workloads.runs.lengths.read_lengths": (("lengths.csv",), _lengths),
        "slipstick.workloads.runs.lengths.read_histogram": (("histogram.csv",), _histogram),
        "slipstick.estimators.across_devices.files.devices_file.load_device_calibration": (
            ("calibration-gpus.json",),
            _devices,
        ),
        "slipstick.estimators.calibration.calibration_file.load_calibration": (("calibration-tpu.json",), _calibration),
        "slipstick.experiments.studies.study.load_study": (("study.toml",), _study),
        "slipstick.experiments.studies.store.load": (("store/study.json", "store/part"), _store),
        "slipstick.experiments.calibrate.measurements.read_measurements": (("times.csv",), _times),
        "slipstick.experiments.calibrate.operation_measurements.read_operation_times": (
            ("operations.csv",),
            _operation_times,
        ),
        "slipstick.experiments.extrapolate.series_files.read": (
            ("series.csv", "series.txt", "hyperfine.json", "lines.jsonl"),
            _series,
        ),
        "slipstick.experiments.commands.extrapolate": (("series.csv",), _extrapolate),
        "slipstick.experiments.subjects.iterations.logs.read_log": (("log.csv", "run.mllog"), _log),
        "slipstick.workloads.importers.mllog.mllog_reader.read_mllog": (("run.mllog",), _mllog),
        "slipstick.experiments.subjects.training_plan.known_runs.read_known": (("known.csv",), _known),
        "slipstick.experiments.measure.bricks.brick_sheet.load_sheet": (("sheet.json",), _sheet),
        "slipstick.experiments.measure.bricks.brick_store.BrickStore": (("bricks.sqlite",), _bricks),
        "slipstick.experiments.subjects.spmv.spmv_answers.read_anchors": (("anchors.csv",), _anchors),
        "slipstick.workloads.importers.configs.huggingface.read_config": (("config.json",), _config),
        "slipstick.workloads.importers.configs.gguf.read_gguf": (("model.gguf",), _gguf),
        "slipstick.workloads.importers.xla.xplane.read_xplane": (("profile.xplane.pb",), _xplane),
        "slipstick.hwmodels.importers.cpuinfo.parse_cpuinfo": (("cpuinfo.txt",), _cpuinfo),
        "slipstick.workloads.importers.timeline.read_timeline": (TIMELINES, _timeline),
        "slipstick.experiments.traces.files_read.read_any": (MADE, _read_any),
        "slipstick.experiments.measure.training.step_files.read_steps": (("steps.csv",), _steps_csv),
    }.items()
}

ALREADY = {
    "read_nsys": "read_timeline",
    "read_rocprof_json": "read_timeline",
    "read_rocprof_csv": "read_timeline",
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
    "load_net": "needs torch; read_arrays reads it, as load_spmv_model does",
    "read_cube_folder": "needs pycubexr",
    "read_private": "the opener",
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
                    if name not in _OWN and node.name not in ALREADY:
                        found[name] = Reader(name, GENERIC, partial(_called, name))
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
READERS: Mapping[str, Reader] = {**_OWN, **discovered()}
