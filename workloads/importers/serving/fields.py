"""Fields of a benchmark's entries as numbers and text; everything that is wrong is reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipstick.common.errors import Problems
from slipstick.common.readers import number_of

UNSET = (None, "", "not set", "None", "null", "N/A", "n/a")
"""How programs write that a figure was not set, or is not known."""
AGREEMENT = 0.05
"""Share by which a rounded figure may differ from what the others make of it."""


@dataclass
class Fields:
    """The entries of one file: what is missing or wrong is collected (`wrong.refuse` ends the reading)."""

    path: object
    wrong: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.wrong = Problems(self.path)

    def number(self, entry: Mapping[str, Any], name: str, where: str, low: float = 0.0, high: float = 1e15) -> float:
        """A number of the file's unit within [low, high]; `low` where it is wrong."""
        if name in entry:
            with self.wrong:
                return number_of(entry[name], f"{where}: {name}", low, high)
        else:
            self.wrong.append(f"{where}: no field {name}")
        return low

    def optional(self, entry: Mapping[str, Any], name: str, where: str, low: float = 0.0) -> float | None:
        """A number of the file's unit, or None where the field is missing or empty."""
        return None if entry.get(name) in UNSET else self.number(entry, name, where, low)

    def agrees(self, entry: Mapping[str, Any], name: str, computed: float, means: str, where: str) -> None:
        """Note where a figure of the file is not what its other fields make of it, within `AGREEMENT`.

        `computed`: in the field's unit; `means`: the fields it is made of.
        """
        stated = self.optional(entry, name, where)
        if stated is not None and abs(stated - computed) > AGREEMENT * max(stated, computed):
            self.wrong.append(
                f"{where}: {name} = {stated:g} contradicts {means} = {computed:g}: edited, or not of one run"
            )


def text_of(entry: Mapping[str, Any], name: str) -> str:
    """The text of a field, of at most 200 characters; empty where it is missing."""
    value = entry.get(name)
    return "" if value is None else str(value)[:200]
