"""slipstick reproduce PAPER"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def reproduce(
        paper: Annotated[str, typer.Argument(help="xeon-phi, seqpoint, dlbricks, spmv-cnn or tpupoint")],
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> int:
        """Every number a paper states beside ours; exit code 1 where one that can be checked does not hold."""
        from experiments import registry
        from experiments.output import emit

        rows = registry.paper(paper).run()
        checked = [row for row in rows if row.ok is not None]
        missed = sum(1 for row in checked if not row.ok)
        note = (
            f"{paper}: {len(checked) - missed} of {len(checked)} checkable rows hold; {len(rows) - len(checked)} others"
        )
        emit([row.to_dict() for row in rows], format, notes=[note])
        return 1 if missed else 0
