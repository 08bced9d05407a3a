"""The text of a serving question and the objects it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from slipstick.common.errors import InputError
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.engine_steps.fitted_steps import is_server
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep, engine_of_steps
from slipstick.estimators.serving.deployment import MEMORY_SHARE, Deployment
from slipstick.estimators.serving.request_estimator import RequestEstimator, simulated
from slipstick.estimators.serving.server_config import DEFAULTS, POOL, USERS, deployment_of, run_of
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.experiments.question.axes import Values
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.settings import HEAD, Value
from slipstick.experiments.question.unused_inputs import BOUNDED, AnswerNumbers, unused_of
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.language_requests import requests_to
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import AUTO, stored_as
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.requests import recorded
from slipstick.workloads.runs.traffic import Traffic

PARALLEL = {
    "tensor": "tensor_parallel",
    "pipeline": "pipeline_parallel",
    "data": "data_parallel",
    "expert": "expert_parallel",
    "replicas": "replicas",
}
"""Degrees of a layout, and the numbers of the run that hold them."""


ENGINE_OPTIONS = ("cache_dtype", "max_batched_tokens", "max_num_seqs", "chunked_prefill", "preemption")
OF_ENGINE = {"cache_dtype": "cache_type"}
"""Options of an engine that may bound nothing under a light load, and the one that a field here names otherwise."""


@dataclass(frozen=True)
class ServingOptions:
    """What the options of a command say; None where they say nothing.

    `draft_tokens`, `acceptance` and `draft_cost` are of speculative decoding (`server_run.GUESSED`).
    `changes` are numbers of the machine by dotted name ("memory.HBM3.bandwidth": "4 TB/s").
    `tensor`, `pipeline`, `data`, `expert` and `replicas` are degrees; `devices` counts all devices. `steps` were
    measured on the machine as it stands (`steps_of_runs`). `prefill_workers`, `prefill_tensor`
    and `link_bandwidth` [bytes/s] are those of `server_run.POOL`; the replicas then only decode.
    """

    model: str
    machine: str
    devices: int | None = None
    tensor: int | None = None
    pipeline: int = 1
    data: int = 1
    expert: int | None = None
    replicas: int = 1
    dtype: str | None = None
    cache_type: str = AUTO
    engine: str = ""
    max_batched_tokens: int = 8192
    max_num_seqs: int = 256
    draft_tokens: int = 0
    acceptance: float = 0.0
    draft_cost: float = 0.0
    chunked_prefill: str | None = None
    preemption: str = "cached"
    changes: Mapping[str, str | float] = field(default_factory=dict)
    steps: tuple[TimedServerStep, ...] = ()
    prefill_workers: int = 0
    prefill_tensor: int = 0
    link_bandwidth: float = 0.0
    memory_share: float = MEMORY_SHARE

    @property
    def named(self) -> str:
        """The engine of a server that an option names, else the machine's library that was set; "" for neither."""
        library = str(self.changes.get("runtime.library", ""))
        return self.engine or (library if is_server(library) else "")

    def deployment(self) -> Deployment:
        """The model on the machine.

        Raises InputError where a name is unknown, or the degrees do not multiply to the devices.
        """
        model = language_model(self.model)
        layout = self._layout()
        at = machine(self.machine)
        if self.changes:
            at = at.using(dict(self.changes))
        run = self._run(layout)
        engine = self.named or engine_of_steps(self.steps)
        stored, chunks = stored_as(model, self.dtype), self.chunked_prefill or ""
        return deployment_of(model, stored, at, run, self.cache_type, chunks, self.preemption, engine, self.steps)

    def question(
        self,
        load: Traffic,
        vary: Mapping[str, Values] | Sequence[str] = (),
        calibration: Fitted | None = None,
    ) -> Question:
        """The same as a question like all others: requests to the model on the machine, for the estimator "serving".

        `vary`: names and values, as `slipstick whatif` takes them.
        `calibration`: what was measured.
        Raises InputError where a name is unknown or a value cannot be used.
        """
        made = self.deployment()
        stored = requests_to(language_model(self.model), made.stored, load.given)
        requests = stored.bind(input_tokens=load.input_tokens, output_tokens=load.output_tokens).called(self.model)
        changes: dict[str, str | float] = {f"machine.{name}": value for name, value in self.changes.items()}
        if self.engine:
            changes["machine.runtime.library"] = self.engine
        numbers, usual = {**self._run(made.layout), **run_of(load)}, {**DEFAULTS, "concurrency": USERS}
        run = {f"run.{name}": value for name, value in numbers.items() if value != usual.get(name)}
        server = RequestEstimator(
            cache_type=self.cache_type,
            chunked_prefill=self.chunked_prefill or "",
            preemption=self.preemption,
            known=made.known,
        )
        return question(requests, self.machine, server, {**changes, **run}, vary=vary, calibration=calibration)

    def _run(self, layout: Layout) -> dict[str, float]:
        degrees = {name: float(getattr(layout, field)) for field, name in PARALLEL.items()}
        names = ("max_batched_tokens", "max_num_seqs", "memory_share", "draft_tokens", "acceptance", "draft_cost")
        pool = (self.prefill_workers, self.prefill_tensor, self.link_bandwidth)
        apart = {name: float(value) for name, value in zip(POOL, pool, strict=True) if value}
        return {**degrees, **{name: float(getattr(self, name)) for name in names}, **apart}

    def _layout(self) -> Layout:
        for name in ("prefill_workers", "prefill_tensor"):
            if not (getattr(self, name) >= 0 and getattr(self, name) % 1 == 0):
                raise InputError(f"{name} = {getattr(self, name):g}: want a whole number >= 0")
        each = self.pipeline * self.data
        reading, tensor = each * self.prefill_workers, self.tensor
        if tensor is None:
            apart, others = (reading * self.prefill_tensor, 0) if self.prefill_tensor else (0, reading)
            others += each * self.replicas
            left = (self.devices or others + apart) - apart
            if left < 1 or left % others:
                counted = "pipeline x data x replicas" + " (prefill workers are replicas too)" * bool(reading)
                plus = f", and {apart} of the prefill workers" if apart else ""
                raise InputError(f"--devices {self.devices}: want a multiple of {counted} = {others}{plus}")
            tensor = left // others
        made = Layout(tensor, self.pipeline, self.data, self.expert or 1, self.replicas)
        taken = made.devices + reading * (self.prefill_tensor or tensor)
        if self.devices is not None and taken != self.devices:
            more = f" with {self.prefill_workers} prefill workers" if reading else ""
            raise InputError(f"--devices {self.devices}, but {made.text()}{more} takes {taken}")
        return made


