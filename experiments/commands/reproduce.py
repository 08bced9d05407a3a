"""slipstick reproduce PAPER"""

from __future__ import annotations

from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def reproduce(
        paper: Annotated[str, typer.Argument(help="xeon-phi, seqpoint, dlbricks, spmv-cnn or tpupoint")],
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> int:
        """Every number a paper states beside ours; exit code 1 where one that can be checked does not hold."""
        from slipstick.experiments.evidence import catalog
        from slipstick.experiments.pages.output import emit

        rows = catalog.paper(paper).run()
        checked = [row for row in rows if row.ok is not None]
        missed = sum(1 for row in checked if not row.ok)
        note = (
            f"{paper}: {len(checked) - missed} of {len(checked)} checkable rows hold; {len(rows) - len(checked)} others"
        )
        if format == "table":
            emit([_short(row.to_dict()) for row in rows], format, notes=[note])
        else:
            emit([row.to_dict() for row in rows], format)
        return 1 if missed else 0


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """What fits a line."""
    names = ("table", "cell", "status", "published", "ours", "unit", "relative_error", "ok", "reason")
    return {name: row[name] for name in names}
