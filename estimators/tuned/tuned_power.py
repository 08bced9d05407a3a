"""What a power cap does to a board, and a limit to a run (`estimators/operation/power/power_cap.py`, `power_limit.py`).

version: 2
chosen on: 991 epochs of training under limits on P100, V100 and Quadro RTX 6000 (Zeus, You et al., NSDI 2023).
refit: ``slipstick validate energy`` fits the six parameters anew and scores each device left out.
scored on the same data: each device with parameters fitted without it; the spreads are those of devices left out.
"""

from __future__ import annotations

IDLE, KNEE_SHARE, CLOCK_SHARE, STATIC = 0.25, 0.721, 0.664, 0.0
DUTY_SLOPE, DUTY_START = 4.44, -0.9
"""Units and meanings: the fields of `PowerLimit`. The knee is 0.707 of the clock of an H100 by `voltage.KNEE`, which
was chosen on other data (operations of GPUs)."""
TIME_SPREAD, POWER_SPREAD = (0.087, 0.039), (0.042, 0.041)
"""Standard deviations of log time and log power, under a limit that holds the run back and of a run left alone."""
MEMORY = 0.1
"""Watts of memory at full bandwidth, which no clock of the chip lowers, over the rated power: of the 0.25 above that
boards at work draw at any clock, the catalogue's boards with stacked memory draw 0.15 idle."""
