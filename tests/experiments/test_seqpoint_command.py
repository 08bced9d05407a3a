"""slipstick seqpoint and the logs it reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common import readers
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import save_machine
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.runs.iterations import Iterations
from tests.runs_made import write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 100, 400).astype(float)
    write_log(tmp_path / "run.csv", Iterations(lengths, (0.01 + 1e-3 * lengths) * generator.lognormal(0, 0.03, 400)))
    return tmp_path / "run.csv"


def test_the_answer_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["seqpoint", str(log), "--error", "0.5%", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    whole = read_log(log).total
    assert answer["iterations"] == 400
    assert answer["total_s"] == pytest.approx(whole)
    assert abs(answer["projected_s"] / whole - 1) < 0.01
    assert answer["low_s"] < answer["projected_s"] < answer["high_s"]
    assert sum(row["weight"] for row in answer["selected"]) == 400
    spent = sum(row["time_s"] for row in answer["selected"])
    assert answer["saving_serial"] == pytest.approx(whole / spent)


def test_the_table_the_picture_and_the_lengths_for_a_profiler(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, lengths = log.parent / "points.png", log.parent / "points.json"
    arguments = ["seqpoint", str(log), "--method", "stratified", "--representatives", "12"]
    assert run([*arguments, "--plot", str(picture), "--out", str(lengths)]) == 0
    out = capsys.readouterr().out
    assert "12 representatives" in out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    document = json.loads(lengths.read_text())
    assert len(document["representatives"]) == 12
    assert sum(entry["weight"] for entry in document["representatives"]) == pytest.approx(400)


def test_a_log_of_the_representatives_alone_projects_the_other_machine(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = read_log(log)
    lengths = np.unique(base.lengths)
    write_log(log.parent / "other.csv", Iterations(lengths, 0.02 + 3e-3 * lengths))
    assert run(["seqpoint", str(log), "--target-log", str(log.parent / "other.csv"), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    whole = float(np.sum(0.02 + 3e-3 * base.lengths))
    assert answer["projected_s"] == pytest.approx(whole, rel=0.03)
    assert answer["low_s"] < whole < answer["high_s"]


def test_a_simulated_run_of_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = [10, 20, 20, 40] * 10
    (tmp_path / "lengths.csv").write_text("seq_len\n" + "\n".join(map(str, lengths)) + "\n")
    arguments = ["seqpoint", "gnmt", "--on", "vega-fe", "--lengths", str(tmp_path / "lengths.csv"), "--format", "json"]
    assert run([*arguments, "--set", "workload.batch=32"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert [row["weight"] for row in answer["selected"]] == [10, 20, 10]
    assert answer["error_where_chosen"] == pytest.approx(0, abs=1e-12)
    assert (
        run(
            [
                "estimate",
                "gnmt",
                "--on",
                "vega-fe",
                "--set",
                "workload.batch=32",
                "--set",
                "workload.seq_len=40",
                "--format",
                "json",
            ]
        )
        == 0
    )
    (one,) = json.loads(capsys.readouterr().out)
    assert answer["selected"][2]["time_s"] == pytest.approx(one["time_s"])
    assert run(["seqpoint", "gnmt", "--on", "vega-fe"]) == 2
    assert "--on needs --lengths" in capsys.readouterr().err
    assert run(["seqpoint", "vgg16", "--on", "vega-fe", "--lengths", str(tmp_path / "lengths.csv")]) == 2
    assert "has no symbol seq_len" in capsys.readouterr().err


def test_lengths_of_a_log_that_holds_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each length is slow once: with the lengths of a Megatron log these are found, without them nothing is."""
    lengths = [512, *np.random.default_rng(0).permutation([256, 512, 1024, 2048] * 50).tolist()]
    met: set[int] = set()
    lines, warm = [], 0.0
    for number, length in enumerate(lengths, 1):
        seconds = length / 1024
        warm += seconds if number > 1 else 0.0
        slow = 1.0 if length in met or number == 1 else 20.0
        met |= {length} if number > 1 else set()
        lines.append(f" iteration {number:8d}/ 500 | elapsed time per iteration (ms): {1e3 * seconds * slow:.1f} |\n")
    log, table = tmp_path / "a.log", tmp_path / "lengths.csv"
    log.write_text("".join(lines))
    for whole in (lengths, lengths[1:]):  # the first iteration of a run warms up, and its line is left out
        table.write_text("seq_len\n" + "\n".join(map(str, whole)) + "\n")
        assert run(["seqpoint", str(log), "--lengths", str(table), "--format", "json"]) == 0
        (answer,) = json.loads(capsys.readouterr().out)
        assert answer["projected_s"] == pytest.approx(warm, rel=0.01) and answer["iterations"] == 200
        assert {row["length"] for row in answer["selected"]} == {256, 512, 1024, 2048}
        assert len(answer["slow_first"]) == 4
    assert ss.seqpoint(log, lengths=table).weights.sum() == 200
    table.write_text("tokens\n" + "\n".join(map(str, lengths[:150])) + "\n")
    with pytest.raises(
        InputError, match=r"150 lengths for 200 iterations \(2 .. 201\) .*: want 200, or 201 with those"
    ):
        read_log(log, "tokens", lengths=table)
    log.write_text("".join(lines[9::10]))
    table.write_text("seq_len\n" + "\n".join(map(str, lengths[:200])) + "\n")
    with pytest.raises(InputError, match="means of up to 10 iterations, and lengths want the time of each"):
        read_log(log, lengths=table)
    (tmp_path / "b.csv").write_text("length,time_s\n5,1.0\n7,1.4\n")
    with pytest.raises(InputError, match=r"b.csv holds the length of each iteration itself; leave lengths out"):
        read_log(tmp_path / "b.csv", lengths=table)


