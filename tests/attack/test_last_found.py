"""Numbers that no machine has, numbers that contradict one another, and minutes spent on what cannot be written."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time

import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.sensitivity.elasticities import crossovers
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.symbolic_max import Smallest
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measured_training import read_known
from slipstick.experiments.cli import cli
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import load_machine, save_machine

SERVE = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--num-requests", "4", "--concurrency", "2"]
TRAIN = ["plan", "training", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "8", "--batch", "8", "--seq-len", "1024"]


@pytest.mark.parametrize("words", [SERVE, TRAIN])
@pytest.mark.parametrize("change", ["memory.HBM3.bandwidth=1e-300", "engines.matrix.flop_per_cycle.bfloat16=1e-300"])
def test_a_machine_too_slow_for_numbers_is_refused(
    words: list[str], change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its third power was an OverflowError, and called a defect of ours."""
    assert cli.run([*words, "--set", f"machine.{change}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("value", [1e300, 1e-300, 5e-324])
def test_a_file_of_no_machine_is_refused(value: float, tmp_path: Path) -> None:
    """Such a bandwidth overflowed; a clock of 1e300 Hz drew infinite watts."""
    path = tmp_path / "own.yaml"
    save_machine(machine("h100-sxm").using({"memory.HBM3.bandwidth": value}), path)
    with pytest.raises(InputError, match=r"own.yaml: memory.HBM3.bandwidth = "):
        load_machine(path)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("3s@devices=8,devices=16", "stands twice"),
        ("3s@devices=8,gpus=16", "say the same"),
        ("3s@devices=8,step_s=1", "unknown number"),
        ("3s@devices=8,seconds=1", "unknown number"),
    ],
)
def test_a_known_time_that_contradicts_itself(known: str, said: str) -> None:
    """The last of them won: the seconds that were typed, too."""
    with pytest.raises(InputError, match=said):
        read_known(known)


@pytest.mark.parametrize(
    "words", [["--out", "file"], ["--name", "../other"], ["--name", "/other"], ["--name", ""], ["--name", "a\x1b[31m"]]
)
def test_a_probe_looks_where_it_writes_before_it_measures(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("precious")

    def measured(*given: object) -> None:
        raise AssertionError("measured first")

    monkeypatch.setattr("slipstick.experiments.calibrate.probing.probe.probe", measured)
    assert cli.run(["probe", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["file"] and Path("file").read_text() == "precious"


@pytest.mark.parametrize("text", ["1" * 100_000 + "!", "1e" + "1" * 50_000 + " " * 50_000 + "!", "1." * 50_000 + "!"])
def test_a_long_word_is_no_time_at_once(text: str) -> None:
    """Digits before and after a point that may be absent: looked at in as many ways as there are pairs of them."""
    begin = process_time()
    assert known_time(text) is None
    assert process_time() - begin < 5


@pytest.mark.parametrize("written", [("--report", "gemm.json"), ("--report=./gemm.json",), ("--save", "link.json")])
def test_a_file_that_is_read_is_not_written_over(
    written: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gemm.json").write_text("{}")
    Path("link.json").symlink_to("gemm.json")
    for word in ("gemm.json", "decode:gemm.json", "--measured=own.csv,gemm.json", "gemm.json:make"):
        assert cli.run(["estimate", word, "--on", "h100-sxm", *written]) == 2
        assert "is read by the same command" in capsys.readouterr().err
    assert Path("gemm.json").read_text() == "{}"


def test_a_page_goes_over_no_file_that_another_one_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine that the named one extends became a page."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text("extends: epyc-9654\nname: base\n")
    Path("mine.yaml").write_text("extends: base.yaml\nname: mine\n")
    words = ["estimate", "daxpy", "--on", "mine.yaml", "--report"]
    assert cli.run([*words, "base.yaml"]) == 2
    assert "--report base.yaml: a report is a page" in capsys.readouterr().err
    assert Path("base.yaml").read_text().startswith("extends:")
    assert cli.run([*words, "page.html"]) == cli.run([*words, "page.html"]) == 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("m,n,k,time_s\n512,512,512,1e-5\n8192,8192,8192,0.02\n", ""),  # a table over sizes, this one among them
        ("m,n,k,time_s\n512,512,1024,1e-5\n", "k = 1024, and the question asks k = 512"),
        ("m,n,k,time_s\n512,512,512,1e-5\n512,512,512,1.1e-5\n", ""),
        ("step,loss,time_s\n1,2.5,1e-5\n2,2.4,1.1e-5\n", ""),
    ],
)
def test_times_of_other_sizes_are_no_time_of_this_question(
    rows: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their median was the answer, and called measured."""
    path = tmp_path / "own.csv"
    path.write_text(rows)
    assert cli.run(["estimate", "gemm", "--on", "h100-sxm", "--measured", str(path)]) == (2 if said else 0)
    printed = capsys.readouterr()
    assert said in printed.err
    if not said:
        device, time = (re.search(rf"{before} ([\d.]+) µs", printed.out) for before in ("device:", "80 GB:"))
        assert device and time and device[1] == time[1]  # a kernel by itself is timed on the device
        assert float(time[1]) == pytest.approx(10.5, abs=0.6)


@pytest.mark.parametrize("change", ["microbatch=128", "data_parallel=128"])
def test_a_layout_gives_each_replica_a_microbatch(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the batch of 64 holds fewer samples, time was taken of 128 samples and throughput of 64."""
    assert cli.run(["estimate", "megatron-175b", "--on", "h100-sxm", "--set", f"run.{change}"]) == 2
    assert "run.data_parallel x run.microbatch = 128: more than run.batch = 64" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_no_terms_cross_where_one_has_no_real_value() -> None:
    """Just beyond the cap the root of the power that is left was complex, and its real part compared."""
    left = symbol("cap") - symbol("idle")
    terms = FrozenDict({"power": 1 / Smallest(left, left ** sp.Rational(1, 3)), "other": sp.Integer(10**6)})
    assert crossovers(Formula(sp.Integer(0), "s", "test", terms), "idle", {"cap": 700.0}) == []
