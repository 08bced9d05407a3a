"""slipstick calibrate STUDY.toml"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def calibrate(
        study: Annotated[str, typer.Argument(help="a study with a [fit] part: measured, parameters, loss, starts")],
        intervals: Annotated[str | None, typer.Option(help="covariance | profile | bootstrap")] = None,
        level: Annotated[float, typer.Option(help="probability of the intervals")] = 0.80,
        out: Annotated[str | None, typer.Option("--save", "--out", help="write the calibration, FILE.json")] = None,
        plot: Annotated[str | None, typer.Option(help="a picture of the fit, FILE.png or .svg")] = None,
        trusted: Annotated[
            list[str] | None, typer.Option("--with", help="MODULE:ATTRIBUTE that the study names: your own code")
        ] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """Fit an estimator's parameters to measurements: values, errors, warnings, and the score on held-out groups."""
        from slipstick.experiments.answers.calibrating import calibrate_study

        calibrate_study(study, intervals, level, out, format, trusted or (), plot)
