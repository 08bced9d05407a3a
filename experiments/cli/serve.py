"""slipstick serve CONFIG.json --on MACHINE"""

from __future__ import annotations

from collections.abc import Callable
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
    Seed,
    Set,
    StepTokens,
    option,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def serve(
        context: typer.Context,
        model: Annotated[str, typer.Argument(help="a config.json, a .gguf file, or a name (llama-3.1-8b)")],
        on: Annotated[str, option("on")],
        devices: Annotated[int | None, option("devices", "of all degrees together", min=1)] = None,
        dtype: Annotated[str | None, option("dtype", "of weights: bf16, fp8, nvfp4, int4, q4_k_m, ...")] = None,
        engine: Annotated[
            str | None, option("engine", "vllm, sglang, trtllm, llama.cpp; else as machine.runtime.library says")
        ] = None,
        input_tokens: InputTokens = 1024,
        output_tokens: OutputTokens = 256,
        concurrency: Annotated[int | None, option("concurrency", min=1)] = None,
        rate: Annotated[float | None, option("rate")] = None,
        requests: Annotated[str | None, option("requests", "JSON lines")] = None,
        limit: Annotated[str | None, option("limit", "ttft=0.5s,tpot=30ms")] = None,
        tp: Annotated[int | None, option("tp", "all devices if left out", min=1)] = None,
        pp: Annotated[int, option("pp", min=1)] = 1,
        dp: Annotated[int, option("dp", "before shared experts", min=1)] = 1,
        ep: Annotated[int, option("ep", min=1)] = 1,
        replicas: Annotated[int, option("replicas", min=1)] = 1,
        prefill_workers: Annotated[int, option("prefill_workers", "--replicas of them; 0: none", min=0)] = 0,
        prefill_tp: Annotated[int, option("prefill_tp", "as --tp if left out", min=0)] = 0,
        link_bandwidth: Annotated[str | None, option("link_bandwidth", "50GB/s; else by the machine's links")] = None,
        cache_dtype: CacheDtype = "auto",
        length_range: Annotated[float, option("length_range", min=0.0)] = 0.2,
        prefix_hit_rate: Annotated[float, option("prefix_hit_rate", min=0.0)] = 0.0,
        burstiness: Annotated[float, option("burstiness", min=0.0)] = 1.0,
        num_requests: Annotated[int | None, option("num_requests", min=1, max=100_000)] = None,
        max_batched_tokens: StepTokens = 8192,
        max_num_seqs: Annotated[int, option("max_num_seqs", min=1)] = 256,
        memory_share: Annotated[float, option("memory_share", min=0.0, max=1.0)] = 0.9,
        draft_tokens: Annotated[int, option("draft_tokens", min=0)] = 0,
        acceptance: Annotated[float, option("acceptance", "0.7", min=0.0)] = 0.0,
        draft_cost: Annotated[float, option("draft_cost", "0: a head of one layer", min=0.0)] = 0.0,
        chunked_prefill: Annotated[
            str | None, option("chunked_prefill", "on | off (prompts alone; SGLang's way)")
        ] = None,
        preemption: Annotated[str, option("preemption", "cached (vLLM) | recompute | swap")] = "cached",
        set: Set = None,
        vary: Annotated[
            list[str] | None, option("vary", "run.concurrency=1,16,64 or machine.memory.HBM3.bandwidth=3TB/s,4TB/s")
        ] = None,
        measured: Annotated[
            str | None,
            option(
                "measured",
                "a CSV of steps or loads, a JSON of vllm bench serve, 23.4ms; of llama.cpp MODEL:TYPE=TOKENS_PER_S",
            ),
        ] = None,
        host_power: HostPower = None,
        pue: Pue = 1.0,
        grid_intensity: GridIntensity = 0.0,
        seed: Seed = 0,
        out: Annotated[str | None, option("out", "every request, FILE.parquet or FILE.csv")] = None,
        timeline: Annotated[str | None, option("timeline")] = None,
        report: Report = None,
        format: Format = "table",
    ) -> None:
        """Latency and tokens/s of a language-model server, request by request, with an 80 % band."""
        from slipstick.estimators.base.conditions import remarks_of
        from slipstick.estimators.engine_steps.fitted_steps import is_llama_cpp
        from slipstick.estimators.serving.llama_cpp_run import Local
        from slipstick.experiments.question.settings import machine_changes, number_of
        from slipstick.experiments.report.output import emit, show
        from slipstick.experiments.serve.llama_cpp import UNVARIED, local_engine, unread_by_one_user
        from slipstick.experiments.serve.serve import serve as served
        from slipstick.experiments.serve.serving_text import lines, warnings_of
        from slipstick.experiments.serve.slo_limits import limits
        from slipstick.experiments.studies.whatif import WhatIf, column_rows

        crowd = concurrency is not None or rate is not None or requests is not None
        if engine is None:
            engine = local_engine(model, on, dtype, machine_changes(set or []), measured, crowd=crowd)
        if engine is not None and is_llama_cpp(engine):
            why = f"{engine} answers for one user on one device; users, devices and steps of a server: --engine vllm"
            _refuse(context, lambda name: unread_by_one_user(name, context.params[name]), why)
        elif vary:
            _refuse(context, lambda name: name in UNVARIED, "--vary compares servers, as slipstick whatif does")
        numbers = {name: context.params[name] for name in AS_IN_PYTHON}
        answer = served(
            model, on, engine=engine or "", settings=set or (), vary=vary or (),
            limit=limits(limit) if limit else None, link_bandwidth=_link(link_bandwidth),
            host_power=number_of("--host-power", host_power, "W") if host_power else 0.0, **numbers,
        )  # fmt: skip
        if isinstance(answer, Local):
            show(answer, format)
            return
        if isinstance(answer, WhatIf):
            if format == "table":
                from slipstick.experiments.report.print_whatif import print_sweep_table

                print_sweep_table(answer, answer.columns, (), MOST_ROWS, answer.notes)
            else:
                doubts, rests = remarks_of(answer.today.conditions), answer.provenance
                rows = column_rows(answer.columns, answer.notes)
                emit(rows, format, remarks=doubts, provenance=rests, depends=answer.depends)
            return
        notes = [*warnings_of(answer), *remarks_of(answer.conditions)]
        show(
            answer,
            format,
            lines(answer),
            {"meter_W": answer.meter, "carbon_kg_per_h": answer.facility.carbon(answer.meter)},
            notes,
        )
        if out:
            answer.write_requests(out)
        if timeline:
            answer.write_trace(timeline)
        if report:
            from slipstick.experiments.report.serving_page import write_serving

            write_serving(answer, report)


