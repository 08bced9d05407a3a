"""What `slipstick spmv predict` prints: the time with its band first, other kernels, then their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.formatting import ends_shown, shown
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS
from slipstick.estimators.sparse.sparse_products import CALL, WITHIN
from slipstick.experiments.report.summary import cut

COLUMNS = ("kernel", "threads", "label", "model", "time_s", "low_s", "high_s", "ns_per_nonzero", "energy_J")
MATTERS = 5
"""Starts of a call within which its time matters."""
KEPT = 2
"""Assumptions of an answer that are printed, cut to a line each; --verbose has all of them."""


def first_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first row in words: its time and band, kernel, caches, model and machine."""
    row = rows[0]
    how = [
        f"kernel {row['kernel']}" if row["kernel"] else "whole device",
        *([f"{row['threads']} threads"] if (row["threads"] or 1) > 1 else []),
        *([f"{row['label']} caches"] if row["label"] else []),
        f"by {row['model']}",
    ]
    size = f"{row['matrix']} ({row['rows']:,} x {row['columns']:,}, {row['nonzeros']:,} non-zeros)"
    where = f" on {row['machine']}" if row["machine"] else ""
    left_out = [WITHIN] if row["label"] in LABEL_KINDS and row["time_s"] < MATTERS * CALL else []
    time = f"{shown(row['time_s'], 's')}{_band(row['low_s'], row['high_s'])}"
    return [f"{size}{where}: {time}; {', '.join(how)}", *left_out]


def shown_rows(rows: Sequence[Mapping[str, Any]], form: str, *, verbose: bool) -> list[dict[str, Any]]:
    """The rows with the columns of a short table; with all of them in files and where `verbose`."""
    if form != "table" or verbose:
        return [dict(row) for row in rows]
    constant = {name for name in ("threads", "label", "model") if len({row[name] for row in rows}) == 1}
    return [{name: row[name] for name in COLUMNS if name not in constant} for row in rows]


def last_lines(notes: Sequence[str], *, verbose: bool) -> list[str]:
    """Assumptions: all of them where `verbose`, else the first ones, and that there are more."""
    if verbose:
        return [f"assuming: {note}" for note in notes]
    lines = [f"assuming: {cut(note)}" for note in notes[:KEPT]]
    return [*lines, f"{len(notes) - KEPT} more assumptions, all columns: --verbose"] if len(notes) > KEPT else lines


def _band(low: float | None, high: float | None) -> str:
    return "; no band" if low is None or high is None else f" (80 %: {ends_shown(low, high)})"
