"""Slipstick, a slide rule for machines: the face for users and notebooks.

>>> import slipstick as ss
>>> phi = ss.machine("xeon-phi-7120p")
>>> phi.using(clock="852 MHz").clock
852000000.0
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Calibration": "slipstick.estimators.calibration.calibration",
    "Composite": "slipstick.estimators.composites.composite",
    "Contention": "slipstick.estimators.schedule.threads.thread_schedule",
    "Cost": "slipstick.workloads.graph.cost",
    "CriticalPath": "slipstick.estimators.schedule.critical_path",
    "Estimate": "slipstick.estimators.core.estimate",
    "Estimator": "slipstick.estimators.core.estimate",
    "Formula": "slipstick.estimators.core.formula",
    "Input": "slipstick.workloads.importers.torch.torch_recorder",
    "InputError": "slipstick.hwmodels.files.readers",
    "Iterations": "slipstick.workloads.runs.iterations",
    "Machine": "slipstick.hwmodels.machine",
    "MeasuredTimes": "slipstick.estimators.operation.measured",
    "Measurement": "slipstick.estimators.core.estimate",
    "Op": "slipstick.workloads.graph.workload",
    "Prediction": "slipstick.estimators.extrapolation",
    "Roofline": "slipstick.estimators.operation.roofline",
    "Run": "slipstick.estimators.core.estimate",
    "Sequential": "slipstick.estimators.schedule.sequential",
    "Series": "slipstick.estimators.extrapolation",
    "SparseMatrix": "slipstick.workloads.kernels.sparse",
    "Table": "slipstick.hwmodels.files.records",
    "ThreadSchedule": "slipstick.estimators.schedule.threads.thread_schedule",
    "ThreadSimulation": "slipstick.estimators.schedule.threads.thread_simulation",
    "Workload": "slipstick.workloads.graph.workload",
    "calibrate": "slipstick.estimators.calibration.calibration",
    "estimate_spmv": "slipstick.estimators.named.sparse_products",
    "estimator": "slipstick.experiments.question.registry",
    "extrapolate": "slipstick.estimators.extrapolation",
    "extrapolate_many": "slipstick.estimators.extrapolation",
    "import_file": "slipstick.workloads.importers.detect",
    "import_onnx": "slipstick.workloads.importers.onnx.onnx_import",
    "import_torch": "slipstick.workloads.importers.torch.torch_import",
    "load_machine": "slipstick.hwmodels.machine",
    "load_workload": "slipstick.workloads.graph.workload_file",
    "machine": "slipstick.hwmodels.catalog",
    "machine_names": "slipstick.hwmodels.catalog",
    "pagerank": "slipstick.workloads.kernels.pagerank",
    "pagerank_problem": "slipstick.workloads.kernels.pagerank",
    "read_log": "slipstick.experiments.subjects.iterations.logs",
    "read_matrix": "slipstick.workloads.kernels.sparse_files",
    "select": "slipstick.estimators.run.representative",
    "simulate": "slipstick.experiments.subjects.jobs.simulated",
    "spmv": "slipstick.workloads.kernels.spmv",
    "whatif": "slipstick.experiments.studies.whatif",
    "workload": "slipstick.workloads.catalog",
    "workload_names": "slipstick.workloads.catalog",
}

__all__ = sorted([*_HOMES, "main"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("slipstick.experiments.studies.versions").installed_version("slipstick")
    if name not in _HOMES:
        raise AttributeError(f"module 'slipstick' has no attribute {name!r}; it has: {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def main() -> None:
    """The command line; exit codes: 0 done, 1 a check failed, 2 bad input."""
    from slipstick.experiments.commands.cli import run

    raise SystemExit(run())
