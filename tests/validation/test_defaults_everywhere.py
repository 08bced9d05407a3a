"""Every machine of the catalogue with its default answer: never below the physical bound, never far above unsaid."""

from __future__ import annotations

import random

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.experiments.question.cautions import hints, remarks
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine, machine_names

WORKLOADS = (
    ("gemm", {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096}, "float32"),
    ("gemm", {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096}, "bfloat16"),
    ("resnet18-inference", {"workload.batch": 32}, "float32"),
    ("bert-base-inference", {"workload.batch": 8}, "float16"),
    ("mlp", {"workload.batch": 256}, "bfloat16"),
)
FARTHEST = 20.0
SAMPLED = 24


def sample() -> list[tuple[str, int]]:
    """Pairs of machine and workload; another seed looks at others (`slipstick validate defaults`: all machines)."""
    pairs = [(name, index) for name in machine_names() for index in range(len(WORKLOADS))]
    return random.Random(19).sample(pairs, SAMPLED)


@pytest.mark.parametrize(("name", "index"), sample())
def test_a_default_answer_is_possible_and_not_far_from_the_roofline(name: str, index: int) -> None:
    workload, sizes, dtype = WORKLOADS[index]
    try:
        asked = question(workload, name, None, sizes, dtype)
        answer = asked.answer()
    except InputError as error:
        assert "states no rate" in str(error) or "no capacity" in str(error)
        return
    low, high = answer.interval() or (0.0, 0.0)
    assert 0 < low < answer.time < high
    bound = PhysicalBound(machine(name))
    graph = asked.estimator.model.graph(asked.workload, asked.machine)
    operations = graph.bind_known({**graph.defaults, **asked.run, **asked.sizes}).operations
    least = max(bound.least(op)[0] for op in operations)
    assert answer.time >= least * 0.99
    plain = question(workload, name, "roofline", sizes, dtype).answer().time
    if answer.time > FARTHEST * plain:
        unlike = ("host issues", "divided over")  # the plain roofline has no host, and sums no gradients of cores
        assert remarks(asked) or any(words in text for words in unlike for text in answer.assumptions)


def test_a_large_matrix_unit_answers_as_the_systolic_model() -> None:
    on = machine("tpu-v3").using(
        {"cores": 1, "engines.matrix.rows": 256, "engines.matrix.columns": 256, "engines.matrix.arrays": 1}
    )
    rate = {"engines.matrix.flop_per_cycle.bfloat16": 2 * 256 * 256}
    on = on.using(rate)
    sizes = {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096}
    best = question("gemm", on, None, sizes, "bfloat16").answer()
    cycles = question("gemm", on, "systolic", sizes, "bfloat16").answer()
    low, high = best.interval() or (0.0, 0.0)
    assert low <= cycles.time <= high


def test_a_model_of_tiles_on_one_large_unit_names_the_one_that_is_made_for_it() -> None:
    on = machine("tpu-v2").using({"cores": 1})
    asked = question("gemm", on, "tiled-roofline", {"workload.m": 64}, "bfloat16")
    assert "--estimator systolic" in " ".join(hints(asked))


def test_shapes_beyond_the_measured_widen_the_band() -> None:
    inside = question(
        "gemm", "a100-sxm-80gb", None, {"workload.m": 512, "workload.n": 512, "workload.k": 512}, "bfloat16"
    )
    thin = question("gemm", "a100-sxm-80gb", None, {"workload.m": 2, "workload.n": 512, "workload.k": 512}, "bfloat16")
    widths = [np.log(one.answer().interval()[1] / one.answer().time) for one in (inside, thin)]  # type: ignore[index]
    assert widths[1] > widths[0] * 1.1
    assert not any("beyond the measured" in text for text in remarks(inside))
    assert any("gemm.bfloat16 m 2 (32..65,536)" in text for text in remarks(thin))


def test_two_models_that_disagree_widen_the_band() -> None:
    asked = question("gnmt", "v100-sxm", None, {"workload.batch": 2})
    answer = asked.answer()
    text = next(text for text in remarks(asked) if "second model" in text)
    low, high = answer.interval() or (0.0, 0.0)
    said = float(text.split("says ")[1].split(" ms")[0]) * 1e-3
    assert low <= said * 1.002 and said * 0.998 <= high  # said in three digits
