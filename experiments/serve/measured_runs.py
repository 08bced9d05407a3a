"""What a server's own benchmark measured, beside what is estimated for the same load; and anchors from llama-bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.estimators.named.serving.served_run import serve
from slipstick.experiments.serve.serving_question import Wanted
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.importers.serving.llama_bench import LocalRun
from slipstick.workloads.importers.serving.vllm_bench import ServedRun
from slipstick.workloads.language_catalog import language_model, language_model_names, shipped_name
from slipstick.workloads.runs.traffic import Traffic

SAME_PARAMETERS = 0.002
"""Models whose numbers of parameters differ by less are taken to be one."""
MOST_SIMULATED = 20
"""Runs of one file that are simulated; of others the measurements alone are shown."""
MOST_REQUESTS, FEW_REQUESTS, MOST_TOKENS = 5000, 50, 131_072
MOST_STEPS, MOST_MADE = 20_000, 4_000_000
"""Of a simulated run: steps of a closed loop, and tokens that requests of a stream generate."""


def model_called(identity: str) -> str | None:
    """The shipped model of a name such as "meta-llama/Llama-3.1-8B-Instruct"; None where there is none.

    >>> model_called("meta-llama/Llama-3.1-8B-Instruct"), model_called("facebook/opt-125m")
    ('llama-3.1-8b', None)
    """
    return shipped_name(identity)


def model_of_size(parameters: int) -> str | None:
    """The shipped model with that number of parameters; None where none or several are so close."""
    result = {
        name: abs(language_model(name).parameters / parameters - 1)
        for name in language_model_names()
        if abs(language_model(name).parameters / parameters - 1) < SAME_PARAMETERS
    }
    return min(result, key=lambda name: result[name], default=None)


def traffic_of(run: ServedRun) -> Traffic:
    """The load of a run; all requests of its mean lengths, as many as can be simulated in seconds.

    Raises
    ------
    InputError
        Where one request alone has more tokens than that.
    """
    users = run.users if run.rate is None else None
    if users is None and run.rate is None:
        users = run.requests
    prompt, made = max(1, round(run.input_tokens)), max(1, round(run.output_tokens))
    if max(prompt, made) > MOST_TOKENS:
        raise InputError(f"a run of {run.model}: {max(prompt, made):,} tokens a request, want at most {MOST_TOKENS:,}")
    waves = max(1, MOST_STEPS // made) * (users or 1)
    count = min(run.requests, MOST_REQUESTS, waves if users else max(FEW_REQUESTS, MOST_MADE // made))
    return Traffic(prompt, made, users, run.rate, run.burstiness, 0.0, 0.0, count)


def measured_rows(runs: Sequence[ServedRun]) -> list[dict[str, Any]]:
    """One row a run: load, and what was measured in seconds and tokens/s."""
    return [
        {
            "model": run.model,
            "users": run.users,
            "requests_per_s": run.rate,
            "requests": run.requests,
            "failed": run.failed,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "ttft_s": run.times.get("ttft mean", run.times.get("ttft median")),
            "tpot_s": run.times.get("tpot mean", run.times.get("tpot median")),
            "output_tokens_per_s": run.output_rate,
        }
        for run in runs
    ]


def compared_rows(runs: Sequence[ServedRun], wanted: Wanted) -> list[dict[str, Any]]:
    """One row a run and measure: measured, estimated with the 80 % band, and measured over estimated.

    `measure` names the unit: ttft_s, tpot_s (means) and output_tokens_per_s.

    Raises
    ------
    InputError
        Where the model does not fit the machine.
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


def generation(runs: Sequence[LocalRun]) -> LocalRun | None:
    """The test of generation with the fewest tokens in the cache; None where none generates alone."""
    alone = [run for run in runs if run.generated and not run.prompt]
    return min(alone, key=lambda run: (run.depth, run.generated), default=None)
