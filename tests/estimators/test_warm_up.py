"""Slow first iterations: found and named in planted logs, none named where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.sampling.seqpoint import METHODS, select
from slipstick.estimators.sampling.warm_up import warm_up
from slipstick.workloads.runs.iterations import Iterations

EPOCHS = ("translation", "speech", "images", "text", "buckets")


def planted(seed: int, kind: str, noise: float, slow: float, least: float = 3.0) -> tuple[Iterations, FloatArray, Mask]:
    """A log, its times without autotuning, and which of its iterations were slowed by `least` to 30 times.

    `slow` is the share of lengths whose first occurrence is slow; speech has nearly as many lengths as iterations.
    """
    generator = np.random.default_rng(seed)
    size = int(generator.integers(300, 1500))
    lengths = {
        "translation": lambda: np.clip(generator.gamma(3, 12, size), 5, 200).astype(int),
        "speech": lambda: np.clip(generator.lognormal(7.1, 0.3, size), 300, 2400).astype(int),
        "images": lambda: np.full(size, 224),
        "text": lambda: generator.integers(8, 512, size),
        "buckets": lambda: generator.choice([32, 64, 128, 256], size),
    }[kind]()
    lengths = np.tile(lengths, int(generator.integers(1, 3)))
    bent = 1e-6 if kind == "text" else 0.0
    line = 0.02 + generator.uniform(5e-4, 2e-3) * lengths + bent * lengths**2
    steady = line * generator.lognormal(0, noise, len(lengths))
    first = np.unique(lengths, return_index=True)[1]
    hit = np.zeros(len(lengths), dtype=bool)
    hit[first] = generator.random(len(first)) < slow
    times = np.where(hit, steady * generator.uniform(least, 30, len(lengths)), steady)
    return Iterations(lengths, times), steady, hit


@pytest.mark.parametrize("seed", range(20))
def test_planted_slow_first_occurrences_are_named_and_cost_the_projection_under_one_percent(seed: int) -> None:
    run, steady, hit = planted(seed, EPOCHS[seed % 5], noise=0.005 * (seed % 3), slow=1.0 if seed % 2 else 0.7)
    found = warm_up(run)
    assert found.indices.tolist() == np.flatnonzero(hit).tolist()
    assert found.steady.total == pytest.approx(steady.sum(), rel=0.005)
    chosen = found.warm(select("seqpoint", found.steady, error=0.002))
    assert chosen.project(chosen.times).total == pytest.approx(steady.sum(), rel=0.01)
    if hit.sum() > 1:
        assert run.total > 1.005 * steady.sum()


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(EPOCHS), noise=st.floats(0, 0.08))
def test_no_iteration_is_named_where_none_was_slow_for_being_first(seed: int, kind: str, noise: float) -> None:
    run, _, _ = planted(seed, kind, noise, slow=0.0)
    found = warm_up(run)
    assert found.indices.tolist() == []
    assert found.steady.total == run.total


@pytest.mark.parametrize("kind", ["translation", "text", "buckets"])
def test_stalls_that_are_spread_over_the_whole_run_are_part_of_it(kind: str) -> None:
    """By chance most stalls of a run may fall on first occurrences: one run of twenty, by the method's level."""
    named = 0
    for seed in range(20):
        run, steady, _ = planted(seed, kind, noise=0.02, slow=0.0)
        stalled = np.random.default_rng(seed + 1).random(len(run)) < 0.05
        stalled[:20] = False
        found = warm_up(run.using(np.where(stalled, 5 * steady, steady)))
        if len(np.unique(run.lengths)) > 10:  # else one stalled first occurrence of four lengths may be chance
            named += len(found.indices) > 0.2 * stalled.sum()
        assert found.slow_later + len(found.indices) >= 0.9 * stalled.sum()
    assert named <= 1


