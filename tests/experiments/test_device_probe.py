"""A minute on a GPU that is not here: its rows are chosen, timed by its own clock, and move later answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.clocks import anchor_times
from slipstick.experiments.measure.clocks.anchor_times import AnchorOperation, EventStopwatch
from tests.experiments.test_anchor_times import FakeCuda

SLOWER = 1.6


class FakeMps:
    """What torch.mps has: events, no graphs."""

    def __init__(self, device: FakeCuda) -> None:
        self.Event, self.synchronize = device.Event, device.synchronize


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "called"), [("cuda", "Tesla T4"), ("rocm", "AMD Instinct MI210"), ("mps", "Apple GPU")]
)
def test_operations_of_a_device_correct_later_answers(
    device: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeCuda(gap=0.0 if device == "mps" else 30e-6)
    clock: Any = FakeMps(fake) if device == "mps" else fake

    def call(row: AnchorOperation, place: str) -> Any:
        assert place == ("mps" if device == "mps" else "cuda")
        sizes = dict(row.sizes)  # any row that the wall clock lets it reach takes longer than its arithmetic
        touched = sizes.get("elements", math.prod(sizes.values()))
        return lambda: fake.launch(SLOWER * 4.0 * touched / 3e11 + 1e-5)

    monkeypatch.setattr(anchor_times, "stopwatch", lambda name: (EventStopwatch(clock), called))
    monkeypatch.setattr(anchor_times, "torch_call", call)
    monkeypatch.chdir(tmp_path)
    on = ["--on", "M2 Max"] if device == "mps" else []
    code = run(["probe", "--device", device, *on, "--budget-seconds", "3", "--format", "json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    rows = json.loads(said.out)
    assert rows and all(row["measured_s"] > 0 for row in rows)
    assert (tmp_path / "host-operations.csv").read_text().startswith("kind,dtype,causal,time_s")
    if device == "rocm":
        code = run(["estimate", "gpt2", "--on", "mi210", "--measured", "host-operations.csv", "--format", "json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        assert json.loads(said.out)[0]["provenance"] == "calibrated"


def test_what_torch_does_not_see_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("a GPU is here")
    for device in ("cuda", "rocm", "mps"):
        assert run(["probe", "--device", device]) == 2
        assert f"--device {device}: torch" in capsys.readouterr().err
