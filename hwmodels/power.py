"""What it draws."""

from __future__ import annotations

from slipstick.common.records import Record
from slipstick.common.units import JoulesPerByte, JoulesPerFlop, Seconds, Watts

IDLE_SHARE = 0.15
"""Idle power over the cap of a machine that states none (the catalogue's estimate for stacked memory boards)."""


class Power(Record):
    """Idle power, energy per work, and the cap.

    Parameters
    ----------
    idle
        Power while nothing runs.
    cap
        Power the machine may draw for long; the clock falls until it does.
    time_constant
        Seconds over which the cap averages.
    per_flop
        Energy of a float32 operation in a vector engine; other types and engines take shares of it.
    per_byte
        Energy of a byte from or to main memory; caches may state their own (`memory.LEVEL.per_byte`).
    """

    idle: Watts = 0.0
    cap: Watts | None = None
    time_constant: Seconds | None = None
    per_flop: JoulesPerFlop | None = None
    per_byte: JoulesPerByte | None = None
