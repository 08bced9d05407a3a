"""What `slipstick spmv predict` does: a matrix file and a machine in, a time with its band out.

Beside it what `slipstick measure spmv --kernel` adds: whole products measured here next to what is predicted for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstick.common.answer import Provenance
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_json, read_number, require_mapping, unknown_name
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.sparse.kernel_costs import HostKernels, State, beside, check_state, load_host_kernels
from slipstick.estimators.sparse.reuse_model import SCHEMA as REUSE
from slipstick.estimators.sparse.reuse_model import (
    SUFFIX,
    ReuseModel,
    is_accelerator,
    label_kind,
    load_reuse,
    shipped_reuse,
)
from slipstick.estimators.sparse.sparse_products import (
    OnKernel,
    estimate_product,
    estimate_spmv,
    kernel_estimator,
    spmv_estimator,
)
from slipstick.estimators.sparse.spmv_devices import FORMATS, TrainedDevices, load_devices, shipped_devices
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.settings import number_of
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import MATRIX_FILES
from slipstick.workloads.kernels.pagerank import pagerank_problem
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

MOST_ANCHORS = 1000


def answers(
    path: Path,
    machine_name: str,
    label: str,
    model: Path | None,
    power: str | None,
    anchors: Path | None,
    options: KernelOptions,
) -> tuple[list[dict[str, Any]], list[str], Provenance]:
    """A row a kernel, what the answers take for granted, and on what they rest.

    On a machine whose kernels were calibrated (a file beside its own) those alone answer; elsewhere the model learned
    from blocks answers first, for our kernel, and the calibrated kernels that ship beside it.
    Raises InputError where a file, a name or a unit cannot be used, or options exclude each other.
    """
    host = calibrated_beside(machine_name)
    learned = (model, power, anchors) != (None, None, None) or label != "streaming"
    if options.given and learned:
        raise InputError(
            "--kernel, --caches, --threads and --clock: not with --calibration, --power, --measured or --cache-state"
        )
    if not learned and (options.given or host is not None):
        rows, assumed = kernel_rows(read_matrix(path), machine(machine_name) if machine_name else None, host, options)
        return rows, assumed, "estimated" if host is None else "calibrated"
    if not learned and machine_name and is_accelerator(machine(machine_name)):
        return *_by_format(path, machine_name), "estimated"
    row, notes = answer(path, machine_name, label, model, power, anchors)
    if learned:
        return [row], list(notes), "estimated" if model is None and anchors is None else "calibrated"
    others, more = kernel_rows(read_matrix(path), machine(machine_name) if machine_name else None, None, options)
    keys = dict.fromkeys([*row, *(key for other in others for key in other)])
    return [{key: one.get(key) for key in keys} for one in (row, *others)], [*notes, *more], "estimated"


def _by_format(path: Path, machine_name: str) -> tuple[list[dict[str, Any]], list[str]]:
    """An accelerator's time for each format that the matrix may be stored in."""
    matrix, host = read_matrix(path), machine(machine_name)
    estimates = {stored: estimate_spmv(matrix, host, shipped_devices(stored)) for stored in FORMATS}
    notes = [note for estimate in estimates.values() for note in estimate.assumptions]
    return [_row(matrix, host, one, {"kernel": name}) for name, one in estimates.items()], list(dict.fromkeys(notes))


