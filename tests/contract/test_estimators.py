"""The one contract that every estimator keeps. A new estimator is a line in CASES."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.contract.protocols import Estimator
from slipstick.estimators.core.estimate import Estimate
from slipstick.estimators.core.parameters import Parameter, parameters, with_parameters
from slipstick.estimators.named import phi_study as xeon_phi
from slipstick.estimators.operation.measured import MeasuredTimes, measured_key
from slipstick.estimators.operation.roofline import Roofline
from slipstick.estimators.schedule.critical_path import CriticalPath
from slipstick.estimators.schedule.sequential import Sequential
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Table, content_digest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.kernels.collective import collective
from slipstick.workloads.kernels.generators import rmat, stencil
from slipstick.workloads.kernels.pagerank import pagerank, pagerank_problem
from slipstick.workloads.kernels.spmv import spmv
from slipstick.workloads.layers.single import dense, elementwise
from slipstick.workloads.networks.megatron.megatron_step import parallel_gpt
from slipstick.workloads.networks.mlp import mlp
from slipstick.workloads.networks.phi_cnn import phi_cnn
from slipstick.workloads.transforms.parallel import data_parallel

NET = Workload(
    "net", (dense("a", 64, 256, 512), elementwise("b", 64 * 512), dense("c", 64, 512, 10)), (("a", "b"), ("b", "c"))
)
PHI_RUN = {"threads": 80}
PARALLEL_RUN = {"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2, "batch": 8, "microbatch": 2}


def measured() -> Composite:
    seconds = Table({measured_key(op): 1e-3 * (i + 1) for i, op in enumerate(NET)})
    return Composite(MeasuredTimes(seconds, machine("xeon-phi-7120p").fingerprint), Sequential())


CASES: dict[str, tuple[Callable[[], Any], Workload, dict[str, float]]] = {
    "roofline": (lambda: registry.estimator("roofline"), NET, {}),
    "roofline-critical-path": (lambda: Composite(Roofline(0.5, 0.5, 1e-6), CriticalPath()), NET, {}),
    "cpu": (lambda: registry.estimator("cpu"), NET, {}),
    "spmv": (lambda: registry.estimator("spmv"), spmv(stencil((60, 60), 5)), {}),
    "spmv-devices": (lambda: registry.estimator("spmv-devices"), spmv(stencil((60, 60), 5)), {}),
    "spmv-pagerank": (lambda: registry.estimator("spmv"), pagerank(pagerank_problem(rmat(9, 3000, 1)), 12), {}),
    "systolic": (lambda: registry.estimator("systolic"), NET, {}),
    "roofline-dispatch": (lambda: registry.estimator("roofline-dispatch"), NET, {}),
    "measured": (measured, NET, {}),
    "contended-dispatch": (lambda: registry.estimator("contended-dispatch"), NET, {}),
    "collectives": (lambda: registry.estimator("collectives"), collective("all_reduce"), {"devices": 16}),
    "parallel-training": (
        lambda: registry.estimator("parallel-training"),
        parallel_gpt("small", layers=4, width=256, heads=4, vocabulary=512, seq_len=128),
        PARALLEL_RUN,
    ),
    "data-parallel-dispatch": (
        lambda: registry.estimator("data-parallel-dispatch"),
        data_parallel(mlp("training")),
        {"data_parallel": 4, "batch": 64},
    ),
    "phi-a": (lambda: xeon_phi.estimator("a"), phi_cnn("small"), PHI_RUN),
    "phi-b": (lambda: xeon_phi.estimator("b"), phi_cnn("medium"), PHI_RUN),
    "threads-counted": (lambda: registry.estimator("threads-counted"), NET, {"images": 100, "threads": 8}),
    "phi-simulated": (lambda: xeon_phi.estimator("simulated"), phi_cnn("small"), PHI_RUN),
    "phi-calibrated": (lambda: xeon_phi.calibrated("small"), phi_cnn("small"), PHI_RUN),
}


def machine_for(workload: Workload) -> Machine:
    """The machine that a case is asked on: one with links where a workload talks to others."""
    talks = any(op.kind == "collective" for op in workload)
    return machine("a100-80-dgx" if talks else "xeon-phi-7120p")


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> tuple[Any, Workload, dict[str, float]]:
    make, workload, run = CASES[request.param]
    return make(), workload, run


@pytest.fixture
def answer(case: tuple[Any, Workload, dict[str, float]]) -> Estimate:
    estimator, workload, run = case
    return estimator.estimate(workload, machine_for(workload), run)


def test_it_is_an_estimator_and_a_frozen_value(case: tuple[Any, Workload, dict[str, float]]) -> None:
    estimator = case[0]
    assert isinstance(estimator, Estimator)
    again = pickle.loads(pickle.dumps(estimator))
    assert again == estimator and hash(again) == hash(estimator)
    assert content_digest(again) == content_digest(estimator)
    with pytest.raises((AttributeError, TypeError)):
        estimator.source = "changed"


def test_the_answer_is_finite_says_its_rule_and_what_it_assumes(answer: Estimate) -> None:
    assert math.isfinite(answer.time) and answer.time > 0
    assert answer.rule
    assert any("Xeon Phi" in text or "DGX A100" in text for text in answer.assumptions)
    assert all(0 <= value <= 1 + 1e-9 or name == "parallelism" for name, value in answer.metrics.items())


def test_the_whole_equals_its_rule_on_its_parts_or_its_trace(answer: Estimate) -> None:
    if answer.rule.startswith("formula: sum of parts"):
        assert answer.time == pytest.approx(math.fsum(p.time * p.times for p in answer.parts), rel=1e-12)
    if answer.trace:
        assert max(event.end for event in answer.trace) <= answer.time * (1 + 1e-12)
        assert all(event.start <= event.end for event in answer.trace)
    assert all(part.time >= 0 and part.times >= 0 for part in answer.parts)
    assert answer.to_frame()["share"].sum() == pytest.approx(1.0)


def test_unknown_uncertainty_is_none_and_known_is_a_band_that_widens(answer: Estimate) -> None:
    band = answer.interval(0.8)
    if band is None:
        assert answer.spread.total is None
        return
    wider = answer.interval(0.95)
    assert wider[0] < band[0] < answer.time < band[1] < wider[1]


def test_the_same_question_has_the_same_answer(case: tuple[Any, Workload, dict[str, float]]) -> None:
    estimator, workload, run = case
    on = machine_for(workload)
    assert estimator.estimate(workload, on, run).time == estimator.estimate(workload, on, run).time


def test_compile_equals_estimate(case: tuple[Any, Workload, dict[str, float]]) -> None:
    estimator, workload, run = case
    on = machine_for(workload)
    own = parameters(estimator.estimator if isinstance(estimator, Calibration) else estimator)
    names = tuple(f"run.{name}" for name in run) or tuple(f"estimator.{name}" for name in list(own)[:1])
    if not names:
        pytest.skip("nothing of this estimator can be left free: a table without run or parameters")
    values = {
        name: [float(run[name.removeprefix("run.")])]
        if name.startswith("run.")
        else [own[name.removeprefix("estimator.")][0]]
        for name in names
    }
    compiled = estimator.compile(workload, on, names, run)
    assert compiled(values)[0] == pytest.approx(estimator.estimate(workload, on, run).time, rel=1e-12)
    assert compiled({name: np.repeat(value, 3) for name, value in values.items()}).shape == (3,)


def test_parameters_are_declared_with_unit_meaning_and_bounds(case: tuple[Any, Workload, dict[str, float]]) -> None:
    for name, (value, note) in parameters(case[0]).items():
        assert isinstance(note, Parameter) and note.unit and note.meaning, name
        assert note.low <= value <= note.high
        assert with_parameters(case[0], {name: value}) == case[0]


def test_open_symbols_are_refused_by_name(case: tuple[Any, Workload, dict[str, float]]) -> None:
    from dataclasses import replace

    from slipstick.hwmodels.files.expressions import symbol

    estimator, workload, run = case
    open_workload = replace(workload, operations=tuple(replace(op, times=symbol("unset")) for op in workload))
    with pytest.raises(InputError, match="give a value for unset"):
        estimator.estimate(open_workload, machine_for(workload), run)


def test_answers_are_plain_json(answer: Estimate) -> None:
    json.dumps({"time_s": answer.time, "metrics": dict(answer.metrics), "assumptions": answer.assumptions})


def test_every_registered_estimator_can_be_built() -> None:
    for name in registry.estimator_names():
        assert isinstance(registry.estimator(name), (Estimator, Calibration))
