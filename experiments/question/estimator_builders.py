"""What builds each estimator that ships; each imports its parts when called, so that listing names costs little."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from slipstick.estimators.base.operation_model import OperationModel
    from slipstick.estimators.base.protocols import Estimator
    from slipstick.estimators.base.schedule_model import Schedule
    from slipstick.estimators.fitting.calibration import Calibration
    from slipstick.hwmodels.machine import Machine

CALIBRATIONS = Path(__file__).with_name("calibrations")
"""Where the calibrations lie that ship."""
Beyond = Literal["wider", "oversubscribed"]


def _composite(operation: OperationModel, schedule: Schedule, source: str) -> Estimator:
    from slipstick.estimators.composition.composed_estimator import ComposedEstimator

    return ComposedEstimator(operation, schedule, source)


def roofline() -> Estimator:
    """The data sheet's bound, in sequence."""
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.sequential import Sequential

    return _composite(Roofline(), Sequential(), "roofline, one operation after the other")


def tiled_roofline() -> Estimator:
    """Kernels as tiles, in sequence."""
    from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
    from slipstick.estimators.schedules.sequential import Sequential

    return _composite(TiledRoofline(), Sequential(), "tiled roofline, one operation after the other")


def roofline_critical_path() -> Estimator:
    """The data sheet's bound, operations side by side."""
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.critical_path import CriticalPath

    return _composite(Roofline(), CriticalPath(), "roofline, critical path")


def roofline_dispatch() -> Estimator:
    """The data sheet's bound, issued by a host."""
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.dispatch import AsynchronousDispatch

    return _composite(Roofline(), AsynchronousDispatch(), "roofline, asynchronous dispatch")


def contended_dispatch() -> Estimator:
    """Streams that share the memory's bandwidth, simulated."""
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.simulation.contended_dispatch import ContendedDispatch

    return _composite(Roofline(), ContendedDispatch(), "roofline, streams that share the memory's bandwidth, simulated")


def systolic() -> Estimator:
    """Cycles of a systolic array."""
    from slipstick.estimators.schedules.sequential import Sequential
    from slipstick.estimators.tpu.systolic_array import SystolicArray

    return _composite(SystolicArray(), Sequential(), "systolic array with double-buffered operands, in sequence")


def cpu() -> Estimator:
    """A multi-core CPU by cache level."""
    from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
    from slipstick.estimators.schedules.sequential import Sequential

    return _composite(CpuRoofline(), Sequential(), "roofline of a multi-core CPU, one operation after the other")


def cpu_kinds() -> Estimator:
    """The same with shares of its own for each of PyTorch's kernels."""
    from slipstick.common.records import FrozenDict
    from slipstick.estimators.base.operation_model import FormulaModel
    from slipstick.estimators.cpu.cpu_roofline import CpuShares
    from slipstick.estimators.cpu.page_reuse import PageReuse
    from slipstick.estimators.cpu.torch_cpu_kernels import KERNELS, TorchKernels
    from slipstick.estimators.schedules.sequential import Sequential

    kinds: FrozenDict[FormulaModel] = FrozenDict({name: CpuShares() for name in KERNELS})
    source = "roofline of a multi-core CPU by kind of operation, in sequence"
    return PageReuse(TorchKernels(kinds), Sequential(), source)


def layer_conditions() -> Estimator:
    """Streams and stencils."""
    from slipstick.estimators.cpu.layer_conditions import LayerConditions
    from slipstick.estimators.schedules.sequential import Sequential

    return _composite(LayerConditions(), Sequential(), "layer conditions and ECM model, one loop after the other")


def loops() -> Estimator:
    """Streams and stencils on cores that share a saturating memory."""
    from slipstick.estimators.cpu.multicore_loops import MulticoreLoops
    from slipstick.estimators.cpu.saturating_loops import SaturatingLoops
    from slipstick.estimators.schedules.sequential import Sequential

    return MulticoreLoops(
        SaturatingLoops(), Sequential(), "layer conditions, one loop after the other, memory saturates"
    )


