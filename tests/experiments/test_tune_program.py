"""Tuning of the user's own input pipeline: calls are found, output stays, what errs is fixed, the run goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.tuning import program_job
from slipstick.experiments.methods.tuning.program_job import (
    ProgramJob,
    instrumented,
    knob_of,
    load_program,
    own_parameters,
)
from slipstick.experiments.methods.tuning.tuner import tune

PIPELINE = """
import time
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import numpy as np

def decode(index):
    time.sleep(0.003)  # storage
    return np.random.default_rng(index).integers(0, 255, (8, 8), dtype=np.uint8)

def batches(start=0, prefetch=1):
    with ThreadPoolExecutor(max_workers=1) as pool:
        number, waiting = start, []
        while True:
            while len(waiting) < prefetch:
                waiting.append([pool.submit(decode, 4 * number + i) for i in range(4)])
                number += 1
            yield np.stack([each.result() for each in waiting.pop(0)]) / 255

class Step:
    def __init__(self):
        self.total = 0.0
    def __call__(self, batch):
        self.total += float(batch.sum())
    def state_dict(self):
        return {"total": self.total}
    def load_state_dict(self, state):
        self.total = state["total"]

def training(start=0, prefetch=1):
    return batches(start, prefetch), Step()

def shuffled(shuffle_buffer=4):
    random, held, index = np.random.default_rng(0), [], 0
    while True:
        while len(held) < shuffle_buffer:
            held.append(decode(index))
            index += 1
        random.shuffle(held)
        yield held.pop()

def picky(workers=1, queue_size=2):
    if workers > 1:
        raise RuntimeError("one worker only")
    Queue(maxsize=queue_size)
    for index in range(100):
        yield decode(index)

def ordered(maps=("half", "crop")):
    for index in range(60):
        x = np.arange(4096.0).reshape(64, 64) + index
        for name in maps:
            time.sleep(2e-6 * x.size / 4)
            x = x * 0.5 if name == "half" else x[:16, :16]
        yield x

def short():
    yield from range(3)

def needs(path):
    yield path
"""
LOADER = """
import time

import torch

class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((16,), float(index))

def loader():
    return torch.utils.data.DataLoader(Pictures(), batch_size=4)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "own_pipeline.py").write_text(PIPELINE)
    (tmp_path / "own_loader.py").write_text(LOADER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_pipeline  # type: ignore[import-not-found]

    yield own_pipeline
    for name in ("own_pipeline", "own_loader"):
        sys.modules.pop(name, None)


def test_calls_of_the_program_s_own_files_are_found_and_changed(program: ModuleType) -> None:
    job = ProgramJob(program.batches, 8)
    names = {knob.name: knob for knob in job.knobs()}
    pool = next(name for name in names if "ThreadPoolExecutor.max_workers" in name)
    assert set(names) == {"prefetch", pool} and pool.startswith("own_pipeline.py:")
    assert names[pool].default == 1 and 4 in names[pool].values
    with instrumented(job.folder, {pool: 3}) as found:
        batches = program.batches()
        next(batches)
        assert found[pool].value == 1
        assert batches.gi_frame.f_locals["pool"]._max_workers == 3
        batches.close()
    import queue

    assert "noting" not in queue.Queue.__init__.__qualname__  # everything is taken back


def test_a_waiting_pipeline_is_tuned_and_its_output_stays(program: ModuleType) -> None:
    job = ProgramJob(program.batches, 12, step_seconds=0.004)
    found = tune(job.knobs(), job.stretch, 16, job.gain)
    assert found.speedup > 1.5
    assert found.best.output == found.default.output
    assert found.best.settings != found.default.settings


def test_what_changes_the_output_or_errs_is_fixed_and_said(program: ModuleType) -> None:
    job = ProgramJob(program.shuffled, 8)
    found = tune(job.knobs(), job.stretch, 16, job.gain)
    assert found.best.settings == {"shuffle_buffer": 4}
    assert set(found.fixed.values()) == {"changes the output"}
    picky = ProgramJob(program.picky, 8)
    refused = tune(picky.knobs(), picky.stretch, 16, picky.gain, "published").fixed
    assert "one worker only" in refused["workers"]


class _Clock:
    """A clock that moves by what is slept alone: seconds are those of the program, whatever else this host does."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def perf_counter(self) -> float:
        return self.seconds


def test_maps_that_may_change_places_do_and_others_do_not(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two maps of 64 x 64 elements take 2 x 2.048 ms; the one that leaves a sixteenth first, 2.048 + 0.128."""
    clock = _Clock()
    for module in (program, program_job):
        monkeypatch.setattr(module, "time", clock)
    job = ProgramJob(program.ordered, 12)
    (knob,) = job.knobs()
    assert set(knob.values) == {("half", "crop"), ("crop", "half")}
    found = tune((knob,), job.stretch, 8, job.gain)
    assert found.best.settings["maps"] == ("crop", "half")
    assert found.speedup == pytest.approx(2 * 2.048 / (2.048 + 0.128))


def test_the_run_goes_on_from_the_checkpoint(program: ModuleType) -> None:
    job = ProgramJob(program.training, 8)
    defaults = {knob.name: knob.default for knob in job.knobs()}
    job.stretch(defaults)
    job.stretch({**defaults, "prefetch": 4})  # a trial: taken back
    _, state = job.go_on({**defaults, "prefetch": 4}, 4)
    whole = program.batches()
    assert state["total"] == pytest.approx(sum(float(next(whole).sum()) for _ in range(12)))


@pytest.mark.slow
def test_a_loader_of_torch_gets_workers(program: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    code = run(
        ["tune", "own_loader:loader", "--steps", "12", "--step-time", "5ms", "--resume-steps", "4", "--format", "json"]
    )
    text = capfd.readouterr()
    (row,) = json.loads(text.out)
    assert code == 0 and "imports own_loader" in text.err
    workers = next(value for name, value in row["settings"].items() if name.endswith("num_workers"))
    assert int(workers) >= 1 and row["speedup"] > 1.3
    assert row["went_on_from_step"] == 12 and row["low_speedup"] <= row["high_speedup"]


def test_own_parameters_are_known_by_their_names() -> None:
    def build(
        map_batch: int = 4, threads: int = 2, seed: int = 1, ahead: str = "2", maps: tuple[str, ...] = ("a",)
    ) -> None:
        return None

    found = own_parameters(build)
    assert {name: each.kind for name, each in found.items()} == {"map_batch": "batch", "threads": "workers"}
    knob = knob_of(found["threads"], 2)
    assert knob is not None and knob.values == (1, 2, 4)


def test_what_is_no_pipeline_is_refused(program: ModuleType) -> None:
    with pytest.raises(InputError, match="ends after 3 batches"):
        ProgramJob(program.short, 8).stretch({})
    with pytest.raises(InputError, match="nothing to tune"):
        ProgramJob(program.short, 8).knobs()
    with pytest.raises(InputError, match="needs arguments path"):
        load_program(TrustedName("own_pipeline:needs"), 8, 0.0)
    with pytest.raises(InputError, match="no_such"):
        load_program(TrustedName("own_pipeline:no_such"), 8, 0.0)
    with pytest.raises(InputError, match="a batch holds a"):
        ProgramJob(lambda: iter([object()] * 9), 8).stretch({})
    assert np.isfinite(ProgramJob(program.picky, 8).stretch({}).time)
