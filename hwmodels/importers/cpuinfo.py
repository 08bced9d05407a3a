"""Where lscpu says nothing: /proc/cpuinfo, cpufreq and the caches of /sys, as virtual machines show them."""

from __future__ import annotations

import re
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number
from slipstick.hwmodels.importers.lscpu import Cache, Topology

MAX_TEXT = 16_000_000
PLAUSIBLE = (1e8, 1e10)
"""Hz between which a core's clock is believed."""
CPU = Path("/sys/devices/system/cpu/cpu0")
CPUINFO = Path("/proc/cpuinfo")
_SIZE = re.compile(r"(\d+)([KM]?)", re.ASCII)
_MODEL = re.compile(r"^model name\s*:(.*)$", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)
_LINE = re.compile(r"^(?:cpu MHz|clock)\s*:\s*(\d+(?:\.\d+)?)\s*(?:MHz)?\s*$", re.MULTILINE | re.ASCII)
_NAMED = re.compile(r"^model name\s*:.*@\s*(\d+(?:\.\d+)?)\s*([GM])Hz", re.MULTILINE | re.ASCII)


def parse_cpuinfo(text: str) -> float | None:
    """The clock of /proc/cpuinfo in Hz: the model's name if it states one, else the largest `cpu MHz`; else None.

    Raises InputError where the text is too long to be that file.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"/proc/cpuinfo: more than {MAX_TEXT} characters")
    named = _NAMED.search(text)
    if named:
        return believed(float(named[1]) * {"G": 1e9, "M": 1e6}[named[2]])
    clocks = [float(value) * 1e6 for value in _LINE.findall(text)]
    return believed(max(clocks, default=0.0))


def parse_cpufreq(text: str) -> float | None:
    """A file below cpufreq (base_frequency, cpuinfo_max_freq) in Hz; they hold kHz. None where it holds no number."""
    digits = text.strip()
    return believed(float(digits) * 1e3) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None


def believed(clock: float) -> float | None:
    """The clock in hertz, or None where no core runs at it (0 in some containers)."""
    low, high = PLAUSIBLE
    return clock if low <= clock <= high else None


def system_topology(processors: int, memory: float | None = None, cpu: Path = CPU, cpuinfo: Path = CPUINFO) -> Topology:
    """The host without lscpu: each processor counts as a core of one domain, caches and flags from the system's files.

    `processors`: as the system counts them.
    `memory`: bytes of main memory.
    """
    text = system_text(cpuinfo)
    siblings = _count_listed(system_text(cpu / "topology" / "thread_siblings_list")) or 1
    caches = []
    for folder in sorted((cpu / "cache").glob("index*")):
        level, kind = system_text(folder / "level").strip(), system_text(folder / "type").strip()
        size = _SIZE.fullmatch(system_text(folder / "size").strip())
        if kind in ("Data", "Unified") and whole_number(level) and size:
            sharing = _count_listed(system_text(folder / "shared_cpu_list")) or 1
            capacity = float(size[1]) * {"": 1, "K": 1024, "M": 1024**2}[size[2]]
            caches.append(Cache(f"L{level}", capacity, max(1, processors // sharing)))
    model, flags = _MODEL.search(text), _FLAGS.search(text)
    return Topology(
        model=model[1].strip() if model else "",
        cores=max(1, processors // siblings),
        threads_per_core=siblings,
        sockets=1,
        domains=1,
        caches=tuple(caches),
        memory=memory,
        flags=frozenset(flags[1].lower().split()) if flags else frozenset(),
        source="/proc/cpuinfo and /sys",
    )


def topology_of_cpuinfo(text: str, clock: float | None = None) -> Topology:
    """What a copy of /proc/cpuinfo says of a host; caches are left out, as it states one level without a name.

    `clock`: in hertz, where it states none.
    Raises InputError where the text holds no processor, or is too long.
    """
    stated = clock or parse_cpuinfo(text)
    blocks = [
        dict(re.findall(r"^([^:\t\n]{1,40}?)\s*:[ \t]*(.*)$", block, re.MULTILINE)) for block in text.split("\n\n")
    ]
    processors = [block for block in blocks if whole_number(block.get("processor", "")) is not None]
    if not processors:
        raise InputError("/proc/cpuinfo: no processor")
    cores = len({(block.get("physical id", "0"), block.get("core id", block["processor"])) for block in processors})
    model, flags = _MODEL.search(text), _FLAGS.search(text)
    return Topology(
        model=model[1].strip() if model else "",
        cores=cores,
        threads_per_core=max(1, len(processors) // cores),
        sockets=len({block.get("physical id", "0") for block in processors}),
        domains=1,
        caches=(),
        clock=stated,
        flags=frozenset(flags[1].lower().split()) if flags else frozenset(),
        source="/proc/cpuinfo",
    )


def _count_listed(text: str) -> int:
    """How many numbers a list such as 0-3,8 names."""
    total = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is None or high is None or high < low:
            return 0
        total += high - low + 1
    return total


def system_text(path: Path) -> str:
    """What a file of the system says; "" where it cannot be read."""
    try:
        with open(path, errors="replace") as stream:
            return stream.read(1_000_000)
    except OSError:
        return ""
