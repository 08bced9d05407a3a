"""Types of answers and of their parts, for annotations."""

from .estimators.core.estimate import Spread as Spread
from .estimators.core.estimate import Part as Part
from .experiments.question.budget import Budget as Budget
from .estimators.composites.compiled import Compiled as Compiled
from .estimators.contract.protocols import TimeFunction as TimeFunction
from .estimators.contract.protocols import Uncertainty as Uncertainty
from .estimators.across_devices.devices import DeviceCalibration as DeviceCalibration
from .experiments.studies.store import Store as Store
from .experiments.evidence.rows import ReproductionRow as ReproductionRow
from .estimators.operation.serving.step_oracle import StepOracle as StepOracle
from .estimators.operation.serving.step_oracle import StepSeconds as StepSeconds
from .estimators.run.iteration_choice import Selection as Selection
from .estimators.run.warm_up import WarmUp as WarmUp
from .estimators.run.phase_report import PhaseReport as PhaseReport
from .experiments.traces.recorded import Recorded as Recorded
from .experiments.traces.trace_whatif import TraceAnswer as TraceAnswer
from .estimators.extrapolation.surfaces import SurfacePrediction as SurfacePrediction
from .estimators.extrapolation.speedup import Advice as Advice
from .estimators.extrapolation.speedup import Gains as Gains
from .estimators.sensitivity.elasticities import Sensitivity as Sensitivity
