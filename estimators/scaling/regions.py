"""Many regions at once: one model a region, ranked by how fast each comes to matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.estimators.scaling.prediction import Prediction


def rank(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """One row a region at the last target, the fastest growing first.

    `growth` is the time at the target over the last measured one; `share_now` and `share_then` are the region's part of
    all regions' time at the last measured value and at the target.
    """
    now = sum(p.series.y[-1] for p in predictions)
    then = sum(p.value[-1] for p in predictions)
    rows = [
        {
            "region": p.series.name,
            "time_s": p.value[-1],
            "low_s": p.low[-1] if p.low else None,
            "high_s": p.high[-1] if p.high else None,
            "growth": p.value[-1] / p.series.y[-1],
            "share_now": p.series.y[-1] / now,
            "share_then": p.value[-1] / then,
            "verdict": p.verdicts[-1].word if p.verdicts else None,
            "formula": p.text,
        }
        for p in predictions
    ]
    return sorted(rows, key=lambda row: -float(str(row["growth"])))
