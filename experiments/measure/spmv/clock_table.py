"""Table 1 of Barreda, Dolz, Castano 2020: mean time and energy of a block of 250 non-zeros by clock, as printed."""

from __future__ import annotations

CLOCKS_GHZ = (1.2, 1.6, 2.0, 2.4)
METRICS = ("time", "total energy", "package energy", "DRAM energy")
TABLE_1 = {  # mean and standard deviation by metric and clock; printed as ms and mJ, see UNIT_READINGS
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