MOST_ROWS = 40
"""Of a table."""
AS_IN_PYTHON = (
    *("devices", "dtype", "input_tokens", "output_tokens", "concurrency", "rate", "requests", "tp", "pp", "dp", "ep"),
    *("replicas", "prefill_workers", "prefill_tp", "cache_dtype", "length_range", "prefix_hit_rate", "burstiness"),
    *("num_requests", "max_batched_tokens", "max_num_seqs", "memory_share", "draft_tokens", "acceptance", "draft_cost"),
    *("chunked_prefill", "preemption", "measured", "pue", "grid_intensity", "seed"),
)
"""Options that the function `serve` takes as they are typed."""


def _link(text: str | None) -> float:
    """Bytes/s of a typed bandwidth; 0, which is the machine's link, only where none was typed."""
    from slipstick.common.errors import InputError
    from slipstick.experiments.question.settings import number_of

    value = number_of("--link-bandwidth", text, "byte/s") if text is not None else 0.0
    if text is not None and not value:
        raise InputError(f"--link-bandwidth {text}: want more than 0 byte/s; left out, that of the machine's link")
    return value


def _refuse(context: typer.Context, unused: Callable[[str], bool], why: str) -> None:
    """Refuses the options that were typed and would be dropped.

    Raises
    ------
    InputError
        Where there are some.
    """
    from slipstick.common.errors import InputError
    from slipstick.experiments.cli.typed_numbers import typed

    given = typed(context)
    wrong = [one.opts[0] for one in context.command.params if one.name in given and unused(str(one.name))]
    if wrong:
        raise InputError(f"{', '.join(wrong)}: not used: {why}")
