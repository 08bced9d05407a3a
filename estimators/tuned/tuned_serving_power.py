"""Power of devices that serve a language model (`operation/power/serving_power.py`), and factors of any work's energy.

version: 1
chosen on: 800 metered vLLM runs on A100, H100 and B200 (ML.ENERGY leaderboards, docs/validation.md), at their measured
    step times.
refit: ``slipstick validate energy`` fits them anew without the models or the GPU that it scores; a test holds that a
    fit to all rows gives these values.
scored on the same data: with parameters fitted without the model's family, or without the GPU.
"""

from __future__ import annotations

BASE, READ, FLOP = -0.764, 1.696, 3.452
RANKS, SEQUENCES, FOUR_BIT, GROUPS = -0.0574, 0.1518, 0.374, 1.989
"""Units and meanings: the fields of `ServingPower`."""
HALF_WIDTH, UNKNOWN_HALF_WIDTH = 0.202, 0.246
"""Half of the 80 % band of log power: models left out; GPUs left out."""
MEASURED = ("nvidia-ampere-ga100", "nvidia-hopper-gh100", "nvidia-blackwell-gb100")
"""Families of machines with metered runs; others have the wider band."""
ACTIVE, FLOP_FACTOR, BYTE_FACTOR = 2.208, 0.819, 1.797
"""Factors of `PowerModel` on GPUs of these families, fitted to the 512 runs of the newer leaderboard (H100, B200)."""
FACTORS_HALF_WIDTH = 0.32
"""Half of the 80 % band of log power by these factors, families of models left out (a GPU left out: 0.33)."""
