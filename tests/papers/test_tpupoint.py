"""TPUPoint reproduced: what can be checked holds, what cannot says why, nothing is dropped."""

from __future__ import annotations

import pytest

from slipstick.experiments.evidence.papers.tpupoint import tpupoint_rows as tpupoint
from slipstick.experiments.evidence.papers.tpupoint import tpupoint_workloads
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_pipeline import input_bound
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_tables import MXU_PERCENT, TABLE_I
from slipstick.experiments.evidence.rows import ReproductionRow
from slipstick.workloads.graph.workload import Op


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], ReproductionRow]:
    return {(row.table, row.cell): row for row in tpupoint.run()}


def test_rows_hold_but_for_known_misses(rows: dict[tuple[str, str], ReproductionRow]) -> None:
    checked = [row for row in rows.values() if row.ok is not None]
    assert len(checked) >= 30
    assert {(row.table, row.cell) for row in checked if not row.ok} == {
        ("II-A", "TPU v3 chip"),
        ("Fig. 11", "QANet on SQuAD, v2: MXU share predicted"),
        ("Fig. 11", "QANet on SQuAD, v3: MXU share predicted"),
        ("Fig. 11", "RetinaNet on COCO, v2: MXU share predicted"),
        ("Obs. 2", "k-means, k = 5: the three longest phases cover"),
        ("Obs. 2", "published scan, 70 %: the three longest phases cover"),
        ("Obs. 2", "published scan, 100 %: the three longest phases cover"),
    }
    assert all(row.reason for row in rows.values() if row.status == "not_reproducible")


def test_the_averages_mean_an_input_bound_step(rows: dict[tuple[str, str], ReproductionRow]) -> None:
    # 22.72 % of 1 peak and 11.34 % of 2 peaks are the same work in the same time
    assert MXU_PERCENT["v2"] / (2 * MXU_PERCENT["v3"]) == pytest.approx(1.0, abs=0.005)
    ratio = rows["VI-B", "MXU share v3 over v2"]
    assert ratio.ours == pytest.approx(0.5) and ratio.ok


def test_a_device_bound_pipeline_would_not_show_it() -> None:
    slow, fast = (input_bound(step, 0.1).run(300) for step in (1.0, 0.5))
    assert fast.step_time(skip=20) == pytest.approx(slow.step_time(skip=20) / 2, rel=1e-3)
    assert fast.idle() < 0.01


def test_networks_have_the_published_size() -> None:
    def products(operations: list[Op]) -> float:
        return sum(float(op.cost.flop) * float(op.times) for op in operations if op.kind != "norm") / 2

    # torchvision's table: 4.09e9
    assert products(tpupoint_workloads._residual(1, 224)) == pytest.approx(4.09e9, rel=0.02)
    # TensorFlow model garden, RetinaNet of ResNet-50 at 640: 97.0e9
    assert products(tpupoint_workloads._retina(1)) == pytest.approx(97.0e9, rel=0.03)
    # BERT-Base: 12 (12 width^2 per token, and two products of the scores)
    own = 12 * (12 * 768**2 * 128 + 2 * 128**2 * 768)
    assert products(tpupoint_workloads._bert(1)) == pytest.approx(own)


def test_predicted_shares_are_shares_and_longer_runs_idle_less() -> None:
    for chip in ("v2", "v3"):
        for key, step in tpupoint_workloads.predictions(chip).items():
            assert 0 <= step.idle < 1 and 0 < step.matrix <= 0.98, key
            idle = [step.over(steps)[0] for steps in (100, 1000, 10_000, 1e9)]
            assert idle == sorted(idle, reverse=True)
            assert idle[-1] == pytest.approx(step.idle, abs=1e-3)


def test_table_i_is_whole() -> None:
    assert [each.model for each in TABLE_I][::4] == ["BERT", "DCGAN", "ResNet-50"]
    assert sum(each.steps or 0 for each in TABLE_I) == 10_000 + 10_000 + 112_590
