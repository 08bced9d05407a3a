"""The laws of serving after their user measured steps, runs of a server, or tokens of llama.cpp on his machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.base.ratio_band import DISAGREES
from slipstick.estimators.engine_steps.fitted_steps import LLAMA_CPP, server_on
from slipstick.estimators.engine_steps.measured_steps import (
    ServerStep,
    TimedFirstToken,
    TimedServerStep,
    cached_measured,
    engine_of_steps,
    least_step,
)
from slipstick.estimators.engine_steps.step_graph import is_step
from slipstick.estimators.roofline.physical_bound import TOLERANCE
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.engine_step import served_step
from slipstick.estimators.serving.llama_cpp_run import MeasuredRate
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.serving.serving_answer import Serving, serve
from slipstick.estimators.serving.serving_runs import load_of, mean_batch
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.language_model import LanguageModel
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
        return replace(made, source="; ".join([made.source, measured.text(), *measured.slips]))


@dataclass(frozen=True)
class TimedServerRun:
    """A run of a server: seconds of a further token, and under which load.

    `load`, `model`, `tensor`: none where they are those of the question: the traffic, the model that ran, devices that
        share each product.
    `first`: the first token, where it was measured: seconds by statistic ("p50", "mean").
    `doubt`: what of its file cannot hold together, in words.
    `where`: its file and run.
    """

    tpot: float
    load: Traffic | None = None
    model: str | None = None
    tensor: int | None = None
    first: FrozenDict[float] = FrozenDict()
    doubt: str = ""
    where: str = ""

    def step(self, deployment: Deployment, load: Traffic) -> TimedServerStep:
        """The run's mean decode step, as long as its time of a further token says.

        A benchmark measures means over a run, the fitted law speaks of single steps: the run is simulated as it was
        made, and by how much its further token took longer than simulated, by so much did its mean decode step. The
        same holds of its first token and the law of first tokens. The run is simulated again under the moved laws,
        and what is still missing is put right: of the further token in the step, of the first one beside the law.
        Raises InputError where the model does not fit, the load cannot be served, or the data sheet lets no decode
        step be so short.
        """
        deployment = replace(self._ran(deployment), engine=deployment.runs_under)  # a run had one, named or the usual
        load = load if self.load is None else _spread_as(load, self.load)
        answer = serve(deployment, load)
        batch = mean_batch(answer.deployment, answer.served)
        step = ServerStep(
            deployment.model, deployment.stored, deployment.machine, deployment.runs_under, batch, deployment.layout,
            deployment.cache_type,
        )  # fmt: skip
        least, doubt = least_step(step), self.doubt
        if self.tpot < least * (1 - TOLERANCE):
            raise InputError(
                f"a measured further token of {format_quantity(self.tpot, 's')}, {load.text()}: "
                f"{deployment.model.name} on {deployment.machine.name} needs at least {format_quantity(least, 's')} a "
                "decode step by its data sheet"
            )
        missing = self.tpot / answer.band("tpot", "mean")[0]
        seconds = deployment.step.seconds(batch) * missing
        if seconds < least:  # the rest of a further token's time goes to steps that read prompts
            doubt = doubt or (
                f"{DISAGREES}{format_quantity(self.tpot, 's')} a further token, {load.text()}) is shorter than prompts "
                f"and decode steps of {format_quantity(least, 's')}, the least by the data sheet, let it be: nearer "
                "than that no answer comes"
            )
        made = TimedServerStep(
            step, max(seconds, least), self._first(deployment, answer), load_of(load), doubt,
            f"{self.where}: {format_quantity(self.tpot, 's')} a further token, {load.text()}",
        )  # fmt: skip
        for _ in range(PASSES):
            answer = serve(replace(deployment, known=(made,)), load)
            before, missing = missing, self.tpot / answer.band("tpot", "mean")[0]
            if abs(math.log(missing)) < CLOSE or abs(math.log(missing)) > abs(math.log(before)) / 2:
                break  # near enough, or further than the law follows: a slip
            made = replace(made, seconds=max(made.seconds * missing, least))
        if made.first is None:
            return made
        left = {name: math.log(each / answer.band("ttft", name)[0]) for name, each in self.first.items()}
        surest = next(iter(left.values()))
        return replace(made, first=replace(made.first, left=(left.get("p50", surest), left.get("mean", surest))))

    def _ran(self, deployment: Deployment) -> Deployment:
        """The deployment of the question with the model and the ranks that ran."""
        if self.model is not None and self.model != deployment.model.name:
            ran = language_model(self.model)
            if not _same_sizes(ran, deployment.model):
                deployment = replace(deployment, model=ran)
        if self.tensor is not None:
            deployment = replace(deployment, layout=replace(deployment.layout, tensor=self.tensor))
            deployment.layout.check(deployment.model)
        return deployment

    def _first(self, deployment: Deployment, answer: Serving) -> TimedFirstToken | None:
        """The first token as the law of these reads it; None where none was measured.

        Raises InputError where the data sheet lets none be so short.
        """
        if not self.first:
            return None
        least, shortest = answer.least_first, min(self.first.values())
        if shortest < least * (1 - TOLERANCE):
            raise InputError(
                f"a measured first token of {format_quantity(shortest, 's')}: {deployment.machine.name} needs at "
                f"least {format_quantity(least, 's')} for a prompt of {deployment.model.name} by its data sheet "
                f"(are prompts in the cache? --prefix-hit-rate)"
            )
        statistic, seconds = next(iter(self.first.items()))
        factor = seconds / answer.band("ttft", statistic)[0]
        parts = answer.first_parts
        return TimedFirstToken(parts, float(deployment.first_token.seconds(parts)) * factor)


def _spread_as(wanted: Traffic, ran: Traffic) -> Traffic:
    """The load of a run whose lengths spread as those of the question: a benchmark says their means alone."""
    if ran.given or wanted.given or ran.length_range:
        return ran
    nominal = 1 - wanted.length_range / 2
    lengths = [max(1, round(tokens / nominal)) for tokens in (ran.input_tokens, ran.output_tokens)]
    return replace(ran, input_tokens=lengths[0], output_tokens=lengths[1], length_range=wanted.length_range)


PASSES, CLOSE = 3, 0.01
"""Of simulations under the moved law, and the log that may be left."""


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
    """Tokens of a model under llama.cpp on a machine, timed."""

    rate: MeasuredRate
    machine: Machine

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
        made = served_step(workload, running, LLAMA_CPP, run, local=self.rate.moved(self.machine)).estimator
        return replace(made, source=f"{made.source}, moved by {self.rate.text()} on this machine")


def _same_sizes(one: LanguageModel, other: LanguageModel) -> bool:
    """Whether two models differ in no more than their names and longest contexts: a config.json has a name of ours."""
    return replace(one, name=other.name, context=other.context) == other
