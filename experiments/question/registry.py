"""Estimators by the names that the command line knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.hwmodels.files.readers import unknown_name

if TYPE_CHECKING:
    from slipstick.estimators.calibration.calibration import Calibration
    from slipstick.estimators.contract.protocols import Estimator
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload

CALIBRATIONS = Path(__file__).parent / "calibrations"


def _roofline() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.roofline import Roofline
    from slipstick.estimators.schedule.sequential import Sequential

    return Composite(Roofline(), Sequential(), "roofline, one operation after the other")


def _tiled() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.gpu.tiled import TiledRoofline
    from slipstick.estimators.schedule.sequential import Sequential

    return Composite(TiledRoofline(), Sequential(), "tiled roofline, one operation after the other")


def _roofline_critical_path() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.roofline import Roofline
    from slipstick.estimators.schedule.critical_path import CriticalPath

    return Composite(Roofline(), CriticalPath(), "roofline, critical path")


def fitted_tpu() -> Calibration:
    """The training step of fully connected networks on a TPU, with its fit."""
    from slipstick.estimators.calibration.calibration_file import load_calibration
    from slipstick.estimators.composites.fed_accelerator import FedAccelerator
    from slipstick.estimators.operation.tpu.tpu_step import TpuOperations
    from slipstick.estimators.schedule.pipelines.fed import Fed

    plain = FedAccelerator(TpuOperations(), Fed(), "a network divided over the cores, behind its input pipeline")
    return load_calibration(CALIBRATIONS / "tpu.json", plain)


def _systolic() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.tpu.systolic import SystolicArray
    from slipstick.estimators.schedule.sequential import Sequential

    return Composite(SystolicArray(), Sequential(), "systolic array with double-buffered operands, in sequence")


def _cpu() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.cpu.cpu_roofline import CpuRoofline
    from slipstick.estimators.schedule.sequential import Sequential

    return Composite(CpuRoofline(), Sequential(), "roofline of a multi-core CPU, one operation after the other")


def _layer_conditions() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.cpu.layer_conditions import LayerConditions
    from slipstick.estimators.schedule.sequential import Sequential

    return Composite(LayerConditions(), Sequential(), "layer conditions and ECM model, one loop after the other")


def _spmv() -> Any:
    from slipstick.estimators.named.sparse_products import spmv_estimator

    return spmv_estimator()


def _spmv_devices() -> Any:
    from slipstick.estimators.named.sparse_products import spmv_devices_estimator

    return spmv_devices_estimator()


def _roofline_dispatch() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.roofline import Roofline
    from slipstick.estimators.schedule.dispatch import AsynchronousDispatch

    return Composite(Roofline(), AsynchronousDispatch(), "roofline, asynchronous dispatch")


def _contended_dispatch() -> Any:
    from slipstick.estimators.composites.composite import Composite
    from slipstick.estimators.operation.roofline import Roofline
    from slipstick.estimators.schedule.dispatch import ContendedDispatch

    return Composite(Roofline(), ContendedDispatch(), "roofline, streams that share the memory's bandwidth, simulated")


def _collectives() -> Any:
    from slipstick.estimators.named.parallel_training import collective_times

    return collective_times()


def _measure() -> Any:
    from slipstick.experiments.measure.clocks.clocked import Clocked

    return Clocked()


def _parallel_training() -> Any:
    from slipstick.estimators.named.parallel_training import parallel_training

    return parallel_training()


def _data_parallel_dispatch() -> Any:
    from slipstick.estimators.named.parallel_training import data_parallel_training

    return data_parallel_training()


def _phi(strategy: str) -> Callable[[], Any]:
    def build() -> Any:
        from slipstick.estimators.named.phi_study import estimator

        return estimator(strategy)

    return build


def _threads(strategy: str) -> Callable[[], Any]:
    def build() -> Any:
        from slipstick.estimators.named.phi_study import several_nodes, threaded

        return several_nodes() if strategy == "nodes" else threaded(strategy, "oversubscribed")

    return build


def _torch_program() -> Any:
    from slipstick.estimators.named.torch_program import torch_program

    return torch_program()


def _estimators() -> dict[str, Callable[[], Any]]:
    return {
        "roofline": _roofline,
        "tiled-roofline": _tiled,
        "roofline-critical-path": _roofline_critical_path,
        "roofline-dispatch": _roofline_dispatch,
        "collectives": _collectives,
        "contended-dispatch": _contended_dispatch,
        "cpu": _cpu,
        "layer-conditions": _layer_conditions,
        "data-parallel-dispatch": _data_parallel_dispatch,
        "parallel-training": _parallel_training,
        "systolic": _systolic,
        "spmv": _spmv,
        "spmv-devices": _spmv_devices,
        "tpu": fitted_tpu,
        "measure": _measure,
        "torch-program": _torch_program,
        "threads-counted": _threads("a"),
        "threads-timed": _threads("b"),
        "threads-nodes": _threads("nodes"),
        "phi-a": _phi("a"),
        "phi-b": _phi("b"),
        "phi-simulated": _phi("simulated"),
        "phi-queue": _phi("queue"),
    }


COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-recv")


def estimator_names() -> list[str]:
    """Names of the built-in estimators."""
    return sorted(_estimators())


def estimator(name: str) -> Estimator:
    """A built-in estimator by name, or your own as MODULE:ATTRIBUTE (which is imported and run).

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    if ":" in name:
        from slipstick.estimators.contract.base import adopted
        from slipstick.experiments.question.own import own_estimator

        return adopted(own_estimator(name))
    known = _estimators()
    if name not in known:
        raise unknown_name("estimator", name, sorted(known))
    found: Estimator = known[name]()
    return found


def estimator_for(name: str, workload: Workload, machine: Machine) -> Estimator:
    """The named estimator with the calibration that holds for this workload there; the plain one where none does.

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    if name in ("phi-a", "phi-b", "threads-counted", "threads-timed"):
        from slipstick.estimators.named import phi_study

        return phi_study.for_machine(name, workload, machine)
    chosen = estimator(name)
    # the scatter of the TPU's steps is known for fully connected networks only
    return chosen.model if name == "tpu" and workload.name != "data-parallel-mlp" else chosen


def subject_estimator(workload_name: str) -> str:
    """The estimator that was made for a workload of this name; "" where none was."""
    if workload_name == "data-parallel-mlp":
        return "tpu"
    if workload_name in COLLECTIVES:
        return "collectives"
    if workload_name.startswith(("spmv", "pagerank")):
        return "spmv"
    return "phi-a" if workload_name.startswith("phi-cnn") else ""


def default_estimator(workload_name: str) -> str:
    """The estimator that is fitted to measurements of a workload where none is named."""
    if workload_name.startswith("megatron-"):
        return "parallel-training"
    if workload_name.endswith("-data-parallel"):
        return "data-parallel-dispatch"
    return subject_estimator(workload_name) or "roofline"
