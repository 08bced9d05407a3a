"""What a worker that read a prompt sends to the one that decodes (disaggregated serving), and over which link."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.estimators.engine_steps.step_amounts import Shares
from slipstick.hwmodels.machine import Machine

GIVEN = "as given"
SLOWEST = 1e6
"""Bytes/s: less than the slowest Ethernet's 1.25 MB/s is a number without its unit."""


@dataclass(frozen=True)
class KvTransfer:
    """The cache of a prompt on its way from one worker to another.

    `link`: its name on the machine, or that it was given.
    `bandwidth`, `latency`: of one device in one direction [bytes/s], and of a message [s].
    `sides`: what a rank of the sending and of the receiving workers holds.
    """

    link: str
    bandwidth: float
    latency: float
    sides: tuple[Shares, Shares]

    @classmethod
    def of(cls, machine: Machine, devices: int, given: float, sides: tuple[Shares, Shares]) -> KvTransfer:
        """Over the nearest link that joins so many devices, or at a given bandwidth [bytes/s] where it is not 0.

        Raises InputError where no bandwidth is given and no link of the machine joins the devices.
        """
        if given:
            if not SLOWEST <= given < math.inf:
                raise InputError(f"link_bandwidth = {given:g} byte/s: want a finite number >= {SLOWEST:g} byte/s")
            return cls(GIVEN, given, 0.0, sides)
        links = {name: link for name, link in machine.links.items() if name != "infeed"}
        for name, link in links.items():
            if link.width >= devices:
                return cls(name, link.bandwidth / link.shared_by, link.latency, sides)
        joined = ", ".join(f"{name} of {link.width}" for name, link in links.items())
        raise InputError(
            f"machine {machine.name!r}: no link joins the {devices} devices of all workers (links: "
            f"{joined or 'none'}): say how fast a device sends to other workers, --link-bandwidth 50GB/s "
            "(run.link_bandwidth)"
        )

    def sent_bytes(self, tokens: float) -> float:
        """Bytes that the rank with most of a prompt's cache sends or receives.

        Keys and values of every token, over the ranks of a worker that share them, and the states of layers with
        linear attention. A stage of a pipeline has those of its own layers; ranks and stages send side by side.
        """
        return max(side.token_cache_bytes * tokens + side.state_bytes for side in self.sides)

    def seconds(self, tokens: float) -> float:
        """Of sending the cache of a prompt of so many tokens."""
        return self.latency + self.sent_bytes(tokens) / self.bandwidth

    def text(self) -> str:
        """As an answer's assumptions say it."""
        rate = format_quantity(self.bandwidth, "byte/s")
        return f"cache sent at {rate} a device ({self.link}) once the prompt is read"
