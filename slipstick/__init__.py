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
    "Calibration": "slipstick.estimators.calibration",
    "Composite": "slipstick.estimators.composite",
    "Contention": "slipstick.estimators.schedule.threads",
    "Cost": "slipstick.workloads.cost",
    "CriticalPath": "slipstick.estimators.schedule.critical_path",
    "Estimate": "slipstick.estimators.estimate",
    "Estimator": "slipstick.estimators.estimate",
    "Formula": "slipstick.estimators.formula",
    "Input": "slipstick.workloads.importers.torch_recorder",
    "InputError": "slipstick.hwmodels.files",
    "Iterations": "slipstick.workloads.iterations",
    "Machine": "slipstick.hwmodels.machine",
    "MeasuredTimes": "slipstick.estimators.operation.measured",
    "Measurement": "slipstick.estimators.estimate",
    "Op": "slipstick.workloads.workload",
    "Prediction": "slipstick.estimators.extrapolation",
    "Roofline": "slipstick.estimators.operation.roofline",
    "Run": "slipstick.estimators.estimate",
    "Sequential": "slipstick.estimators.schedule.sequential",
    "Series": "slipstick.estimators.extrapolation",
    "SparseMatrix": "slipstick.workloads.kernels.sparse",
    "Table": "slipstick.hwmodels.records",
    "ThreadSchedule": "slipstick.estimators.schedule.threads",
    "ThreadSimulation": "slipstick.estimators.schedule.simulate",
    "Workload": "slipstick.workloads.workload",
    "calibrate": "slipstick.estimators.calibration",
    "estimate_spmv": "slipstick.estimators.operation.spmv",
    "estimator": "slipstick.experiments.registry",
    "extrapolate": "slipstick.estimators.extrapolation",
    "extrapolate_many": "slipstick.estimators.extrapolation",
    "import_file": "slipstick.workloads.importers.detect",
    "import_onnx": "slipstick.workloads.importers.onnx",
    "import_torch": "slipstick.workloads.importers.torch_import",
    "load_machine": "slipstick.hwmodels.machine",
    "load_workload": "slipstick.workloads.workload_file",
    "machine": "slipstick.hwmodels.catalog",
    "machine_names": "slipstick.hwmodels.catalog",
    "pagerank": "slipstick.workloads.kernels.pagerank",
    "pagerank_problem": "slipstick.workloads.kernels.pagerank",
    "read_log": "slipstick.experiments.logs",
    "read_matrix": "slipstick.workloads.kernels.sparse_files",
    "select": "slipstick.estimators.run.representative",
    "spmv": "slipstick.workloads.kernels.spmv",
    "whatif": "slipstick.experiments.whatif",
    "workload": "slipstick.workloads.catalog",
    "workload_names": "slipstick.workloads.catalog",
}

__all__ = sorted([*_HOMES, "main"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("slipstick.experiments.versions").installed_version("slipstick")
    if name not in _HOMES:
        raise AttributeError(f"module 'slipstick' has no attribute {name!r}; it has: {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def main() -> None:
    """The command line; exit codes: 0 done, 1 a check failed, 2 bad input."""
    from slipstick.experiments.cli import run

    raise SystemExit(run())
