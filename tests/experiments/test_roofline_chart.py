"""The roofline of a workload: under the plain roofline's own answer every operation lies on a ceiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slipstick.experiments.question.question import question
from slipstick.experiments.report.roofline_chart import roofline_chart
from slipstick.hwmodels.catalog import machine


def test_points_of_the_plain_roofline_lie_on_its_lines() -> None:
    asked = question("resnet50-inference", "v100-sxm", "roofline", ["machine.runtime.launch_overhead=0"])
    chart = roofline_chart(asked, asked.answer())
    assert chart is not None and len(chart.lines) >= 1
    bandwidth = asked.machine.bandwidth(asked.machine.main_memory)
    peaks = [max(line.y) for line in chart.lines]
    for mark in chart.marks:
        for intensity, rate in zip(mark.x, mark.y, strict=True):
            ceilings = [min(peak, intensity * bandwidth) for peak in peaks]
            assert min(abs(np.log(rate / ceiling)) for ceiling in ceilings) < 1e-6, (mark.label, intensity)


def test_areas_are_shares_of_the_time() -> None:
    asked = question("gpt2", "h100-sxm")
    answer = asked.answer()
    chart = roofline_chart(asked, answer)
    assert chart is not None
    shares = {kind: float(sum(rows.share)) for kind, rows in answer.to_frame().groupby("kind")}
    drawn = {mark.label: sum(area - 20 for area in mark.areas) / 900 for mark in chart.marks}
    assert drawn["gemm"] == pytest.approx(shares["gemm"], rel=1e-9)
    assert all(share <= shares[kind] * (1 + 1e-9) for kind, share in drawn.items())  # moves have no flop


def test_a_workload_without_arithmetic_has_none() -> None:
    asked = question("stream-copy", "xeon-gold-6148")
    assert roofline_chart(asked, asked.answer()) is None


def test_a_rate_that_is_not_stated_takes_no_other_ceiling_away() -> None:
    """A V100 states no bfloat16 of its matrix engine; what follows a product there runs in float32."""
    asked = question("gpt2", "h100-sxm", dtype="bfloat16")
    both = next(op for op in asked.workload if {"flop.matrix.bfloat16", "flop.vector.bfloat16"} <= {*op.cost})
    other = replace(asked, machine=machine("v100-sxm"), workload=replace(asked.workload, operations=(both,), edges=()))
    chart = roofline_chart(other, asked.answer())
    assert chart is not None and [line.label.partition(":")[0] for line in chart.lines] == ["vector, float32"]
