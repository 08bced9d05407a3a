"""Explanations against closed forms: shares, tornado ends, smallest changes, fronts and rankings."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain import explanation as why
from slipstick.experiments.explain.evaluator import Evaluator, sides
from slipstick.experiments.question.facts import bounds
from slipstick.experiments.question.question import Question, question

GNMT = ("gnmt", "v100-sxm", "roofline")


@pytest.fixture(scope="module")
def gnmt() -> Question:
    return question(*GNMT, [])


@pytest.fixture(scope="module")
def phi() -> Question:
    return question("phi-cnn-small", "xeon-phi-7120p", "phi-a", ["run.threads=480"])


def test_shares_add_up_and_follow_the_bound_of_each_operation(gnmt: Question) -> None:
    rows = why.bottleneck_rows(gnmt.answer())
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    whole = gnmt.answer().time
    memory = sum(p.time * p.times for p in gnmt.answer().parts if p.bound_by == "memory") / whole
    assert {row["bound_by"]: row["share"] for row in rows}["memory"] == pytest.approx(memory)


def test_a_tornado_end_is_its_own_estimate(gnmt: Question) -> None:
    rows = {row["quantity"]: row for row in why.tornado_rows(gnmt, ["machine.clock", "machine.cores"])}
    faster = gnmt.estimator.estimate(gnmt.workload, gnmt.machine.using(clock=2 * gnmt.machine.clock)).time
    assert rows["machine.clock"]["multiplied"] == pytest.approx(faster / gnmt.answer().time, rel=1e-12)
    assert rows["machine.clock"]["multiplied"] == pytest.approx(rows["machine.cores"]["multiplied"], rel=1e-12)


def test_the_smallest_change_reaches_the_target_and_less_does_not(phi: Question) -> None:
    (row,) = why.cheapest_changes(phi, 0.8, ["machine.clock"])
    serial = phi.answer().time
    parts = {
        f: phi.estimator.estimate(phi.workload, phi.machine.using(clock=f * phi.machine.clock), phi.run).time
        for f in (1, 2)
    }
    scaled = 2 * (parts[1] - parts[2])  # T = fixed + scaled / factor
    assert row["factor"] == pytest.approx(scaled / (0.8 * serial - (serial - scaled)), rel=1e-9)


def test_the_clock_that_gives_a_time_gives_it(phi: Question) -> None:
    seconds = 0.75 * phi.answer().time
    told = ss.explain("phi-cnn-small", "xeon-phi-7120p", ["machine.clock"], target=f"{seconds!r} s",
                      estimator="phi-a", settings={"run.threads": 480})  # fmt: skip
    (row,) = told.changes
    faster = phi.machine.using(clock=row["needed"])
    assert phi.estimator.estimate(phi.workload, faster, phi.run).time == pytest.approx(seconds, rel=1e-6)
    with pytest.raises(InputError, match="a time below today's"):
        ss.explain("phi-cnn-small", "xeon-phi-7120p", target="1 h", estimator="phi-a", settings={"run.threads": 480})


def test_a_target_out_of_reach_says_so_and_prices_order_changes(phi: Question) -> None:
    rows = why.cheapest_changes(phi, 0.4, ["machine.clock", "run.epochs"])
    assert {row["quantity"]: row["factor"] is None for row in rows} == {"machine.clock": True, "run.epochs": False}
    names = ["machine.clock", "run.epochs"]
    cheap = why.cheapest_changes(phi, 0.9, names, {"machine.clock": 0.01})
    assert [row["quantity"] for row in cheap] == names
    with pytest.raises(InputError, match="between 0 and 1"):
        why.cheapest_changes(phi, 1.5)


def test_crossovers_are_where_the_bound_turns(gnmt: Question) -> None:
    name = f"machine.memory.{gnmt.machine.main_memory}.bandwidth"
    row = why.crossover_rows(gnmt, [name])[0]
    for factor, bound in ((0.999, row["below"]), (1.001, row["above"])):
        changed = gnmt.machine.using({name.removeprefix("machine."): row["turns_at"] * factor})
        parts = gnmt.estimator.estimate(gnmt.workload, changed).parts
        assert next(part.bound_by for part in parts if part.name == row["operation"]) == bound


def test_two_together_is_the_estimate_of_both(gnmt: Question) -> None:
    name = f"memory.{gnmt.machine.main_memory}.bandwidth"
    grid = why.interaction(gnmt, "machine.clock", f"machine.{name}", (0.5, 1.0, 2.0))
    changed = gnmt.machine.using({"clock": 2 * gnmt.machine.clock, name: 0.5 * gnmt.machine.get(name)})
    assert grid[1, 1] == pytest.approx(1)
    assert grid[0, 2] == pytest.approx(gnmt.estimator.estimate(gnmt.workload, changed).time / gnmt.answer().time)


def test_rankings_under_scatter_match_the_normal_distribution(phi: Question) -> None:
    slower = replace(phi, machine=phi.machine.using(clock=0.7 * phi.machine.clock))
    rows = {row["name"]: row for row in why.ranking({"today": phi, "slower": slower}, draws=20_000)}
    scatter = phi.estimator.residual_std * math.sqrt(2)
    gap = math.log(slower.answer().time / phi.answer().time)
    expected = 0.5 * (1 + math.erf(gap / scatter / math.sqrt(2)))
    assert rows["today"]["faster_than slower"] == pytest.approx(expected, abs=0.015)
    assert rows["today"]["fastest"] + rows["slower"]["fastest"] == pytest.approx(1)
    with pytest.raises(InputError, match="needs a calibrated estimator"):
        why.ranking({"one": question(*GNMT, [])})


def test_the_verbs_answer_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    where = ["phi-cnn-small", "--on", "xeon-phi-7120p", "--set", "run.threads=240", "--format", "json"]
    assert run(["explain", *where]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    keys = {"quantity", "value", "elasticity", "ratio_at_twice", "at_ridge", "below", "above", "turns_at"}
    assert found["elasticities"][0].keys() == keys
    assert run(["whatif", *where, "--vary", "run.threads=240,480", "--save", str(tmp_path / "s.toml")]) == 0
    rows = json.loads(capsys.readouterr().out)
    keys = ["run.threads", "time_ratio", "low_ratio", "high_ratio", "time_s", "low_s", "high_s", "energy_J", "cost_usd"]
    keys += ["remarks", "conditions", "not_used", "provenance", "schema_version"]
    assert list(rows[0]) == keys and rows[0]["time_ratio"] == 1
    assert (tmp_path / "s.toml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "schema"),
        ('schema = "other"', "schema"),
        ("schema = [", "not TOML"),
        ('schema = "slipstick-study-1"\nname = "x"\nworkloads = ["gnmt"]\nmachines = ["v100-sxm"]', "nothing varies"),
        (
            'schema = "slipstick-study-1"\nname = "../x"\nworkloads = ["a"]\nmachines = ["b"]\n[vary]\n"run.a" = [1]',
            "name",
        ),
        ('schema = "slipstick-study-1"\nname = "x"\nworkloads = ["gnmt"]\nmachines = ["v"]\ncolour = 1', "colour"),
        (
            'schema = "slipstick-study-1"\nname = "x"\nworkloads = ["gnmtt"]\nmachines = ["v100-sxm"]\n'
            '[vary]\n"machine.clock" = [1e9]',
            "did you mean 'gnmt'",
        ),
        (
            'schema = "slipstick-study-1"\nname = "x"\nworkloads = ["gnmt"]\nmachines = ["v100-sxm"]\n'
            "[sample]\ncount = 0\nranges = {}",
            "count",
        ),
    ],
)
def test_broken_studies_end_in_one_line(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    assert run(["study", "run", str(path), "--folder", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("threads,time_s\n1,2", "unknown column"),
        ("run.threads\n1", "no column 'time_s'"),
        ("run.threads,time_s\n1,2\n1,3", "the same settings as line 2"),
        ("run.threads,time_s\n1,-2", "lies outside"),
        ("run.threads,time_s\n1,nan", "is not finite"),
        ("machine.clock,time_s\n1 GiB,2", "does not convert"),
        ("run.threads,time_s\n", "no measurements"),
    ],
)
def test_broken_measurements_end_in_one_line(
    rows: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.csv").write_text(rows)
    asked = ["whatif", "phi-cnn-small", "--on", "xeon-phi-7120p", "--vary", "machine.clock=1GHz"]
    fitted = ["--measured", str(tmp_path / "runs.csv"), "--fit", "operation.operation_factor"]
    assert run([*asked, *fitted]) == 2
    assert words in capsys.readouterr().err


def test_two_quantities_together_take_whole_cores() -> None:
    asked = question("gemm", "l4", "roofline", {"workload.m": 512, "workload.n": 512, "workload.k": 512})
    grid = why.interaction(asked, "machine.cores", "machine.clock", (0.25, 1.0, 4.0))  # 58 cores: 14, 58, 232
    assert grid.shape == (3, 3) and grid[1, 1] == pytest.approx(1.0)
    assert grid[1, 0] >= grid[1, 1] >= grid[1, 2]


def test_no_change_leaves_the_bounds_of_a_parameter() -> None:
    """Twice the share of a peak is no way where the share is above a half."""
    question = ss.question("gpt2", "H100", "roofline", settings={"estimator.operation.memory_efficiency": 0.8})
    rows = {row["quantity"]: row for row in ss.analysis.cheapest_changes(question, 0.8)}
    assert rows["estimator.operation.memory_efficiency"]["factor"] is None
    slower = ss.question("gpt2", "H100", "roofline", settings={"estimator.operation.memory_efficiency": 0.3})
    row = {row["quantity"]: row for row in ss.analysis.cheapest_changes(slower, 0.8)}[
        "estimator.operation.memory_efficiency"
    ]
    assert 0.3 < row["needed"] <= 1


def test_a_cap_above_the_rated_one_helps_no_table_as_it_helps_no_what_if() -> None:
    """An L4 at its 72 W: twice the cap raises no clock, half slows it, and no board idles above its cap."""
    sizes = {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096}
    asked = ss.question("gemm", "l4", settings=sizes)
    watts = ss.whatif("gemm", "l4", {"machine.power.cap": [36.0, 72.0, 144.0]}, settings=sizes)
    slower, _, faster = watts.frame.time_ratio
    (row,) = (row for row in ss.analysis.elasticity_rows(asked) if row["quantity"] == "machine.power.cap")
    assert row["ratio_at_twice"] == pytest.approx(faster) == 1.0 and row["elasticity"] < 0 and row["at_ridge"]
    (ends,) = (row for row in why.tornado_rows(asked) if row["quantity"] == "machine.power.cap")
    assert ends["divided"] == pytest.approx(slower, rel=1e-6) and slower > 1.5
    factors = {row["quantity"]: row["factor"] for row in ss.analysis.cheapest_changes(asked, 0.8)}
    assert factors["machine.power.cap"] is None and factors["machine.power.idle"] is None
    with pytest.raises(InputError, match="no formula"):
        ss.analysis.cheapest_together(asked, 0.8, {"machine.power.cap": 1.0})


@pytest.mark.slow  # two explanations, each in a process of its own
def test_no_digit_hangs_on_the_order_of_hashes() -> None:
    words = [sys.executable, "-m", "slipstick", *["explain", "megatron-22b", "--on", "a100-80-dgx", "--format", "json"]]
    seeds = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    one, other = (subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout for env in seeds)
    assert one == other


def test_quantities_that_are_turned_are_not_0_and_give_the_time_of_today() -> None:
    """`weights_between` is 0 in the machine's file and found by the estimator: as a dial it stood at 0, for ever."""
    asked = question("mlp-inference", "h100-sxm", dtype="bfloat16")
    dials = why.Evaluator.of(asked)
    assert [name for name, value in dials.today.items() if not value] == []
    assert dials.today_time == pytest.approx(asked.answer().time, rel=1e-9)


