"""The host's topology from lscpu (JSON) or hwloc (XML): cores, caches, clock and vector units.

Both are untrusted text here: sizes are bounded, XML entities are refused. Neither knows bandwidths; what is not
measured is assumed and says so in the machine's sources (`slipstick measure host` replaces it).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import number_written, parse_json, whole_number, whole_of
from slipstick.common.records import validated
from slipstick.hwmodels.machine import Machine

MAX_TEXT = 16_000_000
ASSUMED_BANDWIDTH_A_CORE = 10e9
"""Bytes a second of main memory a core, until measured: within a factor of two of the server cores in the catalogue."""

VECTOR_UNITS: dict[str, tuple[float, str]] = {
    "avx512f": (64.0, "two 512-bit fused multiply-adds a cycle; some models have one"),
    "fma": (32.0, "two 256-bit fused multiply-adds a cycle"),
    "sve": (32.0, "two 256-bit fused multiply-adds a cycle; the width is not in the flags"),
    "avx": (16.0, "a 256-bit addition and a multiplication a cycle"),
    "asimd": (16.0, "two 128-bit fused multiply-adds a cycle"),
    "sse2": (8.0, "a 128-bit addition and a multiplication a cycle"),
}
"""CPU flag -> float32 flop a cycle and core, best first, and what that assumes."""

CACHE_RATES = {"L1": 64.0, "L2": 64.0, "L3": 16.0}
"""Bytes a cycle and core of the path to the nearer level, until measured: those of recent server cores."""

ASSUMED = "assumed until measured: recent server cores"
_SIZE = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*([KMGT]?)(?:i?B)?(?![\w.,])", re.ASCII)
_PRINTED = re.compile(r"^ *([^:\n]{1,60}):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_OBJECT = re.compile(r"(Package|Socket|NUMANode|Core|PU|L[1-5]d?)(?: L#\d+)(?: \((?:P#\d+ ?)?(?:(\d+)([KMGT])i?B)?)?")
_INSTANCES = re.compile(r"\((\d+) instances?\)")
_MODEL_CLOCK = re.compile(r"@\s*(\d+(?:\.\d+)?)\s*([GM])Hz", re.ASCII)
_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@dataclass(frozen=True)
class Cache:
    """One level: its name, bytes of one instance, and how many instances the host has."""

    name: str
    capacity: float
    instances: int


@dataclass(frozen=True)
class Topology:
    """What the system says about its CPU.

    `clock`: hz; the largest that the system states. None where it states none.
    `memory`: bytes of main memory; None where unknown.
    `flags`: of the CPU, in lower case.
    `clock_source`: how the clock was got, where it was not `source`.
    """

    model: str
    cores: int
    threads_per_core: int
    sockets: int
    domains: int
    caches: tuple[Cache, ...]
    clock: float | None = None
    memory: float | None = None
    flags: frozenset[str] = frozenset()
    source: str = "lscpu"
    clock_source: str = ""

    def machine(self, name: str = "host") -> Machine:
        """The host as a machine; bandwidths are assumptions, named as such in the sources.

        Raises InputError where no clock is known.
        """
        if self.clock is None:
            raise InputError(
                f"{self.source}: the system states no clock (fields 'CPU max MHz' or 'Model name ... @ GHz'): give one"
            )
        flop, how = next(((f, h) for flag, (f, h) in VECTOR_UNITS.items() if flag in self.flags), (4.0, "scalar units"))
        memory: dict[str, Any] = {}
        assumed = {}
        for cache in self.caches:
            shared = max(1, self.cores // cache.instances)
            per = "core" if shared == 1 else "cluster" if cache.instances > self.domains else "numa"
            memory[cache.name] = {
                "capacity": cache.capacity,
                "per": "machine" if cache.instances == 1 and shared > 1 else per,
                "bytes_per_cycle": CACHE_RATES.get(cache.name, CACHE_RATES["L3"]),
            }
            assumed[f"memory.{cache.name}.bytes_per_cycle"] = ASSUMED
        memory["DRAM"] = {"capacity": self.memory or 0.0, "bandwidth": ASSUMED_BANDWIDTH_A_CORE * self.cores}
        clusters = [self.cores // c.instances for c in self.caches if self.domains < c.instances < self.cores]
        data = {
            "name": name,
            "family": "host",
            "description": self.model,
            "clock": self.clock,
            "cores": self.cores,
            "threads_per_core": self.threads_per_core,
            "cores_per_cluster": min(clusters, default=None),
            "cores_per_numa": max(1, self.cores // self.domains),
            "cores_per_socket": max(1, self.cores // self.sockets),
            "engines": {"vector": {"flop_per_cycle": {"float32": flop, "float64": flop / 2}}},
            "memory": memory,
            "sources": {
                **dict.fromkeys(
                    ("clock", "cores", "threads_per_core", "cores_per_cluster", "cores_per_numa", "cores_per_socket"),
                    self.source,
                ),
                **({"clock": self.clock_source} if self.clock_source else {}),
                "engines": f"{self.source}, CPU flags: {how}",
                "memory": self.source,
                **assumed,
                "memory.DRAM.bandwidth": "assumed until measured: 10 GB/s a core",
            },
        }
        machine: Machine = validated(Machine, data, self.source)
        return machine


def parse_lscpu(text: str, memory: float | None = None) -> Topology:
    """The output of ``lscpu --json``, or of ``lscpu``; capacities in bytes, the clock in hertz.

    `memory`: bytes of main memory, which lscpu does not state.
    Raises InputError where it is no such output, or a field is missing.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"lscpu: more than {MAX_TEXT} characters")
    entries: Any
    if text.lstrip().startswith("{"):
        document = parse_json(text, "lscpu (want the output of lscpu --json)")
        entries = document.get("lscpu") if isinstance(document, Mapping) else None
    else:  # what it prints for people
        entries = [{"field": name, "data": data} for name, data in _PRINTED.findall(text)]
    if not isinstance(entries, list) or not entries:
        raise InputError("lscpu: no list 'lscpu' (want the output of lscpu --json)")
    stated = list(_fields(entries, 0))
    fields = dict(stated)
    begins = [i for i, (name, _) in enumerate(stated) if name == "Model name"]
    ends = [*begins[1:], len(stated)]
    kinds = [dict(stated[begin:end]) for begin, end in zip(begins, ends, strict=True)] if begins[1:] else [fields]
    counts = [_cores(kind) for kind in kinds]
    clock, clock_source = _mean_clock(kinds, counts)
    return Topology(
        model=_models(kinds, counts),
        cores=sum(counts),
        threads_per_core=min(_whole(kind, "Thread(s) per core", default=1) for kind in kinds),
        sockets=max(_whole(kind, "Socket(s)", default=1) for kind in kinds),
        domains=_whole(fields, "NUMA node(s)", default=1),
        caches=tuple(_caches(fields)),
        clock=clock,
        memory=memory,
        flags=frozenset.intersection(*(frozenset(kind.get("Flags", "").lower().split()) for kind in kinds)),
        clock_source=clock_source,
    )


