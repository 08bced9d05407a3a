"""The store of measured bricks: by key, other people's rows, sessions, kills."""

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.bricks.brick_store import (
    COLD,
    WARM,
    BrickStore,
    Composition,
    Where,
)
from slipstick.experiments.measure.clocks.timing import Protocol
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from tests.experiments.brick_parts import result, timing


def test_the_store_keeps_results_by_key_and_asks_only_for_what_is_new(tmp_path: Path, phi) -> None:
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    store.add(Where(phi.fingerprint, "torch"), [result("a", 1e-3)])
    assert store.missing(["a", "b", "b"], phi.fingerprint, "torch", str(Protocol())) == ["b"]
    assert store.missing(["a"], phi.fingerprint, "torch 3", str(Protocol())) == ["a"]
    assert dict(store.seconds(phi.fingerprint, "torch", str(Protocol()))) == {"a": 1e-3}
    [(on, software, _, count)] = store.contents()
    assert (on, software, count) == (phi, "torch", 1)
    broken = tmp_path / "broken.sqlite"
    broken.write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(InputError, match="no store of bricks"):
        BrickStore(broken)


BROKEN_ROWS = {
    "a description that is no JSON": ("UPDATE machines SET description = '{'", "machine .*: line 1: not JSON"),
    "a description of another thing": ("UPDATE machines SET description = '[]'", "machine .*"),
    "seconds in words": ("UPDATE bricks SET seconds = 'abc'", "brick 'a': seconds = 'abc': want a finite time > 0 s"),
    "no seconds": ("UPDATE bricks SET seconds = NULL", "brick 'a': seconds = 'None'"),
    "endless seconds": ("UPDATE bricks SET seconds = 9e999", "brick 'a': seconds = 'inf'"),
    "a reference in words": ("UPDATE bricks SET reference = 'abc'", "brick 'a': reference = 'abc'"),
    "a list of bricks": ("UPDATE models SET bricks = '[1]'", "model 'net': bricks: want named fields"),
    "bricks that are no JSON": ("UPDATE models SET bricks = '{'", "model 'net': line 1: not JSON"),
    "a count in words": ("""UPDATE models SET bricks = '{"i": "x"}'""", "model 'net': bricks.i = 'x': want a whole"),
}


@pytest.mark.parametrize("case", sorted(BROKEN_ROWS))
def test_rows_that_somebody_else_wrote(case: str, tmp_path: Path, phi, capsys: pytest.CaptureFixture[str]) -> None:
    change, words = BROKEN_ROWS[case]
    path = tmp_path / "bricks.sqlite"
    store = BrickStore(path)
    store.add_machine(phi)
    store.add(Where(phi.fingerprint, "torch"), [result("a", 1e-3)])
    store.add_model(1, Composition("net", "whole", FrozenDict({"a": 3})))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    assert run(["bricks", "compose", "mlp", "--store", str(path)]) == 2
    assert re.search(f"^slipstick: {re.escape(str(path))}: {words}", capsys.readouterr().err)


@pytest.mark.parametrize("verb", [["compose", "mlp"], ["advise", "mlp"], ["score"]])
def test_reading_makes_no_store(verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nope" / "there.sqlite"
    assert run(["bricks", *verb, "--store", str(path)]) == 2
    assert f"{path}: no such store of bricks" in capsys.readouterr().err
    assert not path.parent.exists()


def test_sessions_are_brought_to_one_speed_by_their_reference(tmp_path: Path, phi) -> None:
    """The machine ran at 1, 1/2 and 1/4 of its speed: the same brick, measured three times, is the same brick."""
    store = BrickStore(tmp_path / "bricks.sqlite")
    for name, slow in (("a", 1.0), ("b", 2.0), ("c", 4.0)):
        store.add(Where(phi.fingerprint, "torch"), [result(name, 3e-3 * slow, "p")], reference=5e-3 * slow)
    assert dict(store.seconds(phi.fingerprint, "torch", "p")) == pytest.approx(dict.fromkeys("abc", 6e-3))


def test_cold_and_warm_results_of_a_machine_are_read_together(tmp_path: Path, phi) -> None:
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    cold, warm = result("a", 2e-3, f"turns{COLD}"), result("a", 1e-3, f"turns{WARM}")
    store.add(Where(phi.fingerprint, "torch"), [cold, warm, result("b", 5e-3, "alone")])
    by_protocol = {own.protocol: own for own in store.measured()}
    assert dict(by_protocol["turns"].cold) == {"a": 2e-3} and dict(by_protocol["turns"].warm) == {"a": 1e-3}
    assert dict(by_protocol["alone"].cold) == {} and dict(by_protocol["alone"].warm) == {"b": 5e-3}
    store.add_model(1, Composition("net", "whole", FrozenDict({"a": 3})))
    assert store.models(1) == [Composition("net", "whole", FrozenDict({"a": 3}))] and store.models(2) == []


@pytest.mark.slow
def test_a_killed_measurement_resumes_and_ends_with_the_same_results(
    small_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty times killed at a drawn moment; what was written stays, and the end is that of a run left alone."""
    import multiprocessing
    import random

    from slipstick.experiments.measure.bricks import brick_runs as measuring
    from slipstick.experiments.measure.bricks.brick_runs import Session

    names = [f"net{i}" for i in range(15)]

    def build(name: str, shapes=(), batch=1):
        """The same model under many names, each with a layer of its own."""
        own = [
            replace(op, attributes=FrozenDict({"does": f"{op.attributes['does']} {name}"}))
            for op in small_model.workload
        ]
        workload = Workload(name, tuple(own), small_model.workload.edges)
        return replace(small_model, name=name, workload=workload)

    def session(bricks, whole, empty, reference, protocol, seed=0):
        time.sleep(0.004)
        timings = {name: timing(1e-3) for name in bricks}
        return Session(timings, timings, timing(2e-3), timing(5e-3), (1.0,))

    monkeypatch.setattr(measuring, "build", build)
    monkeypatch.setattr(measuring, "run_session", session)
    monkeypatch.setattr(measuring, "host", lambda: machine("xeon-phi-7120p"))

    def contents(path: Path) -> dict[str, set[str]]:
        return {own.protocol: set(own.cold) | set(own.warm) for own in BrickStore(path).measured()}

    killed, alone = BrickStore(tmp_path / "killed.sqlite"), BrickStore(tmp_path / "alone.sqlite")
    draw, before, ended = random.Random(11), 0, 0
    for _ in range(20):
        process = multiprocessing.get_context("fork").Process(
            target=measuring.measure_models, args=(names, (1, 3), killed)
        )
        process.start()
        time.sleep(draw.uniform(0.0, 0.1))
        process.kill()
        process.join()
        ended += process.exitcode == 0
        count = sum(len(identities) for identities in contents(killed.path).values())
        assert count >= before
        before = count
    assert ended < 20
    measuring.measure_models(names, (1, 3), killed)
    measuring.measure_models(names, (1, 3), alone)
    assert contents(killed.path) == contents(alone.path) != {}
    assert killed.models(3) == alone.models(3)
