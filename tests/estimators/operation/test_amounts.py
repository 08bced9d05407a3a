"""What a formula's symbol operation.NAME may name."""

from dataclasses import dataclass

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class OneAmount(FormulaModel):
    """Seconds as an amount of the operation, whatever its name."""

    name: str

    def key(self, op: Op, machine: Machine) -> str:
        return op.kind

    def formula(self, op: Op, machine: Machine) -> Formula:
        return Formula(symbol(f"operation.{self.name}"), "s", "for the test")


PRODUCT = operation("product", "gemm", {"batch": 1, "m": 2, "n": 3, "k": 4}, "float32")


def seconds(name: str) -> float:
    return float(OneAmount(name).times((PRODUCT,), machine("v100-sxm"))[0])


def test_dims_flop_bytes_and_resources_have_names() -> None:
    assert [seconds(name) for name in ("m", "n", "k", "flop")] == [2, 3, 4, 2 * 2 * 3 * 4]
    assert seconds("bytes_moved") == 4 * (2 * 4 + 4 * 3 + 2 * 3)
    assert np.isclose(seconds("flop.matrix.float32") + seconds("flop.vector.float32"), 48)
    assert seconds("link.infeed") == 0  # a resource that this operation does not use


def test_a_misspelt_amount_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown amount of operation 'product' \(gemm\) 'operation.bytes'") as error:
        seconds("bytes")
    assert "operation.bytes_moved" in str(error.value)
