"""Requests to a language model's server as an estimator: what `serve` simulates, as an answer like all others.

How many users a server holds within limits of their times: the quantities `kept` and `users` of a server's answer.

A load is held where nine of ten requests keep every limit, the attainment that DistServe counts by (Zhong et al., OSDI
2024, section 6.1). The closed loop is simulated at growing numbers of users, then between the last that holds and the
first that does not; the ends of the band are the numbers at the edges of the steps' own band.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

from slipstick.common.columns import Better
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, OperationTime, Spread, quantile
from slipstick.estimators.base.primary_quantity import PrimaryQuantity
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.engine_steps.fitted_steps import is_llama_cpp
from slipstick.estimators.engine_steps.llama_cpp_step import plain_type, product_type
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep, engine_of_steps
from slipstick.estimators.engine_steps.step_device import rated_types
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.llama_cpp_run import Local
from slipstick.estimators.serving.server_config import CHOSEN, DEFAULTS, DEGREES, check_names, deployment_of, traffic_of
from slipstick.estimators.serving.serving_answer import MEASURES, QUANTILES, Serving, serve
from slipstick.estimators.serving.serving_runs import mean_batch
from slipstick.estimators.symbolic.formula import Parameter, check_parameters, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WorkTimed, work_of
from slipstick.workloads.language.language_requests import Requests
from slipstick.workloads.language.weight_types import AUTO, in_gguf
from slipstick.workloads.runs.traffic import Traffic

LIMITS = FrozenDict(ttft_limit="ttft", tpot_limit="tpot", latency_limit="latency")
"""Numbers of the run [s], and the times that they limit."""
ATTAINED = 0.9
MOST_USERS = 1024
"""Beyond it nothing is simulated."""
FINE = 1.05
"""Numbers of users closer than this factor count as one."""


def limits_of(run: Mapping[str, float]) -> FrozenDict[float]:
    """Seconds by measure, of the numbers of a run that are limits.

    Raises InputError where a limit is no time above 0.
    """
    for name in LIMITS:
        if name in run and not run[name] > 0:
            raise InputError(f"run.{name} = {run[name]:g} s: want a time above 0")
    return FrozenDict({measure: float(run[name]) for name, measure in LIMITS.items() if name in run})


def kept(run: Serving) -> Quantity:
    """The share of requests that keep the limits of a run."""
    ends = (run.slow.meeting(run.limits), run.served.meeting(run.limits), run.fast.meeting(run.limits))
    return Quantity("kept", ends[1], "1", min(ends), max(ends), "more", "share of requests that keep the limits")


def most_users(deployment: Deployment, traffic: Traffic, limits: Mapping[str, float]) -> Quantity:
    """The largest number of users at which the limits are kept, between the numbers at the edges of the band.

    Each number of users sends as many requests as it takes to settle, whatever `count` the traffic has.

    `limits`: seconds by measure (ttft, tpot, latency).
    Raises InputError where one user alone does not keep them, or nothing is limited.
    """
    if not limits:
        raise InputError(f"how many users keep no limit? give one: {', '.join(f'run.{name}' for name in LIMITS)}")
    shares: dict[int, tuple[float, float, float]] = {}

    def at(users: int) -> tuple[float, float, float]:
        if users not in shares:
            run = serve(deployment, replace(traffic, users=users, rate=None, num_requests=None), limits)
            shares[users] = (run.slow.meeting(limits), run.served.meeting(limits), run.fast.meeting(limits))
        return shares[users]

    if at(1)[1] < ATTAINED:
        raise InputError(f"one user alone keeps the limits in {at(1)[1]:.0%} of requests: want {ATTAINED:.0%}")

    def last(edge: int) -> float:
        return _last(lambda users: at(users)[edge] >= ATTAINED)

    low, value, high = last(0), last(1), last(2)
    return Quantity("users", value, "users", min(low, value), max(high, value), "more", "most that keep the limits")


def _last(holds: Callable[[int], bool]) -> float:
    """The last number of users at which something holds; 0 where it does at none, `MOST_USERS` where at all."""
    users = 1
    if not holds(users):
        return 0.0
    while users < MOST_USERS and holds(2 * users):
        users *= 2
    if users >= MOST_USERS:
        return float(MOST_USERS)
    above = 2 * users
    while above - users > 1 and above > FINE * users:
        middle = (users + above) // 2
        users, above = (middle, above) if holds(middle) else (users, middle)
    return float(users)


WAIT, PROMPT, BETWEEN = "before the first step", "reading the prompt", "prompts of others between its steps"
OVER = "handing the prompt's cache over"
STEPS = {
    "weights": "reading weights",
    "experts": "reading experts",
    "attention": "attention over the cache",
    "links": "messages between devices",
    "fixed": "kernels and host (fixed times)",
}
"""What a decode step goes to, in words."""
WORDS = {"ttft": "to the first token", "tpot": "of a further token", "itl": "between tokens", "latency": "of a request"}
ONE = frozenset({"concurrency", *DEGREES})
"""Numbers of the run that are 1 under llama.cpp."""
SOURCE = "a server's steps (docs/notes/serving.md) under continuous batching, request by request"


@dataclass(frozen=True)
class RequestEstimator(PrimaryQuantity):
    """A server of a language model: a closed loop of users, a stream, or recorded requests, simulated.

    The workload is `Requests`; the engine is the machine's runtime (`machine.runtime.library`); users, rate, degrees
    of parallelism and the scheduler's numbers are numbers of the run. The time is the mean of a request, from sending
    to its last token; the answer begins with output tokens/s of all devices.

    `quantity`: with which the answer begins; one in seconds is then its time.
    `cache_type`: data type of keys and values; "auto": as the engine makes it for the checkpoint.
    `chunked_prefill`, `preemption`: words of the scheduler; see `server_run.deployment_of`.
    `known`: steps that were measured on the machine.
    """

    pace: Annotated[float, Parameter("1", "seconds of every step over those fitted to servers", 0.05, 20.0)] = 1.0
    front: Annotated[float, Parameter("1", "seconds before the first step over those fitted", 0.05, 20.0)] = 1.0
    quantity: str = "output"
    cache_type: str = AUTO
    chunked_prefill: str = ""
    preemption: str = "cached"
    known: tuple[TimedServerStep, ...] = ()

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def keeps_open(self) -> frozenset[str]:
        """The lengths of a request: the simulation draws them."""
        return frozenset({"input_tokens", "output_tokens"})

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Users or rate, degrees of parallelism, the scheduler's numbers, and the lengths."""
        if is_llama_cpp(machine.runtime.library):
            return ONE | self.keeps_open
        return frozenset(DEFAULTS) | CHOSEN | self.keeps_open | frozenset(LIMITS)

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that hold where none are given; one user, where no rate is given."""
        return {"concurrency": 1.0, **({} if is_llama_cpp(machine.runtime.library) else DEFAULTS)}

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """The requests, by the users who send them."""
        return work_of(workload, {**self.run_defaults(machine), **numbers})

    def of_run(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None
    ) -> tuple[Deployment, Traffic]:
        """What is simulated for a question.

        Raises InputError where the workload is no requests to a language model, or a number is unknown or out of its
        range.
        """
        requests, given, lengths = self._requests(workload, machine, run)
        made = deployment_of(
            requests.model, requests.stored, machine, given, self.cache_type, self.chunked_prefill, self.preemption,
            engine_of_steps(self.known), self.known,
        )  # fmt: skip
        return made.at_pace(self.pace, self.front), traffic_of(given, lengths, requests.given)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """Seconds of a request and what else a server gives; see `of_run`.

        Raises InputError as `of_run`, and where the model does not fit.
        """
        if is_llama_cpp(machine.runtime.library):
            return self.of_one_user(workload, machine, run).estimate().about(self.quantity)
        limits = limits_of(run or {})
        deployment, traffic = self.of_run(workload, machine, run)
        answer = simulated(deployment, traffic, limits)
        if self.quantity == "users":
            answer = replace(answer, others=(*answer.others, most_users(deployment, traffic, limits)))
        return answer.about(self.quantity)

    def of_one_user(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Local:
        """What llama.cpp, which serves one user on one device, gives of each request.

        Raises InputError as `of_run`, and where there are more users or devices, or the model does not fit.
        """
        requests, given, lengths = self._requests(workload, machine, run)
        for name, value in given.items():
            if name in ONE and value != 1:
                raise InputError(
                    f"run.{name} = {value:g}: {machine.runtime.library} answers for one user on one device"
                )
        made = Local(
            requests.model,
            machine,
            in_gguf(requests.stored),
            int(lengths["input_tokens"]),
            int(lengths["output_tokens"]),
        )
        made.check()
        return made

    def _requests(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None
    ) -> tuple[Requests, dict[str, float], dict[str, float]]:
        """The requests, the numbers of the run that were given, and the tokens of a request.

        Raises InputError as `of_run`.
        """
        if not isinstance(workload, Requests):
            raise InputError(
                f"workload {workload.name!r}: this estimator serves requests to a language model: serve:NAME, "
                "serve:CONFIG.json, or the name of one that ships"
            )
        given = dict(run or {})
        lengths = {**workload.lengths, **workload.defaults, **given}
        missing = sorted(workload.symbols - set(lengths))
        if missing:
            raise InputError(f"workload {workload.name!r}: give a value for {', '.join(missing)}")
        check_names(given, self.run_names(workload, machine))
        return workload, given, {name: float(lengths[name]) for name in self.keeps_open}

    def also_reads(self, workload: Workload, machine: Machine) -> set[str]:
        """The lengths of a request by both of their names, and how requests of a server come."""
        lengths = {f"{space}.{name}" for space in ("run", "workload") for name in self.keeps_open}
        return lengths if is_llama_cpp(machine.runtime.library) else lengths | {f"run.{name}" for name in CHOSEN}

    def reads(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> dict[str, float]:
        """Quantities by their names with their values (SI): what steps read of the machine, the run, the parameters."""
        if is_llama_cpp(machine.runtime.library):
            return self._local_reads(machine, run)
        deployment, traffic = self.of_run(workload, machine, run)
        unit, plain, narrow = rated_types(machine, deployment.shares.kind.compute)
        main = machine.main_memory
        names = {*machine.bandwidth_factors(main), *machine.peak_factors(unit, plain)}
        names |= {*machine.peak_factors(unit, narrow), f"memory.{main}.capacity"}
        if deployment.layout.group > 1:
            names |= {f"links.{name}.bandwidth" for name in list(machine.links)[:1] if name != "infeed"}
        if deployment.prefill and (name := deployment.kv_transfer.link) in machine.links:
            names.add(f"links.{name}.bandwidth")
        if machine.power.cap is not None:
            names.add("power.cap")
        numbers = {name: machine.get(name) for name in names}
        users = {"concurrency": traffic.users, "rate": traffic.rate}
        of_run = {**DEFAULTS, **{name: float(value) for name, value in users.items() if value is not None}, **run}
        return {
            **{f"machine.{name}": float(number) for name, number in numbers.items() if number is not None},
            **{f"run.{name}": float(value) for name, value in of_run.items()},
            **{f"estimator.{name}": value for name, (value, _) in parameters(self).items()},
        }

    def _local_reads(self, machine: Machine, run: Mapping[str, float]) -> dict[str, float]:
        """What a token under llama.cpp reads: the memory's rate and size, plain and 16-bit arithmetic."""
        (unit, narrow, _), plain = product_type(machine), plain_type(machine)
        main = machine.main_memory
        names = {*machine.bandwidth_factors(main), *machine.peak_factors("vector", plain)}
        names |= {*machine.peak_factors(unit, narrow), f"memory.{main}.capacity"}
        numbers = {f"machine.{name}": machine.get(name) for name in names}
        numbers |= {f"run.{name}": value for name, value in {"concurrency": 1.0, **run}.items()}
        return {name: float(value) for name, value in numbers.items() if value is not None}