def parse_hwloc(text: str, clock: float | None = None, flags: frozenset[str] = frozenset()) -> Topology:
    """The output of ``lstopo --of xml`` (hwloc 1 and 2); it knows caches (bytes) and domains, neither clock (hertz) nor
    flags.

    Raises InputError where it is no such XML, or declares entities.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"hwloc: more than {MAX_TEXT} characters")
    if "<!ENTITY" in text:
        raise InputError("hwloc: XML entities are not accepted")
    if not text.lstrip().startswith("<"):
        printed = [(kind, float(size or 0) * _FACTORS[unit]) for kind, size, unit in _OBJECT.findall(text)]
        return _of_objects(printed, clock, flags)
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise InputError(f"hwloc: not XML ({error})") from None
    objects = list(root.iter("object"))
    memory = sum(_xml_whole(node, "local_memory") for node in objects if node.get("type") == "NUMANode")
    model = [i.get("value", "") for i in root.iter("info") if i.get("name") == "CPUModel"]
    seen = [(_cache_level(node) or node.get("type", ""), float(_xml_whole(node, "cache_size"))) for node in objects]
    topology = _of_objects(seen, clock, flags)
    return replace(topology, model="; ".join([*model[:1], *_core_kinds(root, objects)]), memory=float(memory) or None)


def _of_objects(seen: Sequence[tuple[str, float]], clock: float | None, flags: frozenset[str]) -> Topology:
    """What hwloc's objects say, each with its kind and the bytes of a cache, in their order."""
    counts = Counter(kind for kind, _ in seen)
    if not counts["Core"]:
        raise InputError("hwloc: no object of type Core (want the output of lstopo, or lstopo --of xml)")
    sizes = {kind: size for kind, size in reversed(seen) if size}
    levels = (kind for kind in sorted(sizes) if re.fullmatch(r"L\d+d?", kind))  # none of instructions
    caches = [Cache(kind.removesuffix("d"), sizes[kind], counts[kind]) for kind in levels]
    return Topology(
        model="",
        cores=counts["Core"],
        threads_per_core=max(1, counts["PU"] // counts["Core"]),
        sockets=max(1, counts["Package"] + counts["Socket"]),
        domains=max(1, counts["NUMANode"]),
        caches=tuple(caches),
        clock=clock,
        flags=flags,
        source="hwloc",
    )


def _core_kinds(root: ET.Element, objects: Sequence[ET.Element]) -> list[str]:
    """How many cores of each kind hwloc distinguishes; empty where they are all of one."""
    masks = [_mask(node.get("cpuset", "")) for node in objects if node.get("type") == "Core"]
    kinds = list(root.iter("cpukind"))
    names = [{one.get("name"): one.get("value", "") for one in kind.iter("info")} for kind in kinds]
    words = [name.get("CoreType") or f"kind {i}" for i, name in enumerate(names)]
    held = [sum(bool(mask & _mask(kind.get("cpuset", ""))) for mask in masks) for kind in kinds]
    return [" + ".join(f"{count} x {word}" for count, word in zip(held, words, strict=True))] if kinds[1:] else []


def _mask(text: str) -> int:
    """A set of processors: words of 32 bits in hexadecimal, the highest first."""
    words = text[:4096].split(",")
    known = all(re.fullmatch(r"(0x)?[0-9a-fA-F]{0,8}", word) for word in words)
    return int("".join(word.removeprefix("0x").rjust(8, "0") for word in words) or "0", 16) if known else 0


def _fields(entries: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Newer versions nest the fields under headings."""
    if depth > 8 or not isinstance(entries, list):
        return
    for entry in entries:
        if isinstance(entry, Mapping):
            if entry.get("data") is not None:
                yield str(entry.get("field", "")).rstrip(": "), str(entry["data"])
            yield from _fields(entry.get("children"), depth + 1)


def _cores(kind: Mapping[str, str]) -> int:
    """How many cores of a kind there are."""
    if kind.get("Core(s) per socket", "-") == "-" and "Core(s) per cluster" in kind:
        return _whole(kind, "Core(s) per cluster") * _whole(kind, "Cluster(s)", default=1)
    return _whole(kind, "Core(s) per socket") * _whole(kind, "Socket(s)", default=1)


def _models(kinds: Sequence[Mapping[str, str]], counts: Sequence[int]) -> str:
    """The name of the cores; of several kinds each with its number."""
    names = [kind.get("Model name", "") for kind in kinds]
    return names[0] if len(kinds) == 1 else " + ".join(f"{n} x {name}" for n, name in zip(counts, names, strict=True))


def _mean_clock(kinds: Sequence[Mapping[str, str]], counts: Sequence[int]) -> tuple[float | None, str]:
    """The clock in hertz; of several kinds of cores the mean over all cores, with which their peak is the sum of each,
    and how it was got.
    """
    clocks = [_clock(kind) for kind in kinds]
    known = [clock for clock in clocks if clock is not None]
    if len(known) < len(kinds):
        return None, ""
    if len(set(known)) == 1:
        return known[0], ""
    mean = sum(n * clock for n, clock in zip(counts, known, strict=True)) / sum(counts)
    each = ", ".join(f"{n} at {clock / 1e9:.4g} GHz" for n, clock in zip(counts, known, strict=True))
    return mean, f"lscpu: the mean over cores of several kinds ({each}), with which the peak of all is right"


def _caches(fields: Mapping[str, str]) -> Iterator[Cache]:
    for name in ("L1d", "L2", "L3", "L4"):
        text = next((fields[key] for key in (f"{name} cache", name) if key in fields), None)
        if text is None:
            continue
        size, instances = _SIZE.match(text), _INSTANCES.search(text)
        count = whole_number(instances[1]) if instances else 1
        if size is None or not count:
            raise InputError(f"lscpu: {name} cache = {text[:40]!r}: want a size such as '1 MiB (2 instances)'")
        total = (number_written(size[1], "," if "," in size[1] else ".") or 0.0) * _FACTORS[size[2]]
        # with instances named, the size is that of all together (util-linux 2.37 and later)
        yield Cache(name.removesuffix("d"), float(round(total / count if instances else total)), count)


def _clock(fields: Mapping[str, str]) -> float | None:
    named = _MODEL_CLOCK.search(fields.get("Model name", ""))
    if named:
        return float(named[1]) * {"G": 1e9, "M": 1e6}[named[2]]
    for field in ("CPU max MHz", "CPU MHz", "CPU static MHz"):
        text = fields.get(field, "")  # no thousands are parted here
        if (megahertz := number_written(text, "," if "," in text else ".")) is not None:
            return megahertz * 1e6
    return None


def _whole(fields: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = fields.get(name)
    if text is None and default is not None:
        return default
    return default if default is not None and text in ("-", "") else whole_of(text, f"lscpu: {name}", 1, 1_000_000)


def _cache_level(node: ET.Element) -> str:
    kind = node.get("type", "")
    if kind == "Cache":  # hwloc 1
        return f"L{node.get('depth', '')}" if node.get("cache_type", "0") != "2" else ""
    return kind.removesuffix("Cache") if re.fullmatch(r"L[1-5]Cache", kind) else ""


def _xml_whole(node: ET.Element, name: str) -> int:
    return whole_of(node.get(name, "0"), f"hwloc: {node.get('type')}.{name}")
