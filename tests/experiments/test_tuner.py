"""The tuner: its rules one by one, ten simulated jobs against all combinations, and a real loader."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.sampling.phases import DurationScan
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.methods.tuning.tune import Trigger, watch
from slipstick.experiments.methods.tuning.tuner import (
    Knob,
    Settings,
    Trial,
    by_formula,
    exhaustive,
    in_turns,
    paired_interval,
    tune,
)
from slipstick.experiments.methods.tuning.tuning_jobs import LoaderJob, SimulatedJob, simulated_jobs
from slipstick.workloads.runs.step_profiles import Operation, StepProfile

SIZES = Knob("size", (1, 2, 3, 4, 5, 6), 3)


def test_it_keeps_a_direction_while_that_improves() -> None:
    seen: list[int] = []

    def job(settings: Settings) -> Trial:
        seen.append(settings["size"])
        return Trial(dict(settings), abs(settings["size"] - 1) + 1.0)

    found = tune([SIZES], job, rules="published")
    assert found.best.settings == {"size": 1}
    assert seen == [3, 4, 2, 1]  # up was no better, down is, until the end
    assert found.speedup == pytest.approx(3.0)


def test_no_better_neighbour_keeps_the_default() -> None:
    found = tune([SIZES], lambda settings: Trial(dict(settings), 1.0 + abs(settings["size"] - 3)))
    assert found.best is found.default


def test_what_raises_is_not_adjustable() -> None:
    def job(settings: Settings) -> Trial:
        if settings["size"] == 4:
            raise RuntimeError("out of memory")
        return Trial(dict(settings), 10.0 - settings["size"])

    published = tune([SIZES], job, rules="published")
    assert published.best is published.default
    assert published.fixed == {"size": "RuntimeError: out of memory"}
    patient = tune([SIZES], job)
    assert patient.best.settings == {"size": 6}
    assert list(patient.fixed) == ["size = 4"]
    with pytest.raises(InputError, match="does not run under its defaults"):
        tune([Knob("size", (4, 5), 4)], job)


def test_the_output_must_not_change() -> None:
    found = tune([SIZES], lambda settings: Trial(dict(settings), 1.0 / settings["size"], str(settings["size"] > 4)))
    assert found.best.settings == {"size": 4}


def test_the_budget_holds() -> None:
    calls: list[Any] = []

    def job(settings: Settings) -> Trial:
        calls.append(settings)
        return Trial(dict(settings), 1.0 / settings["size"])

    tune([SIZES], job, budget=2)
    assert len(calls) == 2
    with pytest.raises(InputError, match="budget = 0"):
        tune([SIZES], job, budget=0)


def remembered(job: SimulatedJob) -> Callable[[Settings], Trial]:
    """The job's stretches, each pipeline simulated once: many settings make the same one."""
    known: dict[Any, float] = {}

    def stretch(settings: Settings) -> Trial:
        stages = job.pipeline(settings).stages
        if stages not in known:
            known[stages] = job.stretch(settings).time
        return Trial(dict(settings), known[stages], "same")

    return stretch


