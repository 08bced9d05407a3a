"""Parts of estimators: operation models, schedules, parameters, and what puts them together."""

from .estimators.base.estimator_base import EstimatorBase as EstimatorBase
from .estimators.base.validity_domain import Domain as Domain
from .estimators.symbolic.formula import Parameter as Parameter
from .estimators.symbolic.formula import parameters as parameters
from .estimators.symbolic.factored_formula import separate as separate
from .estimators.base.operation_model import FormulaModel as FormulaModel
from .estimators.cpu.cpu_roofline import CpuRoofline as CpuRoofline
from .estimators.gpu.kernels.tiled_roofline import TiledRoofline as TiledRoofline
from .estimators.tpu.systolic_array import SystolicArray as SystolicArray
from .estimators.roofline.measured_table import MeasuredTimes as MeasuredTimes
from .estimators.power.energy import PowerModel as PowerModel
from .estimators.base.schedule_model import FormulaSchedule as FormulaSchedule
from .estimators.schedules.critical_path import CriticalPath as CriticalPath
from .estimators.schedules.dispatch import AsynchronousDispatch as AsynchronousDispatch
from .estimators.schedules.infeed import InfeedOverlap as InfeedOverlap
from .estimators.schedules.thread_contention import Contention as Contention
from .estimators.schedules.thread_schedule import ThreadSchedule as ThreadSchedule
from .estimators.simulation.thread_simulation import ThreadSimulation as ThreadSimulation
from .estimators.schedules.thread_schedule import cycles_per_instruction as cycles_per_instruction
from .estimators.fitting.calibration_file import load_calibration as load_calibration
from .estimators.gpu.transfer.devices_file import load_device_calibration as load_device_calibration
from .estimators.base.estimate import RunParameters as RunParameters
