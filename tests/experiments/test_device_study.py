"""slipstick calibrate STUDY.toml with leave_out = "machine", and the calibration asked of a new machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer.kernel_class import PREFIX
from slipstick.estimators.gpu.transfer.operation_times import Anchor, OperationTimes, RowFormula, taken
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.calibrate.leave_one_device_out_report import noise_floor
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import save_machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import elementwise, gemm

STUDY = """
schema = "slipstick-study-1"
name = "additions"
[fit]
leave_out = "machine"
measured = "adds.csv"
anchors = [{operation = "elementwise.float32", dims = {elements = 67108864}}]
"""
ADD = "elements,reads,writes"


def lines(name: str, efficiency: float, rows: int, speedup: float = 1.0) -> list[str]:
    """CSV lines of additions on a machine that reaches a share of its bandwidth."""
    elements = 2.0 ** np.linspace(16, 28, rows)
    dims = {"elements": elements, "reads": 2 * elements, "writes": elements}
    form = OperationTimes.of(machine(name), "elementwise", "float32", dims, np.ones(rows))
    known = KernelParameters(memory_efficiency=efficiency, overhead=2e-6)
    times = RowFormula.of(TiledRoofline(), [form]).evaluate(
        {f"{PREFIX}{n}": getattr(known, n) for n in KernelParameters.__dataclass_fields__}
    )
    noise = np.exp(0.02 * np.random.default_rng(rows).standard_normal(rows))
    return [
        f"{name},elementwise,float32,{t},{n},{2 * n},{n}"
        for n, t in zip(elements, times * noise / speedup, strict=True)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three machines, calibrated once, and a new machine's file."""
    where = tmp_path_factory.mktemp("devices")
    rows = [*lines("a100-sxm-80gb", 0.85, 30), *lines("l4", 0.80, 32), *lines("t4", 0.72, 34)]
    (where / "adds.csv").write_text(f"machine,kind,dtype,time_s,{ADD}\n" + "\n".join(rows) + "\n")
    (where / "study.toml").write_text(STUDY)
    save_machine(machine("l40s").using({"clock": "2.2 GHz"}), where / "new.yaml")
    (where / "anchor.csv").write_text(
        f"kind,dtype,time_s,{ADD}\nelementwise,float32,0.00135,67108864,134217728,67108864\n"
    )
    Workload("adds", (elementwise("add", 50_000_000, inputs=2),)).save(where / "adds.json")
    assert run(["calibrate", str(where / "study.toml"), "--out", str(where / "made.json"), "--format", "csv"]) == 0
    return where


def answer(capsys: pytest.CaptureFixture[str], workload: Path | str, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["estimate", str(workload), *words, "--format", "json"]) == 0, capsys.readouterr().err
    (found,) = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_table_holds_every_machine_baselines_and_coverage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", str(folder / "study.toml"), "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [row["machine"] for row in found["held_out"]] == ["A100 SXM4 80 GB", "L4", "T4"]
    for row in found["held_out"]:
        assert 0 < row["MAPE"] < row["roofline_MAPE"] and 0 <= row["coverage"] <= 1
        assert row["anchored_coverage"] >= row["coverage"] and row["anchored_MAPE"] < row["MAPE"]
        assert row["interval_level"] == 0.8 and row["noise_floor"] is None
    assert found["impossible"] == []


def test_a_new_machine_gets_its_familys_mean_and_anchors_move_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adds = folder / "adds.json"
    words = ["--on", str(folder / "new.yaml"), "--calibration", str(folder / "made.json")]
    new, anchored = answer(capsys, adds, *words), answer(capsys, adds, *words, "--measured", str(folder / "anchor.csv"))
    assert new["interval_level"] == 0.8
    share = 50_000_000 / 67_108_864  # of the anchor's elements
    ratio = {name: one["time_s"] / (0.00135 * share) for name, one in (("new", new), ("anchored", anchored))}
    assert abs(ratio["anchored"] - 1) < 0.5 * abs(ratio["new"] - 1)
    assert any("the mean of 3 machines and 1 anchors" in line for line in anchored["assumptions"])


def test_what_was_not_measured_is_as_in_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Convolutions stand in no file: they are as in timed programs, as by default; the additions are the file's."""
    found = answer(capsys, "resnet18-inference", "--on", "l4", "--calibration", str(folder / "made.json"))
    assert found["high_s"] / found["low_s"] > 2
    assert any("convolution.tfloat32, " in line and "times of programs" in line for line in found["assumptions"])
    assert any("elementwise.float32: its own 32 rows" in line for line in found["assumptions"])


