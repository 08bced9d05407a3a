"""Numbers as people read them: SI prefixes, three digits, one unit for what stands together; typed values exactly.

The terminal, pages, pictures and notebooks all take their texts from here. Imports nothing that takes time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PREFIXES = (
    ("p", 1e-12),
    ("n", 1e-9),
    ("µ", 1e-6),
    ("m", 1e-3),
    ("", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
)
_LONG_TIMES = (("min", 60.0), ("h", 3600.0))
_WHOLE = ("B", "flop", "FLOP", "Hz")
"""Units of what is counted, or seldom less than one: they take no milli."""
_WITH_PREFIX = ("s", "J", "W", "Hz", "B", "flop", "FLOP")
LEAST_PERCENT = 0.01
"""Per cent below which a share is only said to be smaller."""
_LONG_FROM = {"min": 60.0, "h": 7200.0}
"""Seconds from which a time is written in minutes and in hours."""


LONGEST_IN_DECIMALS = 1e21
"""Numbers beyond are no quantities of machines; their digits would fill a line."""


def digits_shown(value: float, digits: int = 3) -> str:
    """A number in decimals, however large or small: nobody reads an exponent of a time, a price or a ratio.

    >>> digits_shown(0.0000685), digits_shown(100.4, 2), digits_shown(1.234e15)
    ('0.0000685', '100', '1,230,000,000,000,000')
    """
    short = f"{value:.{digits}g}"
    return f"{Decimal(short):,f}" if "e" in short and abs(value) < LONGEST_IN_DECIMALS else short


def ratio_shown(ratio: float) -> str:
    """How many times: ``1.15``, ``12,300``.

    >>> ratio_shown(1.147), ratio_shown(100.0), ratio_shown(12_345.0)
    ('1.15', '100', '12,300')
    """
    return digits_shown(ratio)


def money_shown(dollars: float) -> str:
    """Dollars in words: ``0.0000685 $``, ``2.5 $``, ``1,230 $``, ``4.56 M $``.

    >>> money_shown(6.85e-05), money_shown(1234.0), money_shown(4_560_000.0)
    ('0.0000685 $', '1,230 $', '4.56 M $')
    """
    return f"{count_shown(dollars)} $"


def _named(unit: str) -> str:
    return unit.replace("byte", "B").replace("dollar/hour", "$/h").removesuffix("1")


@dataclass(frozen=True)
class UnitScale:
    """A unit with its prefix, and how many base units it holds: ``UnitScale("ms", 1e-3)``."""

    name: str
    factor: float

    def number(self, value: float, digits: int = 3) -> str:
        """The number that stands before the unit's name."""
        scaled = float(f"{value / self.factor:.{digits}g}")
        whole = 1e3 <= abs(scaled) < math.inf and float(scaled).is_integer()
        return f"{scaled:,.0f}" if whole else digits_shown(scaled, digits)

    def text(self, value: float, digits: int = 3) -> str:
        """The number with the unit."""
        return f"{self.number(value, digits)} {self.name}".strip()


def scales(unit: str) -> tuple[UnitScale, ...]:
    """The prefixes that a base unit takes, smallest first."""
    name = _named(unit)
    if name == "%":
        return (UnitScale("%", 1.0),)
    if name.partition("/")[0] not in _WITH_PREFIX:
        return (UnitScale(name, 1.0),)
    known = tuple(UnitScale(f"{prefix}{name}", factor) for prefix, factor in _PREFIXES)
    if name == "s":
        return (*known[:5], *(UnitScale(long, factor) for long, factor in _LONG_TIMES))
    return known[4:] if name.partition("/")[0] in _WHOLE else known


def common_scale(values: Iterable[float | None], unit: str) -> UnitScale | None:
    """The one unit in which all of these numbers have readable digits; None where they lie too far apart.

    >>> [common_scale(values, "s").name for values in ([0.0262, 1.2], [0.596, 1.22], [0.258, 0.529], [35.7, 103.3])]
    ['ms', 's', 'ms', 's']
    """
    sizes = [float(f"{abs(value):.3g}") for value in values if value is not None and value and math.isfinite(value)]
    known = scales(unit)
    if not sizes:
        return known[0] if len(known) == 1 else next(one for one in known if one.factor == 1.0)
    least, most = min(sizes), max(sizes)
    for low, first, high in ((0.1, 1.0, 1e3), (1.0, 1.0, 1e4), (0.001, 1.0, 1e3), (0.01, 0.0, 1e5)):
        for scale in reversed(known):
            begins = _LONG_FROM.get(scale.name, low * scale.factor) * (1 - 1e-12)
            if least >= begins and first * scale.factor <= most * (1 + 1e-12) < high * scale.factor:
                return scale
    return known[0] if len(known) == 1 else None


def shown_together(values: Sequence[float | None], unit: str, digits: int = 3) -> list[str]:
    """Numbers of one column in one unit, wherever that leaves them readable; "" for None.

    >>> shown_together([0.0262, 1.2, None], "s"), shown_together([0.9e9, 1.98e9], "Hz")
    (['26.2 ms', '1,200 ms', ''], ['0.9 GHz', '1.98 GHz'])
    """
    scale = common_scale(values, unit)
    return [
        "" if value is None else scale.text(value, digits) if scale and math.isfinite(value) else shown(value, unit)
        for value in values
    ]


