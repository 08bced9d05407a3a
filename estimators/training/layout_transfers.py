"""Seconds of transfers between groups of devices, as numbers: alpha-beta over the links of a machine.

The symbolic model of single collectives is `estimators.operation.collectives`; a search over thousands of layouts
needs the same traffic in floats. Sources: Hockney 1994 (alpha-beta); Patarasuk and Yuan 2009 (rings).
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.hwmodels.machine import Machine

HOST = ("infeed", "host")
"""Links that do not join devices with each other."""


@dataclass(frozen=True)
class TrainingLinks:
    """The nearest link, and the one that joins its groups.

    Parameters
    ----------
    near, far
        Bytes a second of one device, one direction.
    near_latency, far_latency
        Seconds of a step.
    domain
        Devices that the nearest link joins.
    devices
        Devices that all links join, as the machine's file says.
    """

    near: float
    near_latency: float
    domain: int
    far: float
    far_latency: float
    devices: int

    @classmethod
    def of(cls, machine: Machine, devices: int) -> TrainingLinks:
        """The links of a machine.

        Raises
        ------
        InputError
            Where there is no link beyond the nearest and it joins fewer devices. Beyond the last of several its rate is
            kept: ask `devices`.
        """
        links = [(name, link) for name, link in machine.links.items() if name not in HOST]
        if devices < 1:
            raise InputError(f"devices = {devices}: want at least 1")
        if not links:
            if devices > 1:
                raise InputError(f"machine {machine.name!r} has no links between devices: want links to join {devices}")
            return cls(1.0, 0.0, 1, 1.0, 0.0, 1)
        nearest, last = links[0][1], links[-1][1]
        if len(links) == 1 and devices > nearest.width:
            raise InputError(
                f"machine {machine.name!r}: link {links[0][0]} joins {nearest.width} devices, not {devices}; "
                "want a further link (links: ...) or a machine that has one (h100-dgx, gb200)"
            )
        return cls(
            nearest.bandwidth,
            nearest.latency,
            nearest.width,
            last.bandwidth / last.shared_by,
            last.latency,
            last.width,
        )

    def inside(self, ranks: int, stride: int) -> int:
        """Ranks of a group, every `stride`-th device, that the nearest link joins."""
        return max(1, min(ranks, self.domain // stride))

    def ring(self, data: float, ranks: int, stride: int) -> float:
        """Seconds of one pass of a ring: an all-gather of, or a reduce-scatter of, `data` bytes in all.

        Ranks of one domain pass the data of a ring to the next domain in parts, each by its own port.
        """
        if ranks == 1:
            return 0.0
        inside = self.inside(ranks, stride)
        moved = data * (ranks - 1) / ranks
        if inside == ranks:
            return moved / self.near + (ranks - 1) * self.near_latency
        domains = -(-ranks // inside)
        # a two-level ring: steps within a domain, and one over the domains
        wait = (inside - 1) * self.near_latency + (domains - 1) * self.far_latency
        return moved / min(self.near, self.far * inside) + wait

    def dispatch(self, data: float, ranks: int, copies: int) -> float:
        """Seconds in which each rank sends its tokens (`data` bytes) to `copies` experts each, spread over `ranks`.

        Every copy is sent by itself, as the default dispatcher of Megatron Core does (`moe_token_dispatcher_type` =
        "alltoall"); one that sends a token once to each domain (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, section
        3.2.2) is faster across domains.
        """
        if ranks == 1:
            return 0.0
        inside = self.inside(ranks, 1)
        domains = -(-ranks // inside)
        near = data * copies * (inside - 1) / inside / self.near + self.near_latency
        if domains == 1:
            return near
        return max(near, data * copies * (domains - 1) / domains / self.far + self.far_latency)

    def neighbour(self, data: float, stride: int) -> float:
        """Seconds to hand `data` bytes to the device `stride` further."""
        if stride < self.domain:
            return data / self.near + self.near_latency
        return data / self.far + self.far_latency
