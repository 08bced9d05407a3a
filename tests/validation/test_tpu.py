"""The TPU scoreboard: goals on held-out rows, and how its bands are made."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.validation import tpu
from experiments.validation.data import training_file


def test_the_scatter_finds_both_of_its_parts() -> None:
    generator = np.random.default_rng(0)
    time = np.exp(generator.uniform(np.log(1e-3), np.log(1.0), 4000))
    error = generator.laplace(size=4000) * np.hypot(0.02, 3e-4 / time)
    relative, start, factors = tpu._scatter(error, time)
    assert relative == pytest.approx(0.02, rel=0.1)
    assert start == pytest.approx(3e-4, rel=0.1)
    assert factors[0.9] == pytest.approx(np.log(10), rel=0.1)  # Laplace: P(|e| > x) = exp(-x)


def test_missing_files_are_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    (row,) = tpu.rows()
    assert row.case == "skipped" and "no public measurements" in row.reason


@pytest.mark.slow
def test_unseen_widths_and_shares_of_unseen_networks_are_met() -> None:
    path, traces = training_file(tpu.STEPS), training_file(tpu.TRACES)
    if path is None or traces is None:
        pytest.skip("TPU step rates: no public measurements here (set SLIPSTICK_DATA)")
    known, looked_at = tpu.read_steps(path), tpu.read_traces(traces)
    train = {key: time for key, time in known.items() if key[1] < 2048 and key not in looked_at}
    fitted = tpu.fit(list(train), np.array(list(train.values())))
    model = fitted.calibration.estimator
    test = {key: time for key, time in known.items() if key[1] >= 2048}
    measured = np.array(list(test.values()))
    assert np.mean(np.abs(tpu.times(model, list(test)) / measured - 1)) <= 0.06
    infeed = np.array([pair[0] for pair in looked_at.values()])
    assert np.mean(np.abs(tpu.shares(model, list(looked_at))["infeed"] - infeed)) <= 3.0
