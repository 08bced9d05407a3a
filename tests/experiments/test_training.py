"""Real training steps measured by length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.measure.training.epochs import CONFIGURATIONS, measure_epoch, summary, wanted_lengths

pytest.importorskip("torch", reason="measuring training needs torch (pip install 'slipstick[torch]')")


@pytest.mark.slow
def test_steps_take_longer_with_the_length_and_a_cut_log_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    lengths = [4, 60, 4, 60, 4, 60]
    measure_epoch("lstm", lengths, ["base", "avx2"], log)
    lines = log.read_text().splitlines()
    assert lines[0] == "iteration,seq_len,base_s,avx2_s"
    assert [line.split(",")[:2] for line in lines[1:]] == [[str(i), str(n)] for i, n in enumerate(lengths)]
    seconds = [float(line.split(",")[2]) for line in lines[1:]]
    assert min(seconds[1::2]) > min(seconds[::2])
    cut = tmp_path / "cut.csv"
    alone = [",".join(line.split(",")[:3]) for line in lines]
    cut.write_text("\n".join(alone[:4]) + "\n3,60,0.0")
    measure_epoch("lstm", lengths, ["base"], cut)
    again = cut.read_text().splitlines()
    assert again[:4] == alone[:4]
    assert len(again) == 7
    about = json.loads((tmp_path / "log.csv.json").read_text())
    assert about["configurations"]["avx2"]["capability"] in ("AVX2", "DEFAULT")
    assert about["configurations"]["base"]["clock"] == "thread"
    first, second = summary(log)
    assert first["speedup"] == 1.0
    assert second["time_s"] > 0


def test_a_log_of_another_epoch_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("iteration,seq_len,base_s\n0,9,0.1\n")
    with pytest.raises(InputError, match="belongs to another epoch"):
        measure_epoch("lstm", [8, 8], ["base"], log)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5,x", "length = 'x': want a whole number >= 1"),
        ("5,0", "length = '0': want a whole number >= 1"),
        ("5,2.5", "length = '2.5': want a whole number >= 1"),
        ("nowhere.csv", "no such file"),
    ],
)
def test_bad_lengths_are_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wanted_lengths(text, "lstm", 10, "sorted")


def test_lengths_of_a_selection_and_of_a_synthetic_epoch(tmp_path: Path) -> None:
    (tmp_path / "points.json").write_text('{"representatives": [{"length": 7.0, "weight": 2}, {"length": 9}]}')
    assert wanted_lengths(str(tmp_path / "points.json"), "gru", 10, "sorted") == [7, 9]
    epoch = wanted_lengths("synthetic", "attention", 64, "sorted")
    assert len(epoch) == 64 and epoch == sorted(epoch)


def test_bad_names_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown configuration 'avx3'"):
        measure_epoch("lstm", [5], ["avx3"], tmp_path / "a.csv")
    with pytest.raises(InputError, match="unknown network"):
        measure_epoch("rnn", [5], ["base"], tmp_path / "a.csv")
    with pytest.raises(InputError, match="each once"):
        measure_epoch("lstm", [5], ["base", "base"], tmp_path / "a.csv")
    assert CONFIGURATIONS["threads2"].clock == "wall"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from slipstick.experiments.cli.cli import run

    log = tmp_path / "log.csv"
    arguments = ["measure", "training", "--network", "attention", "--lengths", "8,64", "--configurations", "base"]
    assert run([*arguments, "--repeats", "3", "--out", str(log), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["configuration"] == "base" and row["speedup"] == 1.0
    assert len(log.read_text().splitlines()) == 3
    assert run(["measure", "training", "--order", "sort"]) == 2
    assert "unknown order" in capsys.readouterr().err
