"""What another clock does to a kernel: core-bound time follows it, memory-bound time does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.hwmodels.files.readers import InputError

ROUNDING = 0.02
"""A negative rest of so much of the time is taken for rounding in print."""


@dataclass(frozen=True)
class FrequencySplit:
    """t(f) = core_cycles / f + memory_time; `from_two` reads both off two measured frequencies."""

    core_cycles: Annotated[float, Parameter("cycle", "work that follows the clock", 0.0, 1e18)]
    memory_time: Annotated[float, Parameter("s", "work that does not", 0.0, 1e6)]

    def __post_init__(self) -> None:
        check_parameters(self)

    def time(self, clock: float) -> float:
        """Seconds at a clock in hertz.

        Raises
        ------
        InputError
            Where the clock is not above 0.
        """
        if not clock > 0:
            raise InputError(f"clock = {clock:g} Hz: want a frequency > 0")
        return self.core_cycles / clock + self.memory_time

    def core_share(self, clock: float) -> float:
        """Share of the time at a clock that follows it."""
        return self.core_cycles / clock / self.time(clock)


def from_two(clock_low: float, time_low: float, clock_high: float, time_high: float) -> FrequencySplit:
    """The split through two measured points, clocks in hertz and times in seconds.

    Raises
    ------
    InputError
        Where the times cannot come from such a split: rising with the clock, or falling faster than 1 / f.
    """
    if not 0 < clock_low < clock_high:
        raise InputError(f"clocks {clock_low:g} and {clock_high:g} Hz: want two, ascending")
    cycles = (time_low - time_high) / (1 / clock_low - 1 / clock_high)
    memory = time_high - cycles / clock_high
    if cycles < 0 or memory < -ROUNDING * time_high:
        raise InputError(
            f"times {time_low:g} s at {clock_low:g} Hz and {time_high:g} s at {clock_high:g} Hz: want a time that falls"
            " with the clock, but not faster than 1 / f (a constant-rate counter over the set clock does that)"
        )
    return FrequencySplit(cycles, max(memory, 0.0))


def constant_rate_correction(time: float, clock: float, reference_clock: float) -> float:
    """Seconds got by dividing a constant-rate counter by the set clock (hertz), put right: times clock / reference."""
    return time * clock / reference_clock
