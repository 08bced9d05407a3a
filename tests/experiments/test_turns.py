"""Bricks in turn, on a fake clock: cold and warm, slow spells, and the empty call are told apart."""

import itertools

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.measure.bricks import brick_runs as module
from slipstick.experiments.measure.bricks.brick_runs import Breakpoint, Session, run_session
from slipstick.experiments.measure.clocks.timing import CLOCKS, Protocol

PROTOCOL = Protocol(repeats=9, warmups=1, sample_seconds=0.0)


class Machine:
    """A clock that stands still but for what runs; slow in some rounds; a brick is dearer if another ran before."""

    def __init__(self, slow_rounds: dict[int, float]) -> None:
        self.now, self.last, self.slow, self.calls = 0.0, "", slow_rounds, itertools.count()
        self.tasks = 1

    def brick(self, name: str, cold: float, warm: float) -> Breakpoint:
        def call() -> None:
            round_ = next(self.calls) // self.tasks
            self.now += (warm if self.last == name else cold) * self.slow.get(round_, 1.0)
            self.last = name

        return Breakpoint(call, lambda: None)


def session(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setitem(CLOCKS, "thread", lambda: machine.now)
    bricks = {"conv": machine.brick("conv", 3e-3, 2e-3), "relu": machine.brick("relu", 2e-3, 1e-3)}
    whole = machine.brick("whole", 5e-3, 5e-3)
    empty = machine.brick("empty", 1e-3, 0.5e-3)
    reference = machine.brick("reference", 4e-3, 4e-3).call
    # warm-up: 3 turns, the whole, the reference; a round: twice 3 turns, and 3 visits of whole and reference
    machine.calls, machine.tasks = itertools.count(12 - 5), 12
    return run_session(bricks, whole, empty, reference, PROTOCOL)


def test_cold_and_warm_are_told_apart_and_the_empty_call_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    found = session(Machine({}), monkeypatch)
    assert found.cold["conv"].value == pytest.approx(2e-3) and found.warm["conv"].value == pytest.approx(1.5e-3)
    assert found.cold["relu"].value == pytest.approx(1e-3) and found.warm["relu"].value == pytest.approx(0.5e-3)
    assert found.whole is not None and found.whole.value == pytest.approx(4e-3)
    assert len(found.whole.samples) == 3 * PROTOCOL.repeats  # between its bricks, several times a round
    assert found.reference.value == pytest.approx(4e-3) and found.reference.flags == ()


def test_a_slow_spell_of_some_rounds_is_divided_out_and_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of nine rounds at half the speed: a mean would be 44 % off."""
    found = session(Machine({6: 2.0, 7: 2.0, 8: 2.0, 9: 2.0}), monkeypatch)
    assert np.median(found.rounds) == 1.0 and max(found.rounds) == pytest.approx(2.0)
    assert found.cold["conv"].value == pytest.approx(2e-3, rel=0.26)
    assert found.whole is not None and found.whole.value == pytest.approx(4e-3, rel=0.13)
    assert any("drift" in flag for flag in found.cold["conv"].flags)


def test_bricks_alone_need_no_whole_and_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({})
    monkeypatch.setitem(CLOCKS, "thread", lambda: machine.now)
    empty, one = machine.brick("empty", 0.0, 0.0), machine.brick("conv", 2e-3, 1e-3)
    alone = run_session({"conv": one}, None, empty, machine.brick("reference", 1e-3, 1e-3).call, PROTOCOL)
    assert alone.whole is None and alone.warm["conv"].value == pytest.approx(1e-3)
    with pytest.raises(InputError, match="no brick and no model"):
        run_session({}, None, empty, lambda: None, PROTOCOL)


def test_round_factors_weigh_long_tasks_more() -> None:
    """A tiny task that doubles says nothing of the machine while the long one stands still."""
    factors = module._round_factors([[1.0, 1.0, 1.0], [0.1, 0.2, 0.1]])
    assert factors == pytest.approx([1.0, 1.0, 1.0])
