"""The front of time and energy under power limits, and the limit that saves most energy for a given loss of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.operation.power.power_limit import PowerLimit
from slipstick.hwmodels.columns import Column
from slipstick.hwmodels.files.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

LEAST_LIMIT = 0.4
"""Vendors accept no limit below about this share of the rated power."""


@dataclass(frozen=True)
class PowerPlan:
    """One row a limit: time, power and energy of the run, each with its 80 % band.

    Parameters
    ----------
    time, power, rated
        Of the run without a limit [s], [W], and the board's rated power [W].
    loss
        How much longer it may take (0.03 is 3 %).
    best
        The limit that saves most energy within the loss [W]; the rated power where none saves any.
    """

    time: float
    power: float
    rated: float
    loss: float
    best: float
    table: tuple[dict[str, float], ...]

    def rows(self) -> list[dict[str, Any]]:
        """The table with a mark on the limit that was chosen."""
        return [{**row, "chosen": row["limit_W"] == self.best} for row in self.table]

    def to_frame(self) -> pd.DataFrame:
        """The same as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    @property
    def declared(self) -> tuple[Column, ...]:
        """Ratios of time and energy to the run without a limit, less is better."""
        return (Column("limit_W", "limit", "W"), Column("energy_ratio", "energy ratio", better="less"))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))


def power_plan(
    time: float,
    power: float,
    rated: float,
    loss: float = 0.03,
    limits: Sequence[float] | None = None,
    model: PowerLimit | None = None,
) -> PowerPlan:
    """Time and energy of a measured run under power limits.

    Parameters
    ----------
    time, power
        Measured without a limit: seconds, and mean watts of the device.
    rated
        The board's rated power [W].
    loss
        How much longer the run may take.
    limits
        Limits to try [W]; by default steps of 5 % from 40 % of the rated power.

    Raises
    ------
    InputError
        Where a number is not above 0, or a limit lies above the rated power.
    """
    model = model or PowerLimit()
    for name, value in (("time", time), ("power", power), ("rated power", rated)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} = {value:g}: want a finite number > 0")
    if not 0 <= loss <= 10:
        raise InputError(f"loss = {loss:g}: want a share of the time from 0 to 10")
    tried = np.array(limits if limits is not None else rated * np.arange(1.0, LEAST_LIMIT - 1e-9, -0.05))
    for limit in tried[(tried <= 0) | (tried > rated)][:1]:
        raise InputError(f"limit {limit:g} W: want above 0 and at most the rated power, {rated:g} W")
    slower, drawn = model.ratios(power, tried, rated)
    time_spread, power_spread = model.spreads(power, tried)
    width = quantile(DEFAULT_LEVEL, None)
    energy = time * power * slower * drawn
    spread = np.hypot(time_spread, power_spread)
    table = tuple(
        {
            "limit_W": float(limit),
            "time_s": float(time * t),
            "time_ratio": float(t),
            "low_ratio": float(t * math.exp(-width * st)),
            "high_ratio": float(t * math.exp(width * st)),
            "power_W": float(power * p),
            "energy_J": float(e),
            "energy_ratio": float(t * p),
            "low_energy_ratio": float(t * p * math.exp(-width * se)),
            "high_energy_ratio": float(t * p * math.exp(width * se)),
        }
        for limit, t, p, e, st, se in zip(tried, slower, drawn, energy, time_spread, spread, strict=True)
    )
    allowed = [row for row in table if row["time_ratio"] <= 1 + loss]
    best = min(allowed, key=lambda row: (row["energy_ratio"], -row["limit_W"]), default=None)
    chosen = best["limit_W"] if best is not None and best["energy_ratio"] < 1 else float(rated)
    return PowerPlan(time, power, rated, loss, chosen, table)