def test_json_logs_and_named_columns(tmp_path: Path) -> None:
    rows = [{"tokens": 10 * i, "time_s": 0.1 * i, "energy_J": 5.0 * i} for i in range(1, 6)]
    (tmp_path / "a.json").write_text(json.dumps({"iterations": rows}))
    read = read_log(tmp_path / "a.json")
    assert read.proxy == "tokens"
    assert read.known_times.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    (tmp_path / "b.json").write_text(json.dumps(rows))
    assert read_log(tmp_path / "b.json", column="energy_J").known_times.tolist() == [5, 10, 15, 20, 25]


def test_without_lengths_the_duration_stands_for_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("iteration,took_s\n0,0.25\n1,0.5\n")
    read = read_log(tmp_path / "a.csv")
    assert read.proxy == "duration"
    assert read.lengths.tolist() == [0.25, 0.5]


def test_profiler_steps_of_a_kineto_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def event(name: str, category: str, start: float, duration: float) -> dict[str, object]:
        return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": 1, "ts": start, "dur": duration, "args": {}}

    events = []
    for step, duration in enumerate((1000.0, 3000.0, 2000.0)):
        start = 10_000.0 * step
        events += [event(f"ProfilerStep#{step}", "user_annotation", start, duration)]
        events += [event("aten::mm", "cpu_op", start + 1, duration / 2)]
    # under any name a trace is read event by event: the bound of a document (a million events exceed it) is not its own
    monkeypatch.setattr(readers, "MAX_CONTAINERS", 5)
    for name in ("a.pt.trace.json", "a.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": events}))
        read = read_log(tmp_path / name)
        assert read.known_times.tolist() == pytest.approx([1e-3, 3e-3, 2e-3])
        assert read.profiles is not None
        np.testing.assert_allclose(read.profiles, 0.5)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "seq_len,time_s\n5,0\n", "iteration 0: time = 0 s: want 1e-09 to 1e+09 s"),
        ("a.csv", "seq_len,time_s\n5,nan\n", "not finite"),
        ("a.csv", "seq_len,time_s\n-5,1\n", "seq_len = -5 lies outside"),
        ("a.csv", "seq_len,count\n5,1\n", "no column of times"),
        ("a.csv", "seq_len,time_s\n", "has no rows"),
        ("a.json", "[]", "want a list of iterations"),
        ("a.json", '[{"length": 5, "time_s": "x"}]', "iterations[0]: time_s = 'x'"),
        ("a.json", '[{"length": 5, "time_s": 1}, 7]', "iterations[1]"),
        ("a.txt", "5 1", "want a log that ends in"),
        ("a.json", '{"traceEvents": []}', "has no steps"),
    ],
)
def test_bad_logs_end_in_one_line(
    tmp_path: Path, name: str, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert run(["seqpoint", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_unknown_columns_and_methods_are_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["seqpoint", str(log), "--column", "energy"]) == 2
    assert "unknown column" in capsys.readouterr().err
    assert run(["seqpoint", str(log), "--method", "seqpoints"]) == 2
    assert "did you mean 'seqpoint'" in capsys.readouterr().err
    with pytest.raises(InputError, match="want a picture"):
        from slipstick.estimators.sampling.seqpoint import select
        from slipstick.experiments.report.selection_chart import draw_selection

        draw_selection(read_log(log), select("median", read_log(log)), log.parent / "a.gif")


def test_counters_of_chosen_iterations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("seq_len\n" + "\n".join(["9"] * 3 + ["94"]) + "\n")
    words = ["seqpoint", "gnmt", "--on", "vega-fe", "--lengths", str(lengths), "--estimator", "tiled-roofline"]
    assert run([*words, "--counters", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)[0]
    short, long = answer["selected"]
    assert (short["weight"], long["weight"]) == (3, 1)
    assert answer["mean_flop"] == pytest.approx((3 * short["flop"] + long["flop"]) / 4)
    assert long["bytes_HBM2"] > 3 * short["bytes_HBM2"]
    assert run(["seqpoint", str(lengths), "--parameter", "seq_len", "--column", "seq_len", "--counters"]) == 2
    assert "--counters needs --on" in capsys.readouterr().err


def test_a_log_says_its_law_and_how_it_changes_on_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 ms that stay, and 1 ms a token that goes as GNMT does from one card to the same at half of its clock."""
    log = tmp_path / "log.csv"
    log.write_text("seq_len,time_s\n" + "".join(f"{n},{0.02 + 0.001 * n}\n" for n in range(5, 65, 5)))
    save_machine(machine("vega-fe").using(clock=8e8).model_copy(update={"name": "slow"}), tmp_path / "slow.yaml")
    question = ["--workload", "gnmt", "--on", "vega-fe", "--against", str(tmp_path / "slow.yaml")]
    assert run(["seqpoint", str(log), *question]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "a step takes 20 ms + 1 ms x length" in printed and "the ratio varies by" in printed
    run(["seqpoint", str(log)])
    assert "a step takes 20 ms" in capsys.readouterr().out
    assert run(["seqpoint", str(log), "--against", "mi100"]) == 2
    assert "--workload, --against and --on go together" in capsys.readouterr().err
    (tmp_path / "plain.csv").write_text("time_s\n" + "".join(f"{0.02 + 0.001 * n}\n" for n in range(5, 65, 5)))
    assert run(["seqpoint", str(tmp_path / "plain.csv"), *question]) == 2
    assert "no lengths, only durations" in capsys.readouterr().err