@given(
    times=st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20),
    lengths=st.lists(st.sampled_from([0, 0.1, 1, 2, 5, 1e12]), min_size=20, max_size=20),
    proxy=st.sampled_from(["length", "duration"]),
)
@settings(max_examples=100, deadline=None)
def test_any_log_keeps_times_above_zero_and_none_grows(times: list[float], lengths: list[float], proxy: str) -> None:
    run = Iterations(np.array(times if proxy == "duration" else lengths[: len(times)]), np.array(times), proxy=proxy)
    steady = warm_up(run).steady.known_times
    assert (steady > 0).all() and (steady <= run.known_times).all()


def test_one_slow_first_iteration_of_nine_seconds() -> None:
    """The issue's case: it cost 7.8 %."""
    steady = np.full(1200, 0.096)
    times = steady.copy()
    times[0] = 9.0
    for run in (Iterations(np.full(1200, 224), times), Iterations(times, times, proxy="duration")):
        found = warm_up(run)
        assert found.indices.tolist() == [0]
        assert found.steady.total == pytest.approx(steady.sum(), rel=1e-3)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"worst"}))
def test_no_method_stands_on_a_slow_iteration_of_a_length_that_occurs_again(method: str) -> None:
    run, _, hit = planted(3, "buckets", 0.01, slow=1.0)
    found = warm_up(run)
    chosen = found.warm(select(method, found.steady))
    assert not hit[chosen.indices].any()
    assert chosen.times.tolist() == run.known_times[chosen.indices].tolist()


def test_a_length_that_occurs_once_takes_the_time_of_its_neighbours() -> None:
    lengths = np.array([10, 20, 30, 40, 50] * 4 + [25])
    steady = 0.1 * lengths
    times = steady.copy()
    times[[0, 1, 2, 3, 4, 20]] *= 7
    found = warm_up(Iterations(lengths, times))
    assert found.indices.tolist() == [0, 1, 2, 3, 4, 20]
    assert found.steady.known_times == pytest.approx(steady)


def test_a_long_tail_of_lengths_that_grow_with_their_square_is_not_slow() -> None:
    """Attention: the longest lengths occur once, and lie far above a line through the others."""
    lengths = np.array([*list(range(20, 60)) * 10, 90, 120, 200, 400])
    found = warm_up(Iterations(lengths, 1e-6 * lengths.astype(float) ** 2))
    assert found.indices.tolist() == []


def test_the_command_names_them_and_keeps_them_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from slipstick.experiments.cli.cli import run as command
    from tests.runs_made import write_log

    run, steady, hit = planted(1, "translation", 0.01, slow=1.0)
    write_log(tmp_path / "log.csv", run)
    write_log(tmp_path / "twice.csv", run.using(2 * run.known_times))
    words = ["seqpoint", str(tmp_path / "log.csv")]
    assert command([*words, "--target-log", str(tmp_path / "twice.csv"), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["slow_first"] == np.flatnonzero(hit).tolist()
    assert answer["total_s"] - answer["slow_first_extra_s"] == pytest.approx(steady.sum(), rel=0.002)
    assert answer["projected_s"] == pytest.approx(2 * steady.sum(), rel=0.02)
    assert command(words) == 0
    out = capsys.readouterr().out
    assert f"left out as slow for being first (autotuning, warm-up): {hit.sum()} iterations" in out
    assert command([*words, "--warm-up", "keep", "--format", "json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)
    assert kept["slow_first"] == [] and kept["slow_first_extra_s"] == 0
    assert kept["projected_s"] > 1.2 * answer["projected_s"] / 2
    assert command([*words, "--warm-up", "some"]) == 2
    assert "way with --warm-up" in capsys.readouterr().err
    simulated = ["seqpoint", "gnmt", "--on", "vega-fe", "--lengths", str(tmp_path / "log.csv"), "--warm-up", "keep"]
    assert command(simulated) == 2
    assert "--warm-up is for logs" in capsys.readouterr().err
