"""Phases: the published similarity by hand, scans on runs whose phases are known, clusterings, reports."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from slipstick.common.errors import InputError
from slipstick.estimators.sampling.phase_report import report_phases
from slipstick.estimators.sampling.phases import (
    NOISE,
    DurationScan,
    PublishedScan,
    density,
    duration_similarity,
    elbow,
    k_means,
    operation_similarity,
    scan_labels,
    step_features,
)
from slipstick.experiments.papers.tpupoint import tpupoint_rows as tpupoint_observations
from slipstick.workloads.runs.step_profiles import Operation, StepProfile, StepTable, load_steps, without_stolen_time

RECORDED = tpupoint_observations.RECORDED


def step(number: int, start: float = 0.0, label: str = "", checkpoint: bool = False, **times: float) -> StepProfile:
    operations = {name: Operation(1, time) for name, time in times.items()}
    return StepProfile(number, start, sum(times.values()), operations, label or None, checkpoint)


times = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 10), min_size=1)


def test_the_published_similarity_by_hand() -> None:
    one, other = step(0, a=1, b=1, c=1), step(1, b=9, c=9, d=9, e=9)
    assert operation_similarity(one, other) == pytest.approx(2 / 3)  # |{b, c}| / min(3, 4)
    assert operation_similarity(one, step(2, a=100, b=100, c=100)) == 1.0  # blind to time
    assert duration_similarity(one, step(2, a=2, b=2, c=2)) == pytest.approx(0.5)


@given(times, times)
def test_similarities_are_symmetric_shares(one: dict[str, float], other: dict[str, float]) -> None:
    a, b = step(0, **one), step(1, **other)
    for similarity in (operation_similarity, duration_similarity):
        assert 0 <= similarity(a, b) <= 1 + 1e-12
        assert similarity(a, b) == pytest.approx(similarity(b, a))
        assert similarity(a, a) == pytest.approx(1)


def run_with_known_phases(seed: int = 0) -> list[StepProfile]:
    """Train, checkpoint, evaluate, train, the same operations at three times the time, train; 10 % noise, hiccups."""
    generator = np.random.default_rng(seed)
    kinds = {
        "train": {"matmul": 3.0, "relu": 1.0, "load": 0.5},
        "evaluate": {"matmul": 1.0, "score": 1.0, "load": 0.5},
        "checkpoint": {"save": 2.0},
        "slow": {"matmul": 3.0, "relu": 1.0, "load": 9.0},
    }
    steps: list[StepProfile] = []
    clock = 0.0
    for kind, count in (("train", 50), ("checkpoint", 1), ("evaluate", 20), ("train", 30), ("slow", 40), ("train", 30)):
        for _ in range(count):
            factor = generator.lognormal(0, 0.1) * (8.0 if generator.random() < 0.03 else 1.0)
            ours = {name: time * factor for name, time in kinds[kind].items()}
            steps.append(step(len(steps), clock, kind, kind == "checkpoint", **ours))
            clock += steps[-1].duration
    return steps


@pytest.mark.parametrize("seed", range(5))
def test_the_duration_scan_finds_the_schedule_and_the_published_one_is_blind(seed: int) -> None:
    steps = run_with_known_phases(seed)
    known = [each.label for each in steps]
    ours = scan_labels(DurationScan(), steps)
    published = scan_labels(PublishedScan(), steps)
    assert adjusted_rand_score(known, ours) >= 0.95
    slow, train = known.index("slow"), known.index("slow") - 1
    assert published[slow] == published[train]  # three times the time, and no new phase
    assert ours[slow + 1] != ours[train - 1]
    assert ours[0] == ours[-1]  # a phase that comes back is recognised


def test_a_scan_holds_three_steps_at_most() -> None:
    scan, settled = DurationScan(), 0
    for each in run_with_known_phases():
        settled += len(scan.observe(each))
        assert len(scan._window) <= 3
    assert settled + len(scan.finish()) == len(run_with_known_phases())


def test_published_scan_opens_a_phase_at_every_change() -> None:
    steps = [step(0, a=1, b=1, c=1), step(1, a=1, b=1, c=1), step(2, a=1, x=1, y=1), step(3, a=1, b=1, c=1)]
    assert scan_labels(PublishedScan(), steps).tolist() == [0, 0, 1, 2]


def test_clusterings_find_separate_kinds() -> None:
    table = StepTable.of(run_with_known_phases())
    known = [each.label for each in table.steps]
    found = k_means(table, clusters=5)
    assert found.chosen == 5 and len(found.curve) == len(found.tried)
    assert all(a >= b - 1e-9 for a, b in pairwise(found.curve))
    assert adjusted_rand_score(known, found.labels) > 0.8
    dense = density(table, minimum=5)
    assert dense.tried == tuple(range(5, 171, 25)) and dense.settings["radius"] > 0
    assert NOISE in dense.labels  # the checkpoint is alone
    assert list(dense.curve) == sorted(dense.curve)  # more samples wanted, more noise
    with pytest.raises(InputError, match="99 clusters"):
        k_means(table, clusters=99)
    with pytest.raises(InputError, match="minimum of 7"):
        density(table, minimum=7)


def test_features_have_at_most_a_hundred_dimensions() -> None:
    generator = np.random.default_rng(0)
    steps = [step(i, **{f"op{j}": float(generator.random()) + 0.1 for j in range(150)}) for i in range(120)]
    assert step_features(StepTable.of(steps)).shape == (120, 100)


def test_the_elbow_of_a_bent_line_is_its_bend() -> None:
    assert elbow(range(1, 16), [100 - 30 * i if i < 4 else 10 - 0.5 * i for i in range(15)]) in (3, 4)
    assert elbow([1, 2], [5, 1]) == 0


def test_a_report_adds_up_and_is_written(tmp_path: Path) -> None:
    steps = run_with_known_phases()
    table = StepTable.of(steps)
    names = sorted({str(each.label) for each in steps})
    labels = [names.index(str(each.label)) for each in steps]
    report = report_phases(table, labels)
    assert sum(phase.share for phase in report.phases) == pytest.approx(1)
    assert report.coverage() == pytest.approx(1 - report.phases[3].share)
    slow = next(phase for phase in report.phases if phase.label == names.index("slow"))
    assert slow.host[0].name == "load"
    assert slow.host[0].time == pytest.approx(
        sum(each.operations["load"].time for each in steps if each.label == "slow")
    )
    first = next(phase for phase in report.phases if phase.label == names.index("evaluate"))
    assert (first.checkpoint, first.restart) == (50, 50)
    summary, rows, trace = report.save(tmp_path)
    assert len(json.loads(summary.read_text())["step_phase"]) == len(steps)
    assert {row["operation"] for row in csv.DictReader(rows.open())} == {"matmul", "relu", "load", "score", "save"}
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event.get("cat") == "phase" for event in events) == 6
    with pytest.raises(InputError, match="labels for"):
        report_phases(table, [0])


def test_stolen_time_is_taken_from_work_not_from_waiting() -> None:
    operations = {"enumerate(DataLoader)#x": Operation(1, 4.0), "matmul": Operation(1, 6.0)}
    quiet = without_stolen_time(StepProfile(0, 0.0, 10.0, operations, processor_time=3.0))
    assert quiet.duration == pytest.approx(7.0)
    assert quiet.operations["matmul"].time == pytest.approx(3.0)
    assert quiet.operations["enumerate(DataLoader)#x"].time == 4.0
    plain = StepProfile(0, 0.0, 10.0, operations)
    assert without_stolen_time(plain) is plain


def test_a_recorded_training_run_is_divided_by_its_schedule() -> None:
    """504 steps of a real run (slipstick measure pipeline); what each step was is known."""
    steps = [without_stolen_time(each) for each in load_steps(RECORDED)]
    assert len(steps) >= 500
    known = [each.label for each in steps]
    ours = scan_labels(DurationScan(), steps)
    assert adjusted_rand_score(known, ours) >= 0.95
    assert report_phases(StepTable.of(steps), ours).coverage() >= 0.95
    published = scan_labels(PublishedScan(), steps)
    slow = known.index("train behind a slow loader")
    later = slow + 60  # training again, without the slow loader
    assert known[later] == "train" and ours[slow + 20] != ours[later + 20]
    assert published[slow + 20] == published[later + 20]  # the published scan sees no difference
    assert adjusted_rand_score(known, published) < 0.6
