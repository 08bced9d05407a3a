"""The clock of a core that the system does not state: counted by a chain of dependent additions."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.hwmodels.importers.cpuinfo import CPUINFO, believed, parse_cpufreq, parse_cpuinfo, system_text

CPUFREQ = Path("/sys/devices/system/cpu/cpu0/cpufreq")
CYCLES_A_STEP = 2
STEPS = 20_000_000
SAMPLES = 7


def stated_clock(cpuinfo: Path = CPUINFO, cpufreq: Path = CPUFREQ) -> tuple[float, str] | None:
    """Hz and where they come from, of what lscpu leaves out: cpufreq, then /proc/cpuinfo; None where neither says."""
    for name in ("base_frequency", "cpuinfo_max_freq"):
        clock = parse_cpufreq(system_text(cpufreq / name))
        if clock is not None:
            return clock, f"cpufreq: {name}"
    clock = parse_cpuinfo(system_text(cpuinfo))
    return None if clock is None else (clock, "/proc/cpuinfo")


def counted_clock() -> float:
    """Hz: cycles of a chain in which each step is an addition and an exclusive or that wait for each other.

    Two cycles a step on every core since the 1990s, whatever its width; the fastest of a few samples on the thread's
    CPU time counts, since whatever disturbs it makes it slower.
    Raises InputError where numba is missing, or what was counted is no clock of a core.
    """
    chain = _chain()
    chain(1000, 12345)
    best = 0.0
    for _ in range(SAMPLES):
        start = time.thread_time()
        chain(STEPS, 12345)
        passed = time.thread_time() - start
        best = max(best, CYCLES_A_STEP * STEPS / passed if passed > 0 else 0.0)
    clock = believed(best)
    if clock is None:
        raise InputError(f"counted {best:.3g} cycles a second by dependent additions: no core's clock; give --clock")
    return clock


@cache
def _chain() -> Any:
    try:
        import numba
    except ImportError:
        raise InputError(
            "the system states no clock; counting it needs numba (pip install 'slipstick[measure]'), or give --clock"
        ) from None

    @numba.njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def chain(steps: int, seed: int) -> int:
        value = seed
        for step in range(steps):
            value = (value + step) ^ seed
        return value

    return chain
