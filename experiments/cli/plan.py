"""slipstick plan serving CONFIG.json --on A,B, plan training CONFIG.json --on MACHINE --devices N."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import (
    CacheDtype,
    Format,
    GridIntensity,
    HostPower,
    InputTokens,
    OutputTokens,
    Pue,
    Report,
    Set,
    StepTokens,
    option,
    verb_of,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    group = verb_of(app, "plan", "Which machine, how many, laid out how.")

    @group.command()
    def serving(
        model: Annotated[str, typer.Argument(help="a config.json, a .gguf file, or a name (llama-3.1-8b)")],
        on: Annotated[str, option("on", "or several, h100-sxm,mi300x")],
        limit: Annotated[str, option("limit", "ttft=0.5s,tpot=30ms, of the median first and mean further token")] = "",
        devices: Annotated[int, option("devices", "at most, of a replica", min=1)] = 8,
        dtype: Annotated[str | None, option("dtype", "of weights, several are tried: bf16,fp8,nvfp4")] = None,
        engine: Annotated[str, option("engine", "vllm, sglang or trtllm")] = "",
        input_tokens: InputTokens = 1024,
        output_tokens: OutputTokens = 256,
        cache_dtype: CacheDtype = "auto",
        rate: Annotated[float | None, option("rate", "to serve with the fewest devices that keep the limits")] = None,
        price: Annotated[str | None, option("price", "h100-sxm=2.5,mi300x=2")] = None,
        max_batched_tokens: StepTokens = 8192,
        memory_share: Annotated[float, option("memory_share", min=0.0, max=1.0)] = 0.9,
        draft_tokens: Annotated[int, option("draft_tokens", min=0)] = 0,
        acceptance: Annotated[float, option("acceptance", "0.7", min=0.0)] = 0.0,
        draft_cost: Annotated[float, option("draft_cost", "0: a head of one layer", min=0.0)] = 0.0,
        measured: Annotated[
            str | None, option("measured", "a server's benchmark, 23.4ms@concurrency=16,tp=1, a CSV of steps")
        ] = None,
        report: Annotated[str | None, option("report", "and its PNG")] = None,
        out: Annotated[str | None, option("out", "all candidates, FILE.csv")] = None,
        format: Format = "table",
    ) -> None:
        """The front of tokens/s a device against tokens/s a user, and the cheapest layout that keeps the limits."""
        from slipstick.experiments.report.output import show
        from slipstick.experiments.serve.serve import plan_serving
        from slipstick.experiments.serve.slo_limits import limits, prices

        names = [name.strip() for name in on.split(",") if name.strip()]
        best_plan = plan_serving(
            model, names, dtype=[word.strip() for word in dtype.split(",")] if dtype else None, devices=devices,
            engine=engine, input_tokens=input_tokens, output_tokens=output_tokens, cache_dtype=cache_dtype,
            limit=limits(limit) if limit else None, rate=rate, price=prices(price or "", names),
            max_batched_tokens=max_batched_tokens, memory_share=memory_share, draft_tokens=draft_tokens,
            acceptance=acceptance, draft_cost=draft_cost, measured=measured,
        )  # fmt: skip
        if out:
            from slipstick.common.frames import write_csv

            write_csv(best_plan.to_frame(), out)
        if report:
            from slipstick.experiments.report.serving_page import write_plan

            write_plan(best_plan, report)
        show(best_plan, format)

    @group.command()
    def training(
        model: Annotated[str, typer.Argument(help="a config.json, or a name (llama-3.1-70b)")],
        on: Annotated[str, option("on", "with links to the others")],
        devices: Annotated[int, option("devices", "at most", min=1)],
        batch: Annotated[int, option("batch", "sequences", min=1)],
        seq_len: Annotated[int, option("seq_len", min=1)] = 8192,
        dtype: Annotated[str, option("dtype", "of the layers' products: bf16, fp8, mxfp8, nvfp4")] = "bf16",
        rows: Annotated[int, option("rows", "layouts", min=1, max=64)] = 8,
        host_power: HostPower = None,
        pue: Pue = 1.0,
        grid_intensity: GridIntensity = 0.0,
        set: Set = None,
        trainer: Annotated[str, option("trainer")] = "",
        measured: Annotated[
            str | None,
            option(
                "measured",
                "steps of this run: Megatron-LM's log, 3.2s@devices=64,tp=8, RUN.csv with devices, step_s or log",
            ),
        ] = None,
        input_rate: Annotated[float | None, option("input_rate")] = None,
        tokens: Annotated[str | None, option("tokens", "300B, 1.5T")] = None,
        report: Report = None,
        format: Format = "table",
    ) -> None:
        """The fastest layout of training on at most so many devices, what bounds it, why the second is worse."""
        from slipstick.experiments.methods.training_plan.plan_training import plan_training
        from slipstick.experiments.question.settings import number_of
        from slipstick.experiments.report.output import show
        from slipstick.experiments.report.page import page

        result = plan_training(
            model, on, devices=devices, batch=batch, seq_len=seq_len, dtype=dtype, trainer=trainer, measured=measured,
            rows=rows, input_rate=input_rate, tokens=tokens, settings=set or [],
            host_power=number_of("--host-power", host_power, "W") if host_power else 0.0, pue=pue,
            grid_intensity=grid_intensity,
        )  # fmt: skip
        if report:
            page(result, report, f"Training {result.model} on {result.machine}")
        show(result, format)

    @group.command("power-limit")
    def power_limit(
        time: Annotated[str, option("time", "without a limit, 240s")],
        power: Annotated[str, option("power", "without a limit, 220W")],
        rated: Annotated[str, option("rated", "250W")],
        slowdown: Annotated[float, option("slowdown", min=0.0)] = 0.03,
        report: Report = None,
        format: Format = "table",
    ) -> None:
        """Time and energy of a measured run under each power limit, and the limit that saves most energy."""
        from slipstick.experiments.methods.power.power_plan import power_plan
        from slipstick.experiments.question.settings import number_of
        from slipstick.experiments.report.output import show
        from slipstick.experiments.report.page import page

        result = power_plan(
            number_of("--time", time, "s"), number_of("--power", power, "W"), number_of("--rated", rated, "W"), slowdown
        )
        show(result, format)
        if report:
            page(result, report, f"Power limits of a board rated at {rated}")