def answer(
    path: Path, machine_name: str, label: str, model: Path | None, power: str | None, anchors: Path | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The row of one product by costs of reuse or of devices, and what it takes for granted.

    Raises InputError where a file, a name or a unit cannot be used, or options exclude each other.
    """
    asked_label = label_kind(label)
    host = machine(machine_name) if machine_name else None
    chosen: ReuseModel | TrainedDevices
    if model is not None:
        chosen = load_reuse(model) if model.name.endswith(SUFFIX) else load_devices(model)
    else:
        by_device = host is not None and is_accelerator(host) and asked_label == "streaming"
        chosen = shipped_devices() if by_device else shipped_reuse(asked_label)  # hot labels are refused: of one core
    matrix, known = read_matrix(path), read_anchors(anchors) if anchors else []
    estimate = estimate_spmv(matrix, host, chosen, None if power is None else number_of("--power", power, "W"), known)
    if isinstance(chosen, TrainedDevices):
        return _row(matrix, host, estimate, {"kernel": chosen.model.stored}), estimate.assumptions
    facts = {"kernel": "blocks", "threads": 1, "label": chosen.label, "model": "costs of reuse"}
    return _row(matrix, host, estimate, {**facts, "held_out_spread": chosen.spread}), estimate.assumptions


def _row(matrix: SparseMatrix, host: Machine | None, estimate: Estimate, facts: dict[str, Any]) -> dict[str, Any]:
    low, high = estimate.interval() or (None, None)
    model: dict[str, Any] = {"threads": None, "label": None, "model": "costs of rows", "held_out_spread": None}
    return {
        "matrix": matrix.name,
        "machine": None if host is None else host.name,
        "rows": matrix.shape[0],
        "columns": matrix.shape[1],
        "nonzeros": matrix.nonzeros,
        "kernel": facts["kernel"],
        **{name: facts.get(name, value) for name, value in model.items()},
        "time_s": estimate.time,
        "low_s": low,
        "high_s": high,
        "ns_per_nonzero": estimate.time / matrix.nonzeros * 1e9,
        "memory_share": estimate.metrics.get("memory_share"),
        "energy_J": estimate.energy,
    }


def with_products(question: Question, workload: str, calibration: Path, threads: Sequence[str]) -> Question:
    """The question with its products answered by costs of 'slipstick spmv train', or a kernel of 'spmv calibrate'.

    `workload`: as it was given; kernels need the positions themselves: a matrix file, or ``pagerank:FILE``.
    `threads`: ``run.threads=N`` as it was given, the last one counts; one thread if empty.
    Raises InputError where the workload is no file, or a file or number cannot be used.
    """
    if require_mapping(read_json(calibration), calibration, "file").get("schema") == REUSE:
        if threads:
            raise InputError(f"--threads: not with {calibration}, the costs of one core")
        learned = spmv_estimator(load_reuse(calibration))
        return replace(question, estimator=learned, why=f"products by {calibration.name}")
    path = workload.removeprefix("pagerank:")
    if not path.removesuffix(".gz").endswith(MATRIX_FILES):
        raise InputError(f"--calibration {calibration}: kernels need a matrix file or pagerank:FILE")
    matrix = read_matrix(path)
    if path != workload:
        matrix = pagerank_problem(matrix.renamed(Path(path).name.split(".")[0])).matrix
    count = number_of("run.threads", threads[-1].partition("=")[2]) if threads else 1.0
    if count != round(count) or count < 1:
        raise InputError(f"run.threads = {count:g}: want a whole number of at least 1")
    kernel = load_kernel(calibration, round(count), question.machine)
    why = f"products by kernel {kernel.kernel} on {kernel.threads} thread(s), {calibration.name}"
    return replace(question, estimator=kernel_estimator(kernel, (matrix,)), why=why)


def read_anchors(path: Path) -> list[tuple[SparseMatrix, float]]:
    """Products measured on this machine: a CSV with ``matrix`` (a file, beside the CSV) and ``time_s``.

    Raises InputError, which names file, line and column of what cannot be used.
    """
    anchors = []
    for line, row in read_csv_rows(path, ("matrix", "time_s"), limit_rows=MOST_ANCHORS):
        seconds = read_number(row["time_s"], path, line, "time_s", 0.0)
        if not seconds > 0:
            raise InputError(f"{path}: line {line}: time_s = {row['time_s']}: want seconds > 0")
        anchors.append((read_matrix(path.parent / row["matrix"]), seconds))
    if not anchors:
        raise InputError(f"{path}: no product: want lines of matrix,time_s")
    return anchors


@dataclass(frozen=True)
class KernelOptions:
    """Which kernels are wanted.

    `kernel`: one by name; empty for all that were calibrated.
    """

    kernel: str = ""
    state: State = "warm"
    threads: int = 1
    clock: float | None = None

    @classmethod
    def of(cls, kernel: str, caches: str, threads: int, clock: str = "") -> KernelOptions:
        """From texts; the clock with its unit, empty for the machine's."""
        return cls(kernel, check_state(caches), threads, number_of("--clock", clock, "Hz") if clock else None)

    @property
    def given(self) -> bool:
        """Whether anything but the defaults is wanted."""
        return self != KernelOptions()


def calibrated_beside(machine: str) -> HostKernels | None:
    """The kernels kept beside a machine file; None where there are none."""
    path = beside(machine) if machine.endswith((".yaml", ".yml")) else None
    return load_host_kernels(path) if path is not None and path.exists() else None


def kernel_rows(
    matrix: SparseMatrix, machine: Machine | None, host: HostKernels | None, options: KernelOptions
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row a kernel, and what the answers take for granted.

    Raises InputError where the kernel is unknown or has no threads, or the machine is an accelerator.
    """
    if machine is not None and is_accelerator(machine):
        raise InputError(
            f"machine {machine.name!r} is an accelerator: --kernel, --caches and --threads are a processor's"
        )
    known = host or load_host_kernels()
    if options.kernel and options.kernel not in known.kernels:
        raise unknown_name("calibrated kernel", options.kernel, known.kernels)
    names: Sequence[str] = [options.kernel] if options.kernel else known.kernels
    if options.threads > 1 and not options.kernel:
        names = [name for name in names if f"{name} {options.state}" in known.threads]
        if not names:
            raise InputError(f"--threads {options.threads}: no kernel of {known.machine!r} was calibrated with threads")
    rows, notes = [], []
    for name in names:
        estimate = estimate_product(
            matrix, name, machine, state=options.state, threads=options.threads, clock=options.clock, host=known
        )
        facts = {"kernel": name, "threads": options.threads, "label": options.state, "model": "costs of the kernel"}
        row = _row(matrix, machine, estimate, facts)
        parts = {key: estimate.metrics.get(key) for key in ("imbalance", "package_energy_J", "dram_energy_J")}
        rows.append({**row, "machine": row["machine"] or known.machine, **parts, "measured_on": known.machine})
        notes += [text for text in estimate.assumptions if text not in notes]
    return rows, notes


def load_kernel(path: Path, threads: int, machine: Machine) -> OnKernel:
    """The kernel of a file of 'slipstick spmv calibrate' that answers for workloads: scipy's, or with threads numba's.

    Raises InputError where the file is none, or no kernel was calibrated with threads.
    """
    host = load_host_kernels(path)
    several = [name.removesuffix(" warm") for name in host.threads if name.endswith(" warm")]
    names = several if threads > 1 else list(host.kernels)
    if not names:
        raise InputError(f"{path}: no kernel was calibrated on several threads (spmv calibrate --threads)")
    best = min(names, key=lambda name: (name != ("numba" if threads > 1 else "scipy"), name))
    return OnKernel(host, best, "warm", threads, machine)


def measured_rows(
    files: Sequence[Path], kernel: str, caches: str, threads: int, machine_name: str
) -> list[dict[str, Any]]:
    """A row a matrix and kernel: seconds measured, and with `machine_name` those predicted, with the band.

    `kernel`: by name, or "all" for those that run here (with threads: that have them).
    `machine_name`: the machine file of 'slipstick spmv calibrate'; empty for no prediction.
    Raises InputError where a file, kernel or machine cannot be used, or nothing was calibrated beside the machine.
    """
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.spmv.kernel_times import Flush, kernels_here, time_products

    state = check_state(caches)
    host = calibrated_beside(machine_name)
    if machine_name and host is None:
        raise InputError(f"--on {machine_name}: no kernels beside it (slipstick spmv calibrate {machine_name})")
    here = machine(machine_name) if machine_name else detect().machine()
    flush = Flush.of(here)
    names = kernels_here() if kernel == "all" else (kernel,)
    rows = []
    for file in files:
        matrix = read_matrix(file)
        for one in time_products(matrix, names, (state,), (threads,), flush):
            row: dict[str, Any] = {"matrix": matrix.name, "nonzeros": matrix.nonzeros, "kernel": one.kernel}
            row |= {"threads": threads, "caches": state, "measured_s": one.seconds, "median_s": one.median}
            if host is not None:
                options: dict[str, Any] = {"state": state, "threads": threads, "host": host}
                estimate = estimate_product(matrix, one.kernel, here, **options) if one.kernel in host.kernels else None
                low, high = (estimate and estimate.interval()) or (None, None)
                inside = low <= one.seconds <= high if low is not None and high is not None else None
                row |= {"predicted_s": estimate and estimate.time, "low_s": low, "high_s": high, "inside": inside}
            rows.append(row)
    if not rows:
        raise InputError(f"kernel {kernel!r} has no threads: nothing was measured")
    return rows
