"""What builds each estimator that ships; each imports its parts when called, so that listing names costs little."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from slipstick.estimators.base.protocols import Estimator
    from slipstick.estimators.fitting.calibration import Calibration
    from slipstick.hwmodels.machine import Machine

CALIBRATIONS = Path(__file__).with_name("calibrations")
"""Where the calibrations lie that ship."""
Beyond = Literal["wider", "oversubscribed"]
SEQUENTIAL = "slipstick.estimators.schedules.sequential:Sequential"


def made(place: str, *arguments: object) -> Any:
    """What a class or function gives that stands at a place, as ``slipstick.estimators.roofline.roofline:Roofline``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)(*arguments)


def composed(operation: str, source: str, schedule: str = SEQUENTIAL) -> Estimator:
    """An operation model under a schedule, both by their places (`made`)."""
    from slipstick.estimators.composition.composed_estimator import ComposedEstimator

    return ComposedEstimator(made(operation), made(schedule), source)


def cpu_kinds() -> Estimator:
    """A multi-core CPU by cache level, with shares of its own for each of PyTorch's kernels."""
    from slipstick.common.records import FrozenDict
    from slipstick.estimators.base.operation_model import FormulaModel
    from slipstick.estimators.cpu.cpu_roofline import CpuShares
    from slipstick.estimators.cpu.page_reuse import PageReuse
    from slipstick.estimators.cpu.torch_cpu_kernels import KERNELS, TorchKernels
    from slipstick.estimators.schedules.sequential import Sequential

    kinds: FrozenDict[FormulaModel] = FrozenDict({name: CpuShares() for name in KERNELS})
    source = "roofline of a multi-core CPU by kind of operation, in sequence"
    return PageReuse(TorchKernels(kinds), Sequential(), source)


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


def one_core_lacks(machine: Machine) -> str:
    """What a machine does not say for products on one core: a core, where thousands of threads share the rows."""
    from slipstick.estimators.sparse.reuse_model import is_accelerator

    return "a processor's core" if is_accelerator(machine) else ""


def best_known() -> Estimator:
    """The default answer has no estimator of its own.

    Raises InputError always.
    """
    from slipstick.common.errors import InputError

    raise InputError("default: no estimator by itself; name none, and the best one that is known answers")
