"""The face for users and notebooks, in the sections of the API page; names are loaded when they are first used."""

import collections.abc
import typing

# Machines
from .hwmodels.catalog import machine as machine
from .hwmodels.catalog import machine_names as machine_names
from .hwmodels.machine import Machine as Machine
from .hwmodels.machine_file import load_machine as load_machine
from .hwmodels.files.readers import InputError as InputError
from .hwmodels.files.records import Table as Table

# Workloads
from .workloads.catalog import workload as workload
from .workloads.catalog import workload_names as workload_names
from .workloads.graph.cost import Cost as Cost
from .workloads.graph.workload import Op as Op
from .workloads.graph.workload import Workload as Workload
from .workloads.graph.workload_file import load_workload as load_workload
from .workloads.importers.detect import import_file as import_file
from .workloads.importers.onnx.importer import import_onnx as import_onnx
from .workloads.importers.torch.importer import import_torch as import_torch
from .workloads.importers.torch.arguments import Input as Input
from .workloads.layers.single import convolution as convolution
from .workloads.layers.single import dense as dense
from .workloads.layers.single import elementwise as elementwise
from .hwmodels.files.expressions import parse_expression as parse_expression
from .hwmodels.files.expressions import symbol as symbol

# Sparse products
from .workloads.kernels.generators import stencil as stencil
from .workloads.kernels.generators import uniform as uniform
from .workloads.kernels.pagerank import pagerank as pagerank
from .workloads.kernels.pagerank import pagerank_problem as pagerank_problem
from .workloads.kernels.sparse import SparseMatrix as SparseMatrix
from .workloads.kernels.sparse_files import read_matrix as read_matrix
from .workloads.kernels.spmv import spmv as spmv
from .estimators.named.products.kernel_products import estimate_product as estimate_product
from .estimators.named.products.sparse_products import estimate_spmv as estimate_spmv

# Language models and serving
from .workloads.language_catalog import language_model as language_model
from .workloads.language_catalog import language_model_names as language_model_names
from .workloads.language.language_model import LanguageModel as LanguageModel
from .workloads.language.language_step import language_step as language_step
from .experiments.serve.by_name import oracle as oracle
from .estimators.operation.serving.step_oracle import StepOracle as StepOracle
from .estimators.operation.serving.step_oracle import StepSeconds as StepSeconds
from .experiments.serve.step_profiles import write_profile as write_profile
from .experiments.serve.by_name import plan_serving as plan_serving
from .experiments.serve.by_name import serve as serve
from .experiments.serve.by_name import serve_locally as serve_locally
from .experiments.serve.planning import Plan as Plan
from .estimators.named.serving.served_run import Serving as Serving
from .experiments.subjects.training_plan.training_by_name import plan_training as plan_training
from .experiments.subjects.training_plan.training_choice import TrainingPlan as TrainingPlan

# Estimates and estimators
from .experiments.question.registry import estimator as estimator
from .experiments.question.registry import estimator_names as estimator_names
from .estimators.contract.named import NamedEstimator as NamedEstimator
from .estimators.contract.domain import Domain as Domain
from .estimators.core.estimate import Estimate as Estimate
from .estimators.core.estimate import Measurement as Measurement
from .experiments.question.budget import Budget as Budget
from .experiments.question.budget import budget as budget
from .estimators.core.estimate import Part as Part
from .estimators.core.estimate import Run as Run
from .estimators.core.estimate import Spread as Spread
from .estimators.contract.protocols import Estimator as Estimator
from .estimators.contract.protocols import TimeFunction as TimeFunction
from .estimators.contract.protocols import Uncertainty as Uncertainty
from .estimators.contract.base import EstimatorBase as EstimatorBase
from .estimators.composites.composite import Composite as Composite
from .estimators.composites.compiled import Compiled as Compiled
from .estimators.core.formula import Formula as Formula
from .estimators.core.separated import separate as separate
from .estimators.core.parameters import Parameter as Parameter
from .estimators.core.parameters import parameters as parameters

# Operation models
from .estimators.core.operation_model import FormulaModel as FormulaModel
from .estimators.operation.roofline import Roofline as Roofline
from .estimators.operation.cpu.cpu_roofline import CpuRoofline as CpuRoofline
from .estimators.operation.gpu.tiled import TiledRoofline as TiledRoofline
from .estimators.operation.tpu.systolic import SystolicArray as SystolicArray
from .estimators.operation.measured import MeasuredTimes as MeasuredTimes
from .estimators.operation.power.energy import PowerModel as PowerModel

