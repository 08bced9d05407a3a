"""What the columns of an answer hold: their unit, their band, which way is better; and their texts for people.

Every answer is rows of plain values in SI units. A `Column` says of one key what it is; terminal, pages and notebooks
show it by that, JSON and CSV keep key and value. Keys that many answers share are declared here once, others by their
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slipstick.common.formatting import (
    UnitScale,
    common_scale,
    count_shown,
    ends_shown,
    number_shown,
    ratio_shown,
    share_shown,
    shown,
    typed_shown,
)

Better = Literal["less", "more", "neither"]
SUFFIXES = {
    "s": "s",
    "J": "J",
    "W": "W",
    "byte": "B",
    "$": "usd",
    "1": "",
    "users": "",
    "J/token": "J_per_token",
    "tokens/s": "tokens_per_s",
    "requests/s": "per_s",
    "$/Mtoken": "usd_per_million_tokens",
}
"""Units of quantities, and how a key of a row ends that holds one: units stand in keys of JSON, CSV and tables."""
PREFIXED = ("s", "J", "W", "Hz", "byte", "byte/s", "flop/s")
"""Units that are shown with SI prefixes."""
LEVEL = "interval_level"
"""Key of the probability that the bands of a row hold, named in the heads of bands where it is one for all rows."""
SHARE = "1"
"""Unit of a part of a whole, 0..1, which people read in per cent."""
PART = "share"
"""The same of one row among rows of several units, where "1" is the unit of any plain number."""
RATE = "/s"
"""Unit of counts a second (tokens/s), which take no prefix."""
RATIO = "x"
"""Unit of how many times another value."""
PLAIN = {RATE: count_shown, RATIO: ratio_shown, SHARE: share_shown}
"""How numbers are shown whose unit takes no prefix: each by itself."""


@dataclass(frozen=True)
class Column:
    """A column of an answer.

    `key`: under which each row holds it, the same in JSON and CSV.
    `head`: what stands above it in a table; the key where left out.
    `unit`: base unit of values (``s``, ``J``, ``byte/s``), `SHARE`, `RATE`, `RATIO`; "" for other numbers and texts.
    `factor`: base units in a value of 1: 1e9 where gigabytes are kept.
    `high`: key of the upper end, where the column is the lower end of a band.
    `better`: which way is better, where one is.
    `typed`: whether somebody typed the values, which are then shown with all their digits.
    `about`, `unit_of`: key of the dotted name (``machine.clock``) whose unit each row's value has, and what gives that
        unit.
    `unit_in`: key under which each row states the unit of its value (`PART`: of a whole), where rows hold several
        quantities.
    """

    key: str
    head: str = ""
    unit: str = ""
    high: str = ""
    factor: float = 1.0
    better: Better = "neither"
    typed: bool = False
    about: str = ""
    unit_of: Callable[[str], str] | None = None
    unit_in: str = ""


def amount_shown(value: float, unit: str) -> str:
    """An amount for people, three digits: ``83.2 ms``, ``2,020 tokens/s``, ``41 %``."""
    if unit == SHARE:
        return share_shown(value)
    return shown(value, unit) if unit in PREFIXED else f"{count_shown(value)} {unit}"


def amounts_shown(low: float, high: float, unit: str) -> str:
    """Both ends of a band with their unit once: ``1,820 .. 2,250 tokens/s``."""
    if unit == SHARE:
        return ends_shown(100 * low, 100 * high, "%")
    return ends_shown(low, high, unit) if unit in PREFIXED else f"{count_shown(low)} .. {count_shown(high)} {unit}"


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Dotted names without their namespace, where that leaves them apart: ``clock`` for ``machine.clock``."""
    short = {name: name.partition(".")[2] for name in names}
    return short if len(set(short.values())) == len(short) else dict(zip(names, names, strict=True))


def _shared(unit: str, better: Better, ending: str, head_ending: str, names: str) -> list[Column]:
    return [
        Column(f"{name}_{ending}", f"{name.replace('_', ' ')}{head_ending}", unit, better=better)
        for name in names.split()
    ]


