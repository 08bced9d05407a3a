"""slipstick whatif WORKLOAD --on MACHINE --vary NAME=VALUES ..."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.typed_numbers import WithNumbers, only
from slipstick.experiments.cli.vocabulary import (
    Attention,
    Calibration,
    Dtype,
    Estimator,
    Format,
    Input,
    Number,
    Objective,
    Quantity,
    RecordedOn,
    Runs,
    Seed,
    Set,
    Train,
    Trusted,
    Work,
    option,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(cls=WithNumbers)
    def whatif(
        context: typer.Context,
        workload: Annotated[
            TrustedName | None,
            typer.Argument(parser=TrustedName, help="built-in, a .json file, FILE.py:FUNCTION, or a job's .yaml"),
        ] = None,
        on: Annotated[str | None, option("on", "today's")] = None,
        vary: Annotated[
            list[str] | None, option("vary", "machine.clock=1.2GHz,2.4GHz or run.threads=1..240:24 or =1..4096:13log")
        ] = None,
        trace: Annotated[str | None, option("trace", "instead of a workload; --on is then another machine")] = None,
        recorded_on: RecordedOn = None,
        set: Set = None,
        where: Annotated[list[str] | None, option("where", "machine.clock*machine.cores <= 2e11")] = None,
        estimator: Estimator = None,
        calibration: Calibration = None,
        measured: Annotated[
            str | None,
            option(
                "measured",
                "today's time (23.4ms), a training log, a trace, a server's benchmark, a CSV of steps or operations; "
                "with --fit a CSV of time_s, run.*, machine.*",
            ),
        ] = None,
        fit: Annotated[list[str] | None, option("fit", "to --measured")] = None,
        save: Annotated[str | None, option("save")] = None,
        report: Annotated[str | None, option("report", "and its PNG")] = None,
        objective: Objective = None,
        rows: Annotated[int, option("rows", "best first", min=1)] = 40,
        dtype: Dtype = None,
        quantity: Quantity = None,
        simulate: Annotated[bool, option("simulate", "job.NAME varies as well (a job's .yaml, or any)")] = False,
        runs: Runs = None,
        seed: Seed = 0,
        verbose: Annotated[bool, option("verbose", "all assumptions")] = False,
        input: Input = None,
        work: Work = None,
        train: Train = None,
        attention: Attention = None,
        number: Number = None,
        allow_code: Trusted = None,
        format: Format = "table",
    ) -> None:
        """How much faster when numbers change: ratios to today first, with their band, then times."""
        from dataclasses import replace

        from slipstick.common.errors import InputError
        from slipstick.experiments.cli.typed_numbers import job_settings, named_settings
        from slipstick.experiments.jobs import is_job
        from slipstick.experiments.studies.whatif import THREADS, by_default, with_threads_of_today

        if trace:
            from slipstick.experiments.cli.replay import answer as answer_trace

            only(context, "a recorded trace", TRACE)
            answer_trace(trace, on, recorded_on, vary or [], format, set or [])
            return
        if workload and (simulate or is_job(workload)):
            from slipstick.experiments.report.print_job import JobRequest, print_formula_sweep, print_sweep

            only(context, "a simulated job" if simulate else "a job without --simulate", SIMULATED if simulate else JOB)
            given_as = (
                named_settings(workload, set, number, context) if not is_job(workload) else job_settings(set, number)
            )
            job = JobRequest(
                workload, on, estimator, tuple(given_as), dtype, runs, seed, None, report, format, calibration,
                measured, tuple(fit or ()), tuple(allow_code or ()),
            )  # fmt: skip
            (print_sweep if simulate else print_formula_sweep)(job, vary or [])
            return
        only(context, "a workload without --simulate or --trace", PLAIN)
        if not (workload and on and vary):
            raise InputError("give a WORKLOAD, --on MACHINE and --vary NAME=VALUES (or --trace FILE)")
        if fit and not measured:
            raise InputError("give --measured FILE with --fit NAME: what is fitted to it")
        from slipstick.experiments.question.cautions import remarks
        from slipstick.experiments.question.objectives import with_front
        from slipstick.experiments.question.question import question
        from slipstick.experiments.question.settings import today_and_varied
        from slipstick.experiments.question.user_code import of_work, own_or_none
        from slipstick.experiments.report.output import emit
        from slipstick.experiments.studies.study import Fitting, Study
        from slipstick.experiments.studies.whatif import answer, column_rows, columns_of

        workload, train = of_work(workload, work, train)
        program = own_or_none(workload, [on], input or (), train, [*(number or ()), *(set or ()), *vary])
        today, varied = today_and_varied(named_settings(program or workload, set, number, context), vary)
        vary = list(varied)
        settings = with_threads_of_today(
            list(today), vary, on, lambda full: question(program or workload, on, estimator, full, dtype).answer()
        )
        study = Study.of_question(
            workload, on, estimator, settings, vary, where or [], objective or [], dtype, program, input or (), train,
            attention,
        )  # fmt: skip
        fitting = Fitting(measured=measured, parameters=tuple(fit)) if measured and fit else None
        known = {"fit": fitting, "calibration_file": calibration, "measured": None if fit else measured}
        study = study.model_copy(update={**known, "quantity": quantity})
        query = study.question(workload, on)
        space = study.space(query.machine)
        result = answer(replace(query, vary=space))
        if len(settings) > len(today):
            result = by_default(result, THREADS)
        notes = (*study.notes(space), *result.notes)
        if save:
            study.save(save)
        if report:
            from slipstick.experiments.report.whatif_page import write

            page, picture = write(result, report, study.measurements(), study.wanted())
        columns, names = result.columns, list[str]()
        if objective:
            frame, names = with_front(result.frame, study.wanted(), study.query_of)
            columns = columns_of(frame)
        if format != "table":
            emit(
                column_rows(columns, notes),
                format,
                remarks=remarks(query),
                provenance=result.provenance,
                depends=result.depends,
            )
            return
        from slipstick.experiments.report.print_whatif import print_sweep_table

        print_sweep_table(result, columns, names, rows, notes, verbose=verbose)
        if save:
            trusted = f" --allow-code {workload}" if program else ""
            print(f"study: {save} (slipstick study run {save}{trusted})")
        if report:
            print(f"report: {page.resolve()}\npicture: {picture.resolve()}")


TRACE = ("trace", "on", "recorded_on", "vary", "set", "format")
JOB = ("on", "vary", "set", "estimator", "calibration", "dtype", "number", "allow_code", "format")
SIMULATED = (*JOB, "measured", "fit", "simulate", "runs", "seed", "report")
PLAIN = (
    *("on", "vary", "set", "where", "estimator", "quantity", "calibration", "measured", "fit", "save", "report"),
    *("objective", "rows", "dtype", "verbose", "input", "work", "train", "attention", "number", "format"),
)
"""What each way to an answer reads; other options are refused."""
