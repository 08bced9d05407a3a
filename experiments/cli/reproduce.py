"""slipstick reproduce PAPER"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def reproduce(
        paper: Annotated[str, typer.Argument(help="xeon-phi, seqpoint, dlbricks, spmv-cnn or tpupoint")],
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",
    ) -> int:
        """Every number a paper states beside ours; exit code 1 where one that can be checked does not hold."""
        from slipstick.experiments.report.output import emit
        from slipstick.experiments.scoring import scoreboard_catalog

        rows = scoreboard_catalog.paper(paper).run()
        held = [row for row in rows if row.ok]
        missed = [row for row in rows if row.ok is False]
        rest = len(rows) - len(held) - len(missed)
        without = sum(1 for row in rows if row.ok is None and row.ours is not None)
        notes = [
            f"{paper}: {len(held)} hold, {len(missed)} missed; the rest: {without} of ours without a published number, "
            f"{rest - without} not reproducible",
            "holding rows prove: " + ", ".join(f"{kind} {count}" for kind, count in _kinds(held)),
            *_relabelled(rows),
            *(f"missed: {row.table}, {row.cell}" for row in missed),
        ]
        if format == "table":
            emit([_short(row.to_dict()) for row in rows], format, notes=notes, digits=5)
        else:
            emit([row.to_dict() for row in rows], format)
        return 1 if missed else 0


def _relabelled(rows: Sequence[Any]) -> list[str]:
    """A line on rows whose label was corrected: what they are now, and what they counted as before."""
    changed = [row for row in rows if row.relabelled]
    kinds = ", ".join(f"{row.table} {'missed' if row.ok is False else row.proves}" for row in changed)
    return [f"relabelled, {len(changed)} of these rows: {kinds}"] if changed else []


def _kinds(rows: Sequence[Any]) -> list[tuple[str, int]]:
    """How many rows prove what, most first."""
    from collections import Counter

    return Counter(row.proves for row in rows).most_common()


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """What fits a line."""
    names = ("table", "cell", "status", "published", "ours", "unit", "relative_error", "ok", "evidence", "reason")
    return {name: row[name] for name in names}
