"""The scoreboard of energy: training under power limits, and power while serving."""

from __future__ import annotations

from slipstick.experiments.scoreboards.energy.power_limit_scores import limit_scores
from slipstick.experiments.scoreboards.energy.serving_power_scores import serving_power
from slipstick.experiments.scoring.score import Board, Front

BOARD = Board(
    "What do training under a power limit and serving a language model draw, on a device or model never measured?",
    {"energy: training under power limits (Zeus)": limit_scores, "energy: serving (ML.ENERGY)": serving_power},
    (Front("Power while serving", "the model", "power of a device", "model"),),
)
