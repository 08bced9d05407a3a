"""The numbers of a server's run, and the deployment and traffic that they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import check_run_number
from slipstick.estimators.engine_steps.fitted_steps import server_on
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep
from slipstick.estimators.engine_steps.speculative_decoding import Speculation
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import MEMORY_SHARE, Deployment
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout, padded
from slipstick.workloads.language.weight_types import AUTO
from slipstick.workloads.runs.requests import Request
from slipstick.workloads.runs.traffic import Traffic

Preemption = Literal["cached", "recompute", "swap"]
PREEMPTIONS: Mapping[str, Preemption] = {"cached": "cached", "recompute": "recompute", "swap": "swap"}
DEGREES = FrozenDict(tensor_parallel=1.0, pipeline_parallel=1.0, data_parallel=1.0, expert_parallel=1.0, replicas=1.0)
"""Of a layout; all but expert_parallel multiply to the devices."""
RULES = FrozenDict(max_batched_tokens=8192.0, max_num_seqs=256.0, memory_share=MEMORY_SHARE)
"""Tokens of a step, sequences at a time, and the share of each device's memory."""
DRAWN = FrozenDict(length_range=0.2, prefix_hit_rate=0.0, burstiness=1.0, seed=0.0)
"""How lengths are drawn, which share of prompts is in the cache, how a stream comes; see `Traffic`."""
USERS = 1.0
"""Of a closed loop, where neither users nor a rate are given."""
GUESSED = FrozenDict(draft_tokens=0.0, acceptance=0.0, draft_cost=0.0)
"""Speculative decoding: tokens guessed in a step (0: none), the chance that one is kept, and what guessing one takes of
a plain step (0: as a head of one layer)."""
POOL = FrozenDict(prefill_workers=0.0, prefill_tensor_parallel=0.0, link_bandwidth=0.0)
"""Workers that read prompts for the others (0: none), their tensor ranks (0: as the others), and bytes/s between them
(0: of the machine's link)."""
DEFAULTS = FrozenDict({**DEGREES, **RULES, **DRAWN, **GUESSED, **POOL})
CHOSEN = frozenset({"concurrency", "rate", "num_requests"})
"""Users of a closed loop, requests/s of a stream, and how many are simulated."""


def traffic_of(run: Mapping[str, float], tokens: Mapping[str, float], given: Sequence[Request] = ()) -> Traffic:
    """The traffic that the numbers of a run describe.

    `run`: numbers of the run by name; where neither `concurrency` nor `rate` is among them, one user.
    `tokens`: `input_tokens` and `output_tokens`.
    `given`: recorded requests.
    Raises InputError where a number is out of its range, or both a closed loop and a stream are meant.
    """
    numbers = {**DEFAULTS, **run}
    for name, value in numbers.items():
        check_run_number(name, value)
    users, rate, wanted = (run.get(name) for name in ("concurrency", "rate", "num_requests"))
    if users is None and rate is None and not (given and given[0].arrival is not None):
        users = USERS
    return Traffic(
        int(tokens["input_tokens"]), int(tokens["output_tokens"]), None if users is None else int(users), rate,
        numbers["burstiness"], numbers["length_range"], numbers["prefix_hit_rate"],
        None if wanted is None else int(wanted), int(numbers["seed"]), tuple(given),
    )  # fmt: skip


def run_of(load: Traffic) -> dict[str, float]:
    """The numbers of a run that describe a traffic: what `traffic_of` reads."""
    chosen = {"concurrency": load.users, "rate": load.rate, "num_requests": load.num_requests}
    drawn = {"length_range": load.length_range, "prefix_hit_rate": load.prefix_hit_rate, "burstiness": load.burstiness}
    drawn["seed"] = float(load.seed)
    return drawn | {name: float(value) for name, value in chosen.items() if value is not None}


def laid_out(model: LanguageModel, machine: Machine, layout: Layout) -> LanguageModel:
    """The model as its layout stores it: with heads added, save on GPUs, whose engines refuse those that do not divide.

    Raises InputError where the degrees do not suit the model.
    """
    if machine_kind(machine) != "gpu":
        model = padded(model, layout.tensor)
    layout.check(model)
    return model


