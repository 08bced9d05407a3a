"""What is read of many operations or fields at once is what is read of each."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.across_devices.bands import Scatter
from slipstick.estimators.core.operation_model import FormulaModel, amount_of, amounts_of, is_formula
from slipstick.estimators.operation.roofline import Roofline
from slipstick.estimators.schedule.host_issue import HostIssue
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.nested import truth_in
from slipstick.workloads.catalog import workload


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
    assert [rule.at(one) for one in seconds] == rule.of(np.array(seconds)).tolist()
