"""What connects machines, machines with their hosts, and the dies of one machine."""

from __future__ import annotations

from pydantic import Field

from slipstick.common.records import Record
from slipstick.common.units import BytesPerSecond, Seconds


class Link(Record):
    """A connection with a start-up time and a bandwidth: t = latency + bytes / bandwidth (alpha-beta).

    A machine lists the links between devices nearest first, like its memory: each joins the units of the one before.

    Parameters
    ----------
    bandwidth
        One direction, of one device or of those that share one connection.
    latency
        Of a message of no bytes.
    width
        Devices it joins, those that nearer links join included.
    shared_by
        Devices that share one connection (a network card of two devices).
    generation
        Of the link's standard (3, 4 and 5 for the NVLink of Ampere, Hopper and Blackwell); 0 where it is not stated.
    """

    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    width: int = Field(default=2, ge=2)
    shared_by: int = Field(default=1, ge=1)
    generation: int = Field(default=0, ge=0)


class Dies(Record):
    """The dies that together are one machine: its cores, caches and memory are stated of all of them.

    Parameters
    ----------
    count
        At which the cores, the caches and the memory that the whole machine shares are stated: other counts scale them.
    bandwidth
        One direction of one die's connection to all others; None where none bounds.
    local
        Share of a die's traffic with main memory that its own memory serves; None: interleaved, 1 / count.
    """

    count: int = Field(default=1, ge=1)
    bandwidth: BytesPerSecond | None = None
    local: float | None = Field(default=None, ge=0, le=1)
