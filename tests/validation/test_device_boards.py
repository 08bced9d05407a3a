"""Boards of calibration across devices, physics and CPU layers: without data, and on files made up here."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slipstick.experiments.scoring.scoreboard_catalog import scoreboard

HEADER = "Device,OPName,B,M,N,K,Latency\n"


@pytest.mark.parametrize("name", ["anchors", "physics", "cpu-layers"])
def test_without_files_the_reason_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    for row in scoreboard(name).rows():
        assert row.ok is None and row.reason


def test_rows_that_beat_the_peak_are_counted_by_file_and_machine(tmp_path: Path) -> None:
    """2 x 4096^3 flop on a T4 of 8.1 TFLOP/s take 17 ms; one row says 5 ms, one of another file is sound."""
    folder = tmp_path / "gpu" / "neusight"
    folder.mkdir(parents=True)
    rows = {"nv_train_linear": ["Tesla T4,linear,1,4096,4096,4096,20", "Tesla T4,linear,1,4096,4096,4000,5"]}
    rows["nv_train_bmm"] = ["Tesla T4,bmm,2,512,512,512,1"]
    for name, lines in rows.items():
        frame = pd.DataFrame([line.split(",") for line in lines], columns=HEADER.strip().split(","))
        for column in ("B", "M", "N", "K", "Latency"):
            frame[column] = frame[column].astype(float)
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
    found = {row.case: row for row in scoreboard("physics").rows(tmp_path)}
    assert found["linear, T4"].ours == 0.5 and "too fast for its arithmetic" in found["linear, T4"].reason
    assert found["bmm, T4"].ours == 0.0
