"""What profilers count of a kernel or a region of code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slipstick.common.errors import InputError
from slipstick.common.readers import number_written

MOST_REGIONS = 200_000
LARGEST_COUNT = 2.0**63
"""A count from here on is a negative one, written without its sign: a counter that ran backwards or was torn."""


def counted_number(text: str, where: str, mark: str = ".") -> float | None:
    """A count, time, rate or volume of a profiler in the file's unit; None for words ("<not counted>", "-", "nan").

    `where`: file, line and field.
    `mark`: what stands before the fraction (see `decimal_mark`).
    Raises InputError where the number is negative, or beyond what a counter of 64 bits with a sign holds.
    """
    value = number_written(text, mark)
    if value is not None and not 0 <= value < LARGEST_COUNT:
        raise InputError(
            f"{where} = {text.strip()[:40]}: counts, times and rates lie in [0, 2^63): the counter overflowed or was "
            "read wrongly; measure again"
        )
    return value


@dataclass(frozen=True)
class Counted:
    """A kernel or region.

    `seconds`: of all its `count` calls; None where no time was counted.
    `flop`, `moved`: Floating-point operations, and bytes to and from main memory; None where they were not counted.
    `shares`: shares of peaks as the tool has them: of "compute", "memory" (any level) and "main memory".
    `scaled`: the share of the time in which an event was counted, where that is not all; its value is scaled up.
    `values`: other figures by the tool's names, summed over calls, in SI units.
    """

    name: str
    count: int
    seconds: float | None
    flop: float | None = None
    moved: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    scaled: Mapping[str, float] = field(default_factory=dict)

    @property
    def intensity(self) -> float | None:
        """Floating-point operations a byte; None where one of them is not known or no bytes moved."""
        return None if self.flop is None or not self.moved else self.flop / self.moved


def merged(regions: Iterable[Counted]) -> tuple[Counted, ...]:
    """Calls of one name as one region: sums, and shares weighed by time."""
    groups: dict[str, list[Counted]] = {}
    for one in regions:
        groups.setdefault(one.name, []).append(one)
    return tuple(_sum(name, group) for name, group in groups.items())


def _sum(name: str, group: list[Counted]) -> Counted:
    if len(group) == 1:
        return group[0]
    seconds = total(one.seconds for one in group)
    weights = [one.seconds or 0.0 for one in group]
    shares = {}
    for key in group[0].shares:
        known = [(weight, one.shares[key]) for weight, one in zip(weights, group, strict=True) if key in one.shares]
        whole = sum(weight for weight, _ in known)
        shares[key] = sum(w * share for w, share in known) / whole if whole else known[0][1]
    values: dict[str, float] = {}
    for one in group:
        for key, value in one.values.items():
            values[key] = values.get(key, 0.0) + value
    flop, moved = total(one.flop for one in group), total(one.moved for one in group)
    return Counted(name, sum(one.count for one in group), seconds, flop, moved, shares, values)


def total(values: Iterable[float | None]) -> float | None:
    """The sum, in the unit of the values; None where one is not known, or there are none."""
    known = list(values)
    return None if not known or None in known else sum(value for value in known if value is not None)