@lru_cache(maxsize=256)
def simulated(deployment: Deployment, traffic: Traffic, limits: FrozenDict[float]) -> Estimate:
    """The answer for a deployment under traffic; what was simulated lately is kept.

    `limits`: seconds by measure (ttft, tpot, latency).
    """
    return answer_of(serve(deployment, traffic, limits))


def answer_of(run: Serving) -> Estimate:
    """A simulated run as an answer: what users get, what devices give and draw, each with its 80 % band."""
    summary, served = run.summary(), run.served
    time, low, high = run.band("latency", "mean")
    even = (high / low) ** 0.5
    shares = ("busy", "prompt_share", "cache_peak")
    return Estimate(
        time,
        parts=tuple(OperationTime(name, name, seconds) for name, seconds in _parts(run).items()),
        rule="simulated: mean over the requests",
        metrics=FrozenDict({name: min(1.0, float(summary[name])) for name in shares}),
        spread=Spread(residual=math.log(even) / quantile(DEFAULT_LEVEL, None)),
        assumptions=(
            run.traffic.text(),
            *run.deployment.assumptions(),
            f"means of {len(served.last):,} requests; {SOURCE}",
        ),
        others=tuple(_others(run)),
        name="latency",
        head="output",
        band=(low, high),
        devices=run.deployment.devices,
        doubts=run.deployment.contradictions,
        conditions=run.deployment.conditions,
    )


