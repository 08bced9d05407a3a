"""Serving questions in one call, for notebooks: names and numbers in, an answer with its page out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import TypedDict, Unpack, overload

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.engine_steps.fitted_steps import is_llama_cpp
from slipstick.estimators.engine_steps.step_time_predictor import StepTimePredictor
from slipstick.estimators.power.facility import Facility
from slipstick.estimators.serving.llama_cpp_run import Local
from slipstick.estimators.serving.server_config import require_guesses
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.estimators.serving.serving_answer import serve as _serve
from slipstick.experiments.question.axes import Values
from slipstick.experiments.question.settings import machine_changes
from slipstick.experiments.serve.llama_cpp import UNVARIED, local, local_engine, unread_by_one_user
from slipstick.experiments.serve.plan_serving import Plan, Search
from slipstick.experiments.serve.serving_question import ServingOptions, examined_serving, traffic
from slipstick.experiments.serve.user_runs import steps_of_runs
from slipstick.experiments.studies.whatif import WhatIf
from slipstick.experiments.studies.whatif import answer as compared
from slipstick.hwmodels.catalog import machine as machine_by_name


class ServeWords(TypedDict, total=False):
    """Arguments of `serve` for which its answer stays a `Serving`."""

    devices: int | None
    dtype: str | None
    engine: str
    input_tokens: int
    output_tokens: int
    requests: str | None
    limit: Mapping[str, float] | None
    tp: int | None
    pp: int
    dp: int
    ep: int
    replicas: int
    prefill_workers: int
    prefill_tp: int
    link_bandwidth: float
    cache_dtype: str
    length_range: float
    prefix_hit_rate: float
    burstiness: float
    num_requests: int | None
    max_batched_tokens: int
    max_num_seqs: int
    memory_share: float
    draft_tokens: int
    acceptance: float
    draft_cost: float
    chunked_prefill: str | None
    preemption: str
    settings: Mapping[str, str | float] | Sequence[str]
    measured: str | None
    host_power: float
    pue: float
    grid_intensity: float
    seed: int


@overload
def serve(model: str, machine: str, *, concurrency: int, rate: None = None, **words: Unpack[ServeWords]) -> Serving: ...
@overload
def serve(
    model: str, machine: str, *, rate: float, concurrency: None = None, **words: Unpack[ServeWords]
) -> Serving: ...
@overload
def serve(
    model: str, machine: str, *, dtype: str | None = None, engine: str = "", input_tokens: int = 1024,
    output_tokens: int = 256, measured: str | None = None, settings: Mapping[str, str | float] | Sequence[str] = (),
) -> Local: ...  # fmt: skip
@overload
def serve(
    model: str, machine: str, *, vary: Mapping[str, Values] | Sequence[str], concurrency: int | None = None,
    rate: float | None = None, **words: Unpack[ServeWords],
) -> WhatIf: ...  # fmt: skip
@overload
def serve(model: str, machine: str, **words: Unpack[ServeWords]) -> Serving: ...
@checked
def serve(
    model: str,
    machine: str,
    *,
    devices: int | None = None,
    dtype: str | None = None,
    engine: str = "",
    input_tokens: int = 1024,
    output_tokens: int = 256,
    concurrency: int | None = None,
    rate: float | None = None,
    requests: str | None = None,
    limit: Mapping[str, float] | None = None,
    tp: int | None = None,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    replicas: int = 1,
    prefill_workers: int = 0,
    prefill_tp: int = 0,
    link_bandwidth: float = 0.0,
    cache_dtype: str = "auto",
    length_range: float = 0.2,
    prefix_hit_rate: float = 0.0,
    burstiness: float = 1.0,
    num_requests: int | None = None,
    max_batched_tokens: int = 8192,
    max_num_seqs: int = 256,
    memory_share: float = 0.9,
    draft_tokens: int = 0,
    acceptance: float = 0.0,
    draft_cost: float = 0.0,
    chunked_prefill: str | None = None,
    preemption: str = "cached",
    settings: Mapping[str, str | float] | Sequence[str] = (),
    vary: Mapping[str, Values] | Sequence[str] = (),
    measured: str | None = None,
    host_power: float = 0.0,
    pue: float = 1.0,
    grid_intensity: float = 0.0,
    seed: int = 0,
) -> Serving | Local | WhatIf:
    """A language model's server, simulated request by request; one user's machine where llama.cpp serves them.

    Parameters
    ----------
    model, machine
        A config.json, a .gguf file or a name; a machine's name or YAML file.
    devices
        Of all workers; those of a worker share each product (tensor ranks). None: one for each rank.
    dtype, cache_dtype
        How weights ("bf16", "fp8", "nvfp4", ...), and keys and values, are stored; None, "auto": as the file says.
    engine
        "vllm 0.19.0", "sglang", "trtllm", "llama.cpp"; "": as the machine's runtime says.
    concurrency, rate, requests
        A closed loop of so many users, requests a second, or a file of recorded requests; one of them.
    input_tokens, output_tokens, length_range, prefix_hit_rate, burstiness, num_requests, seed
        Lengths, how they are drawn and come, and how many are simulated, as `Traffic` has them.
    limit
        Seconds by measure (ttft, tpot, latency).
    tp, pp, dp, ep
        Ranks that share each product (None: what the devices leave), stages, groups with attention of their own, ranks
        of experts.
    replicas
        Copies of the server; they only decode where `prefill_workers` read the prompts.
    prefill_workers, prefill_tp
        Workers that only read prompts, and the tensor ranks of each (0: as the replicas).
    link_bandwidth
        Bytes/s at which a device sends cached keys to another worker; 0: as the machine's links say.
    max_batched_tokens, max_num_seqs, memory_share, chunked_prefill, preemption
        Of the engine: tokens of a step, requests that run together, the share of each device's memory, "on" or "off",
        and what becomes of a request that loses its cache: "cached", "recompute", "swap".
    draft_tokens, acceptance, draft_cost
        Of speculative decoding: tokens guessed in a step, the chance that one is kept, and the time of guessing one
        over that of a plain step (0: a head of one layer).
    settings
        Numbers of the machine that are not the default ({"machine.clock": "1.2 GHz"}).
    vary
        Names and values, as `whatif` takes them; the answer is then a `WhatIf`.
    measured
        A measurement of your own, as `slipstick serve --measured` takes it.
    host_power, pue
        Watts of the host for each device, and the power of the building over that of its computers.
    grid_intensity
        Grams of CO2-equivalent that the grid emits for a kilowatt-hour.

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
    given, changes = locals(), machine_changes(settings)
    typed = [name for name, one in signature(serve).parameters.items() if given[name] != one.default]
    crowd = concurrency is not None or rate is not None or requests is not None
    program = engine or local_engine(model, machine, dtype, changes, measured, crowd=crowd) or ""
    if is_llama_cpp(program):
        if unread := [name for name in typed if unread_by_one_user(name, given[name])]:
            raise InputError(
                f"{', '.join(unread)}: not used: {program} answers for one user on one device; of a server: "
                'engine="vllm"'
            )
        return local(model, machine_by_name(machine), dtype, input_tokens, output_tokens, measured, changes)
    if vary and (unread := [name for name in typed if name in UNVARIED]):
        raise InputError(f"{', '.join(unread)}: not used: vary compares servers, as whatif does")
    if not any("draft_tokens" in words for words in vary):
        require_guesses(draft_tokens, acceptance, draft_cost)
    load = traffic(
        input_tokens=input_tokens, output_tokens=output_tokens, users=concurrency, rate=rate, requests=requests,
        burstiness=burstiness, length_range=length_range, prefix_hit_rate=prefix_hit_rate, num_requests=num_requests,
        seed=seed,
    )  # fmt: skip
    wanted = ServingOptions(
        model, machine, devices, tp, pp, dp, ep, replicas, dtype, cache_dtype, engine, max_batched_tokens, max_num_seqs,
        draft_tokens, acceptance, draft_cost, chunked_prefill, preemption, changes,
        prefill_workers=prefill_workers, prefill_tensor=prefill_tp, link_bandwidth=link_bandwidth,
        memory_share=memory_share,
    )  # fmt: skip
    wanted = replace(wanted, steps=steps_of_runs(measured, wanted, load))
    if vary:
        return compared(wanted.question(load, vary))
    answer = examined_serving(_serve(wanted.deployment(), load, limit), wanted, load)
    return replace(answer, facility=Facility(host_power, pue, grid_intensity))


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
    model: str,
    machine: str,
    engine: str = "",
    *,
    devices: int = 1,
    dtype: str | None = None,
    cache_dtype: str = "auto",
    measured: str | None = None,
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
    measured
        A CSV of steps measured on the machine, which move the answer.

    Raises
    ------
    InputError
        Where a name is unknown, the devices cannot share the model, or the file holds no steps.

    Examples
    --------
    >>> import slipstick as ss
    >>> step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")
    >>> time = step(decodes=64, context=2048, prompt=512)
    >>> time.low < time.seconds < time.high
    True
    """
    wanted = ServingOptions(model, machine, devices=devices, dtype=dtype, cache_type=cache_dtype, engine=engine)
    return replace(wanted, steps=steps_of_runs(measured, wanted, traffic())).deployment().oracle


@checked
def plan_serving(
    model: str,
    machine: str | Sequence[str],
    *,
    dtype: str | Sequence[str] | None = None,
    devices: int = 8,
    engine: str = "",
    input_tokens: int = 1024,
    output_tokens: int = 256,
    cache_dtype: str = "auto",
    limit: Mapping[str, float] | None = None,
    rate: float | None = None,
    price: Mapping[str, float] | None = None,
    max_batched_tokens: int = 8192,
    memory_share: float = 0.9,
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
    engine, cache_dtype, max_batched_tokens, memory_share
        As of `serve`.
    limit
        Seconds by measure (ttft, tpot, latency), on means.
    rate
        Requests/s: the answer's `sized` is the fewest devices that keep the limits under such a stream.
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
        model, machines, types, float(input_tokens), float(output_tokens), devices, engine, cache_dtype,
        FrozenDict(dict(limit or {})), FrozenDict(dict(price or {})), max_batched_tokens, measured,
        FrozenDict(draft_tokens=float(draft_tokens), acceptance=acceptance, draft_cost=draft_cost), memory_share, rate,
    ).run()  # fmt: skip
