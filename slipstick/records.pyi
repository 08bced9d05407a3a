"""Types of answers and of their parts, for annotations."""

from .estimators.base.estimate import Spread as Spread
from .estimators.base.estimate import OperationTime as OperationTime
from .experiments.question.budget import Budget as Budget
from .estimators.composition.compiled_estimator import Compiled as Compiled
from .estimators.base.protocols import CompiledEstimator as CompiledEstimator
from .estimators.base.protocols import Uncertainty as Uncertainty
from .estimators.gpu.transfer.device_calibration import DeviceCalibration as DeviceCalibration
from .experiments.studies.store import Store as Store
from .experiments.scoring.score_rows import ReproductionRow as ReproductionRow
from .estimators.engine_steps.step_time_predictor import StepTimePredictor as StepTimePredictor
from .estimators.engine_steps.step_time_predictor import StepSeconds as StepSeconds
from .estimators.sampling.iteration_choice import RepresentativeSet as RepresentativeSet
from .estimators.sampling.warm_up import WarmUp as WarmUp
from .estimators.sampling.phase_report import PhaseReport as PhaseReport
from .experiments.replay.replay import LoadedTrace as LoadedTrace
from .experiments.replay.trace_whatif import TraceAnswer as TraceAnswer
from .estimators.scaling.surfaces import SurfacePrediction as SurfacePrediction
from .estimators.scaling.speedup import ScalingAdvice as ScalingAdvice
from .estimators.scaling.speedup import Gains as Gains
from .estimators.sensitivity.elasticities import Sensitivity as Sensitivity
