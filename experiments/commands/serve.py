"""slipstick serve CONFIG.json --on MACHINE"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def serve(
        context: typer.Context,
        model: Annotated[str, typer.Argument(help="a config.json, a .gguf file, or a name (llama-3.1-8b)")],
        on: Annotated[str, typer.Option(help="a machine, or a YAML file (slipstick machines list)")],
        gpus: Annotated[int | None, typer.Option(help="devices, all degrees together", min=1)] = None,
        dtype: Annotated[str | None, typer.Option(help="weights: bf16, fp8, nvfp4, int4, q4_k_m, ...")] = None,
        engine: Annotated[
            str | None,
            typer.Option(
                help="vllm, sglang, trtllm ('vllm 0.19.0'), or llama.cpp; else as machine.runtime.library says"
            ),
        ] = None,
        input: Annotated[int, typer.Option(help="tokens of a prompt", min=1)] = 1024,  # noqa: A002
        output: Annotated[int, typer.Option(help="tokens to make", min=1)] = 256,
        concurrency: Annotated[int | None, typer.Option(help="users of a closed loop", min=1)] = None,
        rate: Annotated[float | None, typer.Option(help="requests/s of a stream")] = None,
        requests: Annotated[str | None, typer.Option(help="recorded requests, JSON lines")] = None,
        slo: Annotated[str | None, typer.Option(help="limits: ttft=0.5s,tpot=30ms")] = None,
        tp: Annotated[int | None, typer.Option(help="tensor ranks; without it, all devices", min=1)] = None,
        pp: Annotated[int, typer.Option(help="pipeline stages", min=1)] = 1,
        dp: Annotated[int, typer.Option(help="groups with attention of their own before shared experts", min=1)] = 1,
        ep: Annotated[int, typer.Option(help="ranks that the experts are dealt out over", min=1)] = 1,
        replicas: Annotated[int, typer.Option(help="copies behind a router", min=1)] = 1,
        cache_dtype: Annotated[str, typer.Option(help="keys and values: bf16, fp8, ...")] = "bf16",
        spread: Annotated[float, typer.Option(help="lengths are drawn from (1 - spread) x to 1 x", min=0.0)] = 0.2,
        prefix: Annotated[float, typer.Option(help="share of prompts in the cache already", min=0.0)] = 0.0,
        burstiness: Annotated[float, typer.Option(help="of a stream: 1 is Poisson, 0 regular", min=0.0)] = 1.0,
        count: Annotated[int | None, typer.Option(help="requests to simulate", min=1, max=50_000)] = None,
        budget: Annotated[int, typer.Option(help="tokens of one step", min=1)] = 8192,
        max_sequences: Annotated[int, typer.Option(help="sequences at a time", min=1)] = 256,
        mixing: Annotated[str | None, typer.Option(help="mixed | separate (prompts alone; SGLang's way)")] = None,
        preemption: Annotated[str, typer.Option(help="cached (vLLM) | recompute | swap")] = "cached",
        set: Annotated[list[str] | None, typer.Option(help="machine.memory.HBM3.bandwidth=4TB/s, ...")] = None,  # noqa: A002
        vary: Annotated[str | None, typer.Option(help="machine.memory.HBM3.bandwidth=3TB/s,4TB/s")] = None,
        anchor: Annotated[
            str | None, typer.Option(help="llama.cpp: one run there, MODEL:TYPE=TOKENS_PER_S or a llama-bench file")
        ] = None,
        host_power: Annotated[str | None, typer.Option(help="of the host for each device: 300W")] = None,
        pue: Annotated[float, typer.Option(help="of the building: its power over that of its computers")] = 1.0,
        seed: Annotated[int, typer.Option(help="of lengths and arrivals", min=0)] = 0,
        out: Annotated[
            str | None, typer.Option("--save", "--out", help="every request: FILE.parquet or FILE.csv")
        ] = None,
        trace: Annotated[str | None, typer.Option(help="the steps as a Chrome trace, FILE.json")] = None,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """Latency and tokens/s of a language-model server, request by request, with an 80 % band."""
        from slipstick.estimators.named.serving.served_run import serve as answer_of
        from slipstick.estimators.operation.serving.known_steps import is_llama_cpp
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.settings import machine_changes, number_of
        from slipstick.experiments.serve.limits import limits
        from slipstick.experiments.serve.local import local, local_engine
        from slipstick.experiments.serve.serving_question import Wanted, traffic
        from slipstick.experiments.serve.serving_text import lines, warnings_of
        from slipstick.experiments.subjects.power.facility import Facility
        from slipstick.hwmodels.catalog import machine

        changes, crowd = machine_changes(set or []), concurrency is not None or rate is not None or requests is not None
        if engine is None and not crowd:
            engine = local_engine(model, on, dtype, changes)
        if engine is not None and is_llama_cpp(engine):
            _refuse(context, lambda name: name not in LOCAL, f"--engine {engine} answers for one user and one device")
            alone = local(model, machine(on).using(changes), dtype, input, output, anchor)
            emit([alone.row()], format, notes=alone.lines(), remarks=())
            return
        if vary:
            _refuse(context, lambda name: name in UNVARIED, "--vary compares rates and means alone")
        _refuse(context, lambda name: name == "anchor", f"it is for --engine llama.cpp, not {engine or 'a server'}")
        wanted = Wanted(
            model, on, gpus, tp, pp, dp, ep, replicas, dtype, cache_dtype, engine or "", budget, max_sequences, mixing,
            preemption, changes=changes,
        )  # fmt: skip
        load = traffic(
            input_tokens=input, output_tokens=output, users=concurrency, rate=rate, requests=requests,
            burstiness=burstiness, spread=spread, prefix=prefix, count=count, seed=seed,
        )  # fmt: skip
        if vary:
            from slipstick.experiments.answers.readable import value_shown
            from slipstick.experiments.serve.serving_whatif import compared

            changed, (first, assumed) = compared(wanted, load, vary)
            if format == "table":
                name = next(iter(changed[0]))
                changed = [{**row, name: value_shown(name, row[name])} for row in changed]
            emit(changed, format, notes=[first], below=[assumed], remarks=wanted.deployment().remarks())
            return
        facility = Facility(number_of("--host-power", host_power, "W") if host_power else 0.0, pue)
        answer = answer_of(wanted.deployment(), load, limits(slo) if slo else {})
        if out:
            answer.write_requests(out)
        if trace:
            answer.served.write_trace(trace)
        if report:
            from slipstick.experiments.pages.serving_report import write_serving

            write_serving(answer, report)
        if format == "json":
            extra = {
                "assumptions": list(answer.deployment.assumptions()),
                "traffic": load.text(),
                "bounds": answer.bounds,
                "measures": answer.rows(),
                "meter_W": facility.watts(answer.summary()["power_W"], answer.deployment.layout.devices)
                if facility.counted and answer.summary()["power_W"] is not None
                else None,
            }
            emit([{**answer.summary(), **extra}], format, remarks=warnings_of(answer))
            return
        emit(answer.rows(), format, notes=lines(answer, facility))


LOCAL = ("model", "on", "engine", "dtype", "input", "output", "anchor", "format", "set")
"""What the answer for one user reads."""
UNVARIED = ("slo", "host_power", "pue", "out", "trace", "report")
"""What a comparison of machines does not read."""


def _refuse(context: typer.Context, unused: Callable[[str], bool], why: str) -> None:
    """Refuses the options that were typed and would be dropped.

    Raises
    ------
    InputError
        Where there are some.
    """
    from slipstick.hwmodels.files.errors import InputError

    typed = [
        parameter.opts[0]
        for parameter in context.command.params
        if unused(name := str(parameter.name)) and _is_typed(context, name)
    ]
    if typed:
        raise InputError(f"{', '.join(typed)}: not used: {why}")


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
