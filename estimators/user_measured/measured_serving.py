"""The laws of serving after their user measured steps, runs of a server, or tokens of llama.cpp on his machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.engine_steps.fitted_steps import LLAMA_CPP, local_fit, local_groups_on, server_on
from slipstick.estimators.engine_steps.llama_cpp_fit import LocalFit
from slipstick.estimators.engine_steps.llama_cpp_step import LocalWork, backend_of
from slipstick.estimators.engine_steps.measured_steps import (
    ServerStep,
    TimedFirstToken,
    TimedServerStep,
    cached_measured,
    engine_of_steps,
)
from slipstick.estimators.engine_steps.step_graph import is_step
from slipstick.estimators.roofline.physical_bound import TOLERANCE
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.engine_step import served_step
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.serving.serving_answer import mean_batch, serve
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.traffic import Traffic


@dataclass(frozen=True)
class MeasuredSteps:
    """Steps measured on a machine under its engine."""

    steps: tuple[TimedServerStep, ...]

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The law of a step as these steps move it (seconds), or the server whose steps it gives the time of.

        Raises InputError where the workload is no step of serving, or a step contradicts the data sheet.
        """
        if isinstance(instead_of, RequestEstimator):
            return replace(instead_of, known=self.steps)
        if not is_step(workload):
            raise InputError(f"measured steps are of serving, {workload.name} is no step of it: give operations")
        measured, engine = cached_measured(self.steps), engine_of_steps(self.steps) or server_on(machine)
        running = machine.using({"runtime.library": engine, "runtime.mode": "graph_replay"})
        made = served_step(workload, running, engine, run, measured.fit).estimator
        return replace(made, source=f"{made.source}; {measured.text()}")


@dataclass(frozen=True)
class TimedServerRun:
    """A run of a server: seconds of a further token, and under which load.

    `load`, `model`, `tensor`: none where they are those of the question: the traffic, the model that ran, devices that
        share each product.
    `first`: the first token, where it was measured: statistic ("p50", "mean") and seconds.
    """

    tpot: float
    load: Traffic | None = None
    model: str | None = None
    tensor: int | None = None
    first: tuple[str, float] | None = None

    def step(self, deployment: Deployment, load: Traffic) -> TimedServerStep:
        """The run's mean decode step, as long as its time of a further token says.

        A benchmark measures means over a run, the fitted law speaks of single steps: the run is simulated as it was
        made, and by how much its further token took longer than simulated, by so much did its mean decode step. The
        same holds of its first token and the law of first tokens.
        Raises InputError where the model does not fit, or the load cannot be served.
        """
        if self.model is not None and self.model != deployment.model.name:
            ran = language_model(self.model)
            if not _same_sizes(ran, deployment.model):
                deployment = replace(deployment, model=ran)
        if self.tensor is not None:
            deployment = replace(deployment, layout=replace(deployment.layout, tensor=self.tensor))
            deployment.layout.check(deployment.model)
        answer = serve(deployment, self.load or load)
        simulated = answer.band("tpot", "mean")[0]
        batch = mean_batch(answer.deployment, answer.served)
        step = ServerStep(
            deployment.model, deployment.stored, deployment.machine, deployment.runs_under, batch, deployment.layout,
            deployment.cache_type,
        )  # fmt: skip
        timed = None
        if self.first is not None:
            statistic, seconds = self.first
            least = answer.least_first
            if seconds < least * (1 - TOLERANCE):
                raise InputError(
                    f"a measured first token of {format_quantity(seconds, 's')}: {deployment.machine.name} needs at "
                    f"least {format_quantity(least, 's')} for a prompt of {deployment.model.name} by its data sheet "
                    f"(are prompts in the cache? --prefix-hit-rate)"
                )
            parts = answer.first_parts
            factor = seconds / answer.band("ttft", statistic)[0]
            timed = TimedFirstToken(parts, float(deployment.first_token.seconds(parts)) * factor)
        return TimedServerStep(step, deployment.step.seconds(batch) * self.tpot / simulated, timed)


@dataclass(frozen=True)
class MeasuredRuns:
    """Runs of a server that was measured on a machine."""

    runs: tuple[TimedServerRun, ...]
    source: str = ""

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The server whose steps are as long as the runs say (seconds).

        Raises InputError where the question is no requests to a language model.
        """
        if not isinstance(instead_of, RequestEstimator):
            raise InputError(
                f"--measured {self.source}: runs of a server say how its requests fare, {workload.name} is none: name "
                "the model alone (llama-3.1-8b, serve:config.json), or give the time of this question (23.4ms)"
            )
        deployment, load = instead_of.of_run(workload, machine, run)
        return replace(instead_of, known=tuple(one.step(deployment, load) for one in self.runs))


@dataclass(frozen=True)
class MeasuredTokens:
    """New tokens of a model under llama.cpp on a machine, timed: seconds of each."""

    model: LanguageModel
    stored: str
    machine: Machine
    seconds: float

    @property
    def fit(self) -> LocalFit:
        """What was fitted to llama.cpp, moved by the run."""
        work = LocalWork.of(self.model, weight_type(self.stored), self.machine)
        fitted = local_fit(backend_of(self.machine.family))
        return fitted.with_known(work, local_groups_on(self.machine, self.stored), self.seconds)

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The law of llama.cpp's tokens as the run moves it (seconds).

        Raises InputError where the workload is no step of a language model, or has several sequences.
        """
        if not is_step(workload) or isinstance(instead_of, RequestEstimator):
            raise InputError(
                f"a run of llama.cpp says how long its tokens take, {workload.name} is no step of one sequence: "
                "estimate decode:MODEL or prompt:MODEL, or slipstick serve"
            )
        running = machine.using({"runtime.library": LLAMA_CPP, "runtime.mode": "graph_replay"})
        made = served_step(workload, running, LLAMA_CPP, run, local=self.fit).estimator
        rate = f"{self.model.name} {self.stored} at {1 / self.seconds:.4g} tokens/s"
        return replace(made, source=f"{made.source}, moved by {rate} on this machine")


def _same_sizes(one: LanguageModel, other: LanguageModel) -> bool:
    """Whether two models differ in no more than their names and longest contexts: a config.json has a name of ours."""
    return replace(one, name=other.name, context=other.context) == other
