"""The software between the workload and the machine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slipstick.common.records import Record
from slipstick.common.units import Bytes, Seconds

CacheState = Literal["cold", "warm", "hot"]


class Runtime(Record):
    """How operations are handed to the machine: part of the machine *as it is used*.

    Parameters
    ----------
    library
        The software and its version, in words; part of the identity of measured results.
    mode
        eager: the host issues every operation; compiled: operations are fused as a compiler does it; graph_replay: a
        recorded graph is issued once.
    issue_overhead
        Host seconds to issue one operation; the host goes on while the device works.
    launch_overhead
        Device seconds from the start of an operation to its first useful work.
    streams
        Queues of operations that the device serves side by side.
    cache
        Where an operation finds what it touches when it starts: cold, in main memory; warm, in the last cache as far as
        it fits (a GPU empties the nearer ones between kernels); hot, in the nearest level that holds it (a loop over
        the same data on the same cores). None: each model takes what it is usually fitted to, and says so.
    weights_between
        Bytes of weights that a program reads between two uses of the same ones: beyond what the last cache holds, a
        product finds its weights in main memory. Where it is 0, a program of several products states its own.
    free_kinds
        Kinds of operations that cost nothing under this runtime (views).
    """

    library: str = ""
    mode: Literal["eager", "compiled", "graph_replay"] = "eager"
    issue_overhead: Seconds = 0.0
    launch_overhead: Seconds = 0.0
    streams: int = Field(default=1, ge=1)
    cache: CacheState | None = None
    weights_between: Bytes = 0.0
    free_kinds: tuple[str, ...] = ("view",)
