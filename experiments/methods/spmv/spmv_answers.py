"""What `slipstick spmv predict` does: a matrix file and a machine in, a time with its band out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstick.common.answer import Provenance
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.sparse.kernel_products import kernel_estimator
from slipstick.estimators.sparse.network_products import (
    NetProducts,
    better_of,
    has_net,
    load_block_model,
    shipped_net,
)
from slipstick.estimators.sparse.reuse_model import LabelKind, label_kind
from slipstick.estimators.sparse.sparse_products import estimate_spmv, learned_estimator
from slipstick.estimators.sparse.spmv_amounts import FORMATS
from slipstick.estimators.sparse.spmv_costs import is_accelerator
from slipstick.estimators.sparse.spmv_devices import TrainedDevices, load_devices, shipped_devices
from slipstick.estimators.sparse.spmv_model import SpmvModel, trained_model
from slipstick.experiments.methods.spmv.kernel_answers import (
    KernelOptions,
    calibrated_beside,
    kernel_rows,
    load_kernel,
)
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
    """The row of one product learned from blocks or from devices, and what it takes for granted.

    Raises InputError where a file, a name or a unit cannot be used, or options exclude each other.
    """
    asked_label = label_kind(label)
    host = machine(machine_name) if machine_name else None
    by_device = host is not None and is_accelerator(host)
    best, why = better_of(asked_label) if model is None and not by_device else (None, "")
    if by_device and model is None and asked_label != "streaming":
        best = trained_model(asked_label)  # refused: labels of one core
    chosen = _model(model) if model else best
    matrix = read_matrix(path)
    known = read_anchors(anchors) if anchors else []
    estimate = estimate_spmv(matrix, host, chosen, None if power is None else number_of("--power", power, "W"), known)
    if isinstance(chosen, TrainedDevices) or by_device:
        stored = chosen.model.stored if isinstance(chosen, TrainedDevices) else "csr"
        return _row(matrix, host, estimate, {"kernel": stored}), estimate.assumptions
    facts: dict[str, Any] = {"kernel": "blocks", "threads": 1, "label": asked_label}
    if chosen is not None:
        facts |= {"label": chosen.label, "model": chosen.method, "held_out_spread": chosen.matrix_spread}
    row = _row(matrix, host, estimate, facts)
    if model is None:
        row |= _by_network(matrix, asked_label, host, known)
    return row, (*((why,) if why else ()), *estimate.assumptions)


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


def _by_network(
    matrix: SparseMatrix, label: LabelKind, host: Machine | None, anchors: list[tuple[SparseMatrix, float]]
) -> dict[str, float | None]:
    """The network that ships beside the answer; nothing where none ships for the label."""
    if not has_net(label):
        return {}
    network = shipped_net(label)
    estimate = estimate_spmv(matrix, host, network, None, anchors)
    low, high = estimate.interval() or (None, None)
    times = {"network_time_s": estimate.time, "network_low_s": low, "network_high_s": high}
    return {**times, "network_held_out_spread": network.matrix_spread}


def with_products(question: Question, workload: str, model: Path) -> Question:
    """The question with its products answered by a model of 'slipstick spmv train'.

    `workload`: as it was given: a matrix file, or ``pagerank:FILE``; a model of blocks needs the positions themselves.
    Raises InputError where the workload is no file, or a file cannot be used.
    """
    matrix = _matrix_of(workload, f"--calibration {model}: products learned from blocks: want")
    learned = learned_estimator(load_block_model(model), [matrix], question.machine)
    return replace(question, estimator=learned, why=f"products by {model.name}")


def with_kernel(question: Question, workload: str, calibration: str, threads: Sequence[str]) -> Question:
    """The question with its products answered by a kernel of 'slipstick spmv calibrate'.

    `threads`: ``run.threads=N`` as it was given, the last one counts; one thread if empty.
    Raises InputError where the workload is no file, or a file or number cannot be used.
    """
    matrix = _matrix_of(workload, f"--calibration {calibration}: kernels need")
    count = number_of("run.threads", threads[-1].partition("=")[2]) if threads else 1.0
    if count != round(count) or count < 1:
        raise InputError(f"run.threads = {count:g}: want a whole number of at least 1")
    kernel = load_kernel(Path(calibration), round(count), question.machine)
    why = f"products by kernel {kernel.kernel} on {kernel.threads} thread(s), {Path(calibration).name}"
    return replace(question, estimator=kernel_estimator(kernel, (matrix,)), why=why)


def _matrix_of(workload: str, need: str) -> SparseMatrix:
    """The matrix of a file, or that of PageRank on it."""
    path = workload.removeprefix("pagerank:")
    if not path.removesuffix(".gz").endswith(MATRIX_FILES):
        raise InputError(f"{need} a matrix file or pagerank:FILE")
    matrix = read_matrix(path)
    return matrix if path == workload else pagerank_problem(matrix.renamed(Path(path).name.split(".")[0])).matrix


def _model(path: Path) -> SpmvModel | NetProducts | TrainedDevices:
    return load_devices(path) if path.suffix == ".json" else load_block_model(path)


def read_anchors(path: Path) -> list[tuple[SparseMatrix, float]]:
    """Products measured on this machine: a CSV with ``matrix`` (a file, beside the CSV) and ``time_s``.

    Raises InputError, which names file, line and column of what cannot be used.
    """
    anchors = []
    for line, row in read_csv_rows(path, ("matrix", "time_s"), limit_rows=MOST_ANCHORS):
        seconds = read_number(row["time_s"], path, line, "time_s", 1e-12)
        anchors.append((read_matrix(path.parent / row["matrix"]), seconds))
    if not anchors:
        raise InputError(f"{path}: no product: want lines of matrix,time_s")
    return anchors
