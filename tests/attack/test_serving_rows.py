"""Rows of serving that nobody can have measured are named by their line: neither scored nor a failure of Python."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.scoreboards.serving import inferencex, serving_rows

ROW = {
    "system": "b200", "engine": "vllm", "engine_version": "0.19.0", "model": "deepseek-ai/DeepSeek-R1",
    "model_key": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "mode": "agg", "speculative": "0",
    "input_tokens": "1024", "output_tokens": "1024", "concurrency": "64", "gpus": "8", "tp_size": "8", "pp_size": "1",
    "attention_dp_size": "1", "moe_ep_size": "1", "attention_dp": "0", "ttft_s": "0.4", "tpot_s": "0.02",
    "image": "x:v0.19.0", "source": "own", "suspicious": "", "repeat_group": "1",
}  # fmt: skip
Reader = Callable[[Path], tuple[list[serving_rows.SiliconCase], dict[str, int]]]


@pytest.mark.parametrize(
    ("read", "system"), [(serving_rows.read_cases, "b200_sxm"), (inferencex.read_inferencex, "b200")]
)
@pytest.mark.parametrize("field", ["ttft_s", "tpot_s", "concurrency", "gpus", "input_tokens"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "0", "-1", "x"])
def test_what_nobody_can_have_measured_is_named(
    read: Reader, system: str, field: str, value: str, tmp_path: Path
) -> None:
    good = {**ROW, "system": system}
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ROW)
        writer.writeheader()
        writer.writerows([good, {**good, field: value}])
    try:
        cases, refused = read(path)
    except InputError as error:
        assert "line 3" in str(error)
    else:
        assert (len(cases), sum(refused.values())) == (1, 1)
