"""A power limit is a number of the machine: plan, what-if and estimate of a metered run print the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.estimators.power.power_limit_run import PowerLimitRun
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.power.power_plan import power_plan
from slipstick.experiments.question.question import question
from tests.printed import printed

RUNS = [
    ("v100-sxm2-16gb", 240.0, 220.0, 150.0),
    ("v100-sxm2-16gb", 3600.0, 290.0, 180.0),
    ("v100-sxm2-16gb", 12.5, 90.0, 120.0),
    ("v100-sxm2-16gb", 100.0, 250.0, 250.0),
    ("p100-pcie-16gb", 240.0, 180.0, 125.0),
    ("p100-pcie-16gb", 0.25, 110.0, 200.0),
    ("a100-sxm-80gb", 7200.0, 350.0, 250.0),
    ("a100-sxm-80gb", 30.0, 200.0, 160.0),
    ("h100-sxm", 86400.0, 650.0, 450.0),
    ("h100-sxm", 1.0, 400.0, 300.0),
]


def test_a_mean_power_above_the_boards_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "power-limit", "--time", "240s", "--power", "320W", "--rated", "250W"]) == 2
    assert "mean power = 320 W: above the board's rated power, 250 W" in capsys.readouterr().err
    assert run(["plan", "power-limit", "--time", "240s", "--power", "250W", "--rated", "250W"]) == 0


@pytest.mark.parametrize(("on", "time", "power", "limit"), RUNS)
def test_a_metered_run_under_a_limit(
    on: str, time: float, power: float, limit: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.csv").write_text(f"time_s,power_W\n{time},{power}\n")
    known, rated = str(tmp_path / "run.csv"), ss.machine(on).power.cap
    assert rated is not None
    (row,) = power_plan(time, power, rated, limits=[limit]).rows()
    words = ["gpt2", "--on", on, "--measured", known]
    one = printed(["estimate", *words, "--set", f"machine.power.cap={limit}"], capsys)
    swept = printed(["whatif", *words, "--vary", f"machine.power.cap={limit}W"], capsys)
    quantities = {each["quantity"]: each for each in one["quantities"]}
    assert row["time_s"] == one["time_s"] == swept["time_s"] == quantities["time"]["value"]
    assert row["power_W"] == quantities["power"]["value"] == swept["power_W"]
    assert row["energy_J"] == quantities["energy"]["value"] == swept["energy_J"]
    assert row["time_ratio"] == pytest.approx(swept["time_ratio"], rel=1e-12)
    ends = [quantities["time"][end] / time for end in ("low", "high")]
    assert [row["low_ratio"], row["high_ratio"]] == pytest.approx(ends)
    assert row["low_ratio"] >= 1 and swept["low_ratio"] >= 1  # a limit makes no run faster


@given(st.floats(60, 300), st.floats(100, 300), st.floats(100, 300))
def test_a_lower_limit_is_never_faster_and_never_draws_more(power: float, one: float, other: float) -> None:
    metered = PowerLimitRun(100.0, power)
    low, high = (metered.under(limit, 300.0) for limit in sorted((one, other)))
    assert low.time >= high.time * (1 - 1e-12)
    assert low.quantities["power"].value <= high.quantities["power"].value * (1 + 1e-9)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_of_a_run_are_separated_as_in_every_csv(mark: str, tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text(f"time_s{mark}power_W\n0.4{mark}400\n")
    assert isinstance(read_known_answer(str(tmp_path / "run.csv"), ss.machine("h100-sxm")), PowerLimitRun)


@pytest.mark.parametrize("cells", ["time_s,power_W\n0,220\n", "time_s,power_W\n1,2\n3,4\n", "time_s,power_W\n1,x\n"])
def test_broken_runs_name_their_file(cells: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.csv").write_text(cells)
    assert run(["estimate", "gpt2", "--on", "h100-sxm", "--measured", str(tmp_path / "run.csv")]) == 2
    assert "run.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("workload", "on", "dtype"),
    [("llama-3-8b-inference", "h100-sxm", None), ("gpt2", "h100-sxm", "bf16"), ("gemm", "a100-sxm-80gb", None)],
)
def test_the_same_work_draws_no_more_at_a_lower_clock(workload: str, on: str, dtype: str | None) -> None:
    """Power falls with the clock; energy of products that a clock holds back falls with the voltage above the knee."""
    clock = ss.machine(on).clock
    answers = [
        question(workload, on, settings={"machine.clock": share * clock}, dtype=dtype).answer()
        for share in (1.0, 0.85, 0.7, 0.5, 0.3)
    ]
    watts = [(answer.energy or 0.0) / answer.time for answer in answers]
    assert watts == sorted(watts, reverse=True) and watts[-1] > 0
    if on == "h100-sxm":  # its clock lies above the knee of the voltage
        assert (answers[2].energy or 0.0) < (answers[0].energy or 0.0)
    table = ss.whatif(workload, on, {"machine.clock": [0.5 * clock, clock]}, dtype=dtype).to_frame()
    assert table["energy_J"].tolist() == pytest.approx([answers[3].energy, answers[0].energy], rel=1e-9)
    assert table["low_ratio"][0] >= 1.0  # a lower clock is never faster


def test_a_training_step_draws_no_more_at_a_lower_clock() -> None:
    table = ss.whatif("train:llama-3.1-8b", "h100-dgx", {"machine.clock": ["0.5x", "0.7x", "1x"]}).to_frame()
    assert table["power_W"].is_monotonic_increasing and table["low_ratio"].min() >= 1.0