def ends_shown(low: float, high: float, unit: str = "s") -> str:
    """Both ends of a band with the unit once: ``83 .. 134 ms``; numbers without a unit alone.

    >>> ends_shown(35.7, 103.3), ends_shown(0.5, 2.0, "")
    ('35.7 .. 103 s', '0.5 .. 2')
    """
    scale = common_scale((low, high), unit)
    if unit == "%":
        return f"{shown(low, unit).removesuffix(' %')} .. {shown(high, unit)}"
    if scale is None:
        return f"{shown(low, unit)} .. {shown(high, unit)}"
    return f"{scale.number(low)} .. {scale.text(high)}"


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """A number of a data sheet, with four digits: ``format_quantity(1.238e9, "Hz") == "1.238 GHz"``."""
    name = _named(unit)
    if value == 0 or not math.isfinite(value) or not name:
        return f"{_plain(value, digits)} {name}".strip()
    if unit == "s" and value >= 60:
        minutes = value / 60
        return f"{_plain(minutes, digits)} min" if minutes < 120 else f"{_plain(minutes / 60, digits)} h"
    small = abs(value) < 1 and name.partition("/")[0] not in _WHOLE
    known = [one for one in _PREFIXES if (one[1] < 1 if small else one[1] >= 1)]
    prefix, factor = next(((p, f) for p, f in reversed(known) if abs(value) >= f * (1 - 1e-12)), known[0])
    return f"{_plain(value / factor, digits)} {prefix}{name}"


def _plain(value: float, digits: int) -> str:
    """The same without commas, as a field of a machine file is read back."""
    return digits_shown(value, digits).replace(",", "")


def shown(value: float, unit: str) -> str:
    """Three significant digits and an SI prefix: ``105 ms``, ``1.53 GHz``, ``77 %``."""
    if value == 0:
        return f"0 {_named(unit)}".strip()
    if unit == "%":
        if 0 < value < LEAST_PERCENT:
            return f"<{LEAST_PERCENT:g} %"
        return f"{value:.0f} %" if abs(value) >= 10 else f"{digits_shown(value, 2)} %"
    number, _, rest = format_quantity(float(f"{value:.3g}"), unit).partition(" ")
    whole = "e" in f"{float(number):.3g}" and abs(float(number)) >= 1
    return f"{float(number):.0f} {rest}".strip() if whole else f"{digits_shown(float(number))} {rest}".strip()


def typed_shown(value: float, unit: str = "") -> str:
    """A number that somebody typed, with the digits that it was typed with, up to ten: ``1,024``, ``1.728 TB/s``.

    >>> typed_shown(1024.0), typed_shown(0.12345), typed_shown(1.728e12, "byte/s"), typed_shown(1e7)
    ('1,024', '0.12345', '1.728 TB/s', '10,000,000')
    """
    if not unit or not value:
        exact = f"{value:,.10g}"
        return f"{digits_shown(value, 10) if 'e' in exact else exact} {_named(unit)}".strip()
    scale = common_scale([value], unit)
    return scale.text(value, 10) if scale else format_quantity(value, unit, 10)


def share_shown(share: float) -> str:
    """A part of a whole, 0..1, in per cent: ``77 %``."""
    return shown(100 * share, "%")


def shares_shown(shares: Mapping[str, float]) -> str:
    """``memory 60 %, fixed 40 %``: the largest first."""
    return ", ".join(f"{name} {share_shown(share)}" for name, share in sorted(shares.items(), key=lambda one: -one[1]))


def count_shown(value: float) -> str:
    """A count, with three significant digits: ``2,470``, ``12.3``, ``1.53 M``."""
    rounded = float(f"{value:.3g}")
    for name, scale in (("", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(rounded) >= scale:
            return f"{rounded / scale:.3g} {name}" if name else digits_shown(value)
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else digits_shown(rounded)


def number_shown(value: float, digits: int = 3) -> str:
    """A number without a unit: whole ones whole, others with three digits: ``1,024``, ``2,470``, ``0.813``."""
    if math.isfinite(value) and float(value).is_integer() and 1e3 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return count_shown(value) if digits == 3 and abs(value) >= 1e3 else f"{value:.{digits}g}"


def visible(text: str) -> str:
    """A text for a terminal: what would steer it, or turn the direction of writing, is shown as ``\\x1b``."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


_SUFFIX = re.compile(r"\.(json|ya?ml|onnx|mtx|npz|edges|gz)(?=\.|$)")


def short_name(text: str) -> str:
    """A name, or that of a file without its folders and suffixes, in the letters of plain names.

    >>> short_name("decode:llama-3.1-8b"), short_name("mine/my-host.yaml")
    ('decode llama-3.1-8b', 'my-host')
    """
    return re.sub(r"[^A-Za-z0-9._ -]", " ", _SUFFIX.sub("", PurePath(text).name)).strip()


def shortened(text: str, length: int, ends: str = " ...") -> str:
    """A text cut between words, or in its only one, to at most `length` characters; whole where it fits.

    >>> shortened("37% of the time is beyond", 16)
    '37% of the ...'
    """
    if len(text) <= length:
        return text
    kept = text[: length - len(ends) + 1]
    return (kept.rpartition(" ")[0] or kept[:-1]).rstrip(" ,;:(") + ends