def _parts(run: Serving) -> dict[str, float]:
    """Seconds of a mean request by what they go to."""
    served, tokens = run.served, float((run.served.output_tokens - 1).mean())
    waited = float((served.placed - served.arrived).mean())
    seconds = {WAIT: waited, PROMPT: float((served.read - served.placed).mean())}
    seconds[OVER] = float((served.first - served.read).mean())
    further = float((served.last - served.first).mean())
    step = run.deployment.step.parts(mean_batch(run.deployment, served))
    grown = min(1.0, further / (step.seconds * tokens)) if tokens else 0.0
    of_steps = {words: getattr(step, name) * tokens * grown for name, words in STEPS.items()}
    seconds |= of_steps | {BETWEEN: max(0.0, further - sum(of_steps.values()))}
    return {name: value for name, value in seconds.items() if value > 0}


def _others(run: Serving) -> list[Quantity]:
    """Everything but the mean time of a request."""
    summary, devices = run.summary(), run.deployment.devices
    rate, slow, fast = run.rate_band

    def one(name: str, unit: str, key: str, better: Better, meaning: str) -> list[Quantity]:
        value = summary[key]
        ends = summary.get(f"low_{key}"), summary.get(f"high_{key}")
        return [] if value is None else [Quantity(name, float(value), unit, *ends, better, meaning)]

    whole = " of all devices" if devices > 1 else ""
    result = [Quantity("output", rate, "tokens/s", slow, fast, "more", f"output tokens/s{whole}")]
    times = _parts(run)
    first = FrozenDict({name: times[name] for name in (WAIT, PROMPT, OVER) if name in times})
    further = max(1.0, float((run.served.output_tokens - 1).mean()))
    later = {name: seconds / further for name, seconds in times.items() if name not in first}
    for measure in MEASURES:
        if not run.served.quantiles(measure):
            continue
        for statistic in QUANTILES:
            if (measure, statistic) == ("latency", "mean"):
                continue
            value, low, high = run.band(measure, statistic)
            name = measure if statistic == "mean" else f"{measure}_{statistic}"
            words = f"{statistic} {WORDS[measure]}"
            parts = first if name == "ttft" else _scaled(later, value) if name == "tpot" else FrozenDict[float]()
            result.append(Quantity(name, value, "s", low, high, "less", words, parts))
    result += one("requests", "requests/s", "requests_per_s", "more", "requests/s")
    result += one("power", "W", "power_W", "less", f"mean power{whole}, hosts and cooling apart")
    result += one("energy", "J/token", "energy_J_per_token", "less", "energy of an output token")
    result += one("cost", "$/Mtoken", "cost_usd_per_million_tokens", "less", "cost of a million output tokens")
    result += [kept(run)] if run.limits else []
    held = run.deployment.memory_bytes(float(summary["cache_peak"]))
    result.append(Quantity("memory", held, "byte", meaning="of a device, with the cache at its fullest"))
    return result


def _scaled(parts: Mapping[str, float], value: float) -> FrozenDict[float]:
    """Parts that sum to a value: a mean over requests weighs the short ones as the long."""
    whole = sum(parts.values())
    return FrozenDict({name: part * value / whole for name, part in parts.items()}) if whole else FrozenDict()
