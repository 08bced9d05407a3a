"""Spaces of points: numbered, cut anywhere, drawn by scipy, bounded by conditions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.question.question import question
from slipstick.experiments.question.space import Range, Space
from slipstick.experiments.studies.study import Study
from slipstick.experiments.studies.whatif import whatif

AXES = FrozenDict({"run.a": (1.0, 2.0, 3.0), "run.b": (10.0, 20.0)})


def test_the_last_axis_varies_fastest() -> None:
    points = Space(AXES).points()
    assert list(zip(points["run.a"], points["run.b"], strict=True)) == [
        (1.0, 10.0),
        (1.0, 20.0),
        (2.0, 10.0),
        (2.0, 20.0),
        (3.0, 10.0),
        (3.0, 20.0),
    ]


@given(st.lists(st.integers(0, 42), min_size=2, max_size=5, unique=True), st.sampled_from(["sobol", "random"]))
def test_any_cuts_give_the_same_points(cuts: list[int], sampler: str) -> None:
    space = Space(AXES, FrozenDict({"run.c": Range(1, 100, "log")}), 7, sampler, 3, ("run.a*run.c <= 150",))  # type: ignore[arg-type]
    whole = space.points()
    edges = [0, *sorted(cuts), space.size]
    parts = [space.points(start, stop) for start, stop in pairwise(edges)]
    for name, values in whole.items():
        assert np.array_equal(values, np.concatenate([part[name] for part in parts]))


@pytest.mark.parametrize("sampler", ["sobol", "latin-hypercube"])
def test_stratified_samples_fill_every_sixteenth(sampler: str) -> None:
    space = Space(FrozenDict(), FrozenDict({"run.a": Range(0, 16), "run.b": Range(1, 2.0**16, "log")}), 16, sampler)  # type: ignore[arg-type]
    points = space.points()
    assert sorted(np.floor(points["run.a"])) == list(range(16))
    assert sorted(np.floor(np.log2(points["run.b"]))) == list(range(16))


def test_conditions_leave_points_out() -> None:
    points = Space(AXES, where=("run.a * run.b < 40", "run.b >= 20")).points()
    assert list(points["point"]) == [1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Range(2, 1), "low < high"),
        (lambda: Range(float("nan"), 1), "finite"),
        (lambda: Range(0, 1, "log"), "values > 0"),
        (lambda: Space(FrozenDict({"run.a": ()})), "no values"),
        (lambda: Space(AXES, where=("run.a",)), "want two formulas"),
        (lambda: Space(AXES, where=("run.zz < 1",)), "unknown name 'run.zz'"),
        (lambda: Space(AXES, where=("__import__('os') < 1",)), "only these functions"),
        (lambda: Space(AXES, FrozenDict({"run.a": Range(1, 2)})), "both an axis and sampled"),
        (lambda: Space(AXES, samples=0), "samples = 0"),
        (
            lambda: Space(FrozenDict({"run.a": tuple(range(40_000)), "run.b": tuple(range(50_000))})),
            r"2,000,000,000 points of run\.a \(40,000 values\) x run\.b \(50,000 values\): want at most 1,000,000,000",
        ),
        (
            lambda: Space(FrozenDict({"run.a": tuple(range(1000))}), FrozenDict({"run.c": Range(1, 2)}), 5_000_000),
            r"5,000,000,000 points of a sample of run\.c \(5,000,000 values\) x run\.a \(1,000 values\)",
        ),
    ],
)
def test_bad_spaces_are_refused(build: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()  # type: ignore[operator]


def test_a_study_names_each_workload_and_machine_once() -> None:
    fields = {"name": "s", "workloads": ["gemm", "mlp", "gemm"], "machines": ["t4"], "vary": {"run.batch": ["1", "2"]}}
    with pytest.raises(ValueError, match="'gemm' stands twice"):
        Study.model_validate(fields)


def test_a_question_holds_what_varies_the_data_type_and_what_was_fitted() -> None:
    """Numbers and objects, as whatif takes them; the estimate is the command's."""
    gpus = read_calibration("gpus")
    clocks = np.linspace(1e9, 1.5e9, 3)
    asked = question("gemm", "v100-sxm", dtype="float16", vary={"machine.clock": clocks}, calibration=gpus)
    assert asked.vary.axes["machine.clock"] == tuple(clocks) and asked.vary.size == 3
    assert asked.dtype == "float16" and {op.dtype for op in asked.workload} == {"float16"}
    assert isinstance(asked.calibration, MeasuredOperations) and asked.calibration.kernels is gpus
    assert asked.answer().interval() is not None
    table = whatif("gemm", "v100-sxm", {"machine.clock": clocks}, dtype="float16", calibration=gpus)
    assert table.today.time == asked.answer().time and len(table.frame) == 3
    texts = question("gemm", "v100-sxm", dtype="float16", vary=["machine.clock=1GHz,1.25GHz,1.5GHz"])
    assert texts.vary == asked.vary
