"""Quantities as people read them: SI prefixes, three significant digits. Imports nothing that takes time."""

from __future__ import annotations

import math
import re
from pathlib import PurePath

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SCALES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))
_SMALL = (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12))


def format_quantity(value: float, unit: str) -> str:
    """A short text for people: ``format_quantity(1.238e9, "Hz") == "1.238 GHz"``."""
    unit = unit.replace("byte", "B").replace("dollar/hour", "$/h").removesuffix("1")
    if value == 0 or not math.isfinite(value) or not unit:
        return f"{value:.4g} {unit}".strip()
    if unit == "s" and value >= 60:
        minutes = value / 60
        return f"{minutes:.4g} min" if minutes < 120 else f"{minutes / 60:.4g} h"
    scales = reversed(_SCALES) if abs(value) >= 1 else iter(_SMALL)
    prefix, factor = next(((p, f) for p, f in scales if abs(value) >= f * (1 - 1e-12)), _SMALL[-1])
    return f"{value / factor:.4g} {prefix}{unit}"


def shown(value: float, unit: str) -> str:
    """Three significant digits and an SI prefix: ``105 ms``, ``1.53 GHz``, ``77 %``."""
    if value == 0:
        return f"0 {unit}".strip()
    if unit == "%":
        return f"{value:.0f} %" if abs(value) >= 10 else f"{value:.2g} %"
    number, _, rest = format_quantity(float(f"{value:.3g}"), unit).partition(" ")
    short = f"{float(number):.3g}"
    return f"{float(number):.0f} {rest}" if "e" in short else f"{short} {rest}".strip()


def count_shown(value: float) -> str:
    """A count, with three significant digits: ``2,470``, ``12.3``, ``1.53 M``."""
    for name, scale in (("", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}" if name else f"{value:.3g}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


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
