"""The scoreboard of energy: training under power limits, and power while serving."""

from __future__ import annotations

from pathlib import Path

from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.validation.energy import power_limit_scores
from slipstick.experiments.evidence.validation.energy.serving_power_scores import serving_rows


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """All rows of this scoreboard."""
    return [*power_limit_scores.rows(scored), *serving_rows(scored)]
