"""slipstick validate NAME"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def validate(
        name: Annotated[str, typer.Argument(help="a scoreboard, or 'all'")],
        data: Annotated[Path | None, typer.Option(help="score the files below this folder instead")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> int:
        """Accuracy on measurements that the models were not fitted to; exit code 1 where a goal is missed."""
        from experiments import registry
        from experiments.output import emit
        from hwmodels.files import InputError

        if data is not None and not data.is_dir():
            raise InputError(f"--data {data}: no such folder")
        names = sorted(registry.SCOREBOARDS) if name == "all" else [name]
        rows = [row for one in names for row in registry.scoreboard(one).rows(data)]
        emit([row.to_dict() for row in rows], format)
        return 1 if any(row.ok is False for row in rows) else 0
