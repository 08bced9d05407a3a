"""Energy, cost and other objectives of a study's points, and the front that nothing beats."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import differential_evolution

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY, energy
from slipstick.estimators.power.energy import PowerModel
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.objectives import on_front, with_front, with_objectives
from slipstick.experiments.question.question import question
from slipstick.experiments.report.page import best, front_chart
from slipstick.experiments.report.summary import energy_line
from slipstick.experiments.studies.whatif import WhatIf, whatif
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op, Workload

GNMT = ("gnmt", "vega-fe")
FLOP = Workload("flop", (Op("flop", "elementwise", cost=Cost({"flop.vector.float32": 1e12})),))
BYTES = Workload("bytes", (Op("bytes", "elementwise", cost=Cost({"read": 1e12})),))
TABLES = st.integers(1, 5).flatmap(
    lambda objectives: st.lists(st.tuples(*[st.integers(0, 6)] * objectives), min_size=1, max_size=40)
)


@given(TABLES)
def test_a_front_holds_what_nothing_beats(rows: list[tuple[int, ...]]) -> None:
    points = np.array(rows)
    beaten = [np.any(np.all(points <= p, axis=1) & np.any(points < p, axis=1)) for p in points]
    assert list(on_front(points)) == [not own for own in beaten]


def test_the_front_of_a_hundred_thousand_points_takes_no_square_of_time() -> None:
    angles = np.random.default_rng(3).random(100_000) * np.pi / 2
    circle = 2 - np.column_stack([np.cos(angles), np.sin(angles)])
    assert on_front(circle).all()  # an arc bulging towards the origin: nothing beats anything


@pytest.mark.parametrize("estimator", ["roofline", "tiled-roofline"])
def test_joules_of_a_table_are_those_of_each_estimate(estimator: str) -> None:
    asked = question(*GNMT, estimator, [])
    vary = {"workload.seq_len": [5, 100], "machine.clock": ["0.4 GHz", "1.6 GHz"], "machine.power.cap": [90, 300]}
    frame = whatif(*GNMT, vary, estimator=estimator).frame
    assert (frame[ENERGY] / frame.time_s >= asked.machine.power.idle).all()
    for _, row in frame.iterrows():
        changes = {"clock": row["machine.clock"], "power.cap": row["machine.power.cap"]}
        one = asked.estimator.estimate(
            asked.workload, asked.machine.using(changes), {"seq_len": row["workload.seq_len"]}
        )
        assert row[ENERGY] == pytest.approx(one.energy, rel=1e-9)


def test_a_time_that_knows_no_cap_takes_at_most_what_the_cap_allows_in_it() -> None:
    """The roofline's time is that of the clock as it is: joules end at the cap, and what would draw more is said."""
    asked = ("gemm", "h200-sxm", {"machine.power.cap": [300, 600, 1200]})
    found = whatif(*asked, estimator="roofline")
    watts = found.frame[ENERGY] / found.frame.time_s
    assert set(found.frame.time_ratio) == {1.0}
    assert watts[0] == pytest.approx(300) and watts[1] == pytest.approx(600)
    assert 600 < watts[2] < 1200  # float32 on the vector engine, at 1.98 GHz
    assert any("at 2 of 3 points" in text and "cap 300 W" in text for text in found.notes)
    said = question("gemm", "h200-sxm", "roofline", []).answer().assumptions
    assert any(text.startswith("above the power cap: would draw") and "cap 700 W" in text for text in said)
    assert not any("cap" in text for text in question("gemm", "v100-sxm", "tiled-roofline", []).answer().assumptions)


@pytest.mark.parametrize("cap", [40.0, 300.0, 700.0, 1200.0])
def test_the_energy_line_never_passes_the_cap_times_the_time(cap: float) -> None:
    asked = question("gemm", "h200-sxm", "roofline", {"machine.power.cap": cap})
    answer = asked.answer()
    line = energy_line(answer, facts(asked, answer), asked)
    watts = (answer.energy or 0.0) / answer.time
    assert watts <= cap * (1 + 1e-9)
    assert f"{shown(watts * answer.time, 'J')}, {shown(watts, 'W')} on average" in line
    assert ("the power cap: the work would draw more" in line) == (watts > cap * (1 - 1e-9))


