"""The serving scoreboard: rows are read with their traps, pooling holds, boards skip what is absent."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.serving.inferencex import COLUMNS as MORE_COLUMNS
from slipstick.experiments.scoreboards.serving.inferencex import FILE as MORE
from slipstick.experiments.scoreboards.serving.serving_board import BOARD, UNSAID
from slipstick.experiments.scoreboards.serving.serving_refit import FILE, trained_on
from slipstick.experiments.scoreboards.serving.serving_rows import COLUMNS, read_cases
from slipstick.experiments.scoreboards.serving.step_fit import fitted, step_rows

ROW = {
    "system": "h200_sxm", "engine": "vllm", "engine_version": "0.12.0", "model_key": "meta-llama/Llama-3.1-70B",
    "precision": "fp8", "mode": "agg", "input_tokens": "1024", "output_tokens": "1024", "concurrency": "4", "gpus": "8",
    "tp_size": "8", "pp_size": "1", "attention_dp_size": "1", "moe_ep_size": "1", "ttft_s": "0.073", "tpot_s": "0.0079",
    "source": "public_dashboard", "repeat_group": "0", "suspicious": "",
}  # fmt: skip


def written(path: Path, changes: list[dict[str, str]], columns: tuple[str, ...] = COLUMNS) -> Path:
    """A file of rows."""
    lines = [",".join(columns)]
    lines += [",".join({**ROW, **change}[name] for name in columns) for change in changes]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_rows_and_their_traps(tmp_path: Path) -> None:
    oss = {"model_key": "openai/gpt-oss-120b", "precision": "fp4"}
    expert = {**oss, "tp_size": "1", "moe_ep_size": "4", "gpus": "4"}  # tensor degree of attention left at one
    apart = {"mode": "disagg"}
    path = written(tmp_path / "rows.csv.gz", [{}, oss, expert, apart, {"suspicious": "queueing"}, {"system": "abacus"}])
    cases, refused = read_cases(path)
    assert [c.stored for c in cases] == ["fp8", "mxfp4", "mxfp4", "fp8"]
    assert cases[2].layout.tensor == 4
    assert [c.scored for c in cases] == [True, True, True, False]
    assert cases[0].load.input_tokens == pytest.approx(0.9 * 1024)
    assert refused == {"pools apart are scored where workers are counted": 1, "system abacus: no machine here": 1}


def test_speculation_is_read_beside_the_rows_and_integers_are_no_bfloat16(tmp_path: Path) -> None:
    deepseek = {"model_key": "deepseek-ai/DeepSeek-R1", "tpot_s": "0.02", "ttft_s": "0.4"}
    kimi = {"model_key": "moonshotai/Kimi-K2.5", "precision": "int4"}
    rows = [{"id": "a", **deepseek}, {"id": "b", **deepseek}, {"id": "c", **deepseek}, {"id": "d", **kimi}]
    path = written(tmp_path / "rows.csv.gz", rows, ("id", *COLUMNS))
    (tmp_path / "silicon_speculation.csv").write_text(
        "id,speculative,tpot_median_s,ttft_median_s\na,1,0.019,0.3\nb,0,0.019,0.3\n"
    )
    cases, _ = read_cases(path)
    assert [case.speculative for case in cases] == [True, False, None, None]
    assert [case.tpot for case in cases[:3]] == [0.019, 0.019, 0.02]
    assert [case.scored for case in cases] == [False, True, False, True]
    assert trained_on(cases) == [cases[1], cases[3]]  # neither what speculated nor what may have
    assert cases[3].stored == "int4_experts"
    _, refused = read_cases(written(tmp_path / "odd.csv.gz", [{"precision": "int3"}]))
    assert refused == {"precision int3: want fp4, int4, fp8, bf16, fp16": 1}


def test_a_fit_finds_the_pace_of_an_engine() -> None:
    """Rows made up from the model itself: the fit gives them back."""
    file = training_file(FILE)
    if file is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    known = trained_on(read_cases(file)[0])[::10]
    made, rows = fitted(known), step_rows(known)
    ratio = made.steps.seconds(STEP_LAW, rows.columns, rows.groups) / rows.seconds
    assert np.median(np.abs(np.log(ratio))) < 0.15
    fixed = {name: made.parameters({"engine": name}).fixed for name in ("trtllm", "vllm")}
    assert fixed["trtllm"] < fixed["vllm"]


def test_a_file_elsewhere_is_scored_and_not_learnt(tmp_path: Path) -> None:
    if training_file(FILE) is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    (tmp_path / "empty").mkdir()
    absent = BOARD.rows(tmp_path / "empty")
    assert all(row.case == "skipped" for row in absent)
    assert all("is not in" in row.reason for row in absent)


@pytest.mark.slow
def test_rows_of_either_table_given_from_outside_are_scored(tmp_path: Path) -> None:
    """DeepSeek's rows that may have speculated have a line of their own; unknown systems are counted."""
    if training_file(FILE) is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    more = {**dict.fromkeys(MORE_COLUMNS, ""), **ROW, "model": "deepseek-ai/DeepSeek-R1-0528", "speculative": "0"}
    mine = [{**more, "system": "mi355x", "engine": "sglang"}, {**more, "system": "abacus", "engine": "sglang"}]
    written(tmp_path / MORE, mine, MORE_COLUMNS)
    alone = {(row.case, row.n) for row in BOARD.rows(tmp_path) if row.case != "skipped"}
    assert ("time of a further token, InferenceX", 1) in alone and ("rows answered", 2) in alone
    written(tmp_path / FILE, [{"model_key": "deepseek-ai/DeepSeek-R1"}])
    both = {(row.case, row.n) for row in BOARD.rows(tmp_path)}
    assert (f"time of a further token, {UNSAID}", 1) in both and ("rows answered", 3) in both


@pytest.mark.slow
def test_local_rows_beat_bytes_over_bandwidth() -> None:
    from slipstick.experiments.scoreboards.local_llm.local_llm_board import BOARD as LOCAL

    if training_file("local_llm/localscore.csv") is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    newest = [row for row in LOCAL.rows() if row.held_out == "newest unseen" and row.case == "time of a token"]
    assert newest
    assert all(row.ours is not None and row.ours < row.baselines["one efficiency"] for row in newest)