def loops_lack(machine: Machine) -> str:
    """What a machine does not say and layer conditions need; streams were seen on CPUs, not on many-core processors."""
    from slipstick.estimators.cpu.layer_conditions import LayerConditions
    from slipstick.hwmodels.machine_kind import machine_kind

    if machine_kind(machine) != "cpu":
        return "caches and cores of a CPU"
    return LayerConditions().lacks(machine)


def fitted_tpu() -> Calibration:
    """The training step of fully connected networks on a TPU, with its fit."""
    from slipstick.estimators.fitting.calibration_file import load_calibration
    from slipstick.estimators.tpu.input_bound_accelerator import InputBoundAccelerator
    from slipstick.estimators.tpu.input_bound_run import InputBoundRun
    from slipstick.estimators.tpu.tpu_step import TpuOperations

    plain = InputBoundAccelerator(
        TpuOperations(), InputBoundRun(), "a network divided over the cores, behind its input pipeline"
    )
    return load_calibration(CALIBRATIONS / "tpu.json", plain)


def tpu() -> Estimator:
    """The same without a band: the scatter of steps is known for fully connected networks only."""
    return fitted_tpu().model


def spmv() -> Estimator:
    """Sparse products by their counts."""
    from slipstick.estimators.sparse.sparse_products import spmv_estimator

    return spmv_estimator()


def spmv_devices() -> Estimator:
    """Sparse products by statistics of their rows."""
    from slipstick.estimators.sparse.sparse_products import spmv_devices_estimator

    return spmv_devices_estimator()


def one_core_lacks(machine: Machine) -> str:
    """What a machine does not say for products on one core: a core, where thousands of threads share the rows."""
    from slipstick.estimators.sparse.reuse_model import is_accelerator

    return "a processor's core" if is_accelerator(machine) else ""


def collectives() -> Estimator:
    """Collectives by themselves."""
    from slipstick.estimators.training.graph_on_devices import collective_times

    return collective_times()


def parallel_training() -> Estimator:
    """A transformer under tensor, pipeline and data parallelism."""
    from slipstick.estimators.training.graph_on_devices import parallel_training as made

    return made()


def data_parallel_dispatch() -> Estimator:
    """Replicas whose gradients are summed beside the backward pass."""
    from slipstick.estimators.training.graph_on_devices import data_parallel_training

    return data_parallel_training()


def torch_program() -> Estimator:
    """PyTorch programs on GPUs."""
    from slipstick.estimators.gpu.programs.torch_program import torch_program as made

    return made()


def measure() -> Estimator:
    """The kernels themselves on this host."""
    from slipstick.experiments.measure.clocks.measured_estimator import Clocked

    return Clocked()


def threads(strategy: str, beyond: Beyond) -> Estimator:
    """Strategy "a" or "b" for threads that share images."""
    from slipstick.estimators.cpu.xeon_phi_study import threaded

    return threaded(strategy, beyond)


def threads_in_study(strategy: str, beyond: Beyond, size: str) -> Estimator:
    """The same with the published deviation of one network of the study."""
    from slipstick.estimators.cpu.xeon_phi_study import calibrated

    return calibrated(size, strategy, beyond)


def threads_beside_study(strategy: str, beyond: Beyond) -> Estimator:
    """The same for other networks on the study's machine."""
    from slipstick.estimators.cpu.xeon_phi_study import other_networks

    return other_networks(strategy, beyond)


def threads_nodes() -> Estimator:
    """Strategy (a) on several nodes."""
    from slipstick.estimators.cpu.xeon_phi_study import several_nodes

    return several_nodes()


def phi_simulated(how: Literal["simulated", "queue"]) -> Estimator:
    """The study's threads as a simulation, contention as measured or as a queue."""
    from slipstick.estimators.cpu.xeon_phi_study import estimator

    return estimator(how)


def best_known() -> Estimator:
    """The default answer has no estimator of its own.

    Raises InputError always.
    """
    from slipstick.common.errors import InputError

    raise InputError("default: no estimator by itself; name none, and the best one that is known answers")


def trained_model() -> Estimator:
    """A training step of a language model."""
    from slipstick.estimators.training.training_estimator import TrainingEstimator

    return TrainingEstimator()


def served_requests() -> Estimator:
    """A language model's server under continuous batching."""
    from slipstick.estimators.serving.request_estimator import RequestEstimator

    return RequestEstimator()
