"""A named quantity of an answer: what is wanted, in its unit, with its band and which way is better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slipstick.common.columns import (
    PREFIXED,
    RATE,
    SHARE,
    SUFFIXES,
    Better,
    Column,
    amount_shown,
    amounts_shown,
)
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.sureness import within_near


@dataclass(frozen=True)
class Quantity:
    """One number of an answer.

    `name`: as a question names it ("time", "ttft", "output").
    `value`: in `unit`, an SI unit or one of `SUFFIXES`.
    `low`, `high`: ends of its 80 % band, which need not lie evenly around the value; None where no band is known.
    `better`: whether less or more of it is better; "" for neither.
    `meaning`: in a few words.
    `parts`: amounts by name, in its unit, that sum to it; empty where nothing says.

    Raises
    ------
    InputError
        Where the value is not finite or below 0, the unit is unknown, or the value lies outside its band.
    """

    name: str
    value: float
    unit: str = "s"
    low: float | None = None
    high: float | None = None
    better: Better = "less"
    meaning: str = ""
    parts: FrozenDict[float] = FrozenDict()

    def __post_init__(self) -> None:
        if self.unit not in SUFFIXES:
            raise InputError(f"unit of {self.name}: {self.unit!r}: want one of {', '.join(SUFFIXES)}")
        if not (math.isfinite(self.value) and self.value >= 0):
            raise InputError(f"estimated {self.name} = {self.value!r} {self.unit}: want a finite value >= 0")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise InputError(f"{self.name}: band {self.low:g} .. {self.high:g} does not hold its value {self.value:g}")

    @property
    def key(self) -> str:
        """Its column in tables, JSON and CSV: ``ttft_s``, ``output_tokens_per_s``."""
        suffix = SUFFIXES[self.unit]
        return suffix if suffix.startswith(f"{self.name}_") else f"{self.name}_{suffix}" if suffix else self.name

    @property
    def band(self) -> tuple[float, float] | None:
        """Both ends of its 80 % band; None where it is not known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def within(self) -> float | None:
        """Probability that the truth is within 20 % of it; None where no band is known."""
        return within_near(self.value, *self.band) if self.band and self.value > 0 else None

    def row(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "quantity": self.name,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "unit": self.unit,
            "better": self.better,
            "meaning": self.meaning,
        }

    def columns(self) -> dict[str, float | None]:
        """Value and ends under their keys: ``ttft_s``, ``low_ttft_s``, ``high_ttft_s``."""
        return {self.key: self.value, f"low_{self.key}": self.low, f"high_{self.key}": self.high}

    def declared(self, head: str = "") -> tuple[Column, Column]:
        """Its columns in a table: of the value, and of the band; `head` where the value does not stand beside it."""
        rate, plain = self.unit.endswith("/s"), self.unit in PREFIXED or self.unit == "1"
        unit = RATE if rate else SHARE if self.unit == "1" else self.unit if plain else ""
        name = self.name if plain else self.unit if self.unit.startswith(self.name) else f"{self.name} {self.unit}"
        value = Column(self.key, name, unit, better=self.better)
        return value, Column(f"low_{self.key}", head, unit, f"high_{self.key}")

    def text(self) -> str:
        """``2,022 tokens/s (80 %: 1,823 .. 2,250 tokens/s)``: a unit stands once where both ends have it."""
        if self.band is None:
            return amount_shown(self.value, self.unit)
        return f"{amount_shown(self.value, self.unit)} (80 %: {amounts_shown(*self.band, self.unit)})"