def test_whatif_and_studies_take_the_calibration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["whatif", str(folder / "adds.json"), "--on", "l40s", "--calibration", str(folder / "made.json")]
    assert (
        run([*words, "--vary", "machine.clock=1GHz,2GHz", "--save", str(folder / "vary.toml"), "--format", "json"]) == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert all(row["low_ratio"] <= row["time_ratio"] <= row["high_ratio"] for row in rows)
    assert 'calibration = "made.json"' in (folder / "vary.toml").read_text()
    assert run(["study", "run", str(folder / "vary.toml"), "--folder", str(folder / "out")]) == 0
    assert ": 2 points: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"machine"', '"file"', "fit.leave_out"),
        ("adds.csv", "none.csv", "no such file"),
        ("elementwise.float32", "elementwise", "fit.anchors"),
        ("elements =", "size =", "unknown dim 'size'"),
        ('name = "additions"', 'name = "additions"\nmachines = ["l4"]', "only L4 has enough rows"),
    ],
)
def test_bad_studies_are_one_line_and_exit_2(
    folder: Path, tmp_path: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adds.csv").write_text((folder / "adds.csv").read_text())
    (tmp_path / "study.toml").write_text(STUDY.replace(old, new))
    assert run(["calibrate", str(tmp_path / "study.toml")]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machine,kind,dtype,time_s,speed\n", "unknown column|no measurements"),
        ("machine,kind,dtype\n", "no column 'time_s'"),
        ("machine,kind,dtype,time_s,m\nl4,gem,float32,1,2\n", "line 2: unknown kind of operation 'gem'"),
        ("machine,kind,dtype,time_s,m\nl5,gemm,float32,1,2\n", "line 2: unknown machine 'l5'"),
        (
            "machine,kind,dtype,time_s,m\nl4,gemm,float32,1,2\n",
            "line 2: n is empty, which gemm needs; (2) line 2: k is empty",
        ),
        ("machine,kind,dtype,time_s,m,n,k\nl4,gemm,float32,-1,2,2,2\n", "line 2: time_s = -1 lies outside"),
        ("machine,kind,dtype,time_s,m,n,k\nl4,gemm,float33,1,2,2,2\n", "unknown data type 'float33'"),
        ("machine,kind,dtype,time_s,m,n,k,causal\nl4,gemm,float32,1,2,2,2,1\n", "causal = '1': want yes or no"),
    ],
)
def test_bad_measurements_name_file_line_and_column(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adds.csv").write_text(text)
    (tmp_path / "study.toml").write_text(STUDY)
    assert run(["calibrate", str(tmp_path / "study.toml")]) == 2
    error = capsys.readouterr().err
    assert "adds.csv" in error and any(word in error for word in words.split("|")), error


def test_impossible_rows_are_warned_of_and_dropped_when_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (folder / "adds.csv").read_text() + "\n".join(lines("l4", 0.8, 25, speedup=4.0)) + "\n"
    (tmp_path / "adds.csv").write_text(rows)
    (tmp_path / "study.toml").write_text(STUDY.replace("[fit]", '[fit]\nimpossible = "drop"'))
    assert run(["calibrate", str(tmp_path / "study.toml")]) == 0
    said = capsys.readouterr().out
    assert "rows are faster than physics allows (left out)" in said and "faster than main memory" in said


def test_measured_operations_move_their_kind_and_leave_the_host(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At batch 1 the host issues kernels as slowly as without them; at batch 64 slow adds show."""
    slow = tmp_path / "adds.csv"
    slow.write_text(f"kind,dtype,time_s,{ADD}\nelementwise,float32,0.008,67108864,134217728,67108864\n")
    for batch, least, most in ((1, 0.99, 1.01), (64, 1.05, 3.0)):
        common = ["resnet18-inference", "--on", "l4", "--batch", str(batch)]
        plain, known = (answer(capsys, *common, *more)["time_s"] for more in ([], ["--measured", str(slow)]))
        assert least < known / plain < most
    assert run(["estimate", "resnet18-inference", "--on", "l4", "--measured", str(folder / "anchor.csv")]) == 2
    assert "x faster than 'L4' can, by its main memory" in capsys.readouterr().err
    very_slow = tmp_path / "slower.csv"
    very_slow.write_text(slow.read_text().replace("0.008", "0.08"))
    others = {"xeon-gold-6148": "cpu", "tpu-v3-8": "tpu", "xeon-phi-7250": "many-core"}
    for other, kind in others.items():  # no kernels of GPUs answer for these
        assert run(["estimate", "resnet18-inference", "--on", other, "--measured", str(very_slow)]) == 2
        moved = f"measured operations move the kernels of GPUs, {machine(other).name} is a {kind}: give --calibration"
        assert moved in capsys.readouterr().err


@pytest.mark.parametrize("other", ["xeon-phi-7250", "xeon-phi-7120p", "gaudi2", "xeon-gold-6148"])
def test_fits_of_gpus_answer_for_no_other_kind(other: str) -> None:
    """Class by class: a Xeon Phi's own products are in the file, its additions are not; what was given is named."""
    gpus, on = read_calibration("gpus"), machine(other)
    adds = Workload("adds", (elementwise("a", 1e7, inputs=2),))
    with pytest.raises(InputError, match=r"calibration 'public times of .*kind gpu") as refused:
        question(adds, on, calibration=gpus)
    assert "give --calibration" not in str(refused.value)
    product = Workload("product", (gemm("g", 1760, 1760, 1760),))
    if other == "xeon-phi-7250":
        assert "its own 160 rows" in question(product, on, calibration=gpus).answer().assumptions[-1]


def test_repeats_are_the_noise_floor_and_anchors_are_the_nearest_rows() -> None:
    dims = {"batch": [1, 1, 1], "m": [64, 64, 4096], "n": [64, 64, 4096], "k": [64, 64, 4000]}
    form = OperationTimes.of(machine("l4"), "gemm", "float32", dims, [0.9e-5, 1.1e-5, 5e-3])
    assert noise_floor([form]) == pytest.approx(0.1)
    left, (row,) = taken([form], [Anchor("gemm.float32", {"m": 4096, "n": 4096, "k": 4096})])
    assert row.times.tolist() == [5e-3] and len(left[0]) == 2
    assert taken([form], [Anchor("gemm.float32", {"m": 2**25, "n": 2**25})])[1] == []
