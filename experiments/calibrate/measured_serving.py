"""Runs of servers and of llama.cpp that a user measured: which model ran, under which load, how fast.

What `serve`, `read` and ``--measured`` take from benchmarks' files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.llama_cpp_step import CPU, PROMPT_BATCH, backend_of
from slipstick.estimators.serving.llama_cpp_run import DEFAULT_TYPE, MeasuredRate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.serving.llama_bench import LocalRun, read_llama_bench
from slipstick.workloads.importers.serving.vllm_bench import ServedRun
from slipstick.workloads.language.weight_types import in_gguf, stored_as
from slipstick.workloads.language_catalog import language_model, language_model_names
from slipstick.workloads.runs.traffic import Traffic

SAME_PARAMETERS = 0.002
"""Models whose numbers of parameters differ by less are taken to be one."""
MOST_SIMULATED = 20
"""Runs of one file that are simulated; of others the measurements alone are shown."""
MOST_REQUESTS, FEW_REQUESTS, MOST_TOKENS = 5000, 50, 131_072
MOST_STEPS, MOST_MADE = 20_000, 4_000_000
"""Of a simulated run: steps of a closed loop, and tokens that requests of a stream generate."""


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

    Raises InputError where one request alone has more tokens than that.
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


def generation(runs: Sequence[LocalRun]) -> LocalRun | None:
    """The test of generation with the fewest tokens in the cache; None where none generates alone."""
    alone = [run for run in runs if run.generated and not run.prompt]
    return min(alone, key=lambda run: (run.depth, run.generated), default=None)


def _prompt(runs: Sequence[LocalRun], beside: LocalRun) -> LocalRun | None:
    """The prompt that the same model read alone on the same backend with nothing cached, nearest to a batch."""
    same = [
        run
        for run in runs
        if run.prompt
        and not run.generated
        and not run.depth
        and (run.model, run.stored, run.backends) == (beside.model, beside.stored, beside.backends)
    ]
    return min(same, key=lambda run: abs(run.prompt - PROMPT_BATCH), default=None)


def _beside(runs: Sequence[LocalRun], *read: LocalRun | None) -> str:
    """The tests of a file that no number is taken from: how many, of which models, types and backends."""
    rest = [run for run in runs if run not in read]
    if not rest:
        return ""
    first = read[0] or rest[0]
    kinds = {(run.model, run.stored, run.backends) for run in rest} - {(first.model, first.stored, first.backends)}
    of = f" ({', '.join(sorted(' '.join(filter(None, each)) for each in kinds))})" if kinds else ""
    return f"{len(rest)} further test{'s' if len(rest) > 1 else ''}{of}"


def _backend(run: LocalRun) -> str:
    """The backend that ran, as the fit calls it: the first of those named that computes; "" where none is named."""
    named = [one.strip().lower() for one in run.backends.split(",")]
    made = [SAME_BACKEND.get(one, one) for one in named if one and one not in BESIDE]
    return made[0] if made else ""


SAME_BACKEND = {"hip": "rocm", "mtl": "metal", "blas": CPU}
BESIDE = ("rpc",)
"""Words of llama-bench for one backend, and such as send the work on to others."""


class AnchorRun(MeasuredRate):
    """One run on the same machine, from what a user typed or a file of llama-bench."""

    @classmethod
    def of_file(cls, path: str) -> AnchorRun:
        """From the generation that llama-bench measured (its JSON, JSON lines, CSV or Markdown), and its prompt.

        Raises InputError where the file is none of these, generates nothing, or its model or type of weights is not
        known here.
        """
        runs = read_llama_bench(Path(path))
        run = generation(runs)
        if run is None:
            raise InputError(f"{path}: no test generates tokens alone (llama-bench -n 128)")
        name = model_of_size(run.parameters)
        if name is None:
            raise InputError(f"{path}: {run.model!r} of {run.parameters:,} parameters is no model that is known here")
        model = language_model(name)
        read = _prompt(runs, run)
        prompt = (read.prompt, read.rate) if read else None
        stored, rest = in_gguf(stored_as(model, run.stored or DEFAULT_TYPE)), _beside(runs, run, read)
        return cls(model, stored, run.rate, prompt, _backend(run), rest)

    @classmethod
    def parse(cls, text: str) -> AnchorRun:
        """From "MODEL:TYPE=TOKENS_PER_S", such as "llama-3.1-8b:q4_k_m=103", or the path of a file of llama-bench.

        Raises InputError where it is none.
        """
        if "=" not in text and Path(text).is_file():
            return cls.of_file(text)
        left, equals, value = text.rpartition("=")
        name, _, dtype = left.partition(":")
        try:
            rate = float(value)
        except ValueError:
            rate = math.nan
        if not equals or not name or not 0 < rate < 1e6:
            raise InputError(
                f"anchor {text[:60]!r}: want MODEL:TYPE=TOKENS_PER_S, such as llama-3.1-8b:q4_k_m=103, or "
                "a file of llama-bench"
            )
        model = language_model(name)
        return cls(model, in_gguf(stored_as(model, dtype or DEFAULT_TYPE)), rate)


def require_possible(anchor: AnchorRun, machine: Machine) -> None:
    """Check that a run's rates are not above bandwidth and peak (a tenth more, for data sheets round), nor its backend
    one of other machines.

    Raises InputError where it is.
    """
    ran, here = anchor.backend, backend_of(machine.family)
    if ran and (ran == CPU) != (here == CPU):
        raise InputError(
            f"a run of llama.cpp on {ran}: {machine.name} runs it on {here}; was it measured on another machine?"
        )
    most, prompt = 1 / anchor.work(machine).memory, anchor.prompt_work(machine)
    if anchor.rate > 1.1 * most:
        raise InputError(
            f"anchor {anchor.model.name} {anchor.stored} at {anchor.rate:g} tokens/s: {machine.name} reads its weights "
            f"at most {most:.4g} times a second; was it measured on another machine?"
        )
    if anchor.prompt and prompt and anchor.prompt[1] * prompt.products > 1.1:
        raise InputError(
            f"a prompt of {anchor.model.name} {anchor.stored} at {anchor.prompt[1]:g} tokens/s: {machine.name} "
            f"computes at most {1 / prompt.products:.4g} a second; was it measured on another machine?"
        )
