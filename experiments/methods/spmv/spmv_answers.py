"""What `slipstick spmv predict` does: a matrix file and a machine in, a time with its band out.

Beside it what `slipstick measure spmv --kernel` adds: whole products measured here next to what is predicted for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstick.common.answer import Provenance
from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.readers import read_csv_rows, read_number, unknown_name, whole_of
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.sparse.kernel_costs import HostKernels, beside, load_host_kernels, shipped_blocks
from slipstick.estimators.sparse.reuse_model import STATES, SUFFIX, State, check_state, is_accelerator
from slipstick.estimators.sparse.sparse_products import (
    OnDevice,
    OnKernel,
    answer,
    estimate_product,
    kernel_estimator,
    predictor,
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
    calibration: Path | None,
    power: str | None,
    anchors: Path | None,
    options: KernelOptions,
) -> tuple[list[dict[str, Any]], list[str], Provenance]:
    """A row a kernel or format, what the answers take for granted, and on what they rest.

    On a machine whose kernels were calibrated (a file beside its own) those alone answer; elsewhere the costs of
    labelled blocks answer first, for our kernel, and the calibrated kernels that ship beside it.
    Raises InputError where a file, a name or a unit cannot be used, or options exclude each other.
    """
    host = calibrated_beside(machine_name)
    target = machine(machine_name) if machine_name else None
    models = _models(target, host, label, calibration, options, alone=(power, anchors) != (None, None))
    matrix, known = read_matrix(path), read_anchors(anchors, options) if anchors else []
    watts = None if power is None else number_of("--power", power, "W")
    estimates = [
        answer(model, matrix, watts, [one.product for one in known], [one.ran(model) for one in known])
        for model in models
    ]
    rows = [_row(model, matrix, one) for model, one in zip(models, estimates, strict=True)]
    fitted = calibration or anchors or (host is not None and models[0].measured_here)
    notes = dict.fromkeys(note for one in estimates for note in one.assumptions)
    return rows, list(notes), "calibrated" if fitted else "estimated"


def _models(
    target: Machine | None,
    host: HostKernels | None,
    label: str,
    calibration: Path | None,
    options: KernelOptions,
    *,
    alone: bool,
) -> Sequence[OnKernel | OnDevice]:
    """What answers; `alone`: one kernel or format, where none is named."""
    file: HostKernels | TrainedDevices | None = None
    if calibration is not None:
        file = load_host_kernels(calibration) if calibration.name.endswith(SUFFIX) else load_devices(calibration)
    elif label != "streaming":
        file = shipped_blocks(label)
    if isinstance(file, HostKernels) and file.costs[0].state in STATES:
        host, file = file, None
        alone = False
    if file is not None:
        if options.given:
            raise InputError("--kernel, --caches, --threads and --clock: not with --calibration or --cache-state")
        return [predictor(target, file)]
    if options.given or (host is not None and not alone):
        return kernels_of(host or load_host_kernels(), target, options)
    if alone:
        return [predictor(target)]
    if target is not None and is_accelerator(target):
        return [OnDevice(shipped_devices(stored), target) for stored in FORMATS]
    return [predictor(target), *kernels_of(load_host_kernels(), target, options)]


def _row(model: OnKernel | OnDevice, matrix: SparseMatrix, estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval() or (None, None)
    where = None if model.machine is None else model.machine.name
    facts: dict[str, Any] = {"kernel": None, "threads": None, "label": None, "model": "costs of rows"}
    spread = host = None
    if isinstance(model, OnDevice):
        facts["kernel"] = model.trained.model.stored
    else:
        facts = {"kernel": model.kernel, "threads": model.threads, "label": model.state, "model": "costs of reuse"}
        if model.state in STATES:
            where, host, facts["model"] = where or model.host.machine, model.host.machine, "costs of the kernel"
        else:
            spread = model.host.costs[0].spread
    return {
        "matrix": matrix.name,
        "machine": where,
        "rows": matrix.shape[0],
        "columns": matrix.shape[1],
        "nonzeros": matrix.nonzeros,
        **facts,
        "held_out_spread": spread,
        "time_s": estimate.time,
        "low_s": low,
        "high_s": high,
        "ns_per_nonzero": estimate.time / matrix.nonzeros * 1e9,
        "memory_share": estimate.metrics.get("memory_share"),
        "energy_J": estimate.energy,
        **{name: estimate.metrics.get(name) for name in ("imbalance", "package_energy_J", "dram_energy_J")},
        "measured_on": host,
    }


def with_products(question: Question, workload: str, calibration: Path, threads: Sequence[str]) -> Question:
    """The question with its products answered by costs of 'slipstick spmv train', or a kernel of 'spmv calibrate'.

    `workload`: as it was given; kernels need the positions themselves: a matrix file, or ``pagerank:FILE``.
    `threads`: ``run.threads=N`` as it was given, the last one counts; one thread if empty.
    Raises InputError where the workload is no file, or a file or number cannot be used.
    """
    host = load_host_kernels(calibration)
    if host.costs[0].state not in STATES:
        if threads:
            raise InputError(f"--threads: not with {calibration}, the costs of one core")
        between = predictor(question.machine, host).spreads[0]
        return replace(
            question, estimator=spmv_estimator(host.costs[0], between), why=f"products by {calibration.name}"
        )
    path = workload.removeprefix("pagerank:")
    if not path.removesuffix(".gz").endswith(MATRIX_FILES):
        raise InputError(f"--calibration {calibration}: kernels need a matrix file or pagerank:FILE")
    matrix = read_matrix(path)
    if path != workload:
        matrix = pagerank_problem(matrix.renamed(Path(path).name.split(".")[0])).matrix
    count = number_of("run.threads", threads[-1].partition("=")[2]) if threads else 1.0
    if count != round(count) or count < 1:
        raise InputError(f"run.threads = {count:g}: want a whole number of at least 1")
    kernel = _kernel_of(host, calibration, round(count), question.machine)
    why = f"products by kernel {kernel.kernel} on {kernel.threads} thread(s), {calibration.name}"
    return replace(question, estimator=kernel_estimator(kernel, (matrix,)), why=why)


@dataclass(frozen=True)
class KnownProduct:
    """A product and its seconds, and how it ran where that was said; its clock is that of the machine as it stands.

    `where`: its file and line.
    """

    product: tuple[SparseMatrix, float]
    state: State | None = None
    threads: int | None = None
    clock: float | None = None
    where: str = ""

    def ran(self, model: OnKernel | OnDevice) -> OnKernel | OnDevice:
        """What answers for it, beside what answers the question.

        Raises InputError where what answers has no such threads, caches or clock.
        """
        with errors_at(self.where):
            if isinstance(model, OnKernel):
                state, threads = self.state or model.state, self.threads or model.threads
                return replace(model, state=state, threads=threads, set_clock=self.clock)
            if (self.state, self.threads, self.clock) != (None, None, None):
                raise InputError(
                    f"threads, caches and clock are of a kernel on a processor, not of {model.machine.name}"
                )
        return model


MIXED = frozenset({"kernel", "format"})
"""Columns of tables of several kernels."""


def read_anchors(path: Path, options: KernelOptions) -> list[KnownProduct]:
    """Products measured on this machine: a CSV with ``matrix`` (a file, beside the CSV) and ``time_s``.

    Columns ``threads``, ``caches`` and ``clock`` (Hz, or with its unit) say how each ran. Without them it was one
    thread, warm caches and the machine's clock.
    Raises InputError, which names file, line and column of what cannot be used; where the rows are of several kernels;
    where `options` want threads or caches that are not usual and the file does not say what its products had.
    """
    anchors = []
    problems = Problems(path)
    for line, row in read_csv_rows(path, ("matrix", "time_s"), limit_rows=MOST_ANCHORS):
        where = f"{path}: line {line}"
        with problems, errors_at(where):
            if mixed := MIXED & row.keys():
                raise InputError(f"{path}: column {min(mixed)!r}: want the rows of one kernel")
            for name, given in (("threads", options.threads > 1), ("caches", options.state != "warm")):
                if given and not row.get(name):
                    raise InputError(f"how did it run? With --{name} want a column {name} of what was measured")
            clock = number_of("clock", row["clock"], "Hz") if row.get("clock") else None
            state = check_state(row["caches"]) if row.get("caches") else None
            threads = whole_of(row["threads"], "threads", 1) if row.get("threads") else None
            product = read_matrix(path.parent / row["matrix"]), read_number(row["time_s"], path, line, "time_s", 1e-12)
            anchors.append(KnownProduct(product, state, threads, clock, where))
    problems.refuse()
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


def kernels_of(host: HostKernels, machine: Machine | None, options: KernelOptions) -> list[OnKernel]:
    """The kernels that are wanted.

    Raises InputError where the kernel is unknown or has no threads, or the machine is an accelerator.
    """
    if machine is not None and is_accelerator(machine):
        raise InputError(
            f"machine {machine.name!r} is an accelerator: --kernel, --caches and --threads are a processor's"
        )
    if options.kernel and options.kernel not in host.kernels:
        raise unknown_name("calibrated kernel", options.kernel, host.kernels)
    names: Sequence[str] = [options.kernel] if options.kernel else host.kernels
    if options.threads > 1 and not options.kernel:
        names = [name for name in names if f"{name} {options.state}" in host.threads]
        if not names:
            raise InputError(f"--threads {options.threads}: no kernel of {host.machine!r} was calibrated with threads")
    return [OnKernel(host, name, options.state, options.threads, machine, options.clock) for name in names]


def _kernel_of(host: HostKernels, path: Path, threads: int, machine: Machine) -> OnKernel:
    """The kernel that answers for workloads: scipy's, or with threads numba's."""
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