SECONDS = """
    arrival attention base busiest_time by_formula call calls contention cost counted cpu cpu_time default device host
    duration epoch exhaustive first_token fixed flop formula gather_beyond_L2 image irregular_row itl_p50 kernels
    last_token latency mean mean_step mean_tpot measured measured_step median median_time network_time nonzero
    operations p90 p99 phase_time plain predicted processor_time profiled projected prompts read repeat roofline
    row sampled scheduled service sim_tpot sim_ttft slow_first_extra spread start step thread_start time timed
    times today took total tpot tpot_median ttft ttft_median tuned value wall went_on
"""
BYTES = "cache caches example expert first hybrid parameter second size storage weight forward backward update"
KNOWN: Mapping[str, Column] = {
    column.key: column
    for column in (
        *_shared("s", "less", "s", "", SECONDS),
        *_shared("J", "less", "J", "", "energy dram_energy package_energy"),
        *_shared("W", "neither", "W", "", "power limit meter"),
        *_shared("byte", "neither", "B", "", "memory memory_needed memory_there"),
        *_shared("byte", "neither", "bytes", "", BYTES),
        *_shared("Hz", "neither", "Hz", "", "clock"),
        Column("memory_gb", "memory", "byte", factor=1e9, better="less"),
        *_shared("byte/s", "more", "B_per_s", "", "memory"),
        *_shared("flop/s", "more", "flop_per_s", "", "peak"),
        *_shared(
            RATE, "more", "per_s", "/s", "output_tokens prompt_tokens tokens tok requests images samples rate gain"
        ),
        Column("bytes_per_s", "bandwidth", "byte/s", better="more"),
        Column("flop_per_s", "rate", "flop/s", better="more"),
        Column("tokens_per_s_per_device", "tokens/s a device", RATE, better="more"),
        Column("tokens_per_s_per_user", "tokens/s a user", RATE, better="more"),
        Column("generated_tokens_per_s", "further tokens/s", RATE, better="more"),
        Column("output_tokens_per_s_per_device", "output tokens/s a device", RATE, better="more"),
        Column("output_tokens_per_s_per_user", "output tokens/s a user", RATE, better="more"),
        Column("low_s", "", "s", "high_s"),
        Column("network_low_s", "network", "s", "network_high_s"),
        Column("low_energy_J", "energy", "J", "high_energy_J"),
        Column("low_power_W", "power", "W", "high_power_W"),
        Column("low_memory_gb", "memory", "byte", "high_memory_gb", 1e9),
        Column("memory_low_B", "memory", "byte", "memory_high_B"),
        Column("low_tokens_per_s", "", RATE, "high_tokens_per_s"),
        Column("prompt_low_tokens_per_s", "prompt", RATE, "prompt_high_tokens_per_s"),
        Column("low_ratio", "ratio", RATIO, "high_ratio"),
        Column("time_ratio", "ratio", RATIO, better="less"),
        Column("cost_usd", "cost", "$", better="less"),
        Column("share", "share", SHARE),
        Column("bound_by", "bound by"),
        Column("mfu", "MFU", SHARE, better="more"),
    )
}
"""Keys that several answers share."""


def in_seconds(names: Iterable[str]) -> list[Column]:
    """Columns of times with keys that an answer makes: ``kernels`` stands under ``kernels_s``."""
    return _shared("s", "less", "s", "", " ".join(names))


def declared(keys: Iterable[str], columns: Sequence[Column] = ()) -> dict[str, Column]:
    """The column of each key: what the answer declares, else what is known of the key, else a plain one."""
    keys, given = list(keys), {**KNOWN, **{column.key: column for column in columns}}
    return {key: given.get(key) or _end_of(key, keys, given) for key in keys}


def _end_of(key: str, keys: Sequence[str], known: Mapping[str, Column]) -> Column:
    """The lower end of a known quantity's band, ``low_ttft_s`` beside ``high_ttft_s``; else a plain column."""
    whole, high = known.get(key.removeprefix("low_")), f"high_{key.removeprefix('low_')}"
    if not key.startswith("low_") or whole is None or high not in keys:
        return Column(key)
    return Column(key, whole.head or whole.key, whole.unit, high, whole.factor)