@given(st.floats(0.3e9, 3e9))
def test_energy_of_a_flop_is_constant_below_the_knee_and_grows_as_the_square_above(clock: float) -> None:
    """E = C V^2 a switch, and V follows the clock above the knee; bytes and idle power do not."""
    on = machine("h200-sxm").using({"clock": clock, "power.idle": 0})
    model = PowerModel(active=0.0)
    flop, moved = (float(energy(one, on, {}, model, clock="nominal")({}, 1.0)) for one in (FLOP, BYTES))
    assert flop == pytest.approx(1e12 * 7.02e-12 * max(1.0, clock / 1.4e9) ** 2, rel=1e-12)
    assert moved == pytest.approx(1e12 * 30e-12, rel=1e-12)


def test_over_clocks_and_cores_many_points_are_on_the_front() -> None:
    """Fewer joules want a lower clock above the knee, and a shorter time below it."""
    vary = ["machine.clock=0.6GHz..2GHz:8", "machine.cores=66,132"]
    frame, _ = with_front(whatif("gemm", "h200-sxm", vary, estimator="roofline").frame, ["time", "energy"])
    front = frame[frame.front].sort_values("machine.clock")
    assert len(front) > 1 and set(front["machine.cores"]) == {132}
    assert (front["machine.clock"] >= 1.4e9 * 0.999).all() and front[ENERGY].is_monotonic_increasing


def test_energy_by_hand_from_flop_and_bytes() -> None:
    """Choi et al., IPDPS 2013: energy is work times its energy, and constant power times time."""
    asked = question("mlp-inference", "v100-sxm", "roofline", [])
    bound, power = asked.workload.bind_known({}).bound(), asked.machine.power
    time = 10.0
    flop = sum(float(op.cost.flop * op.times) for op in bound)
    moved = sum(float(op.cost.bytes_moved * op.times) for op in bound)
    model = PowerModel(active=0.0, flop=1.0, byte=2.0)
    volts = asked.machine.clock / 1.4e9  # 1.53 GHz, over the knee of the voltage
    by_hand = power.idle * time + flop * float(power.per_flop or 0) * volts**2 + 2.0 * moved * 30e-12
    dtypes = {name for op in bound for name in op.cost if name.startswith("flop.")}
    assert dtypes == {"flop.matrix.float32", "flop.vector.float32"}  # on this machine both run on the vector engine
    assert float(energy(bound, asked.machine, {}, model)({}, time)) == pytest.approx(by_hand, rel=1e-12)


def test_a_byte_takes_the_energy_of_every_level_that_it_passes() -> None:
    """Caches that state an energy add theirs to main memory's; one of no capacity is not there."""
    plain = machine("v100-sxm").using({"power.per_byte": "20 pJ/byte"})
    model = PowerModel(active=0.0)
    stated = plain.using({"memory.L2.per_byte": "3 pJ/byte", "memory.L1.per_byte": "1 pJ/byte"})
    small = stated.using({"memory.L1.capacity": 0})

    def joules(on: Machine) -> float:
        return float(energy(BYTES, on, {}, model)({}, 10.0)) - on.power.idle * 10.0

    assert [joules(on) for on in (plain, small, stated)] == pytest.approx([20.0, 23.0, 24.0], rel=1e-9)
    free = stated.using({"power.cap": "2 kW"})  # at its own cap the joules are the cap's
    frame = whatif("gnmt", free, {"machine.memory.L2.per_byte": [3e-12, 6e-12]}, estimator="roofline").frame
    assert frame[ENERGY][1] > frame[ENERGY][0] and frame.time_s[1] == frame.time_s[0]
    with pytest.raises(InputError, match=r"memory\.HBM2\.per_byte: the energy of main memory is power\.per_byte"):
        plain.using({"memory.HBM2.per_byte": 1e-12})


