"""Measuring a training step and its operations on this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.measure.training import steps
from slipstick.experiments.measure.training.step_files import read_steps

pytest.importorskip("torch")


def test_a_step_is_taken_apart_into_its_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ROUNDS", 3)
    path = tmp_path / "steps.csv"
    steps.measure_steps(path, ["digits dense"], say=lambda text: None)
    text = path.read_text()
    assert text.startswith(",".join(steps.COLUMNS))
    # two dense layers forward; a product for each weight and one for the inner gradient backward
    products = [line for line in text.splitlines() if ",gemm," in line]
    forward = [line for line in products if line.startswith("digits dense,forward")]
    assert sum(int(line.rsplit(",", 4)[1]) for line in forward) == 2
    assert sum(int(line.rsplit(",", 4)[1]) for line in products) == 5
    flop = sum(float(line.rsplit(",", 4)[1]) * float(line.rsplit(",", 4)[2]) for line in products)
    assert flop == pytest.approx(2 * 16 * (784 * 128 * 2 + 128 * 10 * 3), rel=0.02), "no gradient of the input"
    (step,) = read_steps(path)
    assert step.measured > 0
    assert (tmp_path / "steps.csv.json").exists()


def test_an_unknown_network_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"network 'nonesuch'"):
        steps.measure_steps(tmp_path / "x.csv", ["nonesuch"])
