"""Files that anybody may have, each of which ended as a defect of ours (exit code 3) once."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slipstick.common.arrays import read_arrays
from slipstick.common.errors import InputError
from slipstick.estimators.simulation.stage import Stage
from slipstick.experiments.cli.cli import run
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.workloads.catalog import workload
from tests.attack.seeds import MLLOG, trace

SHIPPED = Path(__file__).parents[2] / "experiments/question/calibrations/gpus.json"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("lines", [2, 5, 8])
@pytest.mark.parametrize("verb", [["read"], ["phases"], ["read", "--format", "json"]])
def test_the_log_of_a_run_that_still_goes_on(verb: list[str], lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    """No run_stop yet: what is there is answered."""
    Path("run.mllog").write_text("".join(MLLOG.splitlines(keepends=True)[:lines]))
    code = run([verb[0], "run.mllog", *verb[1:]])
    words = capsys.readouterr()
    assert (code, "the log ends before run_stop" in words.out) == (0, True) or (code, lines) == (2, 2)


@pytest.mark.parametrize("name", ["gemm", "all-reduce"])
@pytest.mark.parametrize("dtype", ["float128", "", "x"])
def test_a_data_type_that_nobody_knows_is_named(name: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    workload(name).save("w.json")
    document = re.sub(r'"dtype":\s*"\w+"', f'"dtype":"{dtype}"', Path("w.json").read_text())
    Path("w.json").write_text(document)
    assert run(["estimate", "w.json", "--on", "dgx-h100", "--set", "workload.devices=8"]) == 2
    assert f"unknown data type {dtype!r}" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["variation", "uneven", "scatter", "slow_factor"])
def test_a_variation_beyond_all_numbers_is_refused(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    """1e300 squared is no number; a mean of ten runs of 1e5 was a hundred thousandth of what the job takes."""
    Path("j.yaml").write_text(f"name: j\nstages: [{{name: s, service: 1 s, {field}: 1e300}}]\n")
    assert run(["estimate", "j.yaml", "--simulate", "--runs", "10"]) == 2
    assert f"stage 's': {field} is 1e+300; it must be at most" in capsys.readouterr().err
    with pytest.raises(InputError, match="it must be at most"):
        Stage("s", 1.0, **{field: 1e7})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("service: []", "stages.0.service = []: want at least one time > 0 s"),
        ("service: 1 s, variation: 1e-300, distribution: gamma", "variation is 1e-300; want 0 or >= 1e-06"),
    ],
)
def test_a_stage_without_a_time_or_with_hardly_a_variation(
    fields: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("j.yaml").write_text(f"name: j\nstages: [{{name: s, {fields}}}]\n")
    assert run(["estimate", "j.yaml", "--simulate"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "header", ["{'descr': '<f8', 'shape': (3", "{'descr': (", "(" * 90, "{'descr': '<f8'\n  x", "'" * 3, "\\"]
)
def test_a_broken_header_of_an_array(header: str) -> None:
    """What Python's own parser raises of it came through."""
    text = header.encode()
    content = io.BytesIO()
    np.save(content, np.zeros(3))
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(InputError, match="a.npz: no matrix"):
        read_arrays("a.npz", 10**6, "matrix")


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-30])
def test_a_trace_without_time_is_refused_in_one_line(scale: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of numpy's own stands before it."""
    document = trace()
    for event in document["traceEvents"]:
        event |= {key: float(event[key]) * scale for key in ("ts", "dur") if key in event}
    Path("t.json").write_text(json.dumps(document))
    for words in (["--report", "r.html"], ["--recorded-on", "v100-sxm", "--on", "h100-sxm"]):
        assert run(["replay", "t.json", *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith("slipstick: ") and "t.json: " in error and error.count("\n") == 1
    assert not Path("r.html").exists()


@pytest.mark.parametrize("value", [[], ["a"], {}, {"a": 1}, None, 5])
def test_a_list_where_a_calibration_of_gpus_has_a_name(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    document = copy.deepcopy(json.loads(SHIPPED.read_text()))
    name = next(iter(document["classes"]))
    document["classes"][name][0]["machine"] = value
    Path("c.json").write_text(json.dumps(document))
    assert run(["estimate", "gemm", "--on", "v100-sxm", "--calibration", "c.json"]) == 2
    assert "machine = " in capsys.readouterr().err


def test_a_device_without_a_rate_is_a_skipped_row() -> None:
    """A V100 has no float8: it is left out of the fit, and its rows say why they are not scored."""
    sizes = np.array([256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])
    dims = {"batch": 1.0, "m": sizes, "n": sizes, "k": sizes, "file": "a"}
    rates = {"h100-sxm": 1e15, "h200-sxm": 1e15, "v100-sxm": 1e14}
    frames = [
        pd.DataFrame({**dims, "machine": name, "time": 1e-5 + 2 * sizes**3 / rate}) for name, rate in rates.items()
    ]
    board = OperationBoard(pd.concat(frames, ignore_index=True), "gemm", "float8")
    assert "states no rate for matrix.float8" in board.refused("v100-sxm", frames[2])
    assert board.refused("h100-sxm", frames[0]) == ""
    assert {form.machine.name for form in board.forms} == {"H100 SXM5 80 GB", "H200 SXM5 141 GB"}
