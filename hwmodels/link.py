"""What connects machines, and machines with their hosts."""

from __future__ import annotations

from pydantic import Field

from hwmodels.records import Record
from hwmodels.units import BytesPerSecond, Seconds


class Link(Record):
    """A connection with a start-up time and a bandwidth: t = latency + bytes / bandwidth (alpha-beta).

    Parameters
    ----------
    bandwidth
        One direction, of one device.
    width
        Devices it joins.
    """

    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    width: int = Field(default=2, ge=2)
