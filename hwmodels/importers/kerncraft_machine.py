"""What a machine file of kerncraft says: topology, caches, peaks and measured bandwidths; the machine it describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, validated
from slipstick.hwmodels.importers.lscpu import ASSUMED, CACHE_RATES
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True)
class BandwidthKernel:
    """Arrays that a bandwidth benchmark runs over in each iteration, and its flop.

    `reads`, `writes`: arrays read and written; an array both read and written counts in both and in `updates`.
    """

    reads: int
    updates: int
    writes: int
    flop: float = 0.0

    @property
    def traffic_factor(self) -> float:
        """Bytes moved over bytes that the benchmark counts: a written line that was not read is loaded first."""
        counted = self.reads + self.writes
        return (counted + self.writes - self.updates) / counted if counted else 1.0


@dataclass(frozen=True)
class CacheLevel:
    """One level of a machine file, the main memory last.

    `capacity`: bytes of one instance; None for main memory.
    `cores`: cores that share an instance.
    `bytes_per_cycle`: of the path to the next nearer level, a core; None where the file gives no rate (L1, main
        memory).
    `duplex`: half: loads and stores share the path; full: each has its own.
    `load_penalty`, `store_penalty`: cycles a cache line, added to the transfer.
    """

    name: str
    capacity: float | None
    cores: int
    bytes_per_cycle: float | None
    duplex: Literal["half", "full"] = "half"
    load_penalty: float = 0.0
    store_penalty: float = 0.0


@dataclass(frozen=True)
class Curve:
    """Measured bandwidth of one benchmark in one level: pairs (cores, bytes a second as the benchmark counts them)."""

    level: str
    threads: int
    benchmark: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class KerncraftMachine:
    """What a machine file says.

    `clock`: hz.
    `flop_per_cycle`: by dtype: of one core.
    `line`: bytes of a cache line.
    `levels`: nearest first, main memory last.
    `streams`: by benchmark name.
    `curves`: all measurements.
    """

    name: str
    clock: float
    sockets: int
    cores_per_socket: int
    cores_per_numa: int
    threads_per_core: int
    line: int
    flop_per_cycle: FrozenDict[float]
    levels: tuple[CacheLevel, ...]
    streams: FrozenDict[BandwidthKernel]
    curves: tuple[Curve, ...]

    @cached_property
    def measured(self) -> Mapping[tuple[str, int, str], Mapping[int, float]]:
        """(level, threads a core, benchmark) -> cores -> bytes a second as the benchmark counts them."""
        return {(curve.level, curve.threads, curve.benchmark): dict(curve.points) for curve in self.curves}

    def bandwidth(self, level: str, benchmark: str, cores: int = 1, threads: int = 1) -> float:
        """Measured bytes a second of the first `cores` cores, as the benchmark counts them.

        Raises InputError where the file holds no such measurement.
        """
        curve = self.measured.get((level, threads, benchmark))
        if curve is None:
            known = sorted({f"{a} {b} {c} thread" for a, c, b in self.measured})
            raise unknown_name(f"measurement of {self.name}", f"{level} {benchmark} {threads} thread", known)
        if cores not in curve:
            raise InputError(f"{self.name}: {level} {benchmark}: no measurement for {cores} cores (1..{max(curve)})")
        return curve[cores]

    def saturated(self, level: str, benchmark: str, threads: int = 1) -> float:
        """The largest measured bandwidth inside one NUMA domain, bytes a second as the benchmark counts them.

        Raises InputError where no such bandwidth was measured.
        """
        curve = self.measured.get((level, threads, benchmark), {})
        inside = [value for cores, value in curve.items() if cores <= self.cores_per_numa]
        if not inside:
            raise InputError(f"{self.name}: no measured {benchmark} bandwidth of {level}")
        return max(inside)

    def machine(self, benchmark: str = "copy") -> Machine:
        """The machine of one socket in our terms; bandwidth of main memory and L1 from the measurements.

        `benchmark`: whose measured curve becomes `bandwidth_by_cores` of main memory, with write-allocate traffic
            added.
        Raises InputError where the file has no such benchmark.
        """
        if benchmark not in self.streams:
            raise unknown_name(f"benchmark of {self.name}", benchmark, list(self.streams))
        memory: dict[str, Any] = {}
        assumed: dict[str, str] = {}
        nearest = min((level.cores for level in self.levels if level.cores > 1), default=self.cores_per_numa)
        cluster = nearest if nearest < self.cores_per_numa else None
        per = {1: "core", cluster: "cluster", self.cores_per_numa: "numa", self.cores_per_socket: "socket"}
        for level in self.levels:
            entry: dict[str, Any] = {"capacity": level.capacity or 0, "line": self.line}
            entry["per"] = per.get(level.cores, "numa") if level.capacity else "machine"
            entry["duplex"] = level.duplex
            entry["load_penalty"] = level.load_penalty or None
            entry["store_penalty"] = level.store_penalty or None
            if level.bytes_per_cycle is not None:
                entry["bytes_per_cycle"] = level.bytes_per_cycle
            elif level.capacity:
                known = (level.name, 1, "load") in self.measured
                rate = self.bandwidth(level.name, "load") / self.clock if known else CACHE_RATES.get(level.name, 16.0)
                entry["bytes_per_cycle"] = rate
                assumed |= {} if known else {f"memory.{level.name}.bytes_per_cycle": ASSUMED}
            else:
                factor = self.streams[benchmark].traffic_factor
                curve = self.measured.get((level.name, 1, benchmark), {})
                inside = sorted(item for item in curve.items() if item[0] <= self.cores_per_socket)
                entry["bandwidth_by_cores"] = [(cores, rate * factor) for cores, rate in inside]
                domains = max(1, self.cores_per_socket // self.cores_per_numa)
                entry["bandwidth"] = self.saturated(level.name, benchmark) * factor * domains
                entry["capacity"] = entry["capacity"] or 1e15
            memory[level.name] = entry
        source = f"kerncraft machine file {self.name}"
        data = {
            "name": self.name,
            "clock": self.clock,
            "cores": self.cores_per_socket,
            "threads_per_core": self.threads_per_core,
            "cores_per_cluster": cluster,
            "cores_per_numa": self.cores_per_numa,
            "cores_per_socket": self.cores_per_socket,
            "engines": {"vector": {"flop_per_cycle": dict(self.flop_per_cycle)}},
            "memory": memory,
            "description": "one socket; the file gives no memory capacity, taken as unbounded",
            "sources": {**dict.fromkeys(("clock", "cores", "engines", "memory"), source), **assumed},
        }
        machine: Machine = validated(Machine, data, source)
        return machine
