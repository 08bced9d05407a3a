"""The longer of device and host, beside the recurrence that issues operation by operation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.gpu.gpu_bands import longer_of
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.estimators.schedules.host_constants import HOST, ISSUE
from slipstick.estimators.schedules.host_issue import HostIssue
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.question.defaults import default
from slipstick.experiments.scoreboards.programs.host_fit import ISSUE_LAW
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload

NETWORK, ON = workload("resnet18-inference"), machine("v100-sxm")


def seconds(schedule: HostIssue | AsynchronousDispatch | Sequential, mode: str = "eager") -> float:
    return (
        ComposedEstimator(Roofline(), schedule).estimate(NETWORK, ON.using({"runtime.mode": mode}), {"batch": 8}).time
    )


@pytest.mark.parametrize("issue", [0.0, 1e-6, 1e-5, 1e-4, 1e-3])
def test_the_sums_bound_the_recurrence_from_below(issue: float) -> None:
    """Nothing is faster than either side, and the recurrence adds at most the shorter one."""
    closed, step_by_step = seconds(HostIssue(issue=issue)), seconds(AsynchronousDispatch(issue=issue))
    device = seconds(Sequential())
    host = issue * sum(op.kind != "view" for op in NETWORK)
    assert closed == pytest.approx(max(device, host))
    assert closed <= step_by_step * (1 + 1e-9) <= (closed + min(device, host)) * (1 + 1e-8)


def test_a_recorded_graph_has_no_host() -> None:
    assert seconds(HostIssue(issue=1.0e-2), "graph_replay") == seconds(Sequential(), "graph_replay")


def test_compiling_leaves_the_host_its_work() -> None:
    """torch.compile fuses kernels; a run that the host bounds takes as long."""
    eager, compiled = (seconds(HostIssue(issue=1e-3), mode) for mode in ("eager", "compiled"))
    assert compiled == pytest.approx(eager, rel=0.05)


def test_compiled_and_estimated_are_one() -> None:
    made = ComposedEstimator(Roofline(), HostIssue())
    function = made.compile(NETWORK, ON, ("machine.clock",), {"batch": 8})
    assert float(function({"machine.clock": [ON.clock]})[0]) == pytest.approx(
        made.estimate(NETWORK, ON, {"batch": 8}).time
    )


@pytest.mark.parametrize("host", (0.02, 0.5, 1.0, 2.0, 50.0))
def test_the_longer_of_two_uncertain_times_is_as_sure_as_draws_of_both_say(host: float) -> None:
    draws = np.random.default_rng(1).normal(size=(2, 400_000))
    longer = np.maximum(0.2 * draws[0], np.log(host) + 0.6 * draws[1])
    expected = np.sqrt(np.mean((longer - max(0.0, np.log(host))) ** 2))
    assert longer_of(1.0, 0.2, host, 0.6) == pytest.approx(expected, rel=0.02)


def test_a_host_that_is_not_there_adds_nothing() -> None:
    assert longer_of(1.0, 0.2, 0.0, 0.6) == 0.2


def test_the_default_pace_is_that_of_a_host_that_was_not_measured() -> None:
    """`slipstick validate --refit host` gives both numbers: the median host, and how far another lies."""
    law = ISSUE_LAW
    made = load_fitted("host").fit(law.name)
    many = {"device": np.array([1e-9]), "operations": np.array([1000.0])}
    unseen = {"host": ["another"]}
    assert made.seconds(law, many, unseen)[0] / 1000 == pytest.approx(ISSUE, rel=0.03)
    assert made.half_width(law, many, unseen)[0] / QUANTILE == pytest.approx(HOST, rel=0.03)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_host_issues_in_every_type_alike(dtype: str) -> None:
    """What a launch costs the host does not hang on what the kernel multiplies: traced programs and steps by hand."""
    pair = [operation(f"step {i}", "gemm", {"batch": 1, "m": 64, "n": 64, "k": 64}, dtype) for i in range(8)]
    traced = Workload("small", tuple(pair), metadata={"source": "torch 2.9", "purpose": "inference"})
    for one in (traced, replace(traced, metadata={})):
        made = default(one, machine("h100-sxm"), {}, dtype).estimator
        assert made.estimator.schedule == HostIssue()


def test_a_network_takes_the_longer_of_its_two_sides() -> None:
    parameters = {"issue": np.array([2e-5]), "device": np.array([1.5])}
    columns = {"device": np.array([1.0, 1e-6]), "operations": np.array([100.0, 100.0])}
    assert ISSUE_LAW.predict(parameters, columns) == pytest.approx([1.5, 2e-3], rel=1e-6)
