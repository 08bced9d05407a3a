"""The front of time and energy under power limits, and the limit that saves most energy for a given loss of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.answer import Answer, Provenance
from slipstick.common.columns import Column
from slipstick.common.errors import InputError
from slipstick.estimators.power.power_limit import PowerLimit, fitted_limit
from slipstick.estimators.power.power_limit_run import PowerLimitRun

LEAST_LIMIT = 0.4
"""Vendors accept no limit below about this share of the rated power."""


@dataclass(frozen=True, repr=False)
class PowerPlan(Answer):
    """One row a limit: time, power and energy of the run, each with its 80 % band.

    `time`, `power`, `rated`: of the run without a limit [s], [W], and the board's rated power [W].
    `loss`: how much longer it may take (0.03 is 3 %).
    `best`: the limit that saves most energy within the loss [W]; the rated power where none saves any.
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

    @property
    def provenance(self) -> Provenance:
        """From a metered run."""
        return "calibrated"

    @property
    def heads(self) -> tuple[str, ...]:
        """The limit that was chosen, what it saves and what it costs."""
        chosen = next((row for row in self.table if row["limit_W"] == self.best), self.table[0])
        return (
            f"limit {self.best:.0f} W: {1 - chosen['energy_ratio']:.0%} less energy for "
            f"{chosen['time_ratio'] - 1:.1%} more time (at most {self.loss:.0%})",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """On what the factors were fitted."""
        return ("assuming: training on one GPU; fitted on P100, V100 and RTX 6000 (validate energy); bands 80 %",)

    @property
    def declared(self) -> tuple[Column, ...]:
        """Ratios of time and energy to the run without a limit, less is better."""
        return (Column("limit_W", "limit", "W"), Column("energy_ratio", "energy ratio", better="less"))


def power_plan(
    time: float,
    power: float,
    rated: float,
    loss: float = 0.03,
    limits: Sequence[float] | None = None,
    model: PowerLimit | None = None,
) -> PowerPlan:
    """Time and energy of a measured run under power limits.

    `time`, `power`: measured without a limit: seconds, and mean watts of the device.
    `rated`: the board's rated power [W].
    `loss`: how much longer the run may take.
    `limits`: limits to try [W]; by default steps of 5 % from 40 % of the rated power.
    Raises InputError where a number is not above 0, or a limit or the mean power lies above the rated power.
    """
    run = PowerLimitRun(time, power, model or fitted_limit())
    if not (math.isfinite(rated) and rated > 0):
        raise InputError(f"rated power = {rated:g}: want a finite number > 0")
    if power > rated:
        raise InputError(
            f"mean power = {power:g} W: above the board's rated power, {rated:g} W; is it that of one device, "
            "under no higher limit?"
        )
    if not 0 <= loss <= 10:
        raise InputError(f"loss = {loss:g}: want a share of the time from 0 to 10")
    tried = np.array(limits if limits is not None else rated * np.arange(1.0, LEAST_LIMIT - 1e-9, -0.05))
    for limit in tried[(tried <= 0) | (tried > rated)][:1]:
        raise InputError(f"limit {limit:g} W: want above 0 and at most the rated power, {rated:g} W")
    table = tuple(_row(run, float(limit), rated) for limit in tried)
    allowed = [row for row in table if row["time_ratio"] <= 1 + loss]
    best = min(allowed, key=lambda row: (row["energy_ratio"], -row["limit_W"]), default=None)
    chosen = best["limit_W"] if best is not None and best["energy_ratio"] < 1 else float(rated)
    return PowerPlan(time, power, rated, loss, chosen, table)


def _row(run: PowerLimitRun, limit: float, rated: float) -> dict[str, float]:
    """A limit as the estimator of the run answers it."""
    answer = run.under(limit, rated)
    power, energy, band = answer.quantities["power"], answer.quantities["energy"], answer.band or (run.time, run.time)
    joules = run.time * run.power
    return {
        "limit_W": limit,
        "time_s": answer.time,
        "time_ratio": answer.time / run.time,
        "low_ratio": band[0] / run.time,
        "high_ratio": band[1] / run.time,
        "power_W": power.value,
        "energy_J": energy.value,
        "energy_ratio": energy.value / joules,
        "low_energy_ratio": (energy.low or 0.0) / joules,
        "high_energy_ratio": (energy.high or math.inf) / joules,
    }
