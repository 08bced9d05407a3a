"""slipstick explain WORKLOAD --on MACHINE"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.typed_numbers import WithNumbers, only, typed
from slipstick.experiments.cli.vocabulary import (
    Attention,
    Calibration,
    Dtype,
    Estimator,
    Input,
    KnownHere,
    Number,
    Quantity,
    Set,
    Train,
    Trusted,
    Work,
    option,
)

if TYPE_CHECKING:
    from slipstick.estimators.base.estimate import Estimate
    from slipstick.experiments.question.question import Question


FIRST = {"bottlenecks": 3, "moves": 6, "elasticities": 5, "ranking": 6}
"""Tables of the short answer, and at most so many rows of each: with heads and lines it is 30 lines long."""
ASSUMED = 4
"""Lines below them: the model, warnings, the runtime; `estimate` has all."""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(cls=WithNumbers)
    def explain(
        context: typer.Context,
        workload: Annotated[
            TrustedName | None,
            typer.Argument(parser=TrustedName, help="built-in, a .json file, FILE.py:FUNCTION, or a job's .yaml"),
        ] = None,
        on: Annotated[str | None, option("on")] = None,
        trace: Annotated[
            str | None, option("trace", "why its step is not the predicted one (--set: as it ran)")
        ] = None,
        set: Set = None,
        estimator: Estimator = None,
        calibration: Calibration = None,
        measured: KnownHere = None,
        vary: Annotated[
            list[str] | None, option("vary", "here by name alone, machine.clock; all that are read if left out")
        ] = None,
        target: Annotated[str, option("target")] = "0.8",
        cost: Annotated[
            list[str] | None, option("cost", "machine.clock=3; adds the cheapest change of all together")
        ] = None,
        against: Annotated[list[str] | None, option("against", "how surely is which faster?")] = None,
        report: Annotated[str | None, option("report", "with sliders")] = None,
        rows: Annotated[int, option("rows", min=1)] = 12,
        dtype: Dtype = None,
        quantity: Quantity = None,
        verbose: Annotated[
            bool, option("verbose", "all tables, the estimator's parameters too, and all assumptions")
        ] = False,
        input: Input = None,
        allow_code: Trusted = None,
        work: Work = None,
        train: Train = None,
        attention: Attention = None,
        number: Number = None,
        format: Annotated[str, option("format", "table | json | csv (csv: the elasticities)")] = "table",
    ) -> None:
        """What the time hangs on and what can be done: bottlenecks, moves of software and machine, elasticities.

        --vary NAME, --cost and --verbose add where operations change what bounds them, a tornado, and the smallest
        change to a target.
        """
        from slipstick.common.errors import InputError
        from slipstick.estimators.base.conditions import depends_on
        from slipstick.experiments.cli.typed_numbers import named_settings
        from slipstick.experiments.explain import explanation as why
        from slipstick.experiments.explain.evaluator import Evaluator
        from slipstick.experiments.explain.remedies import move_rows
        from slipstick.experiments.question.cautions import remarks as remarks_of
        from slipstick.experiments.question.question import question
        from slipstick.experiments.question.settings import prices
        from slipstick.experiments.question.unused_inputs import examined
        from slipstick.experiments.question.user_code import of_work, own_or_none
        from slipstick.experiments.report import summary
        from slipstick.experiments.report.output import emit, emit_line
        from slipstick.experiments.report.progress import progress_bar

        if trace:
            from slipstick.experiments.replay.gap_attribution import explain_trace

            only(context, "a recorded trace", TRACE)
            lines_of_trace, account = explain_trace(trace, on, set or [], workload)
            emit(account, format, "measured minus predicted (Shapley over the terms)", lines_of_trace)
            return
        from slipstick.experiments.jobs import is_job

        if workload and is_job(workload):
            from slipstick.experiments.cli.typed_numbers import job_settings
            from slipstick.experiments.report.print_job import JobRequest
            from slipstick.experiments.report.print_job_explanation import print_reasons

            only(context, "a job", JOB)
            more: dict[str, Any] = {"form": format, "calibration": calibration, "allow_code": tuple(allow_code or ())}
            print_reasons(JobRequest(workload, on, estimator, tuple(job_settings(set, number)), dtype, **more), rows)
            return
        if not (workload and on):
            raise InputError("give a WORKLOAD and --on MACHINE (or --trace FILE)")
        workload, train = of_work(workload, work, train)
        named = own_or_none(workload, [on], input or (), train, [*(number or ()), *(set or ())]) or workload
        settings = named_settings(named, set, number, context)
        fitted = None
        if calibration or measured:
            from slipstick.experiments.calibrate.calibrated import read_calibration

            fitted = read_calibration(calibration, measured, on, [estimator] if estimator else [])
        common: dict[str, Any] = {"calibration": fitted, "quantity": quantity, "attention": attention}
        query = why.of_time(question(named, on, estimator, settings, dtype, **common), quantity)
        subject = query.original.workload if query.original else named
        ratio = why.target_ratio(target, query.answer().time)
        answer, dials = examined(query), Evaluator.of(query, tuple(vary or ()))

        def again(*given: Any) -> Question:
            graph, machine, sizes, number_type = given
            about = answer.name if answer.others else None
            return question(
                graph, machine, estimator, sizes, number_type, calibration=query.calibration, quantity=about
            )

        makers: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "bottlenecks": lambda: why.bottleneck_rows(answer),
            "elasticities": lambda: why.elasticity_rows(query, dials),
            "crossovers": lambda: why.crossover_rows(query, tuple(vary or ())),
            "tornado": lambda: why.tornado_rows(query, dials=dials),
            "moves": lambda: move_rows(query, subject, again, dials),
            "changes": lambda: why.cheapest_changes(query, ratio, dials=dials) if vary or dials.is_formula else [],
        }
        few = format == "table" and not (verbose or vary or cost or report)
        first = FIRST | ({"changes": 4} if "target" in typed(context) else {})
        if few:
            makers = {name: makers[name] for name in first if name in makers}
        tables: dict[str, list[dict[str, Any]]] = {}
        with progress_bar("tables", len(makers)) as done:
            for name, make in makers.items():
                tables[name] = make()
                done(len(tables), len(makers))
        dials.keep()
        solved = None
        if cost:
            from slipstick.experiments.explain.cheapest import cheapest_together

            solved = cheapest_together(query, ratio, prices(cost))
            tables["together"] = solved.rows()
        if against:
            tables["ranking"] = why.ranking(_each(subject, [on, *against], estimator, settings, dtype))
        if report:
            from slipstick.experiments.report.whatif_page import write_explanation

            page = write_explanation(query, answer, tables, ratio, report)
        remarks = why.notes(query, dials, [*(vary or []), *(prices(cost) if cost else [])])
        if format == "json":
            whole = [{**_head(query, answer), "notes": remarks, **tables}]
            beside = depends_on(answer.conditions, answer.not_used)
            emit(whole, format, remarks=remarks_of(query), provenance=answer.provenance, depends=beside)
            return
        if format == "csv":
            emit(tables["elasticities"], format)
            return
        titles = _titles(ratio, answer.time)
        notes = [*summary.heads(query, answer), *([] if few else remarks)]
        if solved:
            least = f"none can cost less than {solved.at_least:.4g}"
            titles["together"] += f": {solved.price:.4g} for {solved.ratio:.4g} of today's time ({least})"
        if few:
            tables = _few(tables, first)
        tables["changes"] = [row for row in tables.get("changes", []) if row["factor"]]
        for name, table in tables.items():
            if not table:
                continue
            emit(why.shown(table[:rows]), format, titles[name], notes, columns=why.COLUMNS)
            print()
            notes = []
        if few and "changes" in first and not tables["changes"]:
            emit_line(
                f"no number of machine, run or sizes was found that alone brings the time to {ratio:g} of today's: "
                "slipstick whatif --vary tries those that you name"
            )
        assumed = summary.assumptions(query, answer, verbose=verbose, reason=True)
        for text in assumed[:ASSUMED] if few else assumed:
            emit_line(text)
        if report:
            print(f"report: {page.resolve()}")


TRACE = ("trace", "on", "set", "format")
JOB = ("on", "set", "estimator", "calibration", "rows", "dtype", "number", "allow_code", "format")
"""What the explanations of a trace and of a job read; other options are refused."""


def _titles(target: float, today: float) -> dict[str, str]:
    """What stands above each table; `target`: ratio to today's time, which is `today` seconds."""
    from slipstick.common.formatting import format_quantity
    from slipstick.experiments.explain import explanation as why

    return {
        "moves": "what can be done: time over today's, of an item where the batch changes",
        "bottlenecks": "what bounds the time",
        "elasticities": why.ELASTICITY,
        "crossovers": "where an operation changes what bounds it, nearest first",
        "tornado": "time over today's, each quantity halved and doubled",
        "changes": f"what alone brings the time to {target:.3g} of today's, {format_quantity(target * today, 's')}, "
        f"smallest change first (blank: none does within a factor of {why.FARTHEST:g})",
        "together": "the cheapest change of these together, at the prices given",
        "ranking": "share of draws in which one is faster than the other",
    }


