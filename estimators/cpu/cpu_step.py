"""A workload on a multi-core CPU: what its library reaches in each kind of operation.

A machine whose runtime is no MXNet answers as PyTorch and oneDNN do: the law of `CpuLibrary`, fitted to 975 times of
image networks on two processors (`slipstick validate --refit cpu-library`; a family of networks left out 10 %, a
processor left out 20 % at the median).

Under MXNet the numbers are fitted to the DLBricks authors' times of single layers on an EC2 c5.2xlarge (Li et al.,
ICPE 2020), with ResNet-50, -101, -152 and every VGG-16 left out: those are in the list of public figures (`slipstick
validate defaults`). Median error of a layer 10 % (convolution), 4 % (norm), 5 % (elementwise); `slipstick validate
cpu-layers` is the same with models held out in five folds, and refits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition, widening
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.cpu_library_law import cpu_library
from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.cpu.multicore import Multicore
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.interconnect.collectives import OTHER, ComputeAndCollectives
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.workload import Workload

CONVOLUTION = CpuRoofline(compute_efficiency=0.668, memory_efficiency=0.628, overhead=4.09e-5, lowering=2.64)
NORM = CpuRoofline(compute_efficiency=0.0313, memory_efficiency=0.673, overhead=2.53e-5)
POINTWISE = CpuRoofline(compute_efficiency=0.00402, memory_efficiency=0.682, overhead=2.01e-5)
PRODUCT = replace(CONVOLUTION, lowering=0.0)
KINDS: dict[str, FormulaModel] = {
    "convolution": CONVOLUTION,
    "gemm": PRODUCT,
    "attention": PRODUCT,
    "recurrent": PRODUCT,
    "norm": NORM,
    "softmax": NORM,
    OTHER: POINTWISE,
}
FITTED_TO = "intel-skylake-sp"
SCATTER = 0.25
"""Of a whole network on the processor that was fitted to: that of its convolutions (0.26), which are most of it."""
ELSEWHERE = 0.4
"""On another processor or with another library: a judgement, no public times of whole networks were at hand."""


UNTIMED_TYPES = 0.3
"""Added in other data types than float32, and for networks without convolutions: judgement, nobody timed those."""


def cpu_step_on_threads(
    machine: Machine, workload: Workload | None = None
) -> tuple[Calibration, tuple[Condition, ...]]:
    """The same on as many cores as the run has threads, all of them without it; evaluated point by point."""
    step, conditions = cpu_step(machine, workload)
    whole = step.estimator
    return replace(step, estimator=Multicore(whole.operation, whole.schedule, whole.source)), conditions


def cpu_step(
    machine: Machine,
    workload: Workload | None = None,
    fit: LawFit | None = None,
    layers: Mapping[str, FormulaModel] | None = None,
) -> tuple[Calibration, tuple[Condition, ...]]:
    """The estimator of a workload on a CPU, one operation after the other on all cores; what makes its band wider.

    `fit`: of oneDNN, another than the one that ships; `layers`: by kind, of MXNet, in place of those that ship.
    """
    if "mxnet" in machine.runtime.library.lower():
        kinds, spread = {**KINDS, **(layers or {})}, SCATTER if machine.family == FITTED_TO else ELSEWHERE
        source = "layers of image networks on an EC2 c5.2xlarge (MXNet, MKL)"
        kinds_used = {op.kind for op in workload or ()}
        multiplies = any(family_of(kind).product for kind in kinds_used)
        other = ["without convolutions"] if multiplies and "convolution" not in kinds_used else []
    else:
        library, half = cpu_library(machine, fit)
        kinds = {"gather": POINTWISE, OTHER: library}
        spread, source = (
            half / quantile(DEFAULT_LEVEL, None),
            "image networks on two desktop processors (PyTorch, oneDNN)",
        )
        other = _other_uses(machine, workload)
    estimator = ComposedEstimator(
        ComputeAndCollectives(FrozenDict(kinds)), Sequential(), "operations of a multi-core CPU, by kind"
    )
    types = {op.dtype for op in workload or () if family_of(op.kind).product}
    other += [f"in {dtype}" for dtype in sorted(types - {"float32"})]
    wider = math.hypot(spread, UNTIMED_TYPES) if other else spread
    words = f"fitted to image networks in float32, this one is {' and '.join(other)}"
    use = [Condition("use", words, "unmeasured")] if other else []
    made = Calibration(estimator, (), residual_std=wider, source=source)
    return made, widening(use, lambda without: spread if without else wider)


def _other_uses(machine: Machine, workload: Workload | None) -> list[str]:
    """How a workload is run otherwise than the timed networks were: compiled, on one image, and not to train."""
    operations = tuple(workload.bind_known(workload.defaults)) if workload else ()
    uses = {
        "not compiled": machine.runtime.mode == "eager",
        "training": any(op.attributes.get("phase", "forward") != "forward" for op in operations),
        "on several images": any(op.kind == "convolution" and op.dims["batch"] != 1 for op in operations),
    }
    return [use for use, so in uses.items() if so]