# Schedules
from .estimators.core.schedule_model import FormulaSchedule as FormulaSchedule
from .estimators.schedule.sequential import Sequential as Sequential
from .estimators.schedule.critical_path import CriticalPath as CriticalPath
from .estimators.schedule.dispatch import AsynchronousDispatch as AsynchronousDispatch
from .estimators.schedule.infeed import InfeedOverlap as InfeedOverlap
from .estimators.schedule.threads.contention import Contention as Contention
from .estimators.schedule.threads.thread_schedule import ThreadSchedule as ThreadSchedule
from .estimators.schedule.threads.thread_schedule import cycles_per_instruction as cycles_per_instruction
from .estimators.schedule.threads.thread_simulation import ThreadSimulation as ThreadSimulation

# Calibration
from .estimators.calibration.calibration import Calibration as Calibration
from .estimators.calibration.calibration import calibrate as calibrate
from .estimators.calibration.calibration_file import load_calibration as load_calibration
from .experiments.calibrate.calibrated import read_calibration as read_calibration
from .estimators.across_devices.devices import DeviceCalibration as DeviceCalibration
from .estimators.across_devices.files.devices_file import load_device_calibration as load_device_calibration

# Extrapolation
from .estimators.extrapolation import Prediction as Prediction
from .estimators.extrapolation import Series as Series
from .estimators.extrapolation import extrapolate as extrapolate
from .estimators.extrapolation import extrapolate_many as extrapolate_many
from .estimators.extrapolation.laws.families import AMDAHL as AMDAHL
from .estimators.extrapolation.laws.families import USL as USL
from .estimators.extrapolation.speedup import Advice as Advice
from .estimators.extrapolation.speedup import Gains as Gains
from .estimators.extrapolation.speedup import advise as advise
from .estimators.extrapolation.speedup import gains as gains
from .estimators.extrapolation.surfaces import SurfacePrediction as SurfacePrediction
from .estimators.extrapolation.surfaces import extrapolate_surface as extrapolate_surface

# Representative iterations and phases
from .workloads.runs.iterations import Iterations as Iterations
from .experiments.subjects.iterations.logs import read_log as read_log
from .estimators.run.iteration_choice import Selection as Selection
from .estimators.run.representative import select as select
from .estimators.run.representative import seqpoint as seqpoint
from .estimators.run.warm_up import WarmUp as WarmUp
from .estimators.run.warm_up import warm_up as warm_up
from .estimators.run.phase_report import PhaseReport as PhaseReport

# Questions, what-ifs and studies
from .experiments.question.question import Question as Question
from .experiments.question.question import question as question
from .experiments.question.space import Space as Space
from .experiments.studies.whatif import WhatIf as WhatIf
from .experiments.studies.whatif import whatif as whatif
from .experiments.studies.study import Study as Study
from .experiments.studies.study import load_study as load_study
from .experiments.studies.runner import run_study as run_study
from .experiments.studies.store import Store as Store
from .experiments.question.objectives import with_front as with_front

# Explaining
from .estimators.sensitivity.elasticities import Sensitivity as Sensitivity
from .estimators.sensitivity.elasticities import crossovers as crossovers
from .estimators.sensitivity.elasticities import sensitivity as sensitivity
from .experiments.explain.explanation import bottleneck_rows as bottleneck_rows
from .experiments.explain.explanation import cheapest_changes as cheapest_changes
from .experiments.explain.explanation import elasticity_rows as elasticity_rows
from .experiments.explain.cheapest import cheapest_together as cheapest_together

# Event simulation and queues
from .experiments.subjects.jobs.simulated import simulate as simulate
from .experiments.subjects.jobs.job_fit import fit_job as fit_job
from .estimators.calibration.job_calibration import load_job_calibration as load_job_calibration
from .estimators.schedule.simulation.queueing import Visit as Visit
from .estimators.schedule.simulation.queueing import closed_network as closed_network

# Traces
from .experiments.traces.recorded import Recorded as Recorded
from .experiments.traces.recorded import read_recorded as read_recorded
from .experiments.traces.trace_whatif import Change as Change
from .experiments.traces.trace_whatif import TraceAnswer as TraceAnswer
from .experiments.traces.trace_whatif import trace_whatif as trace_whatif

# Pages and charts
from .experiments.pages.report import page as page
from .experiments.pages.plots import draw_charts as draw_charts
from .experiments.pages.plots import plotly_chart as plotly_chart
from .experiments.pages.whatif_report import ratio_chart as ratio_chart

# Reproduced papers
from .experiments.evidence.catalog import reproduce as reproduce
from .experiments.evidence.rows import ReproductionRow as ReproductionRow

__version__: str

def main(arguments: collections.abc.Sequence[str] | None = None) -> typing.NoReturn:
    """Run the command line and leave.

    Parameters
    ----------
    arguments
        The words after ``slipstick``; those of the process where none are given.

    Raises
    ------
    SystemExit
        Always: code 0 done, 1 a check failed, 2 bad input, 3 a defect of ours, 130 interrupted.
    """
