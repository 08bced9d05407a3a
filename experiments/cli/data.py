"""slipstick data list|get"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slipstick.experiments.cli.vocabulary import Format, option


def register(app: typer.Typer) -> None:
    """Add the verb."""
    group = typer.Typer(help="Public measurements: where they come from, and whether the files here are those.")
    app.add_typer(group, name="data")

    @group.command("list")
    def list_sets(
        data: Annotated[Path | None, option("data", "SLIPSTICK_DATA if left out")] = None,
        format: Format = "table",
    ) -> int:
        """All sets: what they hold, which scoreboards read them, and whether they are here."""
        from slipstick.experiments.calibrate.public_sets import public_sets
        from slipstick.experiments.report.output import emit

        where = _folder(data)
        rows: list[dict[str, Any]] = [
            {"set": one.name, "here": one.state(where), "scoreboards": ", ".join(one.scoreboards), "what": one.what}
            for one in public_sets()
        ]
        emit(
            rows, format, notes=[f"below {where}" if where else "no folder of public measurements: set SLIPSTICK_DATA"]
        )
        return 0

    @group.command("get")
    def get(
        name: Annotated[str, typer.Argument(help="a set of `slipstick data list`")],
        data: Annotated[Path | None, option("data", "SLIPSTICK_DATA if left out")] = None,
    ) -> int:
        """How to fetch a set, under which licence, and whether the files here have its digest; 1 where they differ.

        Nothing is downloaded: the measurements are other people's, and their terms are yours to read.
        """
        from slipstick.experiments.calibrate.public_sets import public_set

        one, where = public_set(name), _folder(data)
        print(f"{one.name}: {one.what}")
        print(f"licence: {one.licence}")
        for source in one.sources:
            repository, _, commit = source.partition("@")
            clone = f"git clone https://github.com/{repository}"
            at = f" && git -C {repository.rpartition('/')[2]} checkout {commit}" if commit else ""
            print(f"  {clone}{at}" if "/" in repository else f"  {source}")
        files = f"{', '.join(one.files)} ({one.count} in all)"
        print(f"put what it holds below your data folder as {files}, read by")
        print(f"  slipstick validate {' '.join(one.scoreboards)}   (columns: each scoreboard names the one it lacks)")
        state = one.state(where)
        print(f"{where or 'SLIPSTICK_DATA is not set'}: {state}; digest of the set {one.digest[:16]}")
        return 1 if state == "differs" else 0


def _folder(named: Path | None) -> Path | None:
    from slipstick.common.errors import InputError
    from slipstick.experiments.calibrate.public_data import data_folder

    if named is not None and not named.is_dir():
        raise InputError(f"--data {named}: no such folder")
    return named or data_folder()
