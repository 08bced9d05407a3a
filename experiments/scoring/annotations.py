"""What a reproduced row proves, by table and cell: rules that a paper lists once for its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.experiments.scoring.score_rows import Evidence, ReproductionRow


@dataclass(frozen=True)
class Mark:
    """Rows whose table and cell match two regular expressions (whole, ignoring nothing) are of one kind of evidence.

    `inputs`: what the number of ours was computed from, in words.
    """

    table: str
    cell: str
    evidence: Evidence
    inputs: str = ""


def marked(rows: Iterable[ReproductionRow], marks: Sequence[Mark]) -> list[ReproductionRow]:
    """The rows with the first mark that fits each; rows that none fits keep what their status says.

    Raises InputError where two rows of a paper have one table and cell: each cell stands once.
    """
    scores, seen = [], set()
    for row in rows:
        if (row.table, row.cell) in seen:
            raise InputError(f"reproduction: {row.table}, {row.cell!r} stands twice")
        seen.add((row.table, row.cell))
        fits = (m for m in marks if re.fullmatch(m.table, row.table) and re.fullmatch(m.cell, row.cell))
        mark = None if row.evidence == "conflict of sources" else next(fits, None)
        scores.append(row if mark is None else replace(row, evidence=mark.evidence, inputs=mark.inputs))
    return scores
