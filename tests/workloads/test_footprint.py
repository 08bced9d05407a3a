"""What does not fit into a machine's memory is said in one line."""

from __future__ import annotations

import pytest

from slipstick.estimators.base.estimate import Estimate
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.footprint import resident_bytes
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense

GPT2_XL = 1_557_611_200  # parameters of its published checkpoint


def _estimate(name: str, on: str) -> Estimate:
    answer: Estimate = registry.estimator("roofline").estimate(workload(name), machine(on))
    return answer


def _said(name: str, on: str) -> list[str]:
    return _too_large(_estimate(name, on))


def _too_large(answer: Estimate) -> list[str]:
    return [text for text in answer.assumptions if "does not fit" in text]


@pytest.mark.parametrize(
    ("name", "parts"),
    [("gpt2-xl", 4), ("gpt2-xl-inference", 1)],  # AdamW: the parameter, its gradient and two moments
)
def test_a_network_keeps_its_parameters_and_what_its_optimizer_needs(name: str, parts: int) -> None:
    kept = resident_bytes(workload(name).bound())
    assert kept == pytest.approx(parts * 4 * GPT2_XL, rel=1e-12)


def test_what_does_not_fit_is_said_and_what_fits_is_not() -> None:
    assert _said("gpt2-xl", "v100-sxm") == [
        "does not fit: parameters, gradients and optimizer state alone take 24.92 GB, "
        "HBM2 of Tesla V100 SXM2 16 GB has 16 GB"
    ]
    assert _said("gpt2-xl", "a100-80-dgx") == []
    assert _said("gpt2-xl-inference", "v100-sxm") == []


def test_decoding_keeps_the_keys_and_values_of_every_layer() -> None:
    step = workload("llama-3-8b-decode").bind(batch=64, seq_len=8192)
    cache = 2 * 32 * 8 * 128 * 8192 * 64 * 2  # keys and values, layers, heads x size, words, sequences, bytes
    assert resident_bytes(step) == 2 * 8_030_261_248 + cache
    served = workload("decode:llama-3.1-8b").bind(decodes=64, context=8192)
    assert resident_bytes(served) == 2 * 8_030_261_248 + cache
    (said,) = _too_large(registry.estimator("roofline").estimate(step, machine("a100-sxm-80gb")))
    assert "parameters, keys and values alone take 84.78 GB" in said


def test_a_graph_that_does_not_know_is_silent() -> None:
    assert resident_bytes(Workload("one", (dense("a", 8, 16, 32),))) is None
