"""slipstick plan serving CONFIG.json --machines ..., plan training CONFIG.json --on MACHINE --devices N."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Which machine, how many, laid out how.")
    app.add_typer(group, name="plan")

    @group.callback()
    def plan() -> None:
        """Which machine, how many, laid out how."""

    @group.command()
    def serving(
        model: Annotated[str, typer.Argument(help="a config.json, a .gguf file, or a name (llama-3.1-8b)")],
        machines: Annotated[str, typer.Option("--machines", "--on", help="names or YAML files: h100-sxm,mi300x")],
        slo: Annotated[str, typer.Option(help="limits on mean times: ttft=0.5s,tpot=30ms")] = "",
        gpus: Annotated[int, typer.Option(help="at most so many devices a replica", min=1)] = 8,
        dtype: Annotated[str | None, typer.Option(help="types of weights to try: bf16,fp8,nvfp4")] = None,
        engine: Annotated[str, typer.Option(help="vllm, sglang or trtllm; with a version: 'vllm 0.19.0'")] = "",
        input: Annotated[int, typer.Option(help="tokens of a prompt", min=1)] = 1024,  # noqa: A002
        output: Annotated[int, typer.Option(help="tokens to make", min=1)] = 256,
        cache_dtype: Annotated[str, typer.Option(help="keys and values: bf16, fp8, ...")] = "bf16",
        price: Annotated[str | None, typer.Option(help="$/h a device: h100-sxm=2.5,mi300x=2")] = None,
        budget: Annotated[int, typer.Option(help="tokens of one step", min=1)] = 8192,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html, and its PNG")] = None,
        everything: Annotated[str | None, typer.Option("--all", help="all candidates as CSV, FILE.csv")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """The front of tokens/s a device against tokens/s a user, and the cheapest layout that keeps the limits."""
        from slipstick.estimators.schedule.serving.scheduler import Scheduler
        from slipstick.experiments.answers.serving_plan import plan_lines, plan_table, prices
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.serve.limits import limits
        from slipstick.experiments.serve.planning import Search
        from slipstick.hwmodels.files.records import Table

        names = tuple(name.strip() for name in machines.split(",") if name.strip())
        types = tuple(word.strip() for word in dtype.split(",")) if dtype else (None,)
        best_plan = Search(
            model, names, types, float(input), float(output), gpus, engine, cache_dtype,
            limits(slo) if slo else Table(), prices(price or "", names), Scheduler(budget, 1024),
        ).run()  # fmt: skip
        if everything:
            from slipstick.hwmodels.files.frames import write_csv

            write_csv(best_plan.to_frame(), everything)
        if report:
            from slipstick.experiments.pages.serving_report import write_plan

            write_plan(best_plan, report)
        if format == "json":
            best = best_plan.best.row() if best_plan.best else None
            front = [candidate.row() for candidate in best_plan.front]
            count = len(best_plan.candidates)
            whole = {"best": best, "front": front, "refused": dict(best_plan.refused), "candidates": count}
            emit([whole], format, remarks=best_plan.remarks)
            return
        rows = plan_table(best_plan) if format == "table" else best_plan.rows()
        emit(rows, format, notes=plan_lines(best_plan))

    @group.command()
    def training(
        model: Annotated[str, typer.Argument(help="a config.json, or a name (llama-3.1-70b)")],
        on: Annotated[str, typer.Option(help="a machine with links to the others: a name or YAML file")],
        devices: Annotated[int, typer.Option(help="at most so many", min=1)],
        batch: Annotated[int, typer.Option(help="sequences of a step", min=1)],
        sequence: Annotated[int, typer.Option(help="tokens of a sequence", min=1)] = 8192,
        precision: Annotated[str, typer.Option(help="of the layers' products: bf16, fp8, mxfp8, nvfp4")] = "bf16",
        best: Annotated[int, typer.Option(help="layouts to list", min=1, max=64)] = 8,
        host_power: Annotated[str | None, typer.Option(help="of the host for each device: 300W")] = None,
        pue: Annotated[float, typer.Option(help="of the building: its power over that of its computers")] = 1.0,
        set: Annotated[list[str] | None, typer.Option(help="machine.price=2.5, machine.power.cap=600W")] = None,  # noqa: A002
        software: Annotated[str, typer.Option(help="megatron | fsdp (weights sharded over data ranks)")] = "megatron",
        known: Annotated[
            str | None, typer.Option(help="measured steps of this run, RUN.csv: devices, step_s (or log), tp, pp, ...")
        ] = None,
        input_rate: Annotated[
            float | None, typer.Option(help="sequences a second that storage and hosts hand to the whole job")
        ] = None,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """The fastest layout of training on at most so many devices, what bounds it, why the second is worse."""
        from slipstick.experiments.answers.training_plan import training_lines, training_rows_shown
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.settings import machine_changes, number_of
        from slipstick.experiments.subjects.power.facility import Facility, price_text
        from slipstick.experiments.subjects.training_plan.known_runs import read_known
        from slipstick.experiments.subjects.training_plan.training_search import TrainingSearch
        from slipstick.hwmodels.catalog import machine
        from slipstick.workloads.language_catalog import language_model

        steps = tuple(read_known(known, batch, sequence, precision)) if known else ()
        at = machine(on).using(machine_changes(set or []))
        facility = Facility(number_of("--host-power", host_power, "W") if host_power else 0.0, pue)
        search = TrainingSearch(
            language_model(model), at, devices, batch, sequence, precision, software, steps, input_rate
        )
        result = search.run(best)
        rows = training_rows_shown(result) if format == "table" else result.rows()
        emit(rows, format, notes=training_lines(result, facility, price_text(at)), remarks=result.remarks)

    @group.command("power-limit")
    def power_limit(
        time: Annotated[str, typer.Option(help="time of the run without a limit: 240s")],
        power: Annotated[str, typer.Option(help="its mean power: 220W")],
        rated: Annotated[str, typer.Option(help="the board's rated power: 250W")],
        loss: Annotated[float, typer.Option(help="how much longer it may take: 0.03 is 3 %", min=0.0)] = 0.03,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """Time and energy of a measured run under each power limit, and the limit that saves most energy."""
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.settings import number_of
        from slipstick.experiments.subjects.power.power_plan import power_plan

        result = power_plan(
            number_of("--time", time, "s"), number_of("--power", power, "W"), number_of("--rated", rated, "W"), loss
        )
        chosen = next((row for row in result.table if row["limit_W"] == result.best), result.table[0])
        saved = 1 - chosen["energy_ratio"]
        notes = [
            f"limit {result.best:.0f} W: {saved:.0%} less energy for {chosen['time_ratio'] - 1:.1%} more time "
            f"(at most {loss:.0%})",
            "assuming: training on one GPU; fitted on P100, V100 and RTX 6000 (validate energy); bands 80 %",
        ]
        emit(result.rows(), format, notes=notes[:1], below=notes[1:], remarks=())
        if report:
            from slipstick.experiments.pages.report import rows_page

            rows_page(result.rows(), report, f"Power limits of a board rated at {rated}", "; ".join(notes))
