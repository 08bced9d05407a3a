"""What memory draws under a power cap (`estimators/power/power_cap.py`).

version: 3
chosen on: the catalogue's boards with stacked memory, which draw 0.15 of the rated power idle and 0.25 at any clock.
refit: none; ``slipstick validate energy`` scores.
scored on the same data: no
"""

from __future__ import annotations

MEMORY = 0.1
"""Watts of memory at full bandwidth, which no clock of the chip lowers, over the rated power: of the 0.25 above that
boards at work draw at any clock, the catalogue's boards with stacked memory draw 0.15 idle."""
