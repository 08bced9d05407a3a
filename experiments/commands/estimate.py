"""slipstick estimate WORKLOAD --on MACHINE"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def estimate(
        workload: Annotated[
            str, typer.Argument(help="a built-in workload, a .json file (slipstick workloads list), or a job's .yaml")
        ],
        on: Annotated[str | None, typer.Option(help="a machine, or a YAML file (slipstick machines list)")] = None,
        set: Annotated[list[str] | None, typer.Option(help="run.threads=240, machine.clock=2GHz, ...")] = None,  # noqa: A002
        estimator: Annotated[
            str | None, typer.Option("--estimator", "--with", help="by name, or your own, MODULE:ATTRIBUTE")
        ] = None,
        calibration: Annotated[str | None, typer.Option(help="file of calibrate --out, or of spmv train")] = None,
        anchors: Annotated[str | None, typer.Option(help="CSV of operations measured on the machine")] = None,
        parts: Annotated[int, typer.Option(help="operations to list, slowest first", min=0)] = 10,
        dtype: Annotated[
            str | None, typer.Option(help="compute in this data type: bfloat16, float16, int8, ...")
        ] = None,
        counters: Annotated[
            bool, typer.Option("--counters", help="of a GPU by kind of operation: flop, bytes by level, cycles")
        ] = False,
        simulate: Annotated[
            bool, typer.Option("--simulate", help="event simulation of a job, or of the workload as one: percentiles")
        ] = False,
        runs: Annotated[int | None, typer.Option(help="simulated runs, each from its own seed", min=1)] = None,
        seed: Annotated[int, typer.Option(help="of the first simulated run", min=0)] = 0,
        trace: Annotated[str | None, typer.Option(help="Chrome trace of the first simulated run, FILE.json")] = None,
        report: Annotated[str | None, typer.Option(help="page of the simulation, FILE.html")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """How long a workload takes on a machine, with an 80 % band where it is known."""
        from slipstick.estimators.composites.consumption import COST
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.objectives import consumptions
        from slipstick.experiments.question.own import is_own_program, own_program, program_estimator
        from slipstick.experiments.question.question import question
        from slipstick.experiments.subjects.jobs.job_file import is_job
        from slipstick.hwmodels.files.readers import InputError
        from slipstick.hwmodels.units import format_quantity

        if simulate or is_job(workload):
            from slipstick.experiments.subjects.jobs.answers import Asked, print_formula, print_simulated

            job = Asked(workload, on, estimator, tuple(set or ()), dtype, runs, seed, trace, report, format)
            (print_simulated if simulate else print_formula)(job)
            return
        if on is None:
            raise InputError("give --on MACHINE (slipstick machines list)")
        program = own_program(workload) if is_own_program(workload) else None
        if program is not None and estimator is None and dtype is None:
            estimator = program_estimator(program, on)
        asked = question(program or workload, on, estimator, set or [], dtype)
        if calibration and calibration.endswith(".npz"):
            from pathlib import Path

            from slipstick.experiments.subjects.spmv.spmv_answers import with_products

            asked = with_products(asked, workload, Path(calibration))
        elif calibration:
            from slipstick.experiments.calibrate.calibrated import calibrated

            asked = calibrated(asked, on, calibration, anchors, set or [], [estimator] if estimator else [])
        elif anchors:
            raise InputError("--anchors need --calibration FILE, a calibration across devices")
        if counters:
            from slipstick.experiments.explain.operation_counters import print_counters

            print_counters(asked, format)
            return
        answer = asked.answer()
        consumed, unknown = consumptions(asked)
        dollars = {one.name: float(one({}, answer.time)) for one in consumed}.get(COST)
        band = answer.interval()
        whole = sum(part.contribution for part in answer.parts) or 1.0
        slowest = sorted(answer.parts, key=lambda part: -part.contribution)[:parts]
        operations = [
            {
                "operation": part.name,
                "kind": part.kind,
                "time_s": part.time,
                "times": part.times,
                "share": part.contribution / whole,
                "bound_by": part.bound_by,
            }
            for part in slowest
        ]
        row = {
            "workload": asked.workload.name,
            "machine": asked.machine.name,
            "time_s": answer.time,
            "low_s": band[0] if band else None,
            "high_s": band[1] if band else None,
            "interval_level": 0.8 if band else None,
            "energy_J": answer.energy,
            "cost_usd": dollars,
            "rule": answer.rule,
        }
        if format != "table":
            extra = {
                "dtype": asked.workload.metadata.get("dtype"),
                "assumptions": list(answer.assumptions),
                "metrics": dict(answer.metrics),
                "metric_intervals": {name: list(ends) for name, ends in answer.metric_intervals.items()},
                "parts": operations,
            }
            emit([{**row, **extra} if format == "json" else row], format)
            return
        text = format_quantity(answer.time, "s")
        between = "; no band: the estimator is not calibrated"
        if band:
            between = f" (80 %: {format_quantity(band[0], 's')} .. {format_quantity(band[1], 's')})"
        notes = [
            "assuming: " + "; ".join(answer.assumptions),
            f"{asked.workload.name} on {asked.machine.name}: {text}{between}",
        ]
        if answer.energy is not None:
            watts = format_quantity(answer.energy / (answer.time or 1.0), "W")
            notes.append(f"energy: {format_quantity(answer.energy, 'J')}, {watts} on average (factors not fitted)")
        if dollars is not None:
            notes.append(f"cost: {dollars:.4g} $ at {asked.machine.price:g} $/h")
        notes += [text for text in unknown if not (text.startswith("energy") and answer.energy is not None)]
        for name, value in answer.metrics.items():
            ends = answer.metric_intervals.get(name)
            notes.append(f"{name}: {value:.4g}" + (f" (80 %: {ends[0]:.4g} .. {ends[1]:.4g})" if ends else ""))
        emit(operations, format, notes=notes)
