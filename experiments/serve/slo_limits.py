"""Limits that users set on a server's times, by measure, and what devices cost them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.common.units import parse_quantity

LIMITED = ("ttft", "tpot", "latency")


def limits(text: str) -> FrozenDict[float]:
    """Limits from "ttft=0.5s,tpot=30ms": seconds by measure.

    Raises InputError where a measure is unknown or a limit is no time above 0.
    """
    result: dict[str, float] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise InputError(f"limit {word!r}: want NAME=TIME, such as tpot=30ms")
        if name not in LIMITED:
            raise unknown_name("limited measure", name, LIMITED)
        try:
            result[name] = parse_quantity(value, "s")
        except ValueError as error:
            raise InputError(f"limit {name}: {error}") from None
        if not 0 < result[name] < float("inf"):
            raise InputError(f"limit {name} = {value}: want a time above 0")
    return FrozenDict(result)


def limits_text(wanted: Mapping[str, float]) -> str:
    """Limits (seconds by measure) as people write them, in ms."""
    return ", ".join(f"{name} <= {value * 1e3:g} ms" for name, value in wanted.items())


def prices(text: str, machines: Sequence[str]) -> FrozenDict[float]:
    """Dollars an hour by machine from "h100-sxm=2.5,mi300x=2".

    Raises InputError where a machine is not among those searched, or a price is no number above 0.
    """
    result: dict[str, float] = {}
    for word in text.split(",") if text else ():
        name, _, value = (part.strip() for part in word.partition("="))
        if name not in machines:
            raise unknown_name("machine with a price", name, list(machines))
        try:
            result[name] = float(value)
        except ValueError:
            raise InputError(f"price of {name}: {value!r}: want dollars an hour") from None
        if not 0 < result[name] < 1e6:
            raise InputError(f"price of {name} = {value} $/h: want a number above 0")
    return FrozenDict(result)
