"""What `slipstick spmv predict` prints: the time with its band first, other models and kernels, then their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.formatting import ends_shown, shown
from slipstick.estimators.sparse.network_products import CHOSEN
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS
from slipstick.estimators.sparse.sparse_products import CALL, WITHIN
from slipstick.experiments.report.summary import cut

NETWORK = "network of Table 2"
COLUMNS = ("kernel", "threads", "label", "model", "time_s", "low_s", "high_s", "ns_per_nonzero", "energy_J")
MATTERS = 5
"""Starts of a call within which its time matters."""
KEPT = 2
"""Assumptions of an answer that are printed, cut to a line each; --verbose has all of them."""


def first_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first row in words: its time and band, kernel, caches, model and machine; then how its model was chosen."""
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
    lines = [f"{size}{where}: {time}; {', '.join(how)}"]
    ours, other = row.get("held_out_spread"), row.get("network_held_out_spread")
    if row.get("network_time_s") is not None and ours is not None and other is not None:
        time = f"{shown(row['network_time_s'], 's')}{_band(row['network_low_s'], row['network_high_s'])}"
        errors = f"scatter over left-out matrices {shown(100 * other, '%')}, of {row['model']} {shown(100 * ours, '%')}"
        lines.append(f"{NETWORK}: {time}; {errors}")
    return [*lines, *left_out]


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
    others = [note for note in notes if not note.startswith(CHOSEN)]  # the second line says it
    lines = [f"assuming: {cut(note)}" for note in others[:KEPT]]
    return [*lines, f"{len(others) - KEPT} more assumptions, all columns: --verbose"] if len(others) > KEPT else lines


def _band(low: float | None, high: float | None) -> str:
    return "; no band" if low is None or high is None else f" (80 %: {ends_shown(low, high)})"
