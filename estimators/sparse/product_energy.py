"""Energy of sparse products without a meter: an explicit formula from the SpMV paper's table of times and energies.

Barreda, Dolz, Castano 2020, Table 1: a Haswell core at four clocks. The printed times follow 1 / f^2 because a counter
of constant rate was divided by the set clock; times x f / 2.4 GHz are constant in cycles (docs/notes/spmv.md). Energy
over those times is a power: memory 1.42 W at every clock, the package a straight line in the clock.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from slipstick.common.errors import InputError

CLOCKS_GHZ = (1.2, 1.6, 2.0, 2.4)
METRICS = ("time", "total energy", "package energy", "DRAM energy")
TABLE_1 = {  # mean and standard deviation by metric and clock; printed as ms and mJ, read as ns and nJ a non-zero
    "time": ((5.71, 0.28), (3.22, 0.16), (2.05, 0.10), (1.42, 0.07)),
    "total energy": ((64.11, 3.35), (51.35, 2.78), (43.60, 2.46), (39.58, 2.51)),
    "package energy": ((60.05, 3.13), (48.29, 2.61), (41.18, 2.32), (37.54, 2.39)),
    "DRAM energy": ((4.06, 0.25), (3.05, 0.21), (2.44, 0.18), (2.03, 0.16)),
}
TABLE_1_RANGES = {
    "time": ((5.33, 8.29), (3.00, 4.68), (1.92, 2.97), (1.33, 2.06)),
    "total energy": ((57.32, 94.25), (44.85, 74.63), (37.56, 63.39), (34.52, 58.40)),
    "package energy": ((53.85, 88.27), (42.45, 69.70), (35.53, 59.95), (32.88, 55.39)),
    "DRAM energy": ((2.94, 7.36), (1.99, 6.23), (1.48, 5.05), (1.14, 4.29)),
}
COUNTER_GHZ = 2.4
MODELLED = "modelled, untested: package (a + b f) x time, memory at constant power, by Table 1 of Barreda et al. 2020"


@cache
def power_law() -> tuple[float, float, float]:
    """Watts of the package without clock, watts a Hz, and watts of the memory: least squares over Table 1's clocks."""
    seconds = [TABLE_1["time"][k][0] * clock / COUNTER_GHZ for k, clock in enumerate(CLOCKS_GHZ)]
    package = [TABLE_1["package energy"][k][0] / time for k, time in enumerate(seconds)]
    dram = [TABLE_1["DRAM energy"][k][0] / time for k, time in enumerate(seconds)]
    slope, constant = np.polyfit(np.array(CLOCKS_GHZ) * 1e9, package, 1)
    return float(constant), float(slope), float(np.mean(dram))


def modelled_energy(seconds: float, clock: float) -> tuple[float, float]:
    """Joules of package and memory, E = (a + b f) T + c T, for a product of `seconds` on a core of `clock` [Hz].

    The power is that of one Haswell package with one busy core whose matrix lies in its first cache: another processor,
    or heavy traffic to memory, takes another. a = 15.5 W, b = 4.46 W / GHz, c = 1.42 W.
    Raises InputError where a number is not above 0.
    """
    if not (seconds > 0 and clock > 0):
        raise InputError(f"energy of {seconds:g} s at {clock:g} Hz: want both above 0")
    constant, slope, dram = power_law()
    return (constant + slope * clock) * seconds, dram * seconds
