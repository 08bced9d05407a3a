"""Values of named quantities as people read them: three digits, SI prefixes, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.experiments.answers.lines import ends_shown
from slipstick.experiments.answers.several import NARROW
from slipstick.hwmodels.files.records import unit_at
from slipstick.hwmodels.files.shown import count_shown, shown
from slipstick.hwmodels.machine import Machine

UNITS = {"time_s": "s", "energy_J": "J", "memory_B": "byte"}
NAMES = {"time_ratio": "ratio", "time_s": "time", "energy_J": "energy", "cost_usd": "cost", "memory_B": "memory"}
"""Heads of columns in tables; JSON and CSV keep the keys."""
BANDS = {"low_ratio": ("high_ratio", "of ratio"), "low_s": ("high_s", "of time")}


def value_shown(name: str, value: float) -> str:
    """A quantity by its dotted name: ``machine.clock`` 1.53e9 is ``1.53 GHz``; counts stay whole."""
    space, _, path = name.partition(".")
    unit = unit_at(Machine, path.split(".")) if space == "machine" else ""
    if unit:
        return shown(value, unit)
    if float(value).is_integer() and abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1e4 else count_shown(value)


def typed_shown(name: str, value: float) -> str:
    """As `value_shown`, with as many digits as somebody typed, up to six: ``1728GB/s`` is ``1.728 TB/s``.

    >>> typed_shown("machine.memory.HBM3.bandwidth", 1.728e12), typed_shown("machine.clock", 1.5e9)
    ('1.728 TB/s', '1.5 GHz')
    """
    space, _, path = name.partition(".")
    unit = unit_at(Machine, path.split(".")) if space == "machine" else ""
    if not unit or float(f"{value:.3g}") == value:
        return value_shown(name, value)
    number, _, prefixed = shown(value, unit).partition(" ")
    scale = float(f"{value:.3g}") / float(number)
    return f"{value / scale:.6g} {prefixed}"


def sweep_row(row: Mapping[str, Any], names: Sequence[str], level: float, width: int = 200) -> dict[str, Any]:
    """A row of a what-if: what varies in its unit, ratio and time each with its band in one cell.

    Parameters
    ----------
    width
        Columns of the terminal: names lose their namespace where there are few.
    """
    short = {name: name.partition(".")[2] if width < NARROW else name for name in names}
    short = short if len(set(short.values())) == len(short) else dict(zip(names, names, strict=True))
    result: dict[str, Any] = {}
    ends = {high for high, _ in BANDS.values()}
    for key, value in row.items():
        if key in ends or key == "note":
            continue
        if key in BANDS:
            high, middle = BANDS[key]
            result[f"{100 * level:g} % {middle}"] = _band(
                value, row.get(high), UNITS.get("time_s" if key == "low_s" else "")
            )
        elif value is None or isinstance(value, (str, bool)):
            result[NAMES.get(key, key)] = value
        elif key in names:
            result[short[key]] = typed_shown(key, float(value))
        elif key == "time_ratio":
            result["ratio"] = f"{value:.3g}"
        elif key == "cost_usd":
            result["cost"] = f"{value:.3g} $"
        else:
            result[NAMES.get(key, key)] = shown(float(value), UNITS[key]) if key in UNITS else value
    return result


VALUES = ("value", "today", "needed", "turns_at")
"""Columns that hold a value of the quantity that their row names."""


def row_shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of explain's tables, the value of its quantity in its unit, shares in per cent."""
    name = str(row.get("quantity", ""))
    result: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            result[key] = value
        elif key in VALUES:
            result[key] = value_shown(name, float(value))
        elif key == "share":
            result[key] = shown(100 * value, "%")
        else:
            result[key] = f"{value:.3g}" if isinstance(value, float) else value
    return result


def _band(low: float | None, high: float | None, unit: str | None) -> str:
    if low is None or high is None:
        return ""
    return f"{low:.3g} .. {high:.3g}" if unit is None else ends_shown(low, high, unit)
