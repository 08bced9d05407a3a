"""The face for users and notebooks, in the sections of the API page; names are loaded when they are first used."""

import collections.abc
import typing

# Questions
from .experiments.question.estimate import estimate as estimate
from .experiments.studies.whatif import whatif as whatif
from .experiments.explain.explain import explain as explain
from .experiments.extrapolate.extrapolate import extrapolate as extrapolate
from .experiments.serve.serve import serve as serve
from .experiments.serve.serve import plan_serving as plan_serving
from .experiments.methods.training_plan.plan_training import plan_training as plan_training
from .experiments.replay.replay import read as read
from .experiments.jobs.simulate_job import simulate as simulate
from .experiments.question.budget import budget as budget
from .experiments.serve.serve import oracle as oracle

# Your measurements
from .estimators.fitting.calibration import calibrate as calibrate
from .experiments.measure.host.measure_host import measure as measure
from .experiments.replay.replay import replay as replay
from .experiments.calibrate.calibrated import read_calibration as read_calibration
from .estimators.fitting.calibration import Calibration as Calibration
from .estimators.base.estimate import Measurement as Measurement
from .estimators.scaling import Series as Series

# Studies and pages
from .experiments.studies.study_call import study as study
from .experiments.studies.study_call import AskTell as AskTell
from .experiments.studies.study import load_study as load_study
from .experiments.studies.runner import run_study as run_study
from .experiments.studies.study import Study as Study
from .experiments.question.question import question as question
from .experiments.question.question import Question as Question
from .experiments.report.page import page as page

# Papers and proof
from .experiments.scoring.scoreboard_catalog import reproduce as reproduce
from .experiments.methods.iterations.iteration_study import seqpoint as seqpoint
from .experiments.methods.iterations.iteration_study import phases as phases
from .experiments.methods.bricks.brick_study import bricks as bricks
from .experiments.methods.tuning.tune import tune as tune
from .workloads.importers.iteration_logs import read_log as read_log

# Catalogue
from .hwmodels.catalog import machine as machine
from .hwmodels.catalog import machine_names as machine_names
from .workloads.catalog import workload as workload
from .workloads.catalog import workload_names as workload_names
from .experiments.question.registry import estimator as estimator
from .experiments.question.registry import estimator_names as estimator_names
from .workloads.language_catalog import language_model as language_model
from .workloads.language_catalog import language_model_names as language_model_names

# Machines
from .hwmodels.machine import Machine as Machine
from .hwmodels.machine_file import load_machine as load_machine
from .common.errors import InputError as InputError
from .common.records import FrozenDict as FrozenDict

# Workloads
from .workloads.graph.workload import Workload as Workload
from .workloads.graph.workload import Op as Op
from .workloads.graph.cost import Cost as Cost
from .common.expressions import symbol as symbol
from .workloads.graph.workload_file import load_workload as load_workload
from .workloads.importers.detect import import_file as import_file
from .workloads.importers.torch.importer import import_torch as import_torch
from .workloads.importers.onnx.importer import import_onnx as import_onnx
from .workloads.importers.torch.arguments import Input as Input
from .workloads.language.language_model import LanguageModel as LanguageModel
from .workloads.kernels.sparse_files import read_matrix as read_matrix
from .workloads.kernels.generators import stencil as stencil

# Estimators
from .estimators.base.protocols import Estimator as Estimator
from .estimators.base.shipped_estimator import ShippedEstimator as ShippedEstimator
from .estimators.composition.composed_estimator import ComposedEstimator as ComposedEstimator
from .estimators.roofline.roofline import Roofline as Roofline
from .estimators.schedules.sequential import Sequential as Sequential
from .estimators.base.schedule_model import Schedule as Schedule
from .estimators.base.schedule_model import Outcome as Outcome
from .common.answer import Event as Event
from .estimators.symbolic.formula import Formula as Formula

# Answers
from .estimators.base.estimate import Estimate as Estimate
from .estimators.scaling import Prediction as Prediction
from .experiments.studies.whatif import WhatIf as WhatIf
from .experiments.explain.explain import Explanation as Explanation
from .estimators.serving.serving_answer import Serving as Serving
from .experiments.serve.plan_serving import Plan as Plan
from .experiments.methods.training_plan.training_choice import TrainingPlan as TrainingPlan
from .common.answer import Answer as Answer

# Servers and sparse products, beside the verbs
from .experiments.serve.serve import serve_locally as serve_locally
from .experiments.serve.fit_step_profiles import write_profile as write_profile
from .estimators.sparse.sparse_products import estimate_spmv as estimate_spmv
from .estimators.sparse.sparse_products import estimate_product as estimate_product

# More, by subject
from . import models as models
from . import operations as operations
from . import laws as laws
from . import analysis as analysis
from . import runs as runs
from . import charts as charts
from . import records as records

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
