"""What machines may rely on, of every scoreboard: documented rows, whatever stands in the folder that is scored."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from slipstick.experiments.calibrate.public_sets import public_sets
from slipstick.experiments.cli.cli import run
from slipstick.experiments.scoring.scoreboard_catalog import scoreboard, scoreboards

KEYS = (
    *("dataset", "case", "held_out", "n", "metric", "unit", "baselines", "ours", "goal", "ok"),
    *("interval_level", "interval_coverage", "interval_width", "noise_floor", "reason"),
    *("groups", "coverage_low", "coverage_high", "interval_needed"),
)
BROKEN = b"a,b\n1,\xff\xfe\n{"
NEUSIGHT = "Device,OPName,B,M,N,K,Latency\nFrobnicator 9000,linear,1,512,512,512,20\nTesla T4,linear,1,64,64,64,0.1\n"
GPU_BENCHES = "device,benchmark,quantity,size_bytes,threads,value\nfrobnicator,gpu-cache,,1024,,1e12\n"


def broken(folder: Path) -> Path:
    """Every file of every set of public measurements, with bytes that no reader takes."""
    for pattern in (pattern for one in public_sets() for pattern in one.files):
        path = folder / pattern.replace("**", "a").replace("*", "a")
        path = path if path.suffix else path / "a.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(BROKEN) if path.suffix == ".gz" else BROKEN)
    return folder


@pytest.mark.parametrize("name", scoreboards())
def test_a_missing_file_is_a_skipped_row_with_its_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    rows = scoreboard(name).rows(tmp_path)
    assert rows and all(row.ours is not None or row.reason for row in rows)
    assert all(tuple(row.to_dict()) == KEYS for row in rows)


@pytest.mark.parametrize("name", scoreboards())
def test_a_broken_file_is_a_skipped_row_with_its_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(broken(tmp_path)))
    rows = scoreboard(name).rows(tmp_path)
    assert rows and all(row.ours is not None or row.reason for row in rows)


@pytest.mark.parametrize(
    ("name", "file", "text", "device"),
    [
        ("operations", "gpu/neusight/nv_train_linear.csv.gz", NEUSIGHT, "Frobnicator 9000"),
        ("gpu-memory", "portability/gpu_benches.csv.gz", GPU_BENCHES, "frobnicator"),
    ],
)
def test_an_unknown_device_is_a_skipped_row_with_its_name(
    name: str, file: str, text: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text.encode()))
    reasons = [row.reason for row in scoreboard(name).rows(tmp_path) if row.ours is None]
    assert any(f"the catalogue lacks {device}" in reason for reason in reasons), reasons


def test_the_command_prints_rows_in_their_documented_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / "inferencex.csv").write_text("engine,model\nvllm,x\n")
    assert run(["validate", "tpu", "serving", "--data", str(tmp_path), "--format", "json"]) == 2
    told = capsys.readouterr()
    assert "no row of it could be scored" in told.err
    rows = json.loads(told.out)
    assert {row["dataset"] for row in rows} >= {"serving/silicon", "serving/requests"}
    assert all(set(KEYS) <= set(row) for row in rows)


def test_rows_that_cannot_be_are_warned_of_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4096^3 on a T4 (8.1 TFLOP/s) takes at least 17 ms; one row says 5 ms. The others take 1.5 times that."""

    def products(device: str, peak: float, sizes: range) -> list[str]:
        return [f"{device},linear,1,{m},1024,1024,{1.5e3 * 2 * m * 1024**2 / peak}" for m in sizes]

    known = products("Tesla T4", 8.1e12, range(64, 4096, 64)) + products("NVIDIA L4", 30.3e12, range(64, 4096, 64))
    judged = [*products("Tesla T4", 8.1e12, range(96, 4096, 64)), "Tesla T4,linear,1,4096,4096,4096,5"]
    for name, rows in (("public", known), ("judged", judged)):
        path = tmp_path / name / "gpu/neusight/nv_train_linear.csv.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress("\n".join([NEUSIGHT.partition("\n")[0], *rows, ""]).encode()))
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path / "public"))
    with pytest.warns(UserWarning, match="t4: 1 of 64 rows are faster than it can be; not scored"):
        rows = scoreboard("operations").rows(tmp_path / "judged")
    scored = [row for row in rows if row.metric == "MAPE" and row.case == "t4"]
    assert scored and scored[0].n == 63 and "1 rows faster than the machine can be" in scored[0].reason
