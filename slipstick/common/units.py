"""SI floats inside, unit strings at the edge.

Fields say their unit and range in their type: ``clock: Hertz``. What a user writes ("852 MHz", "16 KiB",
"4.323 GB/s") becomes a float in the base unit when the record is made; a bare number is already in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from slipstick.common.errors import InputError

if TYPE_CHECKING:
    import pint


LONGEST = 1e12
"""Seconds: thirty thousand years."""
MOST = 2**53
"""Of a count: beyond it a float no longer tells whole numbers apart."""


@dataclass(frozen=True)
class Unit:
    """The base unit and the range of a field, carried by its type; reads texts with units.

    `name`: as pint writes it; "1" is a plain number.
    `low`, `above`, `high`: the least value, the value that must be exceeded, the largest value.
    """

    name: str
    low: float | None = None
    above: float | None = None
    high: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.float_schema(ge=self.low, gt=self.above, le=self.high, allow_inf_nan=False)
        return core_schema.no_info_before_validator_function(lambda value: parse_quantity(value, self.name), number)


@cache
def _registry() -> pint.UnitRegistry[float]:
    import pint

    registry: pint.UnitRegistry[float] = pint.UnitRegistry()
    registry.define("flop = [operation]")
    registry.define("dollar = [money] = USD")
    registry.define("clockcycle = [clockcycle]")
    registry.define("databyte = [data]")  # pint's byte is eight of nothing: 60 GHz would convert to 7.5 GB/s
    registry.define("databit = databyte / 8")
    return registry


_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(.*?)\s*\Z")
_UNIT = re.compile(r"[A-Za-zµμ°%$ */^0-9.()-]+")
# a power of one digit of a name: powers of numbers or of powers would take for ever
_POWERS = re.compile(r"(?<=[A-Za-z])\s*(?:\*\*|\^)\s*-?[0-9](?![0-9.^]|\s*\*\*)")


def _wanted(unit: str) -> str:
    return "want a number" if unit == "1" else f"want a number in {unit} or a text such as '1 {unit}'"


def parse_quantity(value: object, unit: str) -> float:
    """A number or a string with a unit, as a float in the base unit.

    `value`: a number (taken to be in `unit` already) or a text such as ``"852 MHz"``.
    `unit`: the base unit; ``"1"`` for a plain number.
    Raises InputError where the text is no number with a unit, or its unit does not convert.

    Examples
    --------
    >>> parse_quantity("852 MHz", "Hz")
    852000000.0
    >>> parse_quantity("16 KiB", "byte")
    16384.0
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{value!r} is no quantity: {_wanted(unit)}")
    if isinstance(value, (int, float)):
        return float(value)
    match = _QUANTITY.match(value) if len(value) <= 64 else None
    if match is None:
        raise InputError(f"{value[:64]!r} is no quantity: {_wanted(unit)}")
    number, written = float(match[1].replace("_", "")), match[2]
    if not written:
        return number
    return number * _factor(written, unit)


def parse_multiple(value: object) -> float | None:
    """The factor of a text such as ``"1.2x"``, which multiplies what stands; None where it is no such text.

    Examples
    --------
    >>> parse_multiple("1.2x")
    1.2
    """
    match = _QUANTITY.match(value) if isinstance(value, str) and len(value) <= 64 else None
    return float(match[1].replace("_", "")) if match is not None and match[2] in ("x", "×") else None


def check_count(name: str, value: float, least: int = 1) -> None:
    """Check that a count is a whole number, and one that a float can tell from the next.

    Raises InputError where it is not.
    """
    if not (least <= value <= MOST and value == round(value)):
        more = f", at most {MOST:,}" if value > MOST else ""
        raise InputError(f"{name} = {value:g}: want a whole number >= {least}{more}")


_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d{1,2}(?:[.,]\d+)?)")
_SPELT = re.compile(r"(?:(\d+) ?d ?)?(?:(\d+) ?h ?)?(?:(\d+) ?m(?:in)? ?)?(?:(\d+(?:[.,]\d+)?) ?s)?")


