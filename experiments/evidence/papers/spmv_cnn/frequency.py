"""What another clock does to a kernel: core-bound time follows it, memory-bound time does not."""

from __future__ import annotations


def constant_rate_correction(time: float, clock: float, reference_clock: float) -> float:
    """Seconds got by dividing a constant-rate counter by the set clock (hertz), put right: times clock / reference."""
    return time * clock / reference_clock
