"""`perf script`: samples with their stacks; the function at the top of each stack, with its share of the samples.

Source: https://man7.org/linux/man-pages/man1/perf-script.1.html; files as brendangregg/FlameGraph keeps them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, opened
from slipstick.workloads.importers.counters.counted import Counted

LIMIT_BYTES = 4096 * MEGABYTE
LONGEST = 4_000
MOST_NAMES = 1_000_000
SAMPLE = re.compile(
    r"(\S.{0,64}?)\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?(?:\d+\.\d+:\s+)?"
    r"(?:(\d{1,18})\s+)?([\w\-:/.=]{1,80}):(?:\s|$)"
)
_FRAME = re.compile(r"\s*[0-9a-f]{1,16} (\S.*)")
_OFFSET = re.compile(r"\+0x[0-9a-f]{1,16}$")


def read_perf_script(path: Path) -> tuple[Counted, ...]:
    """Functions with their samples, of the event cycles or the first; `shares` are of periods, or of samples without.

    Raises InputError where the file holds no samples.
    """
    counts: dict[str, dict[str, _Samples]] = {}
    event, leaf, period = "", "", 1.0

    def close() -> None:
        if event:
            names = counts.setdefault(event, {})
            names.setdefault(leaf or "[unknown]", _Samples()).add(period)
            if len(names) > MOST_NAMES:
                raise InputError(f"{path}: more than {MOST_NAMES:,} functions")

    with opened(path, LIMIT_BYTES) as stream:
        while block := stream.readline(LONGEST):
            line = block.decode("utf-8", errors="replace").rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            if not line[0].isspace() and (match := SAMPLE.match(line)):
                close()
                event, leaf = match.group(3), ""
                period = float(match.group(2) or 1)
                rest = _FRAME.match(line[match.end() :])
                leaf = _function(rest.group(1)) if rest else ""
            elif not leaf and (frame := _FRAME.match(line)):
                leaf = _function(frame.group(1))
    close()
    if not counts:
        raise InputError(f"{path}: holds no samples; was it written by perf script?")
    chosen = next(
        (name for name in counts if name.split(":")[0] in ("cycles", "cpu-clock", "task-clock")), next(iter(counts))
    )
    names = counts[chosen]
    whole = sum(one.periods for one in names.values()) or 1.0
    return tuple(
        Counted(name, one.number, None, None, None, {"samples": one.periods / whole}, {chosen: one.periods})
        for name, one in sorted(names.items(), key=lambda pair: -pair[1].periods)
    )


@dataclass
class _Samples:
    """How many, and the sum of their periods (1 each where none is printed)."""

    number: int = 0
    periods: float = 0.0

    def add(self, period: float) -> None:
        self.number += 1
        self.periods += period


def _function(frame: str) -> str:
    """The function of "name+0x1a (/path/of/object)"."""
    name = frame.rpartition(" (")[0] or frame
    return _OFFSET.sub("", name)[:400]