def is_number(value: Any) -> bool:
    """Whether a cell holds a number: True and False are words."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class ShownColumn:
    """A column as people see it: its head, and a text or plain value for each row."""

    head: str
    column: Column
    cells: tuple[Any, ...]


def shown_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] = ()) -> list[ShownColumn]:
    """Rows as people read them: heads and texts with units, one unit a column, both ends of a band in one cell."""
    keys = list(rows[0]) if rows else []
    known = declared(keys, columns)
    levels = {row.get(LEVEL) for row in rows}
    level = next(iter(levels)) if len(levels) == 1 else None
    uppers = {column.high for column in known.values() if column.high in known}
    uppers |= {column.unit_in for column in known.values()}  # stands with each number
    scales = _scales(rows, known)
    result: list[ShownColumn] = []
    for key, column in known.items():
        if key in uppers or (key == LEVEL and (level or levels == {None})):
            continue
        band = column.high in known
        head = column.head or key
        if band:
            head = f"{100 * (level or 0.8):g} %" + (f" of {column.head}" if column.head else "")
        if head != key and (head in known or any(other.head == head for other in result)):
            head = key
        text = _ends if band else _cell
        result.append(ShownColumn(head, column, tuple(text(row, column, scales.get(key)) for row in rows)))
    return result


def for_people(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] = ()) -> list[dict[str, Any]]:
    """The same, a dictionary a row.

    >>> for_people([{"time_s": 0.0357, "low_s": 0.03, "high_s": 0.04, "interval_level": 0.8}])
    [{'time': '35.7 ms', '80 %': '30 .. 40 ms'}]
    """
    shown = shown_columns(rows, columns)
    return [{column.head: column.cells[index] for column in shown} for index in range(len(rows))]


def _base(value: Any, column: Column) -> float | None:
    """A cell in its base unit; None where it holds no number."""
    return float(value) * column.factor if is_number(value) else None


def _scales(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Column]) -> dict[str, UnitScale | None]:
    """The scale of each column with a unit; a band has that of the value before it."""
    uppers = {column.high for column in known.values()}
    groups: list[tuple[str, list[str], list[float | None]]] = []
    for key, column in known.items():
        if not column.unit or column.unit in PLAIN or key in uppers:
            continue
        values = [_base(row.get(end), column) for row in rows for end in (key, column.high)]
        if column.high and groups and groups[-1][0] == column.unit:
            groups[-1][1].append(key)
            groups[-1][2].extend(values)
        else:
            groups.append((column.unit, [key], values))
    return {key: common_scale(values, unit) for unit, keys, values in groups for key in keys}


def _cell(row: Mapping[str, Any], column: Column, scale: UnitScale | None) -> Any:
    value = _base(row.get(column.key), column)
    if value is None:
        return row.get(column.key)
    if column.unit_of is not None:
        return typed_shown(float(f"{value:.4g}"), column.unit_of(str(row.get(column.about, ""))))
    if column.unit_in:
        unit = str(row.get(column.unit_in) or "")
        if unit == PART:
            return share_shown(value)
        return shown(value, unit) if unit in PREFIXED else number_shown(value)
    if column.unit in PLAIN:
        return PLAIN[column.unit](value)
    if scale is None or not column.unit or not value:
        plain = shown(value, column.unit) if column.unit else row[column.key]
        return typed_shown(value, column.unit) if column.typed else plain
    return scale.text(value, 10 if column.typed else 3)


def _ends(row: Mapping[str, Any], column: Column, scale: UnitScale | None) -> str:
    low, high = (_base(row.get(end), column) for end in (column.key, column.high))
    if low is None or high is None:
        return ""
    if column.unit == SHARE:
        return ends_shown(100 * low, 100 * high, "%")
    if column.unit_in and str(row.get(column.unit_in)) in PREFIXED:
        return ends_shown(low, high, str(row[column.unit_in]))
    if column.unit in PLAIN or not column.unit:
        return " .. ".join(map(PLAIN.get(column.unit, number_shown), (low, high)))
    return f"{scale.number(low)} .. {scale.text(high)}" if scale else ends_shown(low, high, column.unit)
