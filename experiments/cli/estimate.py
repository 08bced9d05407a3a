"""slipstick estimate WORKLOAD --on MACHINE"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.typed_numbers import WithNumbers, only
from slipstick.experiments.cli.vocabulary import (
    Attention,
    Dtype,
    Estimator,
    Format,
    Input,
    Number,
    Quantity,
    Report,
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
    def estimate(
        context: typer.Context,
        workload: Annotated[
            TrustedName,
            typer.Argument(
                parser=TrustedName,
                help="built-in (workloads list), a .json file, FILE.py:FUNCTION, or a job's .yaml",
            ),
        ],
        on: Annotated[str | None, option("on", "or several, A,B,C")] = None,
        set: Set = None,
        estimator: Estimator = None,
        calibration: Annotated[str | None, option("calibration", "of calibrate --out, or of spmv train")] = None,
        measured: Annotated[
            str | None,
            option(
                "measured",
                "this question's time (23.4ms), a training log, a trace, a server's benchmark, a CSV of steps or "
                "operations; of a job a CSV of step_s, time_s, STAGE.service_s",
            ),
        ] = None,
        fit: Annotated[list[str] | None, option("fit", "of a job, to --measured: job.STAGE.service,...")] = None,
        top: Annotated[int, option("top", min=0)] = 0,
        dtype: Dtype = None,
        quantity: Quantity = None,
        input: Input = None,
        work: Work = None,
        train: Train = None,
        counters: Annotated[bool, option("counters")] = False,
        attention: Attention = None,
        verbose: Annotated[bool, option("verbose", "all assumptions, and what is not known")] = False,
        number: Number = None,
        simulate: Annotated[bool, option("simulate", "a job, or the workload as one: percentiles")] = False,
        runs: Runs = None,
        seed: Seed = 0,
        timeline: Annotated[str | None, option("timeline", "of a simulated job the first run")] = None,
        report: Report = None,
        allow_code: Trusted = None,
        format: Format = "table",
    ) -> None:
        """How long a workload takes on a machine: time and 80 % band, throughput, memory, what bounds it.

        Any size of the workload and any number of the run is an option too: --batch 256, --seq-len 1024, --threads 240;
        --mode eager|compiled|graphs is the runtime.
        """
        from slipstick.common.errors import InputError
        from slipstick.experiments.cli.typed_numbers import as_settings, job_settings, named_settings
        from slipstick.experiments.jobs import is_job
        from slipstick.experiments.question.question import Question, question
        from slipstick.experiments.question.user_code import of_work, own_or_none
        from slipstick.experiments.report.print_estimate import print_answers, print_counters

        if simulate or is_job(workload):
            from slipstick.experiments.report.print_job import JobRequest, print_formula, print_simulated

            only(context, "a simulated job" if simulate else "a job without --simulate", SIMULATED if simulate else JOB)
            settings = (
                named_settings(workload, set, number, context) if not is_job(workload) else job_settings(set, number)
            )
            job = JobRequest(
                workload, on, estimator, tuple(settings), dtype, runs, seed, timeline, report, format, calibration,
                measured, tuple(fit or ()), tuple(allow_code or ()),
            )  # fmt: skip
            (print_simulated if simulate else print_formula)(job)
            return
        only(context, "a workload without --simulate", PLAIN)
        if on is None:
            raise InputError("give --on MACHINE, or several, A,B,C (slipstick machines list)")
        from slipstick.workloads.catalog import workload as by_name

        machines = [name.strip() for name in on.split(",") if name.strip()]
        workload, train = of_work(workload, work, train)
        wanted = own_or_none(workload, machines, input or (), train, [*(number or ()), *(set or ())]) or by_name(
            workload
        )
        settings = [*(set or []), *as_settings(number, wanted, context)]
        if (calibration or measured) and len(machines) > 1:
            raise InputError("--calibration and --measured are for one machine at a time")
        products = bool(calibration and calibration.endswith(".spmv.json"))
        threads = [text for text in settings if products and text.startswith("run.threads=")]
        settings = [text for text in settings if text not in threads]
        questions: list[Question] = []
        refused: list[str] = []
        fitted = None
        if measured and products:
            raise InputError(
                f"--measured {measured}: not with --calibration {calibration}, which is of sparse products"
            )
        if measured or (calibration and not products):
            from slipstick.experiments.calibrate.calibrated import read_calibration

            fitted = read_calibration(calibration, measured, machines[0], [estimator] if estimator else [])
        for name in machines:
            try:
                query = question(
                    wanted, name, estimator, settings, dtype, calibration=fitted, quantity=quantity, attention=attention
                )
                questions.append(query)
            except InputError as error:
                if len(machines) == 1:
                    raise
                refused.append(f"{name}: refused: {error.typed}")
        if not questions:
            raise InputError("; ".join(refused))
        if calibration and products:
            from pathlib import Path

            from slipstick.experiments.methods.spmv.spmv_answers import with_products

            questions = [with_products(questions[0], workload, Path(calibration), threads)]
        if counters:
            only(context, "the counters", COUNTERS)
            if len(questions) > 1 or refused:
                raise InputError(f"--on {on}: --counters are of one machine at a time")
            print_counters(questions[0], format)
            return
        if timeline and (len(questions) > 1 or refused):
            raise InputError(f"--on {on}: --timeline is of one machine at a time")
        print_answers(questions, format, top, verbose=verbose, refused=refused)
        if timeline:
            events = questions[0].answer().write_trace(timeline)
            if format == "table":
                print(f"timeline: {timeline}, {events:,} events (chrome://tracing, Perfetto)")
        if report:
            from slipstick.experiments.report.answer_page import write_answers

            page = write_answers(questions, report)
            if format == "table":
                print(f"report: {page.resolve()}")


JOB = ("on", "set", "estimator", "dtype", "calibration", "number", "simulate", "allow_code", "format")
SIMULATED = (*JOB, "measured", "fit", "runs", "seed", "timeline", "report")
PLAIN = (
    *(
        "on",
        "set",
        "estimator",
        "quantity",
        "calibration",
        "measured",
        "top",
        "dtype",
        "input",
        "work",
        "train",
        "counters",
        "attention",
    ),
    *("verbose", "number", "timeline", "report", "format"),
)
COUNTERS = tuple(name for name in PLAIN if name not in ("top", "verbose", "timeline", "report"))
"""What each way to an answer reads; other options are refused."""
