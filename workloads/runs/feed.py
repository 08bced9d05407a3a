"""What feeds a training step: the work of the host on an example, and the bytes of it that go to the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.workload import Attribute, Workload


@dataclass(frozen=True)
class Feed:
    """An input pipeline as far as a network's data say it.

    `host_seconds`: of one core of the host, for one example: reading, decoding, augmenting.
    `example_bytes`: of one example as it is handed to the device.
    `source`: where the numbers come from.

    Raises
    ------
    InputError
        Where a number is negative or not finite.
    """

    host_seconds: float
    example_bytes: float
    source: str = ""

    def __post_init__(self) -> None:
        for name, value, unit in (
            ("host_seconds", self.host_seconds, "s"),
            ("example_bytes", self.example_bytes, "byte"),
        ):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} = {value!r} {unit}: want a finite number >= 0")


def with_feed(workload: Workload, feed: Feed) -> Workload:
    """The workload with what feeds it, where an estimator of fed accelerators finds it."""
    facts: dict[str, Attribute] = {
        "feed.host_seconds": feed.host_seconds,
        "feed.example_bytes": feed.example_bytes,
        "feed.source": feed.source,
    }
    return replace(workload, metadata=FrozenDict({**workload.metadata, **facts}))


def feed_of(workload: Workload) -> Feed | None:
    """What feeds a workload; None where nothing is known of it."""
    seconds, size = (workload.metadata.get(f"feed.{name}") for name in ("host_seconds", "example_bytes"))
    if not isinstance(seconds, (int, float)) or not isinstance(size, (int, float)):
        return None
    return Feed(float(seconds), float(size), str(workload.metadata.get("feed.source", "")))


def for_run(workload: Workload, **numbers: float) -> Workload:
    """The workload with numbers of the run that hold where none are given: steps, sessions, evaluations, ..."""
    return replace(workload, metadata=FrozenDict({**workload.metadata, **{f"run.{k}": v for k, v in numbers.items()}}))


def run_of(workload: Workload) -> dict[str, float]:
    """The numbers of the run that `for_run` gave."""
    return {
        name.removeprefix("run."): float(value)
        for name, value in workload.metadata.items()
        if name.startswith("run.") and isinstance(value, (int, float))
    }
