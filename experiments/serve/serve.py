"""Serving questions in one call, for notebooks: names and numbers in, an answer with its page out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import overload

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.engine_steps.fitted_steps import is_llama_cpp
from slipstick.estimators.engine_steps.step_time_predictor import StepTimePredictor
from slipstick.estimators.serving.llama_cpp_run import Local
from slipstick.estimators.serving.server_config import require_guesses
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.estimators.serving.serving_answer import serve as _serve
from slipstick.experiments.serve.llama_cpp import local, local_engine
from slipstick.experiments.serve.plan_serving import Plan, Search
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.experiments.serve.user_runs import is_run, steps_of_runs
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.workloads.runs.traffic import Traffic


@overload
def serve(
    model: str, machine: str, *, concurrency: int, devices: int = 1, dtype: str | None = None, engine: str = "",
    rate: None = None, input_tokens: int = 1024, output_tokens: int = 256, limit: Mapping[str, float] | None = None,
    replicas: int = 1, prefill_workers: int = 0, prefill_tp: int = 0, link_bandwidth: float = 0.0,
    measured: str | None = None,
) -> Serving: ...  # fmt: skip
@overload
def serve(
    model: str, machine: str, *, rate: float, devices: int = 1, dtype: str | None = None, engine: str = "",
    concurrency: None = None, input_tokens: int = 1024, output_tokens: int = 256,
    limit: Mapping[str, float] | None = None, replicas: int = 1, prefill_workers: int = 0, prefill_tp: int = 0,
    link_bandwidth: float = 0.0, measured: str | None = None,
) -> Serving: ...  # fmt: skip
@overload
def serve(
    model: str, machine: str, *, dtype: str | None = None, engine: str = "", input_tokens: int = 1024,
    output_tokens: int = 256, measured: str | None = None,
) -> Local: ...  # fmt: skip
@checked
def serve(
    model: str,
    machine: str,
    *,
    devices: int = 1,
    dtype: str | None = None,
    engine: str = "",
    concurrency: int | None = None,
    rate: float | None = None,
    input_tokens: int = 1024,
    output_tokens: int = 256,
    limit: Mapping[str, float] | None = None,
    replicas: int = 1,
    prefill_workers: int = 0,
    prefill_tp: int = 0,
    link_bandwidth: float = 0.0,
    measured: str | None = None,
) -> Serving | Local:
    """A language model's server, simulated request by request; one user's machine where llama.cpp serves them.

    Parameters
    ----------
    model, machine
        A config.json, a .gguf file or a name; a machine's name or YAML file.
    devices
        Of all workers; those of a worker share each product (tensor ranks). 1: one for each worker.
    dtype
        How weights are stored ("bf16", "fp8", "nvfp4", ...); None: as the model's file says.
    concurrency, rate
        A closed loop of so many users, or requests a second; one of the two.
    limit
        Seconds by measure (ttft, tpot, latency).
    replicas
        Copies of the server; they only decode where `prefill_workers` read the prompts.
    prefill_workers, prefill_tp
        Workers that only read prompts, and the tensor ranks of each (0: as the replicas).
    link_bandwidth
        Bytes/s at which a device sends cached keys to another worker; 0: as the machine's links say.
    measured
        A measurement of your own, as `slipstick serve --measured` takes it.

    Raises
    ------
    InputError
        Where a name is unknown, the model does not fit, or the traffic is not clear.

    Examples
    --------
    >>> answer = serve("llama-3.1-8b", "h100-sxm", dtype="fp8", concurrency=4, output_tokens=32)
    >>> answer.served.output_rate > 100
    True
    """
    crowd = concurrency is not None or rate is not None
    program = engine or local_engine(model, machine, dtype, {}, crowd=crowd) or ""
    if is_llama_cpp(program):
        several = {devices, replicas, 1 if concurrency is None else concurrency} != {1} or rate is not None
        if several or limit or prefill_workers or prefill_tp or link_bandwidth:
            raise InputError(
                f'serve: {program} answers for one user on one device, no rate or limit; of several, engine="vllm"'
            )
        return local(model, machine_by_name(machine), dtype, input_tokens, output_tokens, measured)
    load = Traffic(input_tokens, output_tokens, concurrency, rate)
    ran = measured if measured and is_run(measured) else None
    wanted = ServingOptions(
        model, machine, devices=devices if devices > 1 else None, replicas=replicas, dtype=dtype, engine=engine,
        known=None if ran else measured, prefill_workers=prefill_workers, prefill_tensor=prefill_tp,
        link_bandwidth=link_bandwidth,
    )  # fmt: skip
    wanted = replace(wanted, steps=steps_of_runs(ran, wanted, load)) if ran else wanted
    return _serve(wanted.deployment(), load, limit)


@checked
def serve_locally(model: str, machine: str, *, dtype: str | None = None, measured: str | None = None) -> Local:
    """A model for one user under llama.cpp; `measured` is one run there, "MODEL:TYPE=TOKENS_PER_S".

    Raises
    ------
    InputError
        Where a name is unknown or the model does not fit.

    Examples
    --------
    >>> import slipstick as ss
    >>> local = ss.serve_locally("llama-3.1-8b", "rtx-4090", dtype="q4_k_m")
    >>> local.model.layers
    32
    """
    return local(model, machine_by_name(machine), dtype, 1024, 256, measured)


@checked
def oracle(
    model: str, machine: str, engine: str = "", *, devices: int = 1, dtype: str | None = None, cache_dtype: str = "auto"
) -> StepTimePredictor:
    """Seconds of a server's steps by what each works on, with an 80 % band: for simulators and schedulers to call.

    Parameters
    ----------
    model, machine
        A config.json, a .gguf file or a name; a machine's name or YAML file.
    engine
        "vllm 0.19.0", "sglang", ...; "" for what the machine's runtime names, else vLLM.
    devices
        That share each product (tensor ranks).
    dtype, cache_dtype
        How weights, and keys and values, are stored; None, "auto": as the model's file says and the engine does.

    Raises
    ------
    InputError
        Where a name is unknown, or the devices cannot share the model.

    Examples
    --------
    >>> import slipstick as ss
    >>> step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")
    >>> time = step(decodes=64, context=2048, prompt=512)
    >>> time.low < time.seconds < time.high
    True
    """
    wanted = ServingOptions(model, machine, devices=devices, dtype=dtype, cache_type=cache_dtype, engine=engine)
    return wanted.deployment().oracle


@checked
def plan_serving(
    model: str,
    machine: str | Sequence[str],
    *,
    dtype: str | Sequence[str] | None = None,
    devices: int = 8,
    input_tokens: int = 1024,
    output_tokens: int = 256,
    limit: Mapping[str, float] | None = None,
    price: Mapping[str, float] | None = None,
    draft_tokens: int = 0,
    acceptance: float = 0.0,
    draft_cost: float = 0.0,
    measured: str | None = None,
) -> Plan:
    """Layouts of at most `devices` devices on each machine: the front, and the cheapest that keeps the limits.

    Parameters
    ----------
    machine, dtype
        One or several: names or YAML files; how weights are stored (None: as the model's file says).
    limit
        Seconds by measure (ttft, tpot, latency), on means.
    price
        Dollars an hour of one device by machine.
    draft_tokens, acceptance, draft_cost
        Of speculative decoding: tokens guessed in a step, the chance that one is kept, and the time of guessing one
        over that of a plain step (0: a head of one layer).
    measured
        A measurement of your own, as `slipstick plan serving --measured` takes it.

    Raises
    ------
    InputError
        Where nothing fits at all.

    Examples
    --------
    >>> import slipstick as ss
    >>> plan = ss.plan_serving("llama-3.1-8b", ["H100", "A100-80GB"], devices=1)
    >>> {candidate.machine for candidate in plan.candidates} <= {"H100", "A100-80GB"}
    True
    """
    machines = (machine,) if isinstance(machine, str) else tuple(machine)
    require_guesses(draft_tokens, acceptance, draft_cost)
    types = (dtype,) if dtype is None or isinstance(dtype, str) else tuple(dtype)
    return Search(
        model, machines, types, float(input_tokens), float(output_tokens), devices,
        limits=FrozenDict(dict(limit or {})), prices=FrozenDict(dict(price or {})), known=measured,
        guesses=FrozenDict(draft_tokens=float(draft_tokens), acceptance=acceptance, draft_cost=draft_cost),
    ).run()  # fmt: skip
