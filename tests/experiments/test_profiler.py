"""The profiler on a small program: every step is known, only statistics are kept, the analyzer sees them in order."""

from __future__ import annotations

import json

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.sampling.phases import DurationScan
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.papers.tpupoint import tpupoint_rows as tpupoint_observations

torch = pytest.importorskip("torch")
RECORDED = tpupoint_observations.RECORDED


def test_windows_become_steps_and_go_to_the_analyzer() -> None:
    from slipstick.experiments.methods.tuning.profiler import Profiler

    profiler = Profiler(window_events=200)
    network, data = torch.nn.Linear(32, 32), torch.randn(8, 32)
    seen: list[int] = []
    profiler._on_step = lambda step: seen.append(step.step)
    profiler.start(analyzer=DurationScan())
    with pytest.raises(InputError, match="records already"):
        profiler.start()
    for index in range(30):
        with profiler.step("save" if index == 20 else "train") as mark:
            if index == 20:
                mark.checkpoint = True
            else:
                network(data).sum().backward()
    report = profiler.stop()
    assert report.windows >= 2  # the limit of events closes a window
    assert [step.step for step in report.steps] == list(range(30)) == seen
    assert len(report.labels) == 30
    assert [step.step for step in report.steps if step.checkpoint] == [20]
    trained = report.steps[10]
    assert trained.label == "train" and trained.operations["aten::addmm"].count == 1
    assert 0 < trained.operations["aten::addmm"].time <= trained.duration
    assert trained.processor_time is not None and trained.processor_time <= trained.duration * 1.2
    assert all(a.start < b.start for a, b in zip(report.steps, report.steps[1:], strict=False))
    with pytest.raises(InputError, match="not started"):
        profiler.stop()


def test_it_stops_at_the_breakpoint_and_limits_windows() -> None:
    from slipstick.experiments.methods.tuning.profiler import Profiler

    profiler = Profiler(stop_after=3)
    profiler.start()
    for _ in range(6):
        with profiler.step():
            torch.ones(4).sum()
    assert len(profiler.stop().steps) == 3
    with pytest.raises(InputError, match="window_events"):
        Profiler(window_events=2_000_000)
    with pytest.raises(InputError, match="window_seconds"):
        Profiler(window_seconds=61)


def test_sampled_windows_record_some_steps_of_every_so_many() -> None:
    from slipstick.experiments.methods.tuning.profiler import Profiler, Sampling

    profiler = Profiler(stop_after=23, sampling=Sampling(2, 10))
    profiler.start(analyzer=DurationScan())
    for _ in range(40):
        with profiler.step("train"):
            torch.ones(4).sum()
    report = profiler.stop()
    assert [step.step for step in report.steps] == [0, 1, 10, 11, 20, 21]  # the breakpoint counts all steps
    assert report.windows == 3 and len(report.labels) == 6
    assert all(step.operations["aten::ones"].count == 1 and step.label == "train" for step in report.steps)
    with pytest.raises(InputError, match="recorded = 3 of every = 2"):
        Sampling(3, 2)


def test_a_failing_analyzer_is_heard_in_the_program() -> None:
    from slipstick.experiments.methods.tuning.profiler import Profiler

    class Broken:
        def observe(self, step: object) -> list[int]:
            raise RuntimeError("no")

        def finish(self) -> list[int]:
            return []

    profiler = Profiler()
    profiler.start(Broken())
    with profiler.step():
        torch.ones(4).sum()
    with pytest.raises(RuntimeError, match="no"):
        profiler.stop()


def test_a_recorded_run_follows_its_schedule(tmp_path: object) -> None:
    from slipstick.experiments.methods.tuning.recorded_runs import RunSettings, record

    settings = RunSettings(batch=16, width=32, inputs=32, larger=64, delay=0.01, scale=0.05)
    report = record(settings)
    wanted = [kind for kind, count in settings.schedule() for _ in range(count)]
    assert [step.label for step in report.steps] == wanted
    saved = next(step for step in report.steps if step.checkpoint)
    assert "checkpoint.save" in saved.operations
    assert any("DataLoader" in name for name in report.steps[0].operations)


def test_the_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["phases", str(RECORDED), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert command(["tune", "nonsense"]) == 2
    assert command(["phases", "nowhere.json"]) == 2
