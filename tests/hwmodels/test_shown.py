"""Numbers for people: in decimals, with one prefix at most, and true to three digits, whatever their magnitude."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slipstick.common.columns import PREFIXED, amount_shown, amounts_shown, for_people
from slipstick.common.formatting import (
    count_shown,
    ends_shown,
    format_quantity,
    money_shown,
    ratio_shown,
    share_shown,
    shown,
    shown_together,
    typed_shown,
)

MAGNITUDES = st.floats(-12.0, 15.0).map(lambda power: 10.0**power)
PREFIX = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Of the International System of Units."""
LONG = {"min": 60.0, "h": 3600.0}
UGLY = re.compile(r"\de[-+]?\d|\d [kMGTP] [pnµmkMGTP]?(s|min|h|B|Hz|J|W)\b|(?<![\d.,])0(\.0+)? ?/s|\bnan\b|\binf\b")
"""Exponents, two prefixes, and no speed at all."""
FORMATTERS: dict[str, Callable[[float], str]] = {
    **{unit: lambda value, unit=unit: shown(value, unit) for unit in PREFIXED},  # type: ignore[misc]
    "money": money_shown,
    "ratio": ratio_shown,
    "count": count_shown,
    "share": share_shown,
    "typed": lambda value: typed_shown(value, "s"),
    "plain": typed_shown,
    "quantity": lambda value: format_quantity(value, "byte/s"),
    "rate": lambda value: amount_shown(value, "tokens/s"),
    "dollars": lambda value: amount_shown(value, "$/Mtoken"),
    "together": lambda value: shown_together([value, 3 * value], "s")[0],
    "ends": lambda value: ends_shown(value, 1.5 * value),
    "amounts": lambda value: amounts_shown(value, 2 * value, "requests/s"),
    "row": lambda value: str(
        for_people([{"time_s": value, "cost_usd": value, "time_ratio": value, "tokens_per_s": value}])
    ),
}


def _value(text: str) -> float:
    """The number that a text says, in its base unit."""
    number, _, unit = text.removeprefix("<").partition(" ")
    if unit == "%":
        return float(number.replace(",", "")) / 100
    factor = LONG.get(unit) or PREFIX.get(unit.removesuffix("$").strip()) or PREFIX.get(unit[:1], 1.0)
    return float(number.replace(",", "")) * (1.0 if unit in ("s", "B", "J", "W", "Hz", "$") else factor)


@pytest.mark.parametrize("name", list(FORMATTERS))
@given(value=MAGNITUDES)
@example(value=6.85e-05)
@example(value=99.96)
@example(value=1e15)
@example(value=1420.0)
def test_no_exponent_no_second_prefix_and_no_speed_of_nothing(name: str, value: float) -> None:
    assert not UGLY.search(FORMATTERS[name](value)), FORMATTERS[name](value)


@pytest.mark.parametrize("name", ["s", "J", "W", "money", "ratio", "count", "typed"])
@given(value=MAGNITUDES)
def test_a_text_says_the_number_to_three_digits(name: str, value: float) -> None:
    assert _value(FORMATTERS[name](value)) == pytest.approx(value, rel=0.0051)
