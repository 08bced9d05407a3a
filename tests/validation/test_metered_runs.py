"""Metered runs of others' making: rows that cannot be read are left out with their reason, never a crash."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slipstick.experiments.scoreboards.energy.metered_runs import metered_runs, outlined, plain_name
from slipstick.experiments.scoreboards.energy.power_limit_scores import limited_runs

COLUMNS = (
    "model,task,gpu,gpus,tensor_parallel,expert_parallel,data_parallel,max_num_seqs,mean_batch_size,"
    "mean_output_tokens,mean_power_w,output_tokens_per_s,itl_p50_s,weight_precision,total_parameters,"
    "active_parameters,suspicious\n"
)
GOOD = "meta-llama/Llama-3.1-8B-Instruct,chat,H100,1,1,1,1,8,8,300,500,800,0.01,bfloat16,8e9,8e9,\n"


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    rows = [
        GOOD,
        GOOD.replace("H100", "TPUX"),
        GOOD.replace("bfloat16", "int3"),
        GOOD.replace(",300,", ",,"),
        GOOD.replace("8e9,\n", "8e9,too slow\n"),
        GOOD.replace("Llama-3.1-8B-Instruct", "Unknown-40B").replace("8e9,8e9", "40e9,40e9"),
    ]
    path = tmp_path / "runs.csv"
    path.write_text(COLUMNS + "".join(rows))
    runs, refused = metered_runs([path])
    assert list(runs.family_name) == ["llama-3.1-8b", "unknown-40b"]
    assert sum(refused.values()) == 4 and refused["marked as doubtful"] == 1
    assert any("TPUX" in reason for reason in refused) and any("int3" in reason for reason in refused)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    runs, refused = metered_runs([tmp_path / "other.csv"])
    assert runs.empty and refused


@pytest.mark.parametrize(("total", "active"), [(7e9, 7e9), (70e9, 70e9), (2e9, 2e9), (235e9, 22e9)])
def test_an_outline_has_the_parameters_that_it_stands_for(total: float, active: float) -> None:
    model = outlined("x", total, active)
    assert model.parameters == pytest.approx(total, rel=0.15)
    assert model.active_parameters == pytest.approx(active, rel=0.5)


def test_twins_are_one_family() -> None:
    names = ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen/Qwen3-VL-235B-A22B-Instruct", "Qwen/Qwen3-235B-A22B")
    assert {plain_name(name) for name in names} == {"qwen3-235b-a22b"}


def test_a_run_under_its_highest_limit_is_the_free_one_and_is_not_scored() -> None:
    run = {"gpu": "V100", "dataset": "d", "network": "n", "batch_size": 8, "optimizer": "sgd", "mean_power_w": 150.0}
    limits = [100.0, 200.0, 300.0]
    frame = pd.DataFrame([{**run, "power_limit_w": limit, "epoch_s": 3000.0 / limit} for limit in limits])
    found = limited_runs(frame)
    assert sorted(found.power_limit_w) == [100.0, 200.0]
    assert set(found.epoch_s_free) == {10.0} and set(found.power_limit_w_free) == {300.0}