def _few(tables: Mapping[str, list[dict[str, Any]]], first: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """The first rows of the first tables, `first` of each, without parameters of the estimator."""
    from slipstick.experiments.explain import explanation as why

    ours = why.OF_ESTIMATOR
    elasticities = [
        {name: cell for name, cell in row.items() if name != "at_ridge"}
        for row in tables["elasticities"]
        if not row["quantity"].startswith(ours) and abs(row["elasticity"] or 0.0) >= why.SEEN
    ]
    changes = [row for row in tables.get("changes", []) if not row["quantity"].startswith(ours)]
    every = {**tables, "elasticities": elasticities, "changes": changes}
    return {name: every[name][:most] for name, most in first.items() if name in every}


def _head(query: Question, answer: Estimate) -> dict[str, Any]:
    """What a JSON answer begins with."""
    from slipstick.estimators.base.sureness import sure_row

    names = {"workload": query.workload.name, "machine": query.machine.name}
    return {**names, "time_s": answer.time, **sure_row(answer.headline.within), "assumptions": list(answer.assumptions)}


def _each(subject: Any, machines: list[str], *more: Any) -> dict[str, Question]:
    """The question on each machine, by its name."""
    from slipstick.experiments.question.question import question

    return {name: question(subject, name, *more) for name in machines}
