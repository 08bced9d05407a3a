"""One law of the power cap for a step of serving: of `estimate`, `whatif` and `serve`."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.power.serving_power import ServingPower, ServingWork
from slipstick.experiments.question.question import question
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine

MODEL = "llama-2-7b"
STEPS = {
    "decode": ({"run.decodes": 64.0, "run.context": 512.0}, Batch(64.0, 512.0)),
    "prompt": ({"run.prompt": 4096.0, "run.chunk": 4096.0}, Batch(prompt=4096.0, chunk=4096.0, finished=1.0)),
}


@pytest.mark.parametrize("name", ["h100-sxm", "mi300x", "rtx-4090"])
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("share", [0.45, 0.7])
def test_a_step_under_a_cap_is_the_servers_at_the_clock_that_the_cap_leaves(name: str, kind: str, share: float) -> None:
    sizes, batch = STEPS[kind]
    on = machine(name)
    cap = share * float(on.power.cap or 0)
    chosen: dict[str, float | str] = {**sizes, "machine.runtime.library": "vllm"}
    free = question(f"{kind}:{MODEL}", name, settings=chosen).answer()
    step = ServingOptions(MODEL, name, engine="vllm").deployment().step
    near = {"decode": 1e-9, "prompt": 5e-3}[kind]  # of a prompt's cache a server counts less than its graph
    assert free.time == pytest.approx(step.seconds(batch), rel=near)
    read, flop = (one / free.time for one in step.demands(batch))
    work, law = ServingWork(read, flop, sequences=max(batch.decodes, 1.0)), ServingPower.of(on)
    assert (free.energy or 0) / free.time == pytest.approx(min(law.watts(on, work), on.power.cap or 0), rel=near)
    capped = on.using({"power.cap": cap})
    clock = law.held_clock(capped, work)
    slow = (
        ServingOptions(MODEL, name, engine="vllm", changes={"clock": f"{clock!r} Hz"}).deployment().step.seconds(batch)
    )
    held = question(f"{kind}:{MODEL}", name, settings={**chosen, "machine.power.cap": cap}).answer()
    assert held.time == pytest.approx(slow, rel=near)
    assert (held.energy or 0) / held.time <= cap * (1 + 1e-9)
    said = [text for text in held.assumptions if "holds the clock at about" in text]
    assert bool(said) == (clock < on.clock) or clock == pytest.approx(on.clock, rel=near)
    for text in said:
        number, unit = re.findall(r"about ([\d.]+) ([GM])Hz", text)[0]
        assert float(number) * {"G": 1e9, "M": 1e6}[unit] == pytest.approx(clock, rel=1e-3 + near)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("clock", [0.7e9, 1.3e9])
def test_a_step_at_a_lower_clock_draws_what_a_server_does(kind: str, clock: float) -> None:
    sizes, batch = STEPS[kind]
    on = machine("h100-sxm")
    free = question(f"{kind}:{MODEL}", "h100-sxm", settings=sizes).answer()
    slow = question(f"{kind}:{MODEL}", "h100-sxm", settings={**sizes, "machine.clock": clock}).answer()
    read, flop = (one / free.time for one in ServingOptions(MODEL, "h100-sxm").deployment().step.demands(batch))
    work = ServingWork(read, flop, sequences=max(batch.decodes, 1.0))
    watts = ServingPower.of(on).watts(on.using({"clock": clock}), work)
    assert (slow.energy or 0) / slow.time == pytest.approx(watts, rel={"decode": 1e-9, "prompt": 5e-3}[kind])
    frame = whatif(f"{kind}:{MODEL}", "h100-sxm", {"machine.clock": [clock]}, settings=sizes).frame
    assert frame.energy_J[0] == pytest.approx(slow.energy, rel=1e-9)


@pytest.mark.parametrize("kind", STEPS)
def test_a_table_over_caps_is_that_of_each_step(kind: str) -> None:
    caps = [200.0, 350.0, 500.0, 700.0, 900.0]
    frame = whatif(f"{kind}:{MODEL}", "h100-sxm", {"machine.power.cap": caps}, settings=STEPS[kind][0]).frame
    for cap, seconds, joules in zip(caps, frame.time_s, frame.energy_J, strict=True):
        one = question(f"{kind}:{MODEL}", "h100-sxm", settings={**STEPS[kind][0], "machine.power.cap": cap}).answer()
        assert seconds == pytest.approx(one.time, rel=1e-9) and joules == pytest.approx(one.energy, rel=1e-9)


def test_a_gpu_that_states_no_energy_of_a_flop_is_held_by_its_cap() -> None:
    """Large products of an MI300X run below their highest clock at its rated 750 W: half of that is no faster."""
    caps = [300.0, 400.0, 600.0, 750.0]
    sizes = {f"workload.{name}": 8192.0 for name in "mnk"}
    frame = whatif("gemm", "mi300x", {"machine.power.cap": caps}, settings=sizes, dtype="bfloat16").frame
    assert list(frame.time_s) == sorted(frame.time_s, reverse=True)
    # the clock falls to between a half (V held) and 0.5^(1/3) (V as f), further by static power
    assert 0.4 < frame.time_s[3] / frame.time_s[1] < 0.85
    assert all(frame.energy_J <= frame["machine.power.cap"] * frame.time_s * (1 + 1e-9))


@pytest.mark.parametrize(("name", "model"), [("rx-7900-xtx", "llama-2-7b"), ("h100-sxm", "llama-3-8b")])
def test_a_raised_clock_lowers_no_power_of_a_step(name: str, model: str) -> None:
    """Of a step that reads: its few products are as many at any clock, and no cheaper at a higher one."""
    clock = machine(name).clock
    found = whatif(f"decode:{model}", name, {"machine.clock": [clock, 1.3 * clock, 2 * clock]}, dtype="bf16").frame
    watts = (found.energy_J / found.time_s).to_numpy()
    assert all(faster >= slower * (1 - 1e-6) for slower, faster in pairwise(watts))
