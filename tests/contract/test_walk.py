"""Machines x workloads x estimators, sampled: an answer is a time above 0, or a refusal in one line that says why."""

import math
import random

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.question import registry
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine_names
from slipstick.workloads.catalog import workload_names

SLOW = ("measure", "contended-dispatch", "phi-simulated", "phi-queue")
SMALL = ("imported/gru-language-model", "imported/srcnn", "imported/mlp", "imported/dcgan-generator")
LARGE = ("gpt2-", "bert-l")
WORKLOADS = [*(n for n in workload_names() if "/" not in n and not n.startswith(LARGE)), *SMALL]


@pytest.mark.parametrize("draws", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("estimator", [name for name in registry.estimator_names() if name not in SLOW])
def test_no_answer_is_nothing(estimator: str, draws: int) -> None:
    draw = random.Random(estimator)
    for _ in range(draws):
        workload, machine = draw.choice(WORKLOADS), draw.choice(machine_names())
        try:
            found = question(workload, machine, estimator).answer()
        except InputError as refused:
            assert str(refused)
            continue
        assert math.isfinite(found.time) and found.time > 0, (estimator, workload, machine)
