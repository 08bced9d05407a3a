"""Power of devices that serve a language model (`operation/power/serving_power.py`), and factors of any work's energy.

version: 2
chosen on: 931 metered vLLM runs on A100, H100 and B200 (ML.ENERGY leaderboards, docs/validation.md), at their measured
    step times.
refit: ``slipstick validate energy`` fits them anew without the models or the GPU that it scores; a test holds that a
    fit to all rows gives these values.
scored on the same data: with parameters fitted without the model's family, or without the GPU.
"""

from __future__ import annotations

BASE, READ, FLOP = -0.760, 1.720, 3.449
RANKS, SEQUENCES, FOUR_BIT, GROUPS = -0.0593, 0.1501, 0.372, 1.990
"""Units and meanings: the fields of `ServingPower`."""
HALF_WIDTH, UNKNOWN_HALF_WIDTH = 0.238, 0.238
"""Half of the 80 % band of log power: models left out; GPUs left out (0.236, and no narrower than a known GPU's)."""
MEASURED = ("nvidia-ampere-ga100", "nvidia-hopper-gh100", "nvidia-blackwell-gb100")
"""Families of machines with metered runs; others have the wider band."""
ACTIVE, FLOP_FACTOR, BYTE_FACTOR = 2.102, 0.835, 1.991
"""Factors of `PowerModel` on GPUs of these families, fitted to the 643 runs of the newer leaderboard (H100, B200)."""
FACTORS_HALF_WIDTH = 0.33
"""Half of the 80 % band of log power by these factors, families of models left out (0.328; a GPU left out: 0.332)."""
