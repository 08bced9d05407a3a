"""What is read of many operations or fields at once is what is read of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.array_types import FloatArray
from slipstick.common.dotted_paths import truth_in
from slipstick.common.errors import InputError
from slipstick.estimators.base.operation_model import FormulaModel, amount_of, amounts_of, is_formula
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.power_capped import FIRST, distinct_values
from slipstick.estimators.gpu.transfer.kernel_class import Scatter
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.host_issue import HostIssue
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import dense


@pytest.mark.parametrize("network", ["gpt2", "resnet50"])
def test_amounts_of_operations_are_those_of_each(network: str) -> None:
    operations = workload(network).bound().distinct.operations
    for name in ("bytes_moved", "flop", "read", "written", "launches", "flop.matrix.float32", "flop.vector.float32"):
        one_by_one = [amount_of(op, f"operation.{name}") for op in operations]
        assert amounts_of(operations, f"operation.{name}") == one_by_one
    products = [op for op in operations if op.kind == "gemm"]
    assert amounts_of(products, "operation.m") == [op.dims["m"] for op in products]
    with pytest.raises(InputError, match=r"operation\.heads"):
        amounts_of(products, "operation.heads")


def test_a_formula_is_known_by_its_class_or_by_its_members() -> None:
    for one in (Roofline(), HostIssue(), None):
        assert is_formula(one) == isinstance(one, FormulaModel)


def test_a_truth_is_found_with_its_path() -> None:
    nested = {"name": "one", "memory": {"L1": {"capacity": 1.0}, "HBM": {"shared": False}}, "cores": True}
    assert truth_in(nested) == ("memory.HBM.shared", False)
    assert truth_in({"cores": 1, "cycles": (1.0, 2.0), "power": None, "memory": {}}) is None
    assert truth_in(True) == ("", True)


def test_scatter_of_one_time_is_that_of_an_array() -> None:
    rule, seconds = Scatter(0.3, 0.1), [1e-7, 1e-5, 1e-3, 1.0]
    assert [rule.of(one) for one in seconds] == rule.of(np.array(seconds)).tolist()


def test_operations_are_asked_anew_only_where_they_or_the_machine_change() -> None:
    asked: list[float] = []

    class Asked(Roofline):
        """A roofline that says when it is asked."""

        def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
            """See `Roofline`."""
            asked.append(machine.clock)
            return super().times(operations, machine)

    repeated = replace(dense("a", 512, 512, 512), times=sp.Symbol("batch", positive=True))
    model, graph, on = ComposedEstimator(Asked(), Sequential()), Workload("one", (repeated,)), machine("h100")
    first, third = (model.estimate(graph, on, {"batch": count}).time for count in (1.0, 3.0))
    assert len(asked) == 1 and third == pytest.approx(3 * first)
    slower = on.using(clock=on.clock / 2)
    assert model.estimate(graph, slower, {"batch": 3.0}).time > third and asked == [on.clock, slower.clock]
    ComposedEstimator(Asked(), Sequential()).estimate(graph, on, {"batch": 3.0})
    assert len(asked) == 3


@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, 2.0, 3e12, float("nan")]), max_size=9), st.integers(1, 90))
def test_distinct_values_are_those_of_numpy(values: list[float], times: int) -> None:
    late = np.arange(2.0 * FIRST)
    for column in (np.tile(np.array(values), times), np.repeat([5.0, 4.0], FIRST), late, late[::-1].reshape(2, -1)):
        known, place = distinct_values(column)
        expected, inverse = np.unique(column, return_inverse=True)
        np.testing.assert_array_equal(known, expected)
        np.testing.assert_array_equal(place, inverse.reshape(column.shape))
