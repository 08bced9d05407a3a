"""Reading machine files of kerncraft (YAML with units in its values).

Format: https://kerncraft.readthedocs.io/en/latest/machine-files.html. Read with our bounded YAML reader: the tags that
pass are ``!!omap`` and those of quantities with a unit (`TEXT_TAGS`), and nothing is constructed from a file. kerncraft
writes "32.00 kB" for 32 KiB of cache; where sets, ways and line are given, they are the capacity. ``upstream
throughput`` of a level is the path between it and the next nearer one.

What a machine file of kerncraft says: topology, caches, peaks and measured bandwidths; the machine it describes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.readers import read_yaml, require_mapping, unknown_name, whole_of
from slipstick.common.records import FrozenDict, validated
from slipstick.common.units import parse_quantity
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


LIMIT_BYTES = 4_000_000
TEXT_TAGS = ("!prefixedunit", "tag:yaml.org,2002:python/object:prefixedunit.PrefixedUnit")
"""Newer and older releases; the older ones write a mapping of prefix, unit and value."""
MAX_CORES = 100_000
DTYPES = {"SP": "float32", "DP": "float64"}
_CACHE_SIZE = re.compile(r"\s*([\d.]+)\s*(B|kB|MB|GB)\s*\Z")
_BINARY = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3}


def load_kerncraft(path: str | os.PathLike[str]) -> KerncraftMachine:
    """A machine file of kerncraft.

    Raises InputError, which names the file, the field, the value and what is allowed.
    """
    document = require_mapping(read_yaml(path, LIMIT_BYTES, TEXT_TAGS), path, "the document")
    name = Path(path).stem
    socket = _count(document, "cores per socket", path)
    domain = _count(document, "cores per NUMA domain", path, default=socket)
    if domain > socket or socket % domain:
        raise InputError(f"{path}: cores per NUMA domain = {domain}: want a divisor of {socket} cores per socket")
    hierarchy = document.get("memory hierarchy")
    if not isinstance(hierarchy, list) or len(hierarchy) < 2 or len(hierarchy) > 8:
        raise InputError(f"{path}: memory hierarchy: want a list of 2 to 8 levels")
    benchmarks = require_mapping(document.get("benchmarks", {}), path, "benchmarks")
    kernels = require_mapping(benchmarks.get("kernels", {}), path, "benchmarks.kernels")
    line = int(_number(document.get("cacheline size"), "byte", path, "cacheline size"))
    return KerncraftMachine(
        name=name,
        clock=_number(document.get("clock"), "Hz", path, "clock"),
        sockets=_count(document, "sockets", path),
        cores_per_socket=socket,
        cores_per_numa=domain,
        threads_per_core=_count(document, "threads per core", path, default=1),
        line=line,
        flop_per_cycle=_flop(require_mapping(document.get("FLOPs per cycle", {}), path, "FLOPs per cycle")),
        levels=tuple(
            _level(entry, path, line, nearer) for nearer, entry in zip([None, *hierarchy], hierarchy, strict=False)
        ),
        streams=FrozenDict({kernel: _streams(entry, path, kernel) for kernel, entry in kernels.items()}),
        curves=tuple(_curves(benchmarks, path)),
    )


def _flop(table: Mapping[str, Any]) -> FrozenDict[float]:
    """flop a cycle by dtype; files that say INFORMATION_REQUIRED give none."""
    rates = {}
    for short, dtype in DTYPES.items():
        total = table[short].get("total") if isinstance(table.get(short), Mapping) else None
        if isinstance(total, (int, float)) and not isinstance(total, bool) and total > 0:
            rates[dtype] = float(total)
    return FrozenDict(rates)


def _level(entry: Any, path: object, line: int, nearer: Any) -> CacheLevel:
    """A level; older releases state the cycles of a line to the next farther level, in the entry of the nearer one."""
    entry = require_mapping(entry, path, "memory hierarchy")
    name = str(entry.get("level", ""))
    if not name:
        raise InputError(f"{path}: memory hierarchy: a level has no name (field level)")
    field = f"memory hierarchy.{name}"
    throughput = entry.get("upstream throughput")
    rate, duplex = None, "half"
    if isinstance(throughput, list) and throughput:
        text = str(throughput[0])
        if text.endswith("B/cy"):
            rate = _number(text.removesuffix("B/cy"), "1", path, f"{field}.upstream throughput")
        if len(throughput) > 1 and throughput[1] in ("half-duplex", "full-duplex"):
            duplex = throughput[1].removesuffix("-duplex")
    cycles = nearer.get("cycles per cacheline transfer") if isinstance(nearer, Mapping) else None
    if rate is None and cycles is not None and entry.get("size per group") is not None:
        rate = line / _number(cycles, "1", path, f"{field}: cycles per cacheline transfer")
    return CacheLevel(
        name=name,
        capacity=_capacity(entry, path, field),
        cores=_count(entry, "cores per group", path, default=1),
        bytes_per_cycle=rate,
        duplex="full" if duplex == "full" else "half",
        load_penalty=_penalty(entry, "load", path, field),
        store_penalty=_penalty(entry, "store", path, field),
    )


def _penalty(entry: Mapping[str, Any], kind: str, path: object, field: str) -> float:
    name = f"penalty cycles per cacheline {kind}"
    value = entry.get(name)
    return 0.0 if value is None else _number(value, "1", path, f"{field}.{name}", low=0.0)


def _capacity(entry: Mapping[str, Any], path: object, field: str) -> float | None:
    cache = entry.get("cache per group")
    if isinstance(cache, Mapping) and {"sets", "ways", "cl_size"} <= set(cache):
        line = _number(cache["cl_size"], "byte", path, f"{field}.cl_size")
        return _count(cache, "sets", path, high=10**9) * _count(cache, "ways", path, high=10**4) * line
    size = entry.get("size per group")
    if size is None:
        return None
    match = _CACHE_SIZE.match(_written(size))
    if match is None:
        raise InputError(f"{path}: {field}.size per group = {str(size)[:40]!r}: want a size in B, kB, MB or GB")
    return float(match[1]) * _BINARY[match[2]]


def _streams(entry: Any, path: object, kernel: str) -> BandwidthKernel:
    field = f"benchmarks.kernels.{kernel}"
    entry = require_mapping(entry, path, field)
    reads, updates, writes = (
        _count(require_mapping(entry.get(f"{kind} streams", {}), path, field), "streams", path, default=0, low=0)
        for kind in ("read", "read+write", "write")
    )
    flop = _number(entry.get("FLOPs per iteration", 0), "1", path, f"{field}.FLOPs per iteration", low=0.0)
    return BandwidthKernel(reads, updates, writes, flop)


def _curves(benchmarks: Mapping[str, Any], path: object) -> Iterator[Curve]:
    levels = require_mapping(benchmarks.get("measurements") or {}, path, "benchmarks.measurements")
    for level, by_threads in levels.items():
        if not isinstance(by_threads, Mapping):
            raise InputError(f"{path}: benchmarks.measurements.{level}: want entries by threads per core")
        for threads, entry in by_threads.items():
            field = f"benchmarks.measurements.{level}.{threads}"
            entry = require_mapping(entry, path, field)
            cores = entry.get("cores", [])
            for kernel, values in require_mapping(entry.get("results", {}), path, f"{field}.results").items():
                if not isinstance(values, list) or not isinstance(cores, list) or len(values) != len(cores):
                    raise InputError(f"{path}: {field}.results.{kernel}: want one bandwidth for each of the cores")
                rates = [_number(value, "byte/s", path, f"{field}.results.{kernel}") for value in values]
                points = sorted(
                    zip((whole_of(core, f"{path}: {field}", 1, MAX_CORES) for core in cores), rates, strict=True)
                )
                yield Curve(level, whole_of(threads, f"{path}: {field}", 1, MAX_CORES), kernel, tuple(points))


def _written(value: Any) -> str:
    """A quantity as people write it, where it stands in parts: {prefix: k, unit: B, value: 32.0} is "32.0 kB"."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join((str(value.get("value", "")), f"{value.get('prefix') or ''}{value.get('unit') or ''}"))


def _number(value: Any, unit: str, path: object, field: str, low: float = 1e-300) -> float:
    try:
        number = parse_quantity(_written(value) if isinstance(value, Mapping) else value, unit)
    except ValueError as error:
        raise InputError(f"{path}: {field}: {error}") from None
    if not low <= number < 1e300:
        raise InputError(f"{path}: {field} = {value!r}: want a finite value above 0")
    return number


def _count(
    entry: Mapping[str, Any], field: str, path: object, default: int | None = None, low: int = 1, high: int = MAX_CORES
) -> int:
    return whole_of(entry.get(field, default), f"{path}: {field}", low, high)
