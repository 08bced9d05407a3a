"""What follows from an answer says the same as the data sheet's peaks and the answer's own parts."""

from __future__ import annotations

import math

import pytest

from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.question import question

A100_PEAKS = {"tfloat32": 156e12, "float32": 19.5e12}
"""NVIDIA A100 data sheet: flop/s of the tensor cores in TF32, and of the vector units in FP32."""


def test_products_of_two_types_are_held_against_the_peaks_of_both_and_the_words_say_so() -> None:
    """PyTorch's default: convolutions in TF32, the last linear layer in float32."""
    asked = question("resnet50", "a100-sxm-80gb")
    answer = asked.answer()
    known = facts(asked, answer)
    graph = asked.workload.bind_known(asked.workload.defaults)
    seconds = math.fsum(
        float(op.cost.get(f"flop.matrix.{dtype}", 0.0) * op.times) / peak
        for op in graph
        for dtype, peak in A100_PEAKS.items()
    )
    assert known.mfu == pytest.approx(seconds / answer.time, rel=0.01)
    assert known.mfu_of == "the peaks of its types (tfloat32, float32)"


def test_products_of_one_type_are_held_against_its_peak() -> None:
    asked = question("resnet50", "a100-sxm-80gb", dtype="bfloat16")
    assert facts(asked, asked.answer()).mfu_of == "the bfloat16 peak"
