"""Representative iterations against measured training runs: A100 logs, GNMT logs, and epochs measured on CPUs.

Chosen on some runs (or on the base configuration), scored on others: the error of the whole epoch's time.
"""

from __future__ import annotations

from pathlib import Path

from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.validation.sequences.seqpoint_cpu import bundled, measured
from slipstick.experiments.evidence.validation.sequences.seqpoint_gpu import gnmt, rnnt


def rows(scored: Path | None) -> list[ValidationRow]:
    """All rows; `scored` names a folder of files to score instead."""
    return [*rnnt(scored), *gnmt(scored), *measured(scored), *bundled(scored)]
