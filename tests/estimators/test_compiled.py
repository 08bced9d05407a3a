"""One point and a million are the same code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.estimators.composition import compiled_estimator as compiled_module
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
from slipstick.estimators.cpu.instruction_counts import InstructionCount
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.critical_path import CriticalPath
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import with_parameters
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense, elementwise
from slipstick.workloads.networks.phi_cnn import phi_cnn

BATCH = symbol("batch")
NET = Workload(
    "net",
    (
        dense("a", BATCH, 256, 512),
        elementwise("b", BATCH * 512),
        dense("c", BATCH, 512, 512),
        dense("d", BATCH, 512, 512),
    ),
    (("a", "b"), ("b", "c"), ("b", "d")),
)


@given(st.integers(1, 4096), st.floats(1e8, 1e10), st.integers(1, 500), st.floats(0.01, 1))
def test_compiled_equals_estimate(batch: int, clock: float, cores: int, efficiency: float) -> None:
    phi = machine("xeon-phi-7120p")
    for schedule in (Sequential(), CriticalPath()):
        model = ComposedEstimator(Roofline(), schedule)
        names = ("workload.batch", "machine.clock", "machine.cores", "estimator.operation.compute_efficiency")
        function = model.compile(NET, phi, names)
        value = function(dict(zip(names, (batch, clock, cores, efficiency), strict=True)))
        changed = with_parameters(model, {"operation.compute_efficiency": efficiency})
        one = changed.estimate(NET, phi.using(clock=clock, cores=cores), {"batch": batch}).time
        assert float(value) == pytest.approx(one, rel=1e-12)


def test_thread_formula_compiled_equals_estimate_over_the_whole_range() -> None:
    phi = machine("xeon-phi-7120p")
    model, workload = xeon_phi.estimator("a"), phi_cnn("medium")
    threads = np.arange(1, 500.0)
    many = model.compile(workload, phi, ("run.threads",))({"run.threads": threads})
    assert many[[0, 59, 121, 243, 479]] == pytest.approx(
        [model.estimate(workload, phi, {"threads": p}).time for p in (1, 60, 122, 244, 480)], rel=1e-13
    )


def test_chunks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    phi = machine("xeon-phi-7120p")
    function = ComposedEstimator(Roofline(), Sequential()).compile(NET, phi, ("workload.batch", "machine.clock"))
    points = {"workload.batch": np.arange(1.0, 8)[:, None], "machine.clock": np.linspace(1e9, 2e9, 1001)}
    whole = function(points)
    monkeypatch.setattr(compiled_module, "BLOCK_POINTS", 300)
    assert np.array_equal(function(points), whole)
    assert whole.shape == (7, 1001)


def test_arrays_are_checked_like_single_values() -> None:
    phi = machine("xeon-phi-7120p")
    model = ComposedEstimator(Roofline(), Sequential())
    function = model.compile(NET, phi, ("machine.clock", "machine.cores", "workload.batch"))
    good = {"machine.clock": [1e9], "machine.cores": [4], "workload.batch": [2]}
    for change, words in (
        ({"machine.clock": [1e9, -1.0]}, "clock = -1.0 Hz: want a number >= 1000"),
        ({"machine.cores": [1.5]}, "machine.cores = 1.5: want whole numbers"),
        ({"workload.batch": [0.0]}, "workload.batch = 0: want values > 0"),
        ({"machine.clock": [np.nan]}, "machine.clock: values must be finite"),
        ({"machine.clock": []}, "machine.clock: no values"),
        ({"machine.speed": [1.0]}, "unknown free quantity 'machine.speed'"),
    ):
        with pytest.raises(InputError, match=words):
            function(good | change)
    with pytest.raises(InputError, match="no array for the free quantity machine.cores"):
        function({"machine.clock": [1e9], "workload.batch": [2]})
    for names, words in (
        (("clock",), "want a name such as machine.clock"),
        (("machine.clok",), "did you mean 'clock'"),
        (("workload.bach",), "unknown workload quantity 'bach'"),
        (("estimator.operation.x",), "unknown estimator quantity"),
    ):
        with pytest.raises(InputError, match=words):
            model.compile(NET, phi, names)
    with pytest.raises(InputError, match="give a value for batch"):
        model.compile(NET, phi, ("machine.clock",))


def test_formula_of_the_whole_reads_and_evaluates() -> None:
    phi = machine("xeon-phi-7120p")
    model = ComposedEstimator(InstructionCount(), xeon_phi.estimator("a").schedule)
    formula = model.formula(phi_cnn("small"), phi)
    values = {name: phi.numbers[name.removeprefix("machine.")] for name in formula.names if name.startswith("machine.")}
    values |= {"run.threads": 480, "run.images": 60_000, "run.test_images": 10_000, "run.epochs": 70}
    values["estimator.operation.operation_factor"] = 15
    contention = model.schedule.contention["small"]
    values["estimator.schedule.contention.small.intercept"] = contention.intercept
    values["estimator.schedule.contention.small.slope"] = contention.slope
    assert float(formula.evaluate(values)) == pytest.approx(
        model.estimate(phi_cnn("small"), phi, {"threads": 480}).time, rel=1e-12
    )
