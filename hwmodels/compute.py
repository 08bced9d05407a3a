"""What computes: engines of the cores."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slipstick.hwmodels.files.records import Record, Table
from slipstick.hwmodels.units import PerCycle


class Engine(Record):
    """One kind of arithmetic unit of every core.

    Parameters
    ----------
    flop_per_cycle
        By dtype ("float32", "bfloat16", ...): floating-point operations a cycle and core; a multiply-add is two.
    rows, columns
        The shape of a systolic array, in multiply-add cells; 0 where the unit is no such array.
    arrays
        Systolic arrays a core has.
    dataflow
        What stays in a systolic array: outputs, weights or inputs.
    """

    flop_per_cycle: Table[PerCycle]
    rows: int = Field(default=0, ge=0)
    columns: int = Field(default=0, ge=0)
    arrays: int = Field(default=1, ge=1)
    dataflow: Literal["output_stationary", "weight_stationary", "input_stationary"] = "weight_stationary"
