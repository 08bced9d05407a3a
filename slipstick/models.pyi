"""Parts of estimators: operation models, schedules, parameters, and what puts them together."""

from .estimators.contract.base import EstimatorBase as EstimatorBase
from .estimators.contract.domain import Domain as Domain
from .estimators.core.parameters import Parameter as Parameter
from .estimators.core.parameters import parameters as parameters
from .estimators.core.separated import separate as separate
from .estimators.core.operation_model import FormulaModel as FormulaModel
from .estimators.operation.cpu.cpu_roofline import CpuRoofline as CpuRoofline
from .estimators.operation.gpu.tiled import TiledRoofline as TiledRoofline
from .estimators.operation.tpu.systolic import SystolicArray as SystolicArray
from .estimators.operation.measured import MeasuredTimes as MeasuredTimes
from .estimators.operation.power.energy import PowerModel as PowerModel
from .estimators.core.schedule_model import FormulaSchedule as FormulaSchedule
from .estimators.schedule.critical_path import CriticalPath as CriticalPath
from .estimators.schedule.dispatch import AsynchronousDispatch as AsynchronousDispatch
from .estimators.schedule.infeed import InfeedOverlap as InfeedOverlap
from .estimators.schedule.threads.contention import Contention as Contention
from .estimators.schedule.threads.thread_schedule import ThreadSchedule as ThreadSchedule
from .estimators.schedule.threads.thread_simulation import ThreadSimulation as ThreadSimulation
from .estimators.schedule.threads.thread_schedule import cycles_per_instruction as cycles_per_instruction
from .estimators.across_devices.files.devices_file import load_device_calibration as load_device_calibration
