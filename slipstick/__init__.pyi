"""The face for users and notebooks, in the sections of the API page; names are loaded when they are first used."""

import collections.abc
import typing

# Questions
from .experiments.question.estimating import estimate as estimate
from .experiments.studies.whatif import whatif as whatif
from .experiments.explain.reasons import explain as explain
from .experiments.extrapolate.by_name import extrapolate as extrapolate
from .experiments.serve.by_name import serve as serve
from .experiments.serve.by_name import plan_serving as plan_serving
from .experiments.subjects.training_plan.training_by_name import plan_training as plan_training
from .experiments.traces.by_name import read as read
from .experiments.subjects.jobs.simulated import simulate as simulate
from .experiments.question.budget import budget as budget
from .experiments.serve.by_name import oracle as oracle

# Your measurements
from .estimators.calibration.calibration import calibrate as calibrate
from .experiments.measure.host.by_name import measure as measure
from .experiments.traces.by_name import replay as replay
from .experiments.calibrate.calibrated import read_calibration as read_calibration
from .estimators.calibration.calibration_file import load_calibration as load_calibration
from .estimators.calibration.calibration import Calibration as Calibration
from .estimators.core.estimate import Measurement as Measurement
from .estimators.extrapolation import Series as Series

# Studies and pages
from .experiments.studies.by_name import study as study
from .experiments.studies.study import load_study as load_study
from .experiments.studies.runner import run_study as run_study
from .experiments.studies.study import Study as Study
from .experiments.question.question import question as question
from .experiments.question.question import Question as Question
from .experiments.pages.report import page as page

# Papers and proof
from .experiments.evidence.catalog import reproduce as reproduce
from .experiments.subjects.iterations.by_name import seqpoint as seqpoint
from .experiments.subjects.iterations.by_name import phases as phases
from .experiments.subjects.bricks.by_name import bricks as bricks
from .experiments.subjects.tuning.by_name import tune as tune
from .workloads.importers.iteration_logs import read_log as read_log
from .workloads.runs.iterations import Iterations as Iterations

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
from .hwmodels.files.readers import InputError as InputError
from .hwmodels.files.records import Table as Table

# Workloads
from .workloads.graph.workload import Workload as Workload
from .workloads.graph.workload import Op as Op
from .workloads.graph.cost import Cost as Cost
from .hwmodels.files.expressions import symbol as symbol
from .workloads.graph.workload_file import load_workload as load_workload
from .workloads.importers.detect import import_file as import_file
from .workloads.importers.torch.importer import import_torch as import_torch
from .workloads.importers.onnx.importer import import_onnx as import_onnx
from .workloads.importers.torch.arguments import Input as Input
from .workloads.language.language_model import LanguageModel as LanguageModel
from .workloads.kernels.sparse_files import read_matrix as read_matrix
from .workloads.kernels.generators import stencil as stencil

# Estimators
from .estimators.contract.protocols import Estimator as Estimator
from .estimators.contract.named import NamedEstimator as NamedEstimator
from .estimators.composites.composite import Composite as Composite
from .estimators.operation.roofline import Roofline as Roofline
from .estimators.schedule.sequential import Sequential as Sequential
from .estimators.core.formula import Formula as Formula
from .estimators.core.estimate import Run as Run

# Answers
from .estimators.core.estimate import Estimate as Estimate
from .estimators.extrapolation import Prediction as Prediction
from .experiments.studies.whatif import WhatIf as WhatIf
from .experiments.explain.reasons import Explanation as Explanation
from .estimators.named.serving.served_run import Serving as Serving
from .experiments.serve.planning import Plan as Plan
from .experiments.subjects.training_plan.training_choice import TrainingPlan as TrainingPlan
from .hwmodels.answer import Answer as Answer

# Servers and sparse products, beside the verbs
from .experiments.serve.by_name import serve_locally as serve_locally
from .experiments.serve.step_profiles import write_profile as write_profile
from .experiments.serve.step_regressor import StepRegressor as StepRegressor
from .estimators.named.products.sparse_products import estimate_spmv as estimate_spmv
from .estimators.named.products.kernel_products import estimate_product as estimate_product

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