def deployment_of(
    model: LanguageModel,
    stored: str,
    machine: Machine,
    run: Mapping[str, float],
    cache_type: str = AUTO,
    chunked_prefill: str = "",
    preemption: str = "cached",
    engine: str = "",
    known: tuple[TimedServerStep, ...] = (),
) -> Deployment:
    """A model on the devices that the degrees of a run name, under the engine of the machine's runtime.

    `stored`: how weights are stored (`weight_types.WEIGHT_TYPES`).
    `chunked_prefill`: "on", or "off" where prompts are read alone; "": as the engine does.
    `engine`: as a runtime's library says it ("vllm 0.19.0"); "": what the machine's runtime names.
    `known`: steps that were measured on the machine.
    Raises InputError where the degrees do not suit the model, or a word is unknown.
    """
    numbers = {**DEFAULTS, **run}
    degrees = {name: int(numbers[name]) for name in DEGREES}
    layout = Layout(*degrees.values())
    model = laid_out(model, machine, layout)
    served_by = engine or server_on(machine)
    chunked_prefill = chunked_prefill or ("off" if served_by.lower().startswith("sglang") else "on")
    if chunked_prefill not in ("on", "off"):
        raise unknown_name("value of chunked prefill", chunked_prefill, ("on", "off"))
    if preemption not in PREEMPTIONS:
        raise unknown_name("preemption", preemption, sorted(PREEMPTIONS))
    rules = Scheduler(
        int(numbers["max_batched_tokens"]),
        int(numbers["max_num_seqs"]),
        chunked_prefill=chunked_prefill == "on",
        preemption=PREEMPTIONS[preemption],
    )
    guesses = speculation_of(model, numbers)
    made = Deployment(
        model, machine, layout, stored, cache_type, engine, numbers["memory_share"], rules, known, guesses=guesses
    )  # fmt: skip
    if run.get("link_bandwidth") == 0:
        raise InputError("run.link_bandwidth = 0 byte/s: want more; left out, it is that of the machine's link")
    return _with_prefill(made, numbers)


def _with_prefill(made: Deployment, numbers: Mapping[str, float]) -> Deployment:
    """The deployment beside the workers that read its prompts, where the numbers of a run name any."""
    workers, tensor, bandwidth = (numbers[name] for name in POOL)
    for name in ("prefill_workers", "prefill_tensor_parallel"):
        if numbers[name] != round(numbers[name]):
            raise InputError(f"run.{name} = {numbers[name]:g}: want a whole number")
    if not workers:
        for name in ("prefill_tensor_parallel", "link_bandwidth"):
            if numbers[name]:
                raise InputError(
                    f"run.{name} = {numbers[name]:g}, but no worker reads prompts apart: say how many, "
                    "run.prefill_workers=2 (--prefill-workers 2)"
                )
        return made
    layout = replace(made.layout, tensor=int(tensor) or made.layout.tensor, replicas=int(workers))
    prefill = replace(made, model=laid_out(made.model, made.machine, layout), layout=layout, guesses=None)
    return replace(made, prefill=prefill, link_bandwidth=bandwidth)


def speculation_of(model: LanguageModel, numbers: Mapping[str, float]) -> Speculation | None:
    """How a server guesses ahead, by the numbers of a run; None where it guesses no token, whatever one's chance.

    Raises InputError where tokens are guessed without a chance that they are kept, or a number is out of its range.
    """
    tokens, kept = numbers["draft_tokens"], numbers["acceptance"]
    if not tokens and 0 <= kept <= 1:
        return None
    if not (tokens and kept) or tokens != round(tokens):
        raise InputError(
            f"draft_tokens = {tokens:g}, acceptance = {kept:g}: want a whole number of guessed tokens and the chance "
            "that one is kept, run.acceptance=0.7 (--acceptance 0.7)"
        )
    return Speculation(int(tokens), kept, numbers["draft_cost"] or 1 / model.layers)


def require_guesses(draft_tokens: float, acceptance: float, draft_cost: float) -> None:
    """Refuse numbers of guessed tokens where none is guessed.

    Raises InputError where there are some.
    """
    if not draft_tokens and (acceptance or draft_cost):
        given = f"acceptance = {acceptance:g}" if acceptance else f"draft_cost = {draft_cost:g}"
        raise InputError(f"{given}, but no token is guessed: say how many, --draft-tokens 4")


def check_names(run: Mapping[str, float], known: frozenset[str]) -> None:
    """Refuse numbers of the run that a server does not have.

    Raises InputError where one is unknown; those that are known are listed.
    """
    for name in run:
        if name not in known:
            raise unknown_name("number of a server's run:", f"run.{name}", sorted(f"run.{one}" for one in known))
    if "concurrency" in run and "rate" in run:
        raise InputError("run.concurrency (users of a closed loop) and run.rate (requests/s): give one of them")
