"""Summaries of the TensorBoard profiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.importers.traces.tensorboard_profile import read_input_pipeline


def table(columns: list[str], *rows: list[object]) -> dict[str, object]:
    return {"cols": [{"id": name} for name in columns], "rows": [{"c": [{"v": v} for v in row]} for row in rows]}


def test_steps_hold_compute_and_infeed_seconds(tmp_path: Path) -> None:
    path = tmp_path / "input_pipeline.json"
    columns = ["stepnum", "noninfeedTimeMs", "infeedTimeMs"]
    path.write_text(json.dumps([{"p": {}}, table(columns, ["1", 20.0, 100.0], ["2", 30.0, 0.0])]))
    first, second = read_input_pipeline(path)
    assert first.duration == pytest.approx(0.12) and second.start == pytest.approx(0.12)
    assert first.operations["infeed"].time == pytest.approx(0.1)
    assert second.operations["compute"].place == "device"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "no table"),
        ([table(["stepnum"], ["1"])], "no table"),
        ([table(["stepnum", "noninfeedTimeMs", "infeedTimeMs"], ["x", 1, 1])], "is no number"),
        ([table(["stepnum", "noninfeedTimeMs", "infeedTimeMs"], ["1", -1, 1])], "noninfeedTimeMs = -1 lies outside"),
        ([{"cols": [{"id": "a"}], "rows": [{"c": []}]}], "another number of cells"),
    ],
)
def test_what_is_no_summary_is_refused(tmp_path: Path, document: object, words: str) -> None:
    path = tmp_path / "input_pipeline.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=words):
        read_input_pipeline(path)


def test_a_real_profile_waits_for_its_input() -> None:
    from slipstick.experiments.calibrate.public_data import training_file

    steps = training_file("tpu/xprof_demo/profile_demo.input_pipeline.json")
    if steps is None:
        pytest.skip("xprof demo: no public measurements here (set SLIPSTICK_DATA)")
    infeed = [step.operations["infeed"].time * 1e3 for step in read_input_pipeline(steps)]
    assert infeed == pytest.approx([145.8, 99.2, 115.8], abs=0.05)  # as the data's index gives them
