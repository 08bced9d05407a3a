"""What metered serving runs say of power: the laws of `ServingPower` and of `PowerModel`'s factors, as fitted.

A law gives the share of the cap that a device draws in the place of seconds: any positive quantity is fitted alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_file import FittedFile, load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, ParameterPrior
from slipstick.hwmodels.machine import Machine

MOST = 1.06
"""Mean power over the cap that a meter may show at most: boards hold their limit within a few per cent."""
COLUMNS = ("read", "flop", "ranks", "sequences", "narrow", "grouped")
"""Of `ServingWork.columns`."""
Use: TypeAlias = Literal["training", "inference"]
TEXT = "2025 text"
"""Group of the engines of today that serve text."""
ODDS = {
    "base": (0.5, 1.0, ("vendor", "era", "kind")),
    "read": (5.0, 1.0, ("generation",)),
    "flop": (10.0, 1.0, ()),
    "ranks": (1.0, 0.2, ()),
    "sequences": (1.1, 0.2, ("era",)),
    "narrow": (1.2, 0.5, ()),
    "grouped": (1.5, 0.5, ()),
}
"""Factors on the odds of the share: expected, log standard deviation, levels."""
MEANING = {
    "base": "odds of the share of the cap at no work",
    "read": "more at full memory bandwidth",
    "flop": "more at the peak of the matrix engines",
    "ranks": "more for each doubling of the ranks of a layer",
    "sequences": "more for sequences e times as many",
    "narrow": "more where experts' weights have less than 16 bits",
    "grouped": "more where attention runs in groups of ranks",
}
LEVELS = tuple(
    Grouping(name, width) for name, width in {"vendor": 0.3, "generation": 0.15, "era": 0.5, "kind": 0.3}.items()
)
FACTORS = {"active": (0.6, "what a device at work draws above idle, over idle"), "flop": (1.0, "energy of a flop"),
           "byte": (1.0, "energy of a byte")}  # fmt: skip


def _shares(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Shares of rows."""
    logs = np.log(parameters["base"]) + sum(np.log(parameters[name]) * columns[name] for name in COLUMNS)
    return np.asarray(MOST / (1 + np.exp(-logs)), dtype=float)


POWER_LAW = FormulaLaw(
    "serving-power",
    tuple(
        ParameterPrior(name, "1", MEANING[name], value, width, 1e-4, 1e4, f"{width:g}", levels)
        for name, (value, width, levels) in ODDS.items()
    ),
    _shares,
    LEVELS,
)
"""Share of the cap that a device draws which works all the time: MOST odds / (1 + odds), factors on the odds."""


def _shares_by_factors(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Shares of rows; columns idle, flop and byte are watts over the cap where each factor is 1."""
    drawn = columns["idle"] * (1 + parameters["active"])
    return np.asarray(
        np.minimum(1.0, drawn + parameters["flop"] * columns["flop"] + parameters["byte"] * columns["byte"])
    )


FACTORS_LAW = FormulaLaw(
    "serving-power-factors",
    tuple(
        ParameterPrior(name, "1", meaning, value, 1.0, 1e-3, 100.0, levels=("use", "generation"))
        for name, (value, meaning) in FACTORS.items()
    ),
    _shares_by_factors,
    (Grouping("use", 0.5), Grouping("generation", 0.15)),
)
"""The same share by `PowerModel`: idle, what a device at work draws above it, flop and bytes; held at the cap."""


@dataclass(frozen=True, eq=False)
class PowerFit:
    """Both laws as fitted."""

    power: LawFit
    factors: LawFit

    @classmethod
    def of(cls, document: FittedFile) -> PowerFit:
        """From a file of fitted numbers.

        Raises InputError where one of the two laws is missing.
        """
        return cls(document.fit(POWER_LAW.name), document.fit(FACTORS_LAW.name))

    def slopes(self, groups: Mapping[str, str]) -> dict[str, float]:
        """Log odds by `ServingPower`'s names, for groups (`power_groups`)."""
        values = self.power.values(POWER_LAW, {level.name: [groups[level.name]] for level in LEVELS})
        return {name: math.log(float(value[0])) for name, value in values.items()}

    def half_width(self, columns: Columns, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of log power of one row of work."""
        return float(self.power.half_width(POWER_LAW, columns, {name: [one] for name, one in groups.items()})[0])

    def values(self, groups: Mapping[str, str]) -> dict[str, float]:
        """The factors of `PowerModel` for groups (`power_groups`)."""
        each = {name: [one] for name, one in groups.items()}
        return {name: float(value[0]) for name, value in self.factors.values(FACTORS_LAW, each).items()}

    def factors_half_width(self, columns: Columns, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of log power by the factors."""
        each = {name: [one] for name, one in groups.items()}
        return float(self.factors.half_width(FACTORS_LAW, columns, each)[0])

    def knows(self, machine: Machine) -> bool:
        """Whether runs on its family were metered."""
        return machine.family in self.power.seen("generation") | self.factors.seen("generation")


def power_groups(machine: Machine, kind: str = TEXT, use: Use = "inference") -> dict[str, str]:
    """The groups of a device at work: `kind` is the era of the engine that serves, and text or images."""
    return {
        "vendor": machine.family.split("-")[0], "generation": machine.family, "era": kind.split()[0], "kind": kind,
        "use": use,
    }  # fmt: skip


@cache
def power_fit() -> PowerFit:
    """The fitted numbers that ship."""
    return PowerFit.of(load_fitted("serving-power"))