def parse_clock(text: str) -> float | None:
    """Seconds of a duration on the clock, [D-]HH:MM:SS or MM:SS, or in two or more units; None where the text is none.

    Examples
    --------
    >>> parse_clock("1-02:03:04"), parse_clock("12:30.5"), parse_clock("1m12.25s"), parse_clock("12 min")
    (93784.0, 750.5, 72.25, None)
    """
    match = _CLOCK.fullmatch(text.strip()) or _SPELT.fullmatch(text.strip())
    if match is None or sum(part is not None for part in match.groups()) < 2:
        return None
    days, hours, minutes, seconds = (float((part or "0").replace(",", ".")) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0}
SECONDS |= dict.fromkeys(("", "s", "sec", "secs", "seconds"), 1.0)
"""Units of times in files; one that is not stated is the second."""
TIME_WORDS = ("time", "runtime", "seconds", "duration", "elapsed", "walltime")
_NAMED_UNIT = re.compile(r"(.+?)(?:[\s_]*[\[(_ /](s|secs?|seconds|[mnuµ]s|min|h)[\])]?|(?<=[a-z])(Ns))")
_OF_EACH = re.compile(r"()()(s|ms|us|µs|ns|min|h)(?: ?/| per |_per_)")


def named_unit(name: str) -> tuple[str, str]:
    """What a column's name says without its unit, in lower case, and the unit of a time in it; "" where it has none.

    >>> named_unit("Wall time [ms]"), named_unit("TotalDurationNs"), named_unit("threads")
    (('wall time', 'ms'), ('totalduration', 'ns'), ('threads', ''))
    """
    match = _NAMED_UNIT.fullmatch(name) or _OF_EACH.match(name)
    return (match[1].strip().lower(), (match[2] or match[3]).lower()) if match else (name.strip().lower(), "")


def time_columns(names: Iterable[str], words: Sequence[str] = TIME_WORDS, *, alone: bool = False) -> list[str]:
    """The columns that say a time: the name is one of the words beside its unit, else ends in one, with a unit or not.

    Those that are surest come first: of the same kind, of which others follow only where none is of that kind.
    `alone`: only names that are one of the words, in the order of these.
    """
    stems = {name: named_unit(name) for name in names}
    exact = [name for word in words for name, (stem, _) in stems.items() if re.sub(r"[\s_]", "", stem) == word]
    stated = [name for name, (stem, unit) in stems.items() if unit and stem.endswith(tuple(words))]
    ends = re.compile(rf".*(?:[\s_.(]|run|wall|clock)(?:{'|'.join(map(re.escape, words))})")
    return exact if alone else exact or stated or [name for name, (stem, _) in stems.items() if ends.fullmatch(stem)]


_SPAN = r"(?:s|secs?|seconds?|min|minutes?|h|hours?)(?![a-z])"
_PER_TIME = re.compile(rf"/ ?{_SPAN}|(?<![a-z])per[_ -]?{_SPAN}|persec(?:ond)?(?![a-z])")
_RATES = {
    "ops", "iops", "qps", "rps", "tps", "fps", "ips", "cps", "flops", "bps", "mips", "bogomips", "teps", "gups", "lups",
    "hz", "rate", "throughput", "bandwidth", "speed",
}  # fmt: skip
_SCALE = re.compile(r"^[kmgtp](?=(?:flops|bps|teps|lups|hz)$)")


def is_rate(name: str) -> bool:
    """Whether a column's name or unit says that it counts something a second: "c/s", "tokens_per_s", "GFLOPS".

    Examples
    --------
    >>> [is_rate(name) for name in ("c/s", "tokens_per_s", "GFLOPS", "time_s", "ms/token", "time_per_step_s")]
    [True, True, True, False, False, False]
    """
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name).lower()
    words = (_SCALE.sub("", word) for word in re.split(r"[^a-z]+", text))
    return bool(_PER_TIME.search(text)) or any(word in _RATES for word in words)


def refuse_rate(name: str, path: object) -> None:
    """Refuse a rate in place of a time.

    Raises InputError where the name is one of a rate; says what to give instead.
    """
    if is_rate(name):
        raise InputError(
            f"{path}: {name} is a rate (so much a second), not a time: add a column of seconds, the work of a run "
            f"divided by {name}, and name that one"
        )


