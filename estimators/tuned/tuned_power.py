"""What a power limit does to a run (`estimators/operation/power/power_limit.py`).

version: 1
chosen on: 991 epochs of training under limits on P100, V100 and Quadro RTX 6000 (Zeus, You et al., NSDI 2023).
refit: ``slipstick validate energy`` fits the six parameters anew and scores each device left out.
scored on the same data: each device with parameters fitted without it; the spreads are those of devices left out.
"""

from __future__ import annotations

IDLE, EXPONENT, CLOCK_SHARE, STATIC = 0.249, 3.0, 0.461, 0.125
DUTY_SLOPE, DUTY_START = 4.47, -0.92
"""Units and meanings: the fields of `PowerLimit`."""
TIME_SPREAD, POWER_SPREAD = (0.074, 0.038), (0.039, 0.038)
"""Standard deviations of log time and log power, under a limit that holds the run back and of a run left alone."""
