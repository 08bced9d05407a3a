"""What a server's own benchmark measured, beside what is estimated for the same load; and anchors from llama-bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.calibrate.measured_serving import MOST_SIMULATED, model_of_size, traffic_of
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.importers.serving.llama_bench import LocalRun
from slipstick.workloads.importers.serving.vllm_bench import ServedRun


def measured_rows(runs: Sequence[ServedRun]) -> list[dict[str, Any]]:
    """One row a run: load, and what was measured in seconds and tokens/s."""
    return [
        {
            "model": run.model,
            "users": run.users,
            "requests_per_s": run.rate,
            "requests": run.requests if run.counted else None,
            "failed": run.failed if run.counted else None,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "ttft_s": run.times.get("ttft mean", run.times.get("ttft median")),
            "tpot_s": run.times.get("tpot mean", run.times.get("tpot median")),
            "output_tokens_per_s": run.output_rate,
            **({} if run.generation_rate is None else {"generated_tokens_per_s": run.generation_rate}),
        }
        for run in runs
    ]


def compared_rows(runs: Sequence[ServedRun], wanted: ServingOptions) -> list[dict[str, Any]]:
    """One row a run and measure: measured, estimated with the 80 % band, and measured over estimated.

    `measure` names the unit: ttft_s, tpot_s (means) and output_tokens_per_s.
    Raises InputError where the model does not fit the machine.
    """
    deployment = wanted.deployment()
    result = []
    for number, (run, row) in enumerate(zip(runs[:MOST_SIMULATED], measured_rows(runs), strict=False)):
        answer = serve(deployment, traffic_of(run))
        bands = {f"{one}_s": answer.band(one, "mean") for one in ("ttft", "tpot") if answer.served.quantiles(one)}
        for measure, (value, low, high) in {**bands, "output_tokens_per_s": answer.rate_band}.items():
            measured = row[measure]
            if measured is not None:
                result.append(
                    {
                        "run": number,
                        "users": run.users,
                        "measure": measure,
                        "measured": measured,
                        "estimated": value,
                        "low": low,
                        "high": high,
                        "ratio": measured / value,
                    }
                )
    return result


def local_rows(runs: Sequence[LocalRun]) -> list[dict[str, Any]]:
    """One row a test of llama-bench."""
    return [
        {
            "model": run.model,
            "known_as": model_of_size(run.parameters),
            "weights": run.stored or None,
            "backend": run.backends or None,
            "device": run.device,
            "prompt_tokens": run.prompt,
            "output_tokens": run.generated,
            "depth_tokens": run.depth,
            "threads": run.threads,
            "batch": run.batch,
            "time_s": run.seconds,
            "spread_s": run.spread,
            "tokens_per_s": run.rate,
        }
        for run in runs
    ]
