"""Measured serving rows as rows of the laws of steps and first tokens, and the fits of both.

Each row's time of a further token is the closed loop's two-point form: a decode step, and the share of steps that also
read a prompt. Rows faster than the data sheet allows (prefix hits, most likely) are left out.

How the dashboard's published runs measure a first token: who waits for what because of the benchmark's own scripts.

Scripts of InferenceX (formerly InferenceMAX; SemiAnalysisAI/InferenceX, benchmarks/*.sh at 1fc5d73, 73ef922 and
1e85373): vLLM's client with all users at once, ten requests a user, lengths drawn from .8 to 1.0 of the nominal, no
warm-up, no prefix cache. Where an engine looks for new requests in every so many steps, they wait for half of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.engine_steps.engines import ServingFit, step_groups
from slipstick.estimators.engine_steps.first_token import FIRST_TOKEN_LAW, SITE, first_columns
from slipstick.estimators.engine_steps.prompt_steps import LoopSteps, first_parts
from slipstick.estimators.engine_steps.step_amounts import Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_law import STEP_LAW, StepSum, columns_of, least_seconds
from slipstick.estimators.engine_steps.step_time import LayerCounts, StepParameters, StepTime
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import UNGROUPED, LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase
from slipstick.workloads.language.weight_types import weight_type

BURST = 0.1 / 2
"""One request in ten is the first of its user, and waits for half of all prompts at the mean."""
POLLED, POLLED_FEW, FEW = 30, 10, 16
"""SGLang on Blackwell (``--scheduler-recv-interval``): steps between two looks at the queue; below 16 users."""
CONTINUED = 4
"""SGLang on MI300X (``--num-continuous-decode-steps``)."""
BALANCED = 60
"""TensorRT-LLM with data-parallel attention (``timeout_iters``): at most so many until all ranks have a prompt."""
BATCHED, SHORT, NODE = 20, 1025, 8
"""TensorRT-LLM, Llama-70B, 1,024 tokens in and out, below 8 ranks (``batch_wait_timeout_iters``): a whole wait, since
few users never fill the step."""


def held_steps(case: SiliconCase) -> float:
    """Steps for which a new request is held back at the mean, each of the seconds of a further token."""
    load, layout = case.load, case.layout
    if case.engine == "sglang":
        if "blackwell" in case.machine.family:
            return (POLLED if load.users >= FEW else POLLED_FEW) / 2
        return CONTINUED / 2 if case.machine.family.startswith("amd") else 0.0
    if case.engine != "trtllm" or not case.spread:
        return 0.0
    if layout.data > 1:
        return BALANCED / 2
    short = load.input_tokens < SHORT and load.output_tokens < SHORT
    return float(BATCHED) if case.model.name == "llama-3.1-70b" and short and layout.tensor < NODE else 0.0


BUDGET = 8192
SOURCE = "dashboard"


def shares_of(case: SiliconCase) -> Shares:
    """The model of a case on its devices; the cache is kept in 16 bits, as the exports do not say."""
    return Shares(case.model, case.layout, weight_type(case.stored), 2.0)


def step_sum(case: SiliconCase) -> StepSum:
    """The steps that a case's further token is the sum of."""
    shares, load = shares_of(case), case.load
    device = Device.of(case.machine, shares.kind.compute, shares.layout)
    decodes = load.users / case.layout.replicas / case.layout.data
    loop = LoopSteps.of(load.input_tokens, load.output_tokens, decodes, BUDGET)
    return StepSum(
        shares.amounts(loop.plain), shares.amounts(loop.mixed), device, LayerCounts.of(shares, device), decodes,
        loop.share, stages=case.layout.pipeline,
    )  # fmt: skip


def groups_of(case: SiliconCase) -> dict[str, str]:
    """The groups of a case."""
    machine, name = case.machine, case.machine_name
    return step_groups(machine, name, case.engine, case.version, case.model.name, case.stored, UNGROUPED)


def step_rows(cases: Sequence[SiliconCase]) -> LawRows:
    """Further tokens of cases."""
    groups = [groups_of(case) for case in cases]
    return LawRows(
        columns_of([step_sum(case) for case in cases]),
        {name: [one[name] for one in groups] for name in groups[0]},
        [case.family for case in cases],
        np.array([case.tpot for case in cases]),
        [SOURCE] * len(cases),
    )


def possible(cases: Sequence[SiliconCase]) -> list[SiliconCase]:
    """Cases whose further token is not faster than the data sheet allows."""
    rows = step_rows(cases)
    kept = rows.seconds >= least_seconds(rows.columns)
    return [case for case, keep in zip(cases, kept, strict=True) if keep]


def first_rows(steps: LawFit, cases: Sequence[SiliconCase]) -> LawRows:
    """First tokens of cases, from what the fitted steps take."""
    rows = step_rows(cases)
    tpot = steps.seconds(STEP_LAW, rows.columns, rows.groups)
    values = steps.values(STEP_LAW, rows.groups, len(cases))
    made = []
    for at, case in enumerate(cases):
        numbers = StepParameters(**{name: float(value[at]) for name, value in values.items()})
        one = StepTime.for_machine(case.machine, shares_of(case), numbers)
        load, users = case.load, case.load.users / case.layout.replicas
        parts = first_parts(one, load.input_tokens, load.output_tokens, users, float(tpot[at]), BUDGET)
        made.append(replace(parts, held=held_steps(case), burst=BURST if case.means else 0.0))
    columns = first_columns(made)
    groups = {**rows.groups, SITE: [f"{case.source} on {case.machine_name}" for case in cases]}
    return LawRows(columns, groups, rows.cluster, np.array([case.ttft for case in cases]), rows.source)


def fitted(cases: Sequence[SiliconCase]) -> ServingFit:
    """Both laws fitted to cases, without stretched bands."""
    steps = fit(STEP_LAW, step_rows(cases))
    return ServingFit(steps, fit(FIRST_TOKEN_LAW, first_rows(steps, cases)))


def banded(cases: Sequence[SiliconCase]) -> ServingFit:
    """Both laws fitted to cases, their bands stretched to hold 80 % of models left out."""
    rows = step_rows(cases)
    steps = calibrated(STEP_LAW, rows, rows.groups["model"])
    first = first_rows(steps, cases)
    return ServingFit(steps, calibrated(FIRST_TOKEN_LAW, first, first.groups["model"]))
