"""What feeds the cores: levels of memory, nearest first."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from slipstick.common.records import Record
from slipstick.common.units import Bytes, BytesPerSecond, JoulesPerByte, PerCycle, Seconds


class Level(Record):
    """One level of the memory hierarchy.

    Parameters
    ----------
    capacity
        Bytes of one instance; 0 means that the level is not there.
    per
        Who shares one instance: a core, a cluster (core complex), a NUMA domain, a socket, or the whole machine.
    bandwidth
        Bytes a second of all instances together, as the data sheet or a measurement gives it ...
    bytes_per_cycle
        ... or bytes a cycle and core, of a shared level too: such a bandwidth follows the clock and the cores, all
        instances together move cores x clock x this.
    bandwidth_by_cores
        Measured bandwidth of the first n cores: pairs (n, bytes a second), n ascending.
    latency
        Of one access that misses the nearer levels.
    line
        Bytes moved at once.
    channels
        At which the bandwidth is stated: others scale it.
    duplex
        half: loads and stores share the path to the nearer level; full: each has a path of its own.
    ecc
        aside: check bits have a place of their own, or there are none; inline: they stand among the data, as in the
        GDDR of server boards, and each access moves them too.
    per_byte
        Energy of a byte on its way through a cache; that of main memory is `power.per_byte`, and covers the caches on
        the way where they say nothing of their own.
    load_penalty, store_penalty
        Cycles that each line costs beyond its transfer, where a source gives them.
    """

    capacity: Bytes
    per: Literal["core", "cluster", "numa", "socket", "machine"] = "machine"
    bandwidth: BytesPerSecond | None = None
    bytes_per_cycle: PerCycle | None = None
    bandwidth_by_cores: tuple[tuple[int, BytesPerSecond], ...] = ()
    latency: Seconds | None = None
    line: int = Field(default=64, ge=1)
    channels: int | None = Field(default=None, ge=1)
    duplex: Literal["half", "full"] = "half"
    ecc: Literal["aside", "inline"] = "aside"
    per_byte: JoulesPerByte | None = None
    load_penalty: float | None = Field(default=None, ge=0)
    store_penalty: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _one_bandwidth(self) -> Self:
        if self.bandwidth is not None and self.bytes_per_cycle is not None:
            raise ValueError("give bandwidth or bytes_per_cycle, not both")
        if self.capacity and self.bandwidth is None and self.bytes_per_cycle is None:
            raise ValueError("a level needs bandwidth or bytes_per_cycle")
        counts = [cores for cores, _ in self.bandwidth_by_cores]
        if counts != sorted(set(counts)) or (counts and counts[0] < 1):
            raise ValueError(f"bandwidth_by_cores: core counts must ascend from 1, got {counts}")
        return self
