"""The TPU scoreboard: goals on held-out rows, and how its bands are made."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.fitting.student_t import student_scatter
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.question import registry
from slipstick.experiments.question.estimator_builders import fitted_tpu
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.tpu import tpu_board
from slipstick.experiments.scoreboards.tpu import tpu_board as tpu_fit
from slipstick.experiments.scoreboards.tpu.tpu_board import STEPS, TRACES, read_steps, read_traces
from slipstick.experiments.studies.whatif import whatif

MLP = ("data-parallel-mlp", "tpu-v2-8", None)


def test_the_scatter_finds_both_of_its_parts_and_its_tails() -> None:
    generator = np.random.default_rng(0)
    time = np.exp(generator.uniform(np.log(1e-3), np.log(1.0), 3000))
    error = generator.standard_t(4.0, size=3000) * np.hypot(0.02, 3e-4 / time)
    relative, seconds, freedom = student_scatter(error, time)
    assert relative == pytest.approx(0.02, rel=0.1)
    assert seconds == pytest.approx(3e-4, rel=0.1)
    assert freedom == pytest.approx(4.0, rel=0.2)


def test_the_registered_estimator_gives_bands_of_time_and_shares() -> None:
    small, large = (question(*MLP, [f"run.batch={batch}"]).answer() for batch in (512, 8192))
    for answer in (small, large):
        ends = answer.interval(0.9)
        assert ends is not None and ends[0] < answer.time < ends[1]
        for name in ("infeed", "matrix"):
            ends = answer.metric_intervals[name]
            assert 0 <= ends[0] <= answer.metrics[name] <= ends[1] <= 1
    # the start of the infeed scatters in seconds: short steps are less sure
    assert (small.spread.residual or 0) > 2 * (large.spread.residual or 1)
    assert large.metric_intervals["infeed"][0] > 0.3
    assert small.metric_intervals["infeed"][0] == 0.0


def test_a_what_if_gives_them_too_and_other_networks_get_wider_ones() -> None:
    frame = whatif("data-parallel-mlp", "tpu-v2-8", {"workload.batch": [512, 8192]}).frame
    assert list(frame.low_infeed <= frame.infeed) == [True, True]
    assert frame.infeed[1] > 0.5 > frame.high_infeed[0]
    assert (frame.low_s < frame.time_s).all() and (frame.low_matrix < frame.matrix).all()
    other = question("mlp", "tpu-v2-8", "tpu", []).answer()  # nothing was fitted to it
    known = question(*MLP, ["run.batch=512"]).answer()
    assert (other.spread.total or 0) > 1.5 * (known.spread.total or 1)


def test_the_defaults_of_the_model_are_the_fitted_values() -> None:
    fitted, plain = registry.estimator("tpu").parameters, parameters(tpu_fit.estimator())
    assert {name: value for name, (value, _) in plain.items()} == pytest.approx(
        {name: value for name, (value, _) in fitted.items() if name in plain}, rel=3e-3
    )


def test_missing_files_are_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    (row,) = tpu_board.BOARD.rows()
    assert row.case == "skipped" and "no public measurements" in row.reason


def test_unseen_widths_and_shares_of_unseen_networks_are_met() -> None:
    path, traces = training_file(STEPS), training_file(TRACES)
    if path is None or traces is None:
        pytest.skip("TPU step rates: no public measurements here (set SLIPSTICK_DATA)")
    known, looked_at = read_steps(path), read_traces(traces)
    train = {key: time for key, time in known.items() if key[1] < 2048 and key not in looked_at}
    fitted = tpu_fit.fit(list(train), np.array(list(train.values())))
    model = fitted.estimator
    test = [key for key in known if key[1] >= 2048]
    error = tpu_fit.times(model, test) / np.array([known[key] for key in test])
    assert np.mean(np.abs(error - 1)) <= 0.06
    inside = np.abs(np.log(error)) <= tpu_fit.half_width(fitted, test, 0.9)
    assert 0.84 <= np.mean(inside) <= 0.95  # a 90 % band covers 84.3 % of widths that were left out: short, and said so
    infeed = np.array([pair[0] for pair in looked_at.values()])
    assert np.mean(np.abs(100 * tpu_fit.shares(model, list(looked_at))["infeed"] - infeed)) <= 3.0
    # the bands of many rows are those of the estimator, one by one
    sizes = dict(zip(("layers", "width", "inputs", "outputs", "batch"), test[0], strict=True))
    one = fitted.estimate(question(*MLP, []).workload, question(*MLP, []).machine, sizes).interval(0.9)
    assert one is not None
    assert np.log(one[1] / one[0]) / 2 == pytest.approx(tpu_fit.half_width(fitted, test[:1], 0.9)[0], rel=0.1)


def test_the_bundled_calibration_is_a_fit_of_the_public_measurements() -> None:
    path = training_file(STEPS)
    if path is None:
        pytest.skip("TPU step rates: no public measurements here (set SLIPSTICK_DATA)")
    known = read_steps(path)
    fitted, bundled = tpu_fit.fit(list(known), np.array(list(known.values()))), fitted_tpu()
    assert bundled.fingerprint == fitted.fingerprint
    assert bundled.values == pytest.approx(fitted.values, rel=1e-3)
    assert bundled.residual_freedom == pytest.approx(fitted.residual_freedom, rel=0.05)
