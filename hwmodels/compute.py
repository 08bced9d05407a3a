"""What computes: engines of the cores."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slipstick.common.records import FrozenDict, Record
from slipstick.common.units import PerCycle


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
    lanes
        Lanes of a core at which the rates are stated: other lanes scale them.
    dataflow
        What stays in a systolic array: outputs, weights or inputs.
    """

    flop_per_cycle: FrozenDict[PerCycle]
    rows: int = Field(default=0, ge=0)
    columns: int = Field(default=0, ge=0)
    arrays: int = Field(default=1, ge=1)
    lanes: int | None = Field(default=None, ge=1)
    dataflow: Literal["output_stationary", "weight_stationary", "input_stationary"] = "weight_stationary"

    def rated(self, dtype: str) -> str:
        """The entry of the table of rates that holds for a data type; "" where none does.

        A table that names FP4 alone is taken to mean every FP4 format; one that names block-scaled formats means those.

        >>> Engine(flop_per_cycle={"float8": 1024, "float4": 2048}).rated("nvfp4")
        'float4'
        >>> Engine(flop_per_cycle={"float4": 2048, "mxfp4": 2048}).rated("nvfp4")
        ''
        """
        rates = self.flop_per_cycle
        if dtype in rates:
            return dtype
        if dtype not in ("nvfp4", "mxfp4") or "float4" not in rates:
            return ""
        return "" if any(name.startswith(("mxfp", "nvfp")) for name in rates) else "float4"
