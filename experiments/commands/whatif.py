"""slipstick whatif WORKLOAD --on MACHINE --vary NAME=VALUES ..."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.commands.estimator_option import ESTIMATOR
from slipstick.experiments.commands.numbers import INPUT, TRAIN, WithNumbers, only
from slipstick.hwmodels.files.own_names import OwnName


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(cls=WithNumbers)
    def whatif(
        context: typer.Context,
        workload: Annotated[
            OwnName | None,
            typer.Argument(parser=OwnName, help="built-in, a .json file, FILE.py:FUNCTION, or a job's .yaml"),
        ] = None,
        on: Annotated[str | None, typer.Option(help="today's machine, or a YAML file")] = None,
        vary: Annotated[
            list[str] | None,
            typer.Option(help="machine.clock=1.2GHz,2.4GHz or run.threads=1..240:24 or =1..4096:13log"),
        ] = None,
        trace: Annotated[
            str | None, typer.Option(help="a recorded trace instead of a workload; --on is then B")
        ] = None,
        recorded: Annotated[str | None, typer.Option("--from", help="where the trace was recorded")] = None,
        set: Annotated[list[str] | None, typer.Option(help="what stays: run.threads=240, ...")] = None,  # noqa: A002
        where: Annotated[list[str] | None, typer.Option(help="condition: machine.clock*machine.cores <= 2e11")] = None,
        estimator: Annotated[OwnName | None, ESTIMATOR] = None,
        calibration: Annotated[str | None, typer.Option(help="a file of slipstick calibrate --out")] = None,
        anchors: Annotated[str | None, typer.Option(help="CSV of operations measured on the machine")] = None,
        measured: Annotated[str | None, typer.Option(help="CSV of measurements: time_s, run.*, machine.*")] = None,
        fit: Annotated[list[str] | None, typer.Option(help="parameters to fit to them")] = None,
        save: Annotated[str | None, typer.Option(help="write it as a study, STUDY.toml")] = None,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html, and its PNG")] = None,
        objective: Annotated[
            list[str] | None, typer.Option(help="Pareto front over: time, energy, cost, or NAME=FORMULA of columns")
        ] = None,
        rows: Annotated[int, typer.Option(help="rows of the table, best first where there are more", min=1)] = 40,
        dtype: Annotated[
            str | None, typer.Option(help="data type: bfloat16, int8, fp8, mxfp8, nvfp4, int4 (weights), ...")
        ] = None,
        simulate: Annotated[
            bool,
            typer.Option("--simulate", help="by event simulation; job.NAME varies as well (a job's .yaml, or any)"),
        ] = False,
        runs: Annotated[int | None, typer.Option(help="simulated runs of each point", min=1)] = None,
        seed: Annotated[int, typer.Option(help="of the first simulated run", min=0)] = 0,
        verbose: Annotated[bool, typer.Option("--verbose", help="all assumptions")] = False,
        given: Annotated[list[str] | None, INPUT] = None,
        train: Annotated[str | None, TRAIN] = None,
        number: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """How much faster when numbers change: ratios to today first, with their band, then times."""
        from dataclasses import replace

        from slipstick.experiments.commands.numbers import job_settings, named_settings, today_and_varied
        from slipstick.experiments.studies.whatif import with_threads_of_today
        from slipstick.experiments.subjects.jobs import is_job
        from slipstick.hwmodels.files.readers import InputError

        if trace:
            from slipstick.experiments.commands.replay import answer as answer_trace

            only(context, "a recorded trace", TRACE)
            answer_trace(trace, on, recorded, vary or [], format, set or [])
            return
        if workload and (simulate or is_job(workload)):
            from slipstick.experiments.answers.job_answers import JobRequest, print_formula_sweep, print_sweep

            only(context, "a simulated job" if simulate else "a job without --simulate", SIMULATED if simulate else JOB)
            given_as = named_settings(workload, set, number) if not is_job(workload) else job_settings(set, number)
            job = JobRequest(workload, on, estimator, tuple(given_as), dtype, runs, seed, None, report, format)
            job = replace(job, calibration=calibration, measured=measured, fit=tuple(fit or ()))
            (print_sweep if simulate else print_formula_sweep)(job, vary or [])
            return
        only(context, "a workload without --simulate or --trace", PLAIN)
        if not (workload and on and vary):
            raise InputError("give a WORKLOAD, --on MACHINE and --vary NAME=VALUES (or --trace FILE)")
        if bool(measured) != bool(fit):
            raise InputError("give --measured FILE and --fit NAME together: times, and what is fitted to them")
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.domain import remarks
        from slipstick.experiments.question.doubts import warnings_among
        from slipstick.experiments.question.objectives import with_front
        from slipstick.experiments.question.own import own_or_none
        from slipstick.experiments.studies.study import Fitting, Study
        from slipstick.experiments.studies.whatif import answer, column_rows, columns_of

        program = own_or_none(workload, [on], given or (), train, number or ())
        settings, vary = today_and_varied(named_settings(program or workload, set, number), vary)
        settings = with_threads_of_today(settings, vary, on)
        study = Study.of_question(
            workload, on, estimator, settings, vary, where or [], objective or [], dtype, program, given or (), train
        )
        if measured:
            study = study.model_copy(update={"fit": Fitting(measured=measured, parameters=tuple(fit or ()))})
        study = study.model_copy(update={"calibration_file": calibration, "anchors": anchors})
        query = study.question(workload, on)
        space = study.space(query.machine)
        result = answer(replace(query, vary=space))
        notes = (*study.notes(space), *result.notes)
        if save:
            study.save(save)
        if report:
            from slipstick.experiments.pages.whatif_report import write

            page, picture = write(result, report, study.measurements(), study.objectives)
        columns, names = result.columns, list[str]()
        if objective:
            frame, names = with_front(result.frame, objective)
            columns = columns_of(frame)
        if format != "table":
            emit(column_rows(columns, notes), format, remarks=warnings_among(remarks(query)))
            return
        from slipstick.experiments.answers.sweeps import print_sweep_table

        print_sweep_table(result, columns, names, rows, notes, verbose=verbose)
        if save:
            trusted = f" --with {workload}" if program else ""
            print(f"study: {save} (slipstick study run {save}{trusted})")
        if report:
            print(f"report: {page.resolve()}\npicture: {picture.resolve()}")


TRACE = ("trace", "on", "recorded", "vary", "set", "format")
JOB = ("on", "vary", "set", "estimator", "calibration", "dtype", "number", "format")
SIMULATED = (*JOB, "measured", "fit", "simulate", "runs", "seed", "report")
PLAIN = (
    *("on", "vary", "set", "where", "estimator", "calibration", "anchors", "measured", "fit", "save", "report"),
    *("objective", "rows", "dtype", "verbose", "given", "train", "number", "format"),
)
"""What each way to an answer reads; other options are refused."""
