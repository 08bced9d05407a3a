"""Representative iterations against measured training runs: A100 logs, GNMT logs, and epochs measured on CPUs.

Chosen on some runs (or on the base configuration), scored on others: the error of the whole epoch's time.
"""

from __future__ import annotations

from slipstick.experiments.scoreboards.seqpoint.seqpoint_cpu import bundled, measured
from slipstick.experiments.scoreboards.seqpoint.seqpoint_gpu import gnmt, rnnt
from slipstick.experiments.scoring.score import Board

BOARD = Board(
    "How long does a training epoch take, from a few of its iterations?",
    {"rnnt": rnnt, "gnmt": gnmt, "measured_cpu": measured, "own epochs": bundled},
)
