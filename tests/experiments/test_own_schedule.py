"""A user's own schedule in SimPy: its plain numbers vary, are set and fitted; what it simulated is a Chrome trace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run

OWN = """
from dataclasses import dataclass

import simpy

import slipstick as ss


@dataclass(frozen=True)
class SharedBus(ss.Schedule):
    ports: int = 2
    slowdown: float = 1.0

    def combine(self, workload, times, machine, run):
        env, trace = simpy.Environment(), []
        free = simpy.Store(env)
        free.items.extend(range(self.ports))

        def transfer(op, seconds):
            port = yield free.get()
            began = env.now
            yield env.timeout(seconds)
            trace.append(ss.Event(op.name, f"port {port}", began, env.now))
            free.put(port)

        for op, time in zip(workload, times):
            env.process(transfer(op, time * op.times * self.slowdown))
        env.run()
        return ss.Outcome(env.now, "a bus with ports", trace=tuple(trace))


estimator = ss.ComposedEstimator(ss.Roofline(), SharedBus())
"""
COPIES = ss.Workload("copies", tuple(ss.operations.elementwise(f"copy{i}", 1e9) for i in range(12)))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "my_bus.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import my_bus  # type: ignore[import-not-found]

    yield my_bus
    sys.modules.pop("my_bus", None)


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_its_numbers_are_names(module: Any) -> None:
    named = ss.models.parameters(module.estimator)
    assert {"schedule.ports", "schedule.slowdown"} <= set(named)
    assert named["schedule.ports"][1].whole and not named["schedule.slowdown"][1].whole
    changed = module.estimator.with_parameters({"schedule.ports": 3.0})
    assert changed.schedule.ports == 3 and type(changed.schedule.ports) is int
    with pytest.raises(InputError, match=r"schedule.ports = 2.5: want a whole number in \[0, inf\]"):
        module.estimator.with_parameters({"schedule.ports": 2.5})
    with pytest.raises(InputError, match=r"schedule.slowdown = -1.0: want a value in \[0, inf\]"):
        module.estimator.with_parameters({"schedule.slowdown": -1.0})


def test_equal_transfers_take_turns_as_the_closed_form_says(module: Any) -> None:
    one = ss.estimate(COPIES, "h100-sxm", estimator=module.estimator, settings={"estimator.schedule.ports": 12}).time
    for ports in (1, 2, 3, 5, 12):
        found = ss.estimate(
            COPIES, "h100-sxm", estimator=module.estimator, settings={"estimator.schedule.ports": ports}
        )
        assert found.time == pytest.approx(-(-12 // ports) * one)


def test_it_varies_on_the_command_line(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("whatif", "resnet18", "--on", "a100-sxm-40gb", "--estimator", "my_bus:estimator")
    rows = answered(capsys, *words, "--vary", "estimator.schedule.ports=1,2,4")
    ratios = {row["estimator.schedule.ports"]: row["time_ratio"] for row in rows}
    assert ratios[1] > 1.9 and ratios[2] == pytest.approx(1) and ratios[4] < 0.55
    rows = answered(capsys, *words, "--vary", "estimator.schedule.slowdown=1,3")
    assert sorted(row["time_ratio"] for row in rows) == pytest.approx([1, 3])


def test_whole_and_real_numbers_are_fitted_together(module: Any) -> None:
    machine, copies = ss.machine("a100-sxm-80gb"), COPIES.operations
    workloads = [ss.Workload(f"{count} copies", copies[:count]) for count in (1, 5, 7, 12)]
    true = ss.ComposedEstimator(ss.Roofline(), module.SharedBus(5, 1.3))
    measured = [ss.Measurement(work, machine, true.estimate(work, machine).time) for work in workloads]
    found = ss.calibrate(module.estimator, measured, ["schedule.ports", "schedule.slowdown"])
    assert found.values == pytest.approx({"schedule.ports": 5, "schedule.slowdown": 1.3})
    assert found.estimate(workloads[0], machine).time == pytest.approx(measured[0].value)
    generator = np.random.default_rng(3)
    noisy = [ss.Measurement(one.workload, machine, one.value * generator.lognormal(0, 0.02)) for one in measured * 4]
    found = ss.calibrate(module.estimator, noisy, ["schedule.ports", "schedule.slowdown"])
    assert found.values["schedule.ports"] == 5
    assert found.values["schedule.slowdown"] == pytest.approx(1.3, rel=0.03)
    assert found.parameter_draws(50) is not None
    with pytest.raises(InputError, match="1 measurements cannot fix 2 parameters"):
        ss.calibrate(module.estimator, measured[:1], ["schedule.ports", "schedule.slowdown"])


@dataclass(frozen=True)
class Halved(ss.models.FormulaModel):
    """A formula that holds the number of its record in place of a name."""

    share: float = 0.5

    def key(self, op: Any, machine: Any) -> str:
        return "all"

    def formula(self, op: Any, machine: Any) -> ss.Formula:
        return ss.Formula(ss.symbol("operation.bytes_moved") / (self.share * 1e12), "s", "bytes at a share of 1 TB/s")


@dataclass(frozen=True)
class Declared:
    count: Annotated[int, ss.models.Parameter("1", "of things", 1, 9)] = 3
    flag: bool = True
    name: str = "x"
    plain: float = -2.0


def test_declared_plain_and_other_fields() -> None:
    named = ss.models.parameters(Declared())
    assert set(named) == {"count", "plain"}
    assert named["count"][1].whole and named["count"][1].high == 9
    assert named["plain"][1].low == -np.inf, "what is negative today has no bound"
    assert "alone" not in ss.models.parameters(ss.estimator("roofline")), "records that ship declare theirs"


def test_a_number_that_a_formula_holds_still_moves_the_answer() -> None:
    estimator = ss.ComposedEstimator(Halved(), ss.Sequential())
    machine = ss.machine("h100-sxm")
    function = estimator.compile(COPIES, machine, ("estimator.operation.share",))
    times = function({"estimator.operation.share": np.array([0.5, 1.0])})
    assert times[0] == pytest.approx(2 * times[1])
    measured = [ss.Measurement(COPIES, machine, float(times[1]))] * 3
    assert ss.calibrate(estimator, measured, ["operation.share"]).values["operation.share"] == pytest.approx(1.0)


def spans(path: Path) -> list[dict[str, Any]]:
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [{**event, "lane": lanes[event["tid"]]} for event in events if event["ph"] == "X"]


@pytest.mark.parametrize(
    "words",
    [
        ["resnet18", "--on", "a100-sxm-40gb", "--estimator", "my_bus:estimator"],
        ["resnet18", "--on", "a100-sxm-40gb", "--estimator", "contended-dispatch"],
        ["resnet18", "--on", "a100-sxm-40gb", "--estimator", "roofline-dispatch"],
    ],
)
def test_a_timeline_is_the_answers_parts(module: Any, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    row = answered(capsys, "estimate", *words, "--timeline", "run.json")[0]
    events = spans(Path("run.json"))
    machine = ss.machine(words[2])
    chosen = module.estimator if "my_bus" in words[4] else ss.estimator(words[4])
    parts = {part.name: part.time * part.times for part in chosen.estimate(ss.workload("resnet18"), machine).parts}
    assert {event["name"]: event["dur"] / 1e6 for event in events} == pytest.approx(parts)
    assert max(event["ts"] + event["dur"] for event in events) / 1e6 == pytest.approx(row["time_s"])
    for lane in {event["lane"] for event in events}:
        inside = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["lane"] == lane)
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(inside)), lane


def test_the_timeline_of_threads_is_their_work(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["phi-cnn-small", "--on", "xeon-phi-7120p", "--estimator", "phi-simulated", "--threads", "16"]
    answered(capsys, "estimate", *words, "--timeline", "run.json")
    answer = ss.estimate("phi-cnn-small", "xeon-phi-7120p", estimator="phi-simulated", settings={"run.threads": 16})
    events = spans(Path("run.json"))
    assert [(e["name"], e["lane"]) for e in events] == [(e.name, e.lane) for e in answer.trace]
    assert len({event["lane"] for event in events}) == 16
    serial = answer.metrics["serial_share"] * answer.time
    rounds = ss.workload("phi-cnn-small").defaults["epochs"]
    last = max(event["ts"] + event["dur"] for event in events) / 1e6
    assert serial + rounds * last == pytest.approx(answer.time)


def test_an_answer_without_a_schedule_has_no_timeline(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "resnet18", "--on", "a100-sxm-40gb", "--timeline", "run.json"]) == 2
    assert "this answer has no timeline" in capsys.readouterr().err
    assert run(["estimate", "resnet18", "--on", "a100-sxm-40gb,t4", "--timeline", "run.json"]) == 2
    assert "--timeline is of one machine at a time" in capsys.readouterr().err


def test_products_side_by_side_on_one_engine_are_remarked(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ports let the roofline's products run twice as fast as the peak; one port does not."""
    asked = ["estimate", "resnet18", "--on", "v100-sxm", "--batch", "64", "--estimator", "my_bus:estimator"]
    said = {}
    for ports in (1, 8):
        (row,) = answered(capsys, *asked, "--set", f"estimator.schedule.ports={ports}")
        said[ports] = [text for text in row["remarks"] if text.startswith("MFU ")]
    assert not said[1] and len(said[8]) == 1
