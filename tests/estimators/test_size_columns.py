"""A column of sizes is answered as its points are, one question each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.size_column import SizeColumn, SizesDifferError, by_parts, largest, number, smallest
from slipstick.experiments.studies.size_columns import FIT, MEMORY, MemoryColumns, ScatterAtSizes
from slipstick.workloads.graph.cost import bind_amount
from slipstick.workloads.graph.given import Binding

SIZES = st.lists(st.integers(1, 1_500), min_size=2, max_size=4, unique=True)
ASKED: list[tuple[str, str, str, dict[str, Any]]] = [
    ("resnet-50", "a100", "batch", {}),
    ("resnet-50", "rtx-4090", "batch", {"dtype": "float16"}),
    ("gpt2", "h100", "seq_len", {}),
    ("gpt2", "a100", "batch", {"dtype": "bfloat16"}),
    ("mlp", "rtx-3090", "batch", {"dtype": "bfloat16"}),
    ("bert-base-inference", "mi300x", "seq_len", {}),
    ("deepspeech2", "v100", "batch", {}),
]
LONG = [ASKED[0], ASKED[1], ASKED[3], ASKED[6]]


@pytest.mark.parametrize(
    ("work", "machine", "size", "options"),
    [pytest.param(*asked, marks=pytest.mark.slow if asked in LONG else ()) for asked in ASKED],
)
@settings(max_examples=3, deadline=None)
@given(values=SIZES)
def test_a_column_has_the_answers_of_its_points(
    work: str, machine: str, size: str, options: dict[str, Any], values: list[int]
) -> None:
    asked, name = ss.question(work, machine, **options), f"workload.{size}"
    free = {name: np.array(values, dtype=float)}
    times = np.asarray(asked.estimator.compile(asked.workload, asked.machine, (name,), asked.run)(free))
    varied = ss.question(work, machine, vary={name: values}, **options)
    spread = ScatterAtSizes(varied).at(free, len(values))
    memory = MemoryColumns(asked)
    columns = memory.columns(free, len(values))
    least = asked.estimator.least_at(asked.workload, asked.machine, asked.run, free)
    assert spread is not None
    for index, value in enumerate(values):
        alone = asked.at({name: float(value)}).answer()
        assert times[index] == pytest.approx(alone.time, rel=1e-12)
        assert spread[0][index] == pytest.approx(alone.spread.total, rel=1e-12)
        assert spread[1][index] == pytest.approx(alone.spread.common, rel=1e-12, abs=1e-7)  # a root of a difference
        assert least[index] == pytest.approx(alone.least, rel=1e-12)
        need = memory.need({name: float(value)})
        if need is not None:
            assert columns[MEMORY][index] == pytest.approx(need.needed, rel=1e-12)
            assert columns[FIT][index] == need.verdict


FORMULAS = (
    "ceiling(batch/3)*(seq_len + 1)",
    "floor(batch/49)/7 + batch**2",
    "Max(batch, 5*seq_len - 20)*Min(batch/3, seq_len)",
    "seq_len*(batch + 3)/(batch + 1)",
    "3*seq_len**3*batch",
)


@pytest.mark.parametrize("formula", FORMULAS)
@given(batches=st.lists(st.integers(1, 10**6), min_size=1, max_size=6), length=st.integers(1, 10**6))
def test_an_amount_at_a_column_is_that_at_its_points(formula: str, batches: list[int], length: int) -> None:
    amount = parse_expression(formula)
    column = np.array(batches, dtype=float).view(SizeColumn)
    made = Binding({"batch": column, "seq_len": length}).put(amount)
    expected = [float(bind_amount(amount, {"batch": one, "seq_len": length})) for one in batches]
    assert np.broadcast_to(np.asarray(made), len(batches)).tolist() == pytest.approx(expected, rel=1e-15)


def test_a_law_is_asked_again_for_points_that_it_treats_apart() -> None:
    calls = []

    def law(at: dict[str, Any]) -> tuple[Any]:
        calls.append(at["x"])
        half = smallest(at["x"], 4.0) if at["x"] > 2 else largest(at["x"], 1.5)
        return (number(half),)

    (made,) = by_parts({"x": np.arange(6.0)}, law)  # type: ignore[arg-type]
    assert made.tolist() == [1.5, 1.5, 2.0, 3.0, 4.0, 4.0]
    assert len(calls) == 3


def test_a_law_that_needs_the_number_is_asked_point_by_point() -> None:
    (made,) = by_parts({"x": np.array([1.0, 3.0, 3.0, np.nan])}, lambda at: (float(at["x"]) ** 2,))
    assert made[:3].tolist() == [1.0, 9.0, 9.0]
    assert np.isnan(made[3])


def test_an_amount_is_asked_point_by_point_beside_a_column_that_it_does_not_read() -> None:
    """A square root is sympy's to compute; the other column once kept each point from being a number, without end."""
    m, k = (np.array(values).view(SizeColumn) for values in ([4.0, 9.0], [1.0, 2.0]))
    binding = Binding({"m": m, "k": k})
    assert np.asarray(binding.put(parse_expression("sqrt(m)"))).tolist() == [2.0, 3.0]


def test_a_law_that_needs_another_column_says_so() -> None:
    other = np.array([1.0, 2.0, 3.0]).view(SizeColumn)
    with pytest.raises(SizesDifferError):
        by_parts({"x": np.array([1.0, 2.0])}, lambda at: (float(at["x"]) * float(other),))


def test_a_value_that_is_no_size_is_refused() -> None:
    asked = ss.question("resnet-50", "a100", vary={"workload.batch": [2, 4]})
    with pytest.raises(InputError, match=r"workload\.batch = 1\.5: want a whole number"):
        ScatterAtSizes(asked).at({"workload.batch": np.array([2.0, 1.5])}, 2)


def test_a_sweep_counts_waves_as_an_estimate_does() -> None:
    """4,480 blocks on a T4's 40 cores: a folded 1/40 made 113 waves of 112."""
    product = ss.workload("gemm").bind(m=14_336, n=5_032, k=4_096)
    asked = ss.question(product, "t4", dtype="float16")
    function = asked.estimator.compile(asked.workload, asked.machine, ("machine.clock",), asked.run)
    swept = float(function({"machine.clock": np.array([asked.machine.clock])})[0])
    assert swept == pytest.approx(asked.answer().time, rel=1e-12)
