"""TPUPoint reproduced: what can be checked holds, what cannot says why, nothing is dropped."""

from __future__ import annotations

import pytest

from slipstick.experiments.papers.tpupoint import tpupoint_rows as tpupoint
from slipstick.experiments.papers.tpupoint import tpupoint_rows as tpupoint_predicted
from slipstick.experiments.papers.tpupoint.tpupoint_rows import input_bound
from slipstick.experiments.papers.tpupoint.tpupoint_tables import MXU_PERCENT, TABLE_I
from slipstick.experiments.question.question import question
from slipstick.experiments.scoring.score_rows import ReproductionRow


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], ReproductionRow]:
    return {(row.table, row.cell): row for row in tpupoint.run()}


def test_rows_hold_but_for_known_misses(rows: dict[tuple[str, str], ReproductionRow]) -> None:
    checked = [row for row in rows.values() if row.ok is not None]
    assert len(checked) >= 30
    assert {(row.table, row.cell) for row in checked if not row.ok} == {
        ("VI-B", "QANet: MXU share of v3 over that of v2, predicted"),
        ("Fig. 11", "qanet-squad, v2: MXU share predicted"),
        ("Fig. 11", "qanet-squad, v3: MXU share predicted"),
        ("Fig. 11", "retinanet-coco, v2: MXU share predicted"),
        ("VI-B", "QANet: a run on v2 over one on v3, predicted"),
        ("Obs. 2", "k-means, k = 5: the three longest phases cover"),
        ("Obs. 2", "published scan, 70 %: the three longest phases cover"),
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


def test_the_study_asks_what_a_user_asks() -> None:
    study = tpupoint_predicted.one_step("resnet50-imagenet", "v2")
    user = question("resnet50", "tpu-v2-8", None, ["workload.batch=1024"], "bfloat16").answer()
    assert user.time == pytest.approx(study.time, rel=1e-9)
    assert dict(user.metrics) == pytest.approx(dict(study.metrics), rel=1e-9)


def test_shares_of_single_runs_are_predictions_with_bands_and_never_ok(
    rows: dict[tuple[str, str], ReproductionRow],
) -> None:
    single = [row for (_, cell), row in rows.items() if row.reason.startswith("80 %")]
    assert len(single) == 36
    assert not any(row.ok for row in single)
    means = [row for (_, cell), row in rows.items() if cell.startswith("mean") and "nine predicted" in cell]
    assert [row.ok for row in means] == [True] * 4


def test_table_i_is_whole() -> None:
    assert [each.model for each in TABLE_I][::4] == ["BERT", "DCGAN", "ResNet-50"]
    assert sum(each.steps or 0 for each in TABLE_I) == 10_000 + 10_000 + 112_590
