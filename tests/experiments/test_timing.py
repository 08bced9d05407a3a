"""The timing discipline: what the clock counts, the order of the samples, and when a timing is flagged."""

import dataclasses
import time

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.measure.clocks.timing import Protocol, Timing, measure, trimmed_mean

QUICK = Protocol(warmups=1, repeats=5, sample_seconds=0.0)


def work(loops: int) -> int:
    total = 0
    for i in range(loops):
        total += i * i
    return total


def test_thread_clock_stands_still_while_the_task_sleeps() -> None:
    slept = measure({"sleep": lambda: time.sleep(0.01)}, QUICK)["sleep"]
    assert slept.value < 0.002
    assert slept.waiting > 5
    assert measure({"sleep": lambda: time.sleep(0.01)}, dataclasses.replace(QUICK, clock="wall"))["sleep"].value >= 0.01


def test_repeats_are_interleaved_and_rotate() -> None:
    calls: list[str] = []
    measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, dataclasses.replace(QUICK, warmups=0))
    rounds = calls[2:]  # one probing call of each comes first
    assert rounds == ["a", "b", "b", "a", "a", "b", "b", "a", "a", "b"]


def test_time_follows_the_work() -> None:
    timings = measure({"one": lambda: work(20_000), "four": lambda: work(80_000)}, Protocol(repeats=9))
    assert timings["four"].value / timings["one"].value == pytest.approx(4, rel=0.35)
    assert timings["one"].minimum <= timings["one"].median


def test_short_tasks_are_repeated_inside_a_sample() -> None:
    timing = measure({"nothing": lambda: None}, Protocol(repeats=3, sample_seconds=1e-3))["nothing"]
    assert timing.inner > 100
    assert 0 < timing.value < 1e-5


@pytest.mark.parametrize(("samples", "trim", "mean"), [([5.0, 1.0, 3.0], 0.34, 3.0), ([1.0, 2.0, 9.0], 0.0, 4.0)])
def test_trimmed_mean(samples: list[float], trim: float, mean: float) -> None:
    assert trimmed_mean(samples, trim) == mean


def timing(**changes: object) -> Timing:
    calm = Timing(1.0, 1.0, 1.0, 0.0, (1.0, 1.0, 1.0), 1, 1.0, (0.1, 0.1), 0.0, 0.0, Protocol())
    return dataclasses.replace(calm, **changes)  # type: ignore[arg-type]


def test_flags_say_why() -> None:
    assert timing().flags == ()
    assert "drift" in timing(drift=0.2).flags[0]
    assert "unsteady" in timing(scatter=0.5).flags[0]
    assert timing(load=(3.0, 0.1)).flags == ()  # CPU time does not mind the neighbours
    assert "busy" in timing(load=(3.0, 0.1), protocol=Protocol(clock="wall")).flags[0]


def test_progress_and_budget() -> None:
    seen: list[tuple[int, int]] = []
    slow = Protocol(clock="wall", warmups=0, repeats=50, sample_seconds=0.0, budget_seconds=0.05)
    timing = measure({"sleep": lambda: time.sleep(0.02)}, slow, lambda done, planned: seen.append((done, planned)))[
        "sleep"
    ]
    assert seen[0] == (1, 50)
    assert 3 <= len(timing.samples) < 50


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"repeats": 1}, "repeats = 1: want at least 3"),
        ({"trim": 0.5}, r"trim = 0.5: want a share in \[0, 0.5\)"),
        ({"clock": "sundial"}, "unknown clock 'sundial'"),
        ({"warmups": -1}, "warmups = -1"),
    ],
)
def test_bad_protocols(given: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Protocol(**given)  # type: ignore[arg-type]


def test_a_task_whose_result_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="task 'dot' returned nan"):
        measure({"dot": lambda: float("nan")}, QUICK)
    with pytest.raises(InputError, match="nothing to measure"):
        measure({}, QUICK)