_ATOMS: dict[str, tuple[str, float]] = {  # the units in use: what they measure, and how many of its base
    **dict.fromkeys(("Hz",), ("Hz", 1.0)),
    **dict.fromkeys(("B", "byte", "bytes"), ("byte", 1.0)),
    **dict.fromkeys(("flop", "FLOP"), ("flop", 1.0)),
    **dict.fromkeys(("$", "dollar", "USD"), ("dollar", 1.0)),
    "s": ("s", 1.0),
    "min": ("s", 60.0),
    "h": ("s", 3600.0),
    "hour": ("s", 3600.0),
    "J": ("J", 1.0),
    "W": ("W", 1.0),
}
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SCALED = ("Hz", "s", "J", "W", "flop", "FLOP", "B", "byte")


def _atom(written: str) -> tuple[str, float] | None:
    """What one of the units in use measures and its factor; None for any other."""
    if written in _ATOMS:
        return _ATOMS[written]
    for length, scales in ((2, _BINARY), (1, _PREFIXES)):
        scale, base = scales.get(written[:length]), written[length:]
        if scale is not None and base in _SCALED and (length == 1 or base in ("B", "byte")):
            measure, factor = _ATOMS[base]
            return measure, scale * factor
    return None


def common_factor(written: str, unit: str) -> float | None:
    """The factor between two units in use, of the form A or A/B; None where either is another: pint knows those.

    >>> common_factor("GB/s", "byte/s")
    1000000000.0
    """
    if unit == "1":
        return 0.01 if written == "%" else None
    sides = [[_atom(part) for part in text.split("/")] for text in (written, unit)]
    if len(sides[0]) != len(sides[1]) or len(sides[0]) > 2:
        return None
    factors: list[float] = []
    for mine, theirs in zip(*sides, strict=True):
        if mine is None or theirs is None or mine[0] != theirs[0]:
            return None
        factors.append(mine[1] / theirs[1])
    return factors[0] / factors[1] if len(factors) == 2 else factors[0]


@cache
def _factor(written: str, unit: str) -> float:
    known = common_factor(written, unit)
    if known is not None:
        return known
    import pint

    registry = _registry()
    if not _UNIT.fullmatch(written) or re.search(r"\*\*|\^", _POWERS.sub("", written)):
        raise InputError(f"unknown unit {written!r}: want one that converts to {unit}")
    try:
        base = registry.Unit("dimensionless" if unit == "1" else _spelling(unit))
        # GHz-like prefixes are exact decimals: convert through the ratio to keep 1.238 GHz == 1.238e9
        return float(registry.Quantity(1.0, registry.Unit(_spelling(written))).to(base).magnitude)
    except pint.DimensionalityError:
        raise InputError(f"unit {written!r} does not convert to {'a plain number' if unit == '1' else unit}") from None
    except Exception:  # pint raises a dozen kinds for a text that is no unit
        raise InputError(f"unknown unit {written!r}: want one that converts to {unit}") from None


def _spelling(written: str) -> str:
    """Field spellings that pint lacks: flop prefixes, B for byte, percent."""
    text = re.sub(r"\b(?:cy|cycles?)\b", "clockcycle", written)  # a cycle of the clock, not a turn
    text = text.replace("%", "percent").replace("$", "dollar")
    text = re.sub(r"\b([KMGTP]i?|k)?B\b", r"\1byte", text)
    text = re.sub(r"bytes?\b", "databyte", re.sub(r"bits?\b", "databit", re.sub(r"bps\b", "bit/s", text)))
    text = re.sub(r"\b([kMGTPE]?)(?:FLOPs?|FLOPS|flops)\b", r"\1flop", text)
    return re.sub(r"\bK(?=databyte|databit|flop)", "k", text)


Hertz = Annotated[float, Unit("Hz", low=1e3)]
Bytes = Annotated[float, Unit("byte", low=0)]
BytesPerSecond = Annotated[float, Unit("byte/s", above=0)]
Seconds = Annotated[float, Unit("s", low=0, high=LONGEST)]
Duration = Annotated[float, Unit("s", above=0, high=LONGEST)]
Watts = Annotated[float, Unit("W", low=0)]
PerCycle = Annotated[float, Unit("1", above=0)]
JoulesPerFlop = Annotated[float, Unit("J/flop", low=0)]
JoulesPerByte = Annotated[float, Unit("J/byte", low=0)]
DollarsPerHour = Annotated[float, Unit("dollar/hour", low=0)]
