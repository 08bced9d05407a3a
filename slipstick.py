"""Slipstick, a slide rule for machines: the face for users and notebooks.

>>> import slipstick as ss
>>> phi = ss.machine("xeon-phi-7120p")
>>> phi.using(clock="852 MHz").clock
852000000.0
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_HOMES = {
    "Calibration": "estimators.calibration",
    "Composite": "estimators.composite",
    "Contention": "estimators.schedule.threads",
    "Cost": "workloads.cost",
    "CriticalPath": "estimators.schedule.critical_path",
    "Estimate": "estimators.estimate",
    "Estimator": "estimators.estimate",
    "Formula": "estimators.formula",
    "Input": "workloads.importers.torch_recorder",
    "InputError": "hwmodels.files",
    "Iterations": "workloads.iterations",
    "Machine": "hwmodels.machine",
    "MeasuredTimes": "estimators.operation.measured",
    "Measurement": "estimators.estimate",
    "Op": "workloads.workload",
    "Prediction": "estimators.extrapolation",
    "Roofline": "estimators.operation.roofline",
    "Run": "estimators.estimate",
    "Sequential": "estimators.schedule.sequential",
    "Series": "estimators.extrapolation",
    "SparseMatrix": "workloads.kernels.sparse",
    "Table": "hwmodels.records",
    "ThreadSchedule": "estimators.schedule.threads",
    "ThreadSimulation": "estimators.schedule.simulate",
    "Workload": "workloads.workload",
    "calibrate": "estimators.calibration",
    "estimate_spmv": "estimators.operation.spmv",
    "estimator": "experiments.registry",
    "extrapolate": "estimators.extrapolation",
    "extrapolate_many": "estimators.extrapolation",
    "import_file": "workloads.importers.detect",
    "import_onnx": "workloads.importers.onnx",
    "import_torch": "workloads.importers.torch_import",
    "load_machine": "hwmodels.machine",
    "load_workload": "workloads.workload_file",
    "machine": "hwmodels.catalog",
    "machine_names": "hwmodels.catalog",
    "pagerank": "workloads.kernels.pagerank",
    "pagerank_problem": "workloads.kernels.pagerank",
    "read_log": "experiments.logs",
    "read_matrix": "workloads.kernels.sparse_files",
    "select": "estimators.run.representative",
    "spmv": "workloads.kernels.spmv",
    "whatif": "experiments.whatif",
    "workload": "workloads.catalog",
    "workload_names": "workloads.catalog",
}

__all__ = sorted([*_HOMES, "main"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("experiments.versions").installed_version("slipstick")
    if name not in _HOMES:
        raise AttributeError(f"module 'slipstick' has no attribute {name!r}; it has: {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def shadowed() -> str | None:
    """One line that names the file, where another distribution's package stands before one of ours; else None."""
    home = Path(__file__).resolve().parent
    for package in ("hwmodels", "workloads", "estimators", "experiments"):
        spec = find_spec(package)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found is None or found.parent.parent != home:
            where = found or (list(spec.submodule_search_locations or [])[:1] if spec else "nowhere")
            return (
                f"package {package!r} is taken from {where}, not from {home / package}: another distribution or folder "
                f"shadows it; install slipstick into an environment of its own, or start elsewhere"
            )
    return None


def main() -> None:
    """The command line; exit codes: 0 done, 1 a check failed, 2 bad input."""
    problem = shadowed()
    if problem:
        print(f"slipstick: {problem}", file=sys.stderr)
        raise SystemExit(2)
    from experiments.cli import run

    raise SystemExit(run())


if __name__ == "__main__":
    main()
