"""What-ifs: equal to single estimates, ratios to today, the same whatever runs the chunks."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.axes import axis, counts_axis
from slipstick.experiments.question.question import question
from slipstick.experiments.question.space import Range, Space
from slipstick.experiments.studies import sweep as sweep_module
from slipstick.experiments.studies.sweep import sweep, task
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine

PHI = ("phi-cnn-small", "xeon-phi-7120p")


def test_table_x_is_a_what_if_over_threads() -> None:
    answer = whatif(*PHI, {"run.threads": list(xeon_phi.PREDICTED_THREADS)}, estimator="phi-a")
    published = [pair[0] for pair in xeon_phi.TABLE_X_MINUTES["small"]]
    assert np.allclose(answer.frame.time_s / 60, published, atol=0.06)


@pytest.mark.parametrize("estimator", ["phi-a", "phi-b"])
def test_every_point_equals_its_own_estimate_and_band(estimator: str) -> None:
    asked = question(*PHI, estimator, ["run.threads=240"])
    threads = (1.0, 15.0, 61.0, 240.0, 977.0, 3840.0)
    frame = sweep(task(replace(asked, vary=Space(FrozenDict({"run.threads": threads})))))
    for row in frame.itertuples():
        one = asked.estimator.estimate(asked.workload, asked.machine, {"threads": row._2})
        low, high = one.interval() or (None, None)
        assert row.time_s == pytest.approx(one.time, rel=1e-12)
        assert (row.low_s, row.high_s) == (pytest.approx(low, rel=1e-9), pytest.approx(high, rel=1e-9))
        assert row.time_ratio == pytest.approx(one.time / asked.answer().time, rel=1e-12)


def test_below_the_stated_clock_each_point_has_the_energy_that_estimate_gives_there() -> None:
    memory = "machine.memory.HBM3.bandwidth"
    answer = whatif("gpt2", "h100-sxm", {"machine.clock": [1.2e9, 1.5e9], memory: [2e12, 3e12, 2e12]})
    for row in answer.rows():
        settings = {name: row[name] for name in ("machine.clock", memory)}
        assert row["energy_J"] == pytest.approx(question("gpt2", "h100-sxm", settings=settings).answer().energy)


def test_todays_own_point_has_ratio_one_without_a_band() -> None:
    frame = whatif(*PHI, {"machine.clock": ["1.238 GHz", "2 GHz"]}, settings={"run.threads": 240}).frame
    assert list(frame.loc[0, ["time_ratio", "low_ratio", "high_ratio"]]) == [1.0, 1.0, 1.0]
    assert frame.low_ratio[1] < frame.time_ratio[1] < frame.high_ratio[1]


def test_a_band_of_ratios_counts_fitted_parameters_once() -> None:
    """At 480 and 960 threads both times hang on the same contention line: errors of the line largely cancel."""
    asked = question(*PHI, "phi-a", ["run.threads=480"])
    work = task(replace(asked, vary=Space(FrozenDict({"run.threads": (960.0,)}))))
    free = {"run.threads": np.array([960.0])}
    parameter, relative = work._parameter_spread(free, 1)
    draws_960 = asked.estimator.draws(asked.workload, asked.machine, {"threads": 960})
    draws_480 = asked.estimator.draws(asked.workload, asked.machine, {"threads": 480})
    assert parameter[0] == pytest.approx(np.std(np.log(draws_960), ddof=1), rel=1e-9)
    assert relative[0] == pytest.approx(np.std(np.log(draws_960 / draws_480), ddof=1), rel=1e-9)
    assert relative[0] < parameter[0]


def test_equal_bit_for_bit_whatever_runs_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "CHUNK_POINTS", 100)
    space = Space(
        FrozenDict({"run.threads": (60.0, 240.0, 480.0)}), FrozenDict({"machine.clock": Range(1e9, 3e9, "log")}), 300
    )
    work = task(replace(question(*PHI, "phi-a", []), vary=space))
    alone = sweep(work)
    assert len(alone) == 900
    for executor in (ThreadPoolExecutor(2), ProcessPoolExecutor(2)):
        with executor:
            pd.testing.assert_frame_equal(alone, sweep(work, executor), check_exact=True)


def test_a_simulation_answers_the_same_call() -> None:
    asked = question(*PHI, "phi-simulated", [])
    frame = sweep(task(replace(asked, vary=Space(FrozenDict({"run.threads": (80.0, 240.0)})))))
    single = [asked.estimator.estimate(asked.workload, asked.machine, {"threads": p}).time for p in (80, 240)]
    assert list(frame.time_s) == single


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ({}, "nothing varies"),
        (["machine.clock"], "want NAMESPACE.NAME=VALUES"),
        (["machine.clok=1GHz"], "did you mean"),
        (["machine.clock=1 GiB,2 GiB"], "does not convert to Hz"),
        (["machine.clock=-1GHz"], "want a number >= 1000"),
        (["run.threads=0,1"], "run.threads = 0"),
        (["machine.cores=1.5,2"], "cores = .1.5.: want a whole number"),
        (["run.threads=5..1"], "high > low"),
        (["run.threads=1..100000000"], "say how many steps"),
        (["machine.cores=1..4:7"], r"machine.cores=1..4:7: 7 steps in 4 whole numbers"),
        (["run.threads=1..4:5log"], r"run.threads=1..4:5log: 5 steps in 4 whole numbers"),
        (["estimator.operation.operation_factor=1e9"], "want a value in"),
        (["machine.clock=1GHz", "machine.clock=2GHz"], "varies twice"),
    ],
)
def test_bad_axes_say_what_is_wrong(vary: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        whatif(*PHI, vary)  # type: ignore[arg-type]


def test_steps_that_fall_on_one_whole_number_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["whatif", PHI[0], "--on", PHI[1]]
    # equal ratios of 8^(1/5): 1, 1.5, 2.3, 3.5, 5.3, 8
    words = "run.threads: 5 different whole numbers in the 6 steps of 1..8:6log"
    assert run([*where, "--vary", "run.threads=1..8:6log"]) == 0
    assert words in capsys.readouterr().out
    assert run([*where, "--vary", "run.threads=1..8:6log", "--format", "json"]) == 0
    notes = [row["note"] for row in json.loads(capsys.readouterr().out)]
    assert len(notes) == 5 and all(note.startswith(words) for note in notes)
    assert run([*where, "--vary", "run.threads=1..8:6log", "--format", "csv"]) == 0
    assert all(f",{words}" in line or f',"{words}' in line for line in capsys.readouterr().out.splitlines()[1:])
    for told in ("run.threads=1..8:4log", "run.threads=1..8:8", "run.threads=1..8", "run.threads=1,2"):
        assert run([*where, "--vary", told]) == 0
        assert "different whole numbers" not in capsys.readouterr().out


def test_a_measured_table_refuses_another_machine() -> None:
    with pytest.raises(InputError, match="measured times do not answer a what-if"):
        whatif(*PHI, {"machine.clock": ["2 GHz"]}, estimator="phi-b")


def test_ratios_and_no_workers_are_values_of_a_trace_but_not_of_an_estimator() -> None:
    on = machine(PHI[1])
    assert axis("run.host_ratio=0.5,1", on)[1].tolist() == [0.5, 1.0]
    assert axis("run.workers=0,4", on)[1].tolist() == [0, 4]
    with pytest.raises(InputError, match="run.threads = 0.5: want a whole number >= 1"):
        counts_axis("run.threads=0.5,1", on)
