"""Protocols of the libraries of collectives, with the numbers that their sources publish: NCCL's and RCCL's.

Both choose algorithm and protocol by the least time of a table of latencies and bandwidths in src/graph/tuning.cc. The
numbers are that table's (facts; NVIDIA NCCL 2.27, github.com/NVIDIA/nccl, and ROCm RCCL, github.com/ROCm/rccl); steps
are written as shares of the latency of a ring's step by "Simple", which a machine's file states for its links.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict

NVLINK = ("nvlink", "nvswitch")


@dataclass(frozen=True)
class Terms:
    """One algorithm by one protocol; the defaults are plain alpha-beta.

    `share`: of the bandwidth that it reaches.
    `latency`: of a step, over the link's.
    `base`: seconds before the first step.
    `far`: `latency` over links beyond a node (networks); as `latency` where None.
    """

    share: float = 1.0
    latency: float = 1.0
    base: float = 0.0
    far: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.latency >= 0 and self.base >= 0 and (self.far or 0) >= 0):
            raise InputError(f"{self}: want a share in (0, 1], latencies >= 0 and a base >= 0 s")


@dataclass(frozen=True)
class MessageProtocol(Terms):
    """How a library moves a message: the terms of its rings, and of its other algorithms.

    `tree`: terms of its trees (bandwidth over a tree's); those of its rings where None.
    `switched`: terms where switches add; None where the protocol has no such way.
    `only_on`: first letters of the nearest links that it needs; any where empty.
    `bulk`: whether it is the protocol of large messages, whose chunks fill a pipeline first.
    """

    tree: Terms | None = None
    switched: Terms | None = None
    only_on: tuple[str, ...] = ()
    bulk: bool = False


PLAIN = FrozenDict({"plain": MessageProtocol(switched=Terms())})
NCCL = FrozenDict(
    {
        "LL": MessageProtocol(0.41, 0.6 / 3.4, 6.6e-6, 2.7 / 14, tree=Terms(1 / 3.8, 0.6 / 3.4, 6.8e-6, 5.0 / 14)),
        "LL128": MessageProtocol(
            0.92, 1.9 / 3.4, 14e-6, 4.0 / 14, tree=Terms(7 / 9, 1.25 / 3.4, 14e-6, 8.5 / 14), only_on=NVLINK
        ),
        "Simple": MessageProtocol(
            1.0, 1.0, 8.4e-6, 1.0, tree=Terms(1.0, 4.0 / 3.4, 8.4e-6, 1.0), switched=Terms(1.0, 0.0, 25e-6), bulk=True
        ),
    }
)
"""Base latencies 6.6, 14 and 8.4 us; steps of a ring 0.6, 1.9, 3.4 us over NVLink and 2.7, 4, 14 us over a network;
of a tree 0.6, 1.25, 4 and 5, 8.5, 14 us; NVLS (adding in switches) 25 us. LL128 moves 120 of 128 bytes (0.92 in the
table) and is on over NVLink only; LL moves 4 of 8 bytes and at most 87.7, 141 and 282 GB/s on Ampere, Hopper and
Blackwell: 0.37 to 0.39 of what NCCL counts for their links (240, 371 and 722 GB/s, src/graph/topo.h), 0.41 of the 0.93
of that which eight devices reach."""
RCCL = FrozenDict(
    {
        "LL": MessageProtocol(0.08, 0.8 / 3.4, 12e-6, 9.5 / 14, tree=Terms(0.06, 0.9 / 3.4, 12e-6, 10.5 / 14)),
        "LL128": MessageProtocol(0.41, 0.8 / 3.4, 12e-6, 19.8 / 14, tree=Terms(0.22, 0.9 / 3.4, 12e-6, 18.2 / 14)),
        "Simple": MessageProtocol(
            1.0, 2.1 / 3.4, 17e-6, 15.1 / 14, tree=Terms(0.59, 2.3 / 3.4, 17e-6, 20.8 / 14), bulk=True
        ),
    }
)
"""RCCL's table for MI300 (its tuning model 5; LL128 of models 0 and 4, since that model sets it by size alone): higher
base latencies (12, 12, 17 us), shorter steps over Infinity Fabric (0.8, 0.8, 2.1 us), far less of the bandwidth by LL,
nothing that adds in switches. No public timings of it are here."""
LIBRARIES = FrozenDict({"default": NCCL, "xgmi": RCCL})
"""By the name of the nearest link."""
