"""What is done with a file that was read, a function a format: what is read lazily is used to the end."""

from __future__ import annotations

import contextlib
from pathlib import Path


def use_machine(path: Path) -> object:
    from slipstick.experiments.question.question import question
    from slipstick.hwmodels.machine_file import load_machine

    found = load_machine(path)
    found.price and found.fingerprint  # noqa: B018 - derived when they are asked for
    return question("gemm", found, "roofline", []).answer().interval()


def use_workload(path: Path) -> object:
    from slipstick.experiments.question.question import question
    from slipstick.workloads.importers.detect import import_file

    found = import_file(path)
    sizes = [f"workload.{name}=8" for name in sorted(found.symbols)]
    return question(found, "v100-sxm", "roofline", sizes).answer()


def use_kerncraft(path: Path) -> object:
    from slipstick.hwmodels.importers.kerncraft import load_kerncraft

    return load_kerncraft(path).machine("copy")


def use_lscpu(path: Path) -> object:
    from slipstick.common.readers import read_text
    from slipstick.hwmodels.importers.lscpu import parse_lscpu

    return parse_lscpu(read_text(path)).machine()


def use_hwloc(path: Path) -> object:
    from slipstick.common.readers import read_text
    from slipstick.hwmodels.importers.lscpu import parse_hwloc

    return parse_hwloc(read_text(path), clock=2e9).machine()


def use_matrix(path: Path) -> object:
    from slipstick.experiments.methods.spmv.spmv_answers import KernelOptions, answers

    return answers(path, "", "hot", None, None, None, KernelOptions())


def use_phases(path: Path) -> object:
    from slipstick.experiments.methods.iterations.step_logs import read_steps

    return read_steps(path, r"ProfilerStep#(\d+)")


def use_recorded(path: Path) -> object:
    from slipstick.experiments.replay.replay import read_recorded

    return read_recorded(str(path))


def use_lengths(path: Path) -> object:
    from slipstick.workloads.runs.lengths import read_lengths

    return read_lengths(path, "length", "tokens")


def use_devices(path: Path) -> object:
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration
    from slipstick.experiments.calibrate.calibrated import read_calibration
    from slipstick.experiments.question.question import question

    load_device_calibration(path)
    fitted = read_calibration(path)
    return question("gemm", "v100-sxm", "roofline", [], calibration=fitted).answer().interval()


def use_calibration(path: Path) -> object:
    from slipstick.estimators.fitting.calibration_file import load_calibration
    from slipstick.experiments.question.registry import estimator

    return load_calibration(path, estimator("tpu")).standard_errors


def use_study(path: Path) -> object:
    from slipstick.experiments.studies.runner import plan
    from slipstick.experiments.studies.study import load_study

    made = plan(load_study(path))
    index, start, stop = made.chunks[0]
    return made.cases[index].rows(start, min(stop, start + 16))


def use_job(path: Path) -> object:
    """By formula, and a few simulated runs; with an estimator of the command line, which is none of the file's."""
    from slipstick.experiments.jobs.job_file import job_question
    from slipstick.experiments.jobs.simulate_job import simulate

    question = job_question(str(path), "v100-sxm")
    question.formula(question.job()[0])
    return simulate(question, runs=2).rows()


def use_job_times(path: Path) -> object:
    """The fit itself, of few runs."""
    from slipstick.experiments.jobs.job_file import job_question
    from slipstick.experiments.jobs.job_fit import fit_job
    from slipstick.experiments.jobs.job_measurements import read_job_measurements

    found = read_job_measurements(str(path), ["host", "infeed", "step"])
    question = job_question("resnet50", "tpu-v2-8")
    return fit_job(question, str(path), ["job.step.service"], runs=2) if len(found) < 9 else found


def use_job_calibration(path: Path) -> object:
    from slipstick.estimators.simulation.job_calibration import load_job_calibration
    from slipstick.experiments.jobs.simulate_job import simulate

    return simulate(
        "stragglers", settings=["job.steps=3", "job.copies=2"], runs=2, calibration=load_job_calibration(path)
    ).rows()


def use_requests(path: Path) -> object:
    from slipstick.workloads.runs.requests import recorded

    recorded(path)
    return run_line(["serve", str(path.parent / ".seeds" / "config.json"), "--on", "h100-sxm", "--requests", str(path)])


def use_store(path: Path) -> object:
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


def use_times(path: Path) -> object:
    from slipstick.experiments.calibrate.measurements import read_measurements
    from slipstick.hwmodels.catalog import machine
    from slipstick.workloads.catalog import workload

    return read_measurements(str(path), workload("gemm"), machine("xeon-phi-7120p"))


def use_extrapolate(path: Path) -> object:
    return run_line(["extrapolate", str(path), "--to", "64"])


def use_mllog(path: Path) -> object:
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, read_training_log

    log = read_training_log(path)
    return is_training_log(path), log.lines(), log.profiles(), log.steps and log.step_seconds


def use_sheet(path: Path) -> object:
    from slipstick.experiments.measure.bricks.bricks_file import load_sheet

    found = load_sheet(path)
    for module, inputs in list(found.values())[:1]:
        if sum(value.numel() for value in inputs) < 1e6:
            with contextlib.suppress(Exception):  # `measure bricks` says it in one line
                module(*inputs)
    return found


def use_bricks(path: Path) -> object:
    return run_line(["bricks", "compose", "mlp", "--store", str(path)])


def use_measured_steps(path: Path) -> object:
    from slipstick.experiments.calibrate.measured_steps import read_measured_steps
    from slipstick.hwmodels.catalog import machine

    return read_measured_steps(path, machine("h100-sxm"))


def use_anchors(path: Path) -> object:
    import shutil

    from slipstick.experiments.methods.spmv.spmv_answers import KernelOptions, read_anchors

    shutil.copy(path.parent / ".seeds" / "matrix.mtx", path.parent)
    return read_anchors(path, KernelOptions())


def use_cpuinfo(path: Path) -> object:
    from slipstick.common.readers import read_text
    from slipstick.hwmodels.importers.cpuinfo import parse_cpuinfo

    return parse_cpuinfo(read_text(path))


def use_timeline(path: Path) -> object:
    from slipstick.workloads.importers.timeline import graph_of_events, read_timeline

    return graph_of_events(read_timeline(path), path)


def use_any(path: Path) -> object:
    from slipstick.experiments.replay.read_files import ReadOptions, read_any

    return read_any(str(path), ReadOptions("v100-sxm", dtype="float64"))


def run_line(words: list[str]) -> object:
    """The command in this process; a code that is none of 0, 1, 2 is an error."""
    from slipstick.experiments.cli.cli import run

    code = run(words)
    if code not in (0, 1, 2):
        raise RuntimeError(f"exit code {code}")
    return code
