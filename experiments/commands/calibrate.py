"""slipstick calibrate STUDY.toml | JOB.yaml"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.commands.numbers import only


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def calibrate(
        context: typer.Context,
        study: Annotated[
            str,
            typer.Argument(help="a study with a [fit] part: measured, parameters, loss, starts; or a job's .yaml"),
        ],
        measured: Annotated[str | None, typer.Option(help="of a job: CSV of step_s, time_s, STAGE.service_s")] = None,
        fit: Annotated[
            list[str] | None, typer.Option(help="of a job: job.STAGE.service,job.STAGE.variation,...")
        ] = None,
        on: Annotated[str | None, typer.Option(help="of a job: the machine of stages that name none")] = None,
        set: Annotated[list[str] | None, typer.Option(help="of a job: job.NAME=VALUE")] = None,  # noqa: A002
        intervals: Annotated[str | None, typer.Option(help="covariance | profile | bootstrap")] = None,
        level: Annotated[float, typer.Option(help="probability of the intervals")] = 0.80,
        out: Annotated[str | None, typer.Option("--save", "--out", help="write the calibration, FILE.json")] = None,
        plot: Annotated[str | None, typer.Option(help="a picture of the fit, FILE.png or .svg")] = None,
        trusted: Annotated[
            list[str] | None, typer.Option("--with", help="MODULE:ATTRIBUTE that the study names: your own code")
        ] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """Fit an estimator's parameters to measurements: values, errors, warnings, and the score on held-out groups.

        Numbers of a job's .yaml are fitted through its event simulation: --measured steps.csv --fit job.NAME,...
        """
        from slipstick.experiments.subjects.jobs import is_job

        if is_job(study) or (measured and not study.endswith(".toml")):
            from slipstick.experiments.answers.job_answers import JobRequest, print_fit

            only(context, "a job", JOB)
            job = JobRequest(study, on, None, tuple(set or ()), form=format, measured=measured, fit=tuple(fit or ()))
            print_fit(job, level, out, plot)
            return
        from slipstick.experiments.answers.calibrating import calibrate_study, spans_devices

        across = spans_devices(study)
        only(context, "a study across devices" if across else "a study", DEVICES if across else STUDY)

        calibrate_study(study, intervals, level, out, format, trusted or (), plot)


JOB = ("measured", "fit", "on", "set", "level", "out", "plot", "format")
DEVICES = ("out", "format")
STUDY = ("intervals", "level", "out", "plot", "trusted", "format")
"""What each way to an answer reads; other options are refused."""
