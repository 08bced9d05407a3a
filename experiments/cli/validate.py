"""slipstick validate NAME"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.report.output import emit


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def validate(
        names: Annotated[list[str] | None, typer.Argument(help="scoreboards, or 'all'")] = None,
        data: Annotated[
            Path | None,
            typer.Option(help="score the files below this folder instead; physics: a FILE.csv, too"),
        ] = None,
        machines: Annotated[
            Path | None, typer.Option(help="folder of machine files for devices that the catalogue lacks")
        ] = None,
        save: Annotated[
            Path | None, typer.Option(help="write the rows as JSON below this folder, and its pages anew")
        ] = None,
        predictor: Annotated[
            list[TrustedName] | None,
            typer.Option(
                parser=TrustedName, metavar="MODULE:FUNCTION", help="score this function (imported and run); repeatable"
            ),
        ] = None,
        predictions: Annotated[
            list[Path] | None, typer.Option(help="score this CSV: case, time_s, low_s, high_s; repeatable")
        ] = None,
        baselines: Annotated[
            str | None,
            typer.Option(help="references in the same table: ours, a baseline, all, none (all with --predictor)"),
        ] = None,
        export_cases: Annotated[Path | None, typer.Option(help="write the cases as CSV, for --predictions")] = None,
        refit: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME", help="fit anew and write fitted/NAME.json; repeatable, or 'all'"),
        ] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",
    ) -> int:
        """Accuracy on measurements that the models were not fitted to; exit code 1 where a goal is missed."""
        from slipstick.common.errors import InputError
        from slipstick.common.optional_packages import source_only
        from slipstick.experiments.scoring import scoreboard_catalog
        from slipstick.experiments.scoring.external_data import given
        from slipstick.experiments.scoring.validation_pages import save as save_rows
        from slipstick.experiments.scoring.validation_pages import write_pages
        from slipstick.hwmodels.catalog import OWN

        if not scoreboard_catalog.scoreboards():
            raise source_only("scoreboards and their measurements")
        if refit and names:
            every = " ".join(f"--refit {name}" for name in (*refit, *names))
            raise InputError(f"--refit takes one name each and scores no board; to fit several: {every}")
        if refit:
            return _refit(refit, format)
        if not names:
            raise InputError(f"no scoreboard named (all, or {', '.join(scoreboard_catalog.scoreboards())})")
        if data is not None and not (data.is_dir() or (data.is_file() and names == ["physics"])):
            raise InputError(f"--data {data}: no such folder (validate physics reads a table of yours too, FILE.csv)")
        if machines is not None:
            if not machines.is_dir():
                raise InputError(f"--machines {machines}: no such folder")
            os.environ[OWN] = str(machines.resolve())
        if predictor or predictions or baselines or export_cases:
            return _predictors(names, data, predictor or [], predictions or [], baselines, export_cases, format)
        boards = {
            name: scoreboard_catalog.scoreboard(name)
            for name in (scoreboard_catalog.scoreboards() if "all" in names else names)
        }
        result = []
        with given(data, list(boards)) as there:
            for name, board in boards.items():
                if len(boards) > 1:
                    print(f"slipstick: validate {name}", file=sys.stderr)
                rows = there.as_named(board.rows(there.folder))
                if save is not None:
                    options = {"--data": data, "--machines": machines}
                    save_rows(name, rows, save, " ".join(f"{key} {value}" for key, value in options.items() if value))
                if format == "table":
                    emit([_short(row.to_dict()) for row in rows], format, notes=_reasons(rows), digits=5)
                result += rows
        if there.left_out and format == "table":
            emit([_short(row.to_dict()) for row in there.left_out], format, notes=_reasons(there.left_out))
        result += there.left_out
        if save is not None:
            write_pages(save, {name: scoreboard_catalog.scoreboard(name) for name in scoreboard_catalog.scoreboards()})
        if format != "table":
            emit([row.to_dict() for row in result], format)
        if data is not None and not any(row.n for row in result):
            print(f"slipstick: --data {data}: no row of it could be scored", file=sys.stderr)
            return 2
        return 1 if any(row.ok is False for row in result) else 0


def _refit(names: Sequence[str], form: str) -> int:
    """Fit anew what is named, in order, write what changed, and show how groups left out were met."""
    from slipstick.experiments.scoring.refits import refitted, words

    wanted = words(names)
    for place, name in enumerate(wanted, 1):
        print(f"slipstick: fitting {name} ({place} of {len(wanted)})", file=sys.stderr)
        made = refitted(name)
        changed = "written" if made.save() else "unchanged"
        print(f"slipstick: {made.title}: {changed}, {made.used:,} rows", file=sys.stderr)
        emit([vars(one) for one in made.outer], form)
    return 0


def _predictors(
    names: Sequence[str],
    data: Path | None,
    functions: Sequence[str],
    files: Sequence[Path],
    beside: str | None,
    export: Path | None,
    form: str,
) -> int:
    """Other people's predictors on the cases of one scoreboard, or the cases as a file."""
    from slipstick.common.errors import InputError
    from slipstick.experiments.scoring.case_sets import case_set
    from slipstick.experiments.scoring.external_data import given
    from slipstick.experiments.scoring.prediction_files import write_cases
    from slipstick.experiments.scoring.predictor_comparison import ALL, compare

    if len(names) != 1:
        raise InputError(f"{len(names)} scoreboards: predictors are scored on one at a time")
    with given(data, names) as there:  # references read their files when they are wanted
        for row in there.left_out:
            print(f"slipstick: {row.dataset}: {row.reason}", file=sys.stderr)
        cases = case_set(names[0], there.folder)
        if export is not None:
            write_cases(cases, export)
            print(f"slipstick: {len(cases.measured):,} cases written to {export}", file=sys.stderr)
            if not (functions or files or beside):
                return 0
        usual = ALL if functions else "none"
        chosen = [name.strip() for name in (beside or usual).split(",") if name.strip() != "none"]
        result = compare(cases, functions, files, chosen)
    emit([score.to_dict() for score in result.scores], form, f"{cases.name}: 80 % bands", result.notes)
    answering = {score.predictor for score in result.scores if score.answered}
    return 0 if answering.issuperset([*functions, *map(str, files)]) else 1


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """What fits a line: the reason goes above the table."""
    names = ("dataset", "case", "held_out", "n", "groups", "metric", "unit", "ours", "goal", "ok", "baselines")
    band = (
        ""
        if row["interval_coverage"] is None
        else f"{row['interval_coverage']:.2f} in x{row['interval_width']:.2f}"
        if row["coverage_low"] is None
        else f"{row['interval_coverage']:.2f} ({row['coverage_low']:.2f} .. {row['coverage_high']:.2f}) "
        f"in x{row['interval_width']:.2f}"
    )
    return {**{name: row[name] for name in names}, "band": band, "noise": row["noise_floor"]}


def _reasons(rows: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(f"{row.dataset}: {row.reason}" for row in rows if row.reason))