@pytest.mark.slow
def test_flash_attention_is_one_answer_in_all_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    """What explain promises of a move is what the move then gives."""
    asked = ["gpt2-inference", "--on", "h100-sxm", "--batch", "8", "--dtype", "bf16", "--format", "json"]
    flash = [*asked, "--attention", "flash"]
    answers = {}
    for name, words in {
        "move": ["explain", *asked],
        "estimate": ["estimate", *flash],
        "whatif": ["whatif", *flash, "--vary", "machine.clock=1.98GHz,1GHz"],
        "explain": ["explain", *flash],
    }.items():
        assert run(words) == 0
        answers[name] = json.loads(capsys.readouterr().out)[0]
    (promised,) = (row["time_s"] for row in answers["move"]["moves"] if row["move"] == "--attention flash")
    times = [answers["estimate"]["time_s"], answers["whatif"]["time_s"], answers["explain"]["time_s"]]
    assert times == pytest.approx([promised] * 3, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["h100-sxm", "a100-sxm-80gb", "rtx-4090"])
def test_slopes_of_a_size_are_of_sizes_that_tile_as_well(on: str) -> None:
    """A step to 1,025 tokens is a cliff of 4 %, a slope of 40; work is between linear and quadratic in the length, and
    a wave of tiles more is at most 1 % of a step of a sixteenth."""
    query = question("gpt2-inference", on, settings={"workload.batch": 8}, dtype="bfloat16")
    rows = why.elasticity_rows(query)
    (row,) = (each for each in rows if each["quantity"] == "run.seq_len")
    for slope in (row["elasticity"], *sides(Evaluator.of(query), "run.seq_len")):
        assert slope is not None and 1 <= slope <= 2 + 0.01 * 16


@pytest.mark.parametrize("on", ["tpu-v5e", "h100-sxm"])
def test_what_bounds_a_time_has_the_shares_of_the_estimate(on: str) -> None:
    """Several lanes work on a TPU: their overlap is a share of both, or of neither."""
    told = {row["bound_by"]: row["share"] for row in ss.explain("bert-base", on).bottlenecks}
    query = ss.question("bert-base", on)
    assert told == pytest.approx(dict(bounds(query.answer())))
    assert sum(told.values()) == pytest.approx(1)
