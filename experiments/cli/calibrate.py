"""slipstick calibrate STUDY.toml | JOB.yaml"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.cli.typed_numbers import only
from slipstick.experiments.cli.vocabulary import Format, Level, Plot, Trusted, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def calibrate(
        context: typer.Context,
        study: Annotated[
            str,
            typer.Argument(help="a study with a [fit] part: measured, parameters, loss, starts; or a job's .yaml"),
        ],
        measured: Annotated[
            str | None, option("measured", "of a job, a CSV of step_s, time_s, STAGE.service_s")
        ] = None,
        fit: Annotated[
            list[str] | None, option("fit", "of a job, to --measured: job.STAGE.service,job.STAGE.variation,...")
        ] = None,
        on: Annotated[str | None, option("on", "of a job's stages that name none")] = None,
        set: Annotated[list[str] | None, option("set", "of a job, job.NAME=VALUE")] = None,
        intervals: Annotated[str | None, option("intervals", "covariance | profile | bootstrap")] = None,
        level: Level = 0.80,
        out: Annotated[str | None, option("out", "the calibration, FILE.json")] = None,
        plot: Plot = None,
        allow_code: Trusted = None,
        format: Format = "table",
    ) -> None:
        """Fit an estimator's parameters to measurements: values, errors, warnings, and the score on held-out groups.

        Numbers of a job's .yaml are fitted through its event simulation: --measured steps.csv --fit job.NAME,...
        """
        from slipstick.common.errors import InputError
        from slipstick.experiments.jobs import is_job
        from slipstick.workloads.importers.formats.registry import identify

        names = [name.strip() for text in fit or () for name in text.split(",")]
        of_job = bool(names) and all(name.startswith("job.") for name in names)
        named = study.endswith((".toml", ".yaml", ".yml"))
        if Path(study).is_file() and not named and identify(study) is not None:
            raise InputError(
                f"{study}: want a study's .toml with a [fit] part, whose 'measured' names such a file; slipstick read "
                f"{study} says what it holds and which command goes on"
            )
        if not (is_job(study) or of_job or named or Path(study).is_file()):
            raise InputError(
                f"{study}: want a study's .toml with a [fit] part, or a job's .yaml. Times of a workload by settings "
                f"are fitted by slipstick whatif {study} --on MACHINE --vary NAME=VALUES --measured FILE.csv --fit NAME"
                f"; one time of it holds the answer of slipstick estimate {study} --on MACHINE --measured TIME"
            )
        if is_job(study) or (measured and not study.endswith(".toml")):
            from slipstick.experiments.report.print_job import JobRequest, print_fit

            only(context, "a job", JOB)
            job = JobRequest(
                study, on, settings=tuple(set or ()), form=format, measured=measured, fit=tuple(fit or ()),
                allow_code=tuple(allow_code or ()),
            )  # fmt: skip
            print_fit(job, level, out, plot)
            return
        from slipstick.experiments.report.print_calibration import calibrate_study, spans_devices

        across = spans_devices(study)
        only(context, "a study across devices" if across else "a study", DEVICES if across else STUDY)

        calibrate_study(study, intervals, level, out, format, allow_code or (), plot)


JOB = ("measured", "fit", "on", "set", "level", "out", "plot", "allow_code", "format")
DEVICES = ("out", "format")
STUDY = ("intervals", "level", "out", "plot", "allow_code", "format")
"""What each way to an answer reads; other options are refused."""