@pytest.mark.parametrize("number", [pytest.param(one, marks=pytest.mark.slow if one % 2 else ()) for one in range(10)])
def test_simulated_jobs_come_within_two_percent_of_all_combinations(number: int) -> None:
    job = simulated_jobs()[number]
    knobs = job.knobs()
    stretch = remembered(job)
    every = exhaustive(knobs, stretch)
    found = tune(knobs, stretch, budget=len(every) // 5, gain=0.002)
    assert len(found.trials) <= 0.2 * len(every)
    assert found.best.time <= 1.02 * every[0].time
    checked = job.stretch(by_formula(knobs, job.predict))  # the model's own optimum, then checked
    assert checked.time <= 1.05 * every[0].time


def test_the_formula_is_the_simulation_without_variation() -> None:
    from dataclasses import replace

    job = replace(simulated_jobs()[0], variation=0.0, steps=200)
    for workers in (1, 4, 12):
        settings = {knob.name: knob.default for knob in job.knobs()} | {"workers": workers}
        assert job.stretch(settings).time == pytest.approx(job.predict(settings), rel=2e-3)  # outputs come in bursts


def test_a_cache_that_does_not_fit_raises() -> None:
    job = SimulatedJob(1e-3, (), 1e-3, 1e-2, memory=10)
    settings = {knob.name: knob.default for knob in job.knobs()} | {"cached": "storage"}
    with pytest.raises(InputError, match="do not fit"):
        job.stretch(settings)


def test_the_trigger_waits_for_a_reason() -> None:
    def profile(number: int, **times: float) -> StepProfile:
        return StepProfile(number, float(number), sum(times.values()), {n: Operation(1, t) for n, t in times.items()})

    hot = Trigger(DurationScan())
    seen = [hot.observe(profile(i, InfeedEnqueueTuple=2.0, matmul=1.0)) for i in range(3)]
    assert seen == [False, True, True] and "InfeedEnqueueTuple" in hot.reason
    half = Trigger(DurationScan(), enough=5.0)
    seen = [half.observe(profile(i, matmul=2.0)) for i in range(5)]
    assert seen == [False, False, False, True, True] and "of the time" in half.reason


def test_a_job_is_watched_until_it_is_worth_tuning() -> None:
    def profile(number: int, kind: str) -> StepProfile:
        return StepProfile(number, float(number), 1.0, {kind: Operation(1, 1.0)})

    # six kinds of steps in turn: no phase passes half of the time, and nothing moves data
    mixed = [profile(number, f"kind {number % 6}") for number in range(60)]
    never = watch(Trigger(DurationScan(), enough_steps=12), mixed)
    assert never.steps == 60 and never.reason == ""
    # then one kind only: it starts when that one passes half of all that was done
    settled = watch(Trigger(DurationScan(), enough_steps=12), mixed + [profile(60 + i, "matmul") for i in range(200)])
    assert settled.steps == pytest.approx(120, abs=3) and "of the time" in settled.reason


def test_simulated_jobs_show_their_bottleneck_to_the_trigger() -> None:
    jobs = simulated_jobs()
    for job, hot in ((jobs[0], True), (jobs[5], False)):  # bound by decoding, bound by the device
        steps = list(job.steps_under_defaults())
        waited = sum(step.operations["InfeedDequeueTuple"].time for step in steps)
        assert (waited > 0.5 * sum(step.duration for step in steps)) == hot
        assert steps[-1].start + steps[-1].duration == pytest.approx(
            job.pipeline({knob.name: knob.default for knob in job.knobs()}).run(job.steps, job.seed).time
        )


def test_the_command_says_why_it_started_and_does_not_tune_what_is_not_critical(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(["tune", "simulated-4", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert "hot operation" in row["started"] and row["watched_steps"] >= 10 and row["speedup"] > 10
    mixed = [StepProfile(i, float(i), 1.0, {f"kind {i % 6}": Operation(1, 1.0)}) for i in range(60)]
    monkeypatch.setattr(SimulatedJob, "steps_under_defaults", lambda job: iter(mixed))
    assert command(["tune", "simulated-4", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["started"].startswith("not started") and row["trials"] == 1 and row["speedup"] == 1
    assert command(["tune", "simulated-4", "--tune-from", "now", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["speedup"] > 10
    assert command(["tune", "simulated-4", "--tune-from", "never"]) == 2


def test_paired_intervals_know_equal_from_different() -> None:
    one = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02]
    low, high = paired_interval(one, one)
    assert low <= 1 <= high
    low, high = paired_interval([2 * each for each in one], one)
    assert low > 1.5 and high < 2.6
    with pytest.raises(InputError, match="at least 3"):
        paired_interval([1.0], [1.0])


@pytest.mark.timed
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_slow_loader_is_made_faster_and_a_tuned_one_no_slower() -> None:
    pytest.importorskip("torch")
    job = LoaderJob(wait=0.03, work=0.01, steps=16, batches=32)
    knobs = job.knobs()
    found = tune(knobs, job.stretch, budget=max(1, math.prod(len(knob.values) for knob in knobs) // 2), gain=0.05)
    default = {knob.name: knob.default for knob in knobs}
    slow, fast = in_turns(job.stretch, [default, found.best.settings])
    assert sorted(slow)[1] / sorted(fast)[1] >= 1.5
    assert found.best.output == found.default.output
    # already tuned: a step that is longer than its input leaves nothing to gain
    tuned = LoaderJob(wait=0.001, work=0.02, steps=10, batches=20)
    start = {"workers": 1, "prefetch": 2, "cached": "nothing"}
    again = tune(
        [Knob(knob.name, knob.values, start[knob.name]) for knob in tuned.knobs()], tuned.stretch, budget=6, gain=0.05
    )
    assert again.best.time <= 1.1 * again.default.time