def test_dollars_follow_the_price_and_what_is_unknown_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    frame = whatif("resnet50", "ec2-c5-xlarge", {"machine.price": [0.17, 0.34]}).frame
    assert np.allclose(frame[COST], frame.time_s * frame["machine.price"] / 3600, rtol=1e-14)
    assert frame[ENERGY].isna().all()
    words = ["whatif", "gnmt", "--on", "vega-fe", "--vary", "machine.clock=1GHz,1.2GHz"]
    assert run(words) == 0
    assert "cost" not in capsys.readouterr().out  # nobody asked what it costs
    assert run([*words, "--objective", "time", "--objective", "cost"]) == 2
    assert "the machine gives no price (--set machine.price=2.5, in $/h)" in capsys.readouterr().err
    assert run(["estimate", "resnet50", "--on", "ec2-c5-xlarge", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["energy_J"] is None and answer["cost_usd"] == pytest.approx(answer["time_s"] * 0.17 / 3600)
    assert run(["estimate", *GNMT[:1], "--on", "vega-fe", "--set", "machine.price=3"]) == 0
    assert "at 3 $/h" in capsys.readouterr().out


def test_an_objective_is_a_word_a_column_or_a_formula() -> None:
    frame = pd.DataFrame({"machine.cores": [2.0, 4.0], "time_s": [3.0, 2.0], "energy_J": [1.0, np.nan]})
    found, names = with_objectives(frame, ["time", "core_s=machine.cores*time_s"])
    assert names == ["time_s", "core_s"] and list(found.core_s) == [6.0, 8.0]
    marked, _ = with_front(frame, ["time", "energy"])
    assert list(marked.front) == [True, False]  # what is not known cannot be on the front
    for bad, words in (
        (["time", "price"], "unknown objective"),
        (["time", "bad=price*2"], "unknown name"),
        (["time", "time_s"], "named twice"),
        (["time"], "two objectives or more"),
    ):
        with pytest.raises(InputError, match=words):
            with_front(frame, bad)
    with pytest.raises(InputError, match="energy_J is not known for any point"):
        with_front(frame.assign(energy_J=np.nan), ["time", "energy"])


def test_a_large_picture_is_thinned_and_keeps_the_front() -> None:
    generator = np.random.default_rng(5)
    frame = pd.DataFrame({"time_ratio": generator.random(50_000), "energy_J": generator.random(50_000)})
    frame, names = with_front(frame, ["time_ratio", "energy_J"])
    others, front = front_chart(frame, *names).marks
    assert len(others.x) <= 2000 and others.label.startswith("2000 of the 499")
    assert len(front.x) == frame.front.sum() == best(frame, 10).front.sum()


def test_a_study_keeps_its_front_beside_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "s.toml"
    where = ["gnmt", "--on", "vega-fe", "--vary", "machine.clock=0.8GHz..1.6GHz:5", "--vary", "machine.cores=16,64"]
    area = "area=machine.cores*machine.clock"
    assert run(["whatif", *where, "--objective", "time", "--objective", area, "--save", str(study)]) == 0
    assert f'objectives = ["time", "{area}"]' in study.read_text()
    folder = ["--folder", str(tmp_path / "out")]
    assert run(["study", "run", str(study), *folder]) == 0
    capsys.readouterr()
    assert run(["study", "report", str(study), *folder, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    kept = pd.read_parquet(tmp_path / "out" / "front.parquet")
    assert len(rows) == len(kept) > 1 and {"workload", "machine", "time_s", "energy_J", "area"} <= rows[0].keys()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "only the Pareto front" in page and "<tr class=front>" in page
    assert run(["study", "report", str(study), *folder, "--objective", "time", "--objective", "energy"]) == 0
    assert "beaten by no other in time_s, energy_J" in capsys.readouterr().out


ROWS, COLUMNS_ = "machine.engines.matrix.rows", "machine.engines.matrix.columns"
CELLS = "cells=machine.cores*machine.engines.matrix.rows*machine.engines.matrix.columns"
OWN = """
def area(machine, workload, answer):
    engine = machine.engines["matrix"]
    assert answer["time_s"] > 0 and len(workload) >= 1
    return machine.cores * engine.rows * engine.columns

def wrong(machine, workload, answer):
    return 1 / 0
"""


def swept() -> WhatIf:
    return whatif(
        "resnet50-inference", "trainium2", {ROWS: [64, 128, 256], COLUMNS_: [64, 128]}, settings=["workload.batch=4"]
    )


def test_objectives_name_what_does_not_vary_and_what_follows_from_what_does() -> None:
    answer = swept()
    rate = "rate=machine.engines.matrix.flop_per_cycle.bfloat16"
    frame, names = with_objectives(answer.frame, [CELLS, rate], lambda _: answer.question)
    assert list(frame.cells) == [8 * r * c for r in (64, 128, 256) for c in (64, 128)] and names == ["cells", "rate"]
    stated = machine("trainium2").engines["matrix"].flop_per_cycle["bfloat16"]
    assert list(frame.rate) == pytest.approx([stated * cells / (8 * 128 * 128) for cells in frame.cells])
    with pytest.raises(InputError, match="machine.cores"):
        with_objectives(answer.frame, [CELLS])


def test_a_function_of_a_file_is_an_objective_where_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("area_of_mine.py").write_text(OWN)
    asked = ["whatif", "resnet50-inference", "--on", "trainium2", "--vary", f"{ROWS}=64,128,256", "--objective", "time"]
    assert run([*asked, "--objective", "area=area_of_mine.py:area", "--save", "s.toml", "--format", "json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [row["area"] for row in table] == [8 * 128 * rows for rows in (64, 128, 256)]
    assert all(0 < row["front_probability"] <= 1 for row in table if row["front"])
    assert run([*asked, "--objective", "area=area_of_mine.py:wrong"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert run(["study", "run", "s.toml"]) == 0
    assert run(["study", "report", "s.toml"]) == 2
    assert "--allow-code area_of_mine.py:area" in capsys.readouterr().err
    assert run(["study", "report", "s.toml", "--allow-code", "area_of_mine.py:area", "--format", "json"]) == 0
    assert {"area", "front_probability"} <= json.loads(capsys.readouterr().out)[0].keys()


def test_the_probability_of_the_front_is_that_of_draws_from_the_bands() -> None:
    """Two designs of one price whose ratios differ by d, one of them with a spread s: on the front by Phi(d / s)."""
    spread, apart = 0.1, 0.07
    low, high = (np.exp(apart + sign * spread * 1.2815515655) for sign in (-1, 1))
    table = pd.DataFrame(
        {"time_s": [1.0, np.exp(apart)], "low_ratio": [1.0, low], "high_ratio": [1.0, high], "price": [3.0, 3.0]}
    )
    frame, _ = with_front(table, ["time", "price"])
    first = 0.5 * (1 + math.erf(apart / spread / math.sqrt(2)))
    assert list(frame.front) == [True, False]
    assert list(frame.front_probability) == pytest.approx([first, 1 - first], abs=0.09)
    certain, _ = with_front(table.assign(low_ratio=1.0, high_ratio=1.0), ["time", "price"])
    assert list(certain.front_probability) == [1, 0]


@pytest.mark.slow
def test_a_study_is_asked_and_told_by_an_optimiser_outside() -> None:
    """Every answer is that of the grid of all sides; scipy comes within 5 % of the best of them."""
    sides = ss.Study(
        schema="slipstick-study-1", name="sides", workloads=["gemm"], machines=["trainium2"],
        vary={ROWS: "16..512"}, objectives=["time", "loss=time_s*machine.engines.matrix.rows"],
    )  # fmt: skip
    space = ss.AskTell(sides)

    def loss(rows: np.ndarray) -> float:
        return float(space.ask({ROWS: int(rows[0])})["loss"])

    found = differential_evolution(loss, [(16, 512)], integrality=[True], seed=1, maxiter=10, popsize=8)
    grid = whatif("gemm", "trainium2", {ROWS: list(range(16, 513))}).frame
    losses = dict(zip(grid[ROWS], grid.time_s * grid[ROWS], strict=True))
    assert found.fun == pytest.approx(losses[int(found.x[0])], rel=1e-9)
    assert found.fun <= 1.05 * min(losses.values())
    assert len(space.front()) == found.nfev
    told = space.tell({ROWS: 64}, time_s=1e-12)
    assert told["time_s"] == 1e-12 and told["front"] and told["front_probability"] == 1
    assert len(space.front()) == found.nfev + 1
    with pytest.raises(InputError, match="machine.cores"):
        space.ask({"machine.cores": 2})
    with pytest.raises(InputError, match="no case"):
        space.ask({ROWS: 64, "workload": "mlp"})