USUAL = {one.name: one.default for one in fields(ServingOptions) if one.name in (*ENGINE_OPTIONS, *OF_ENGINE.values())}
"""What these are where nobody says."""


def examined_serving(answer: Serving, wanted: ServingOptions, load: Traffic) -> Serving:
    """The answer with what of the machine was set, what of that it did not read, and options that bound nothing."""

    def numbers(given: Mapping[str, Value]) -> AnswerNumbers:
        changes = {name.removeprefix(HEAD): value for name, value in given.items() if name.startswith(HEAD)}
        options = {OF_ENGINE.get(name, name): value for name, value in given.items() if not name.startswith(HEAD)}
        made = replace(wanted, **{**USUAL, **options}, changes=changes)  # type: ignore[arg-type]
        made = made if made.named == wanted.named else replace(made, steps=())  # those ran under the set library
        return AnswerNumbers.of_estimate(simulated(made.deployment(), load, answer.limits))

    options = {name: getattr(wanted, OF_ENGINE.get(name, name)) for name in ENGINE_OPTIONS}
    typed = {name: value for name, value in options.items() if value != USUAL[OF_ENGINE.get(name, name)]}
    given = {**{f"{HEAD}{name}": value for name, value in wanted.changes.items()}, **typed}
    if not given:
        return answer
    unused, conditions = unused_of(given, numbers, answer.deployment.machine)
    bounded = [Condition(one.name, one.value, "given", BOUNDED) for one in unused if one.name in typed]
    unused = tuple(one for one in unused if one.name not in typed)
    return replace(answer, given=(*conditions, *bounded), not_used=unused)


def traffic(
    *,
    input_tokens: int = 1024,
    output_tokens: int = 256,
    users: int | None = None,
    rate: float | None = None,
    requests: str | None = None,
    burstiness: float = 1.0,
    length_range: float = 0.2,
    prefix_hit_rate: float = 0.0,
    num_requests: int | None = None,
    seed: int = 0,
) -> Traffic:
    """The traffic that options describe: lengths in tokens, `rate` in requests a second, the rest shares.

    One user, where nothing says how requests come.

    Raises InputError where burstiness is given and no rate.
    """
    if burstiness != 1 and rate is None:
        raise InputError(f"--burstiness {burstiness:g}: of a stream of requests; give its --rate, or leave it out")
    given = recorded(requests) if requests else ()
    if users is None and rate is None and not (given and given[0].arrival is not None):
        users = 1
    return Traffic(
        input_tokens, output_tokens, users, rate, burstiness, length_range, prefix_hit_rate, num_requests, seed, given
    )
