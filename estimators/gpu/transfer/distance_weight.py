"""How far what anchors say holds beyond them."""

from __future__ import annotations

import numpy as np

from slipstick.estimators.gpu.transfer.anchor_constants import LENGTH
from slipstick.estimators.symbolic.lambdified import FloatArray


def fading(logs: FloatArray, low: float, high: float) -> FloatArray:
    """How much of what anchors between two log times say holds at others: 1 between them, falling beyond."""
    octaves = np.maximum(np.maximum(low - logs, logs - high), 0.0) / np.log(2)
    return np.asarray(np.exp(-0.5 * (octaves / LENGTH) ** 2))
