"""The pipeline: recurrence and SimPy agree item by item, shares add up, the bottleneck is the slowest stage."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.answer import write_timeline
from slipstick.common.errors import InputError
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.stage import Stage

stages = st.lists(
    st.builds(
        lambda service, workers, gather, buffer, start_up: (service, workers, gather, buffer, start_up),
        st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 4),
        st.sampled_from([0.0, 3.3]),
    ),
    min_size=1,
    max_size=5,
)


@given(stages, st.sampled_from([0.0, 0.5]), st.integers(0, 1000))
def test_simulation_and_recurrence_agree(
    drawn: list[tuple[float, int, int, int, float]], variation: float, seed: int
) -> None:
    pipeline = Pipeline(
        tuple(
            Stage(f"s{i}", service, workers, gather, buffer, variation, start_up)
            for i, (service, workers, gather, buffer, start_up) in enumerate(drawn)
        ),
        device="s0",
    )
    exact, simulated = pipeline.run(8, seed), pipeline.simulate(8, seed)
    assert simulated.time == pytest.approx(exact.time, abs=1e-9)
    for kind in ("taken", "started", "finished", "departed"):
        for one, other in zip(getattr(exact.times, kind), getattr(simulated.times, kind), strict=True):
            np.testing.assert_allclose(one, other[: len(one)], rtol=0, atol=1e-9)


def slow_host() -> Pipeline:
    decode = Stage("decode", 0.4, workers=2, buffer=2)
    stages = (Stage("storage", 0.01, buffer=2), decode, Stage("infeed", 0.02, buffer=2), Stage("device", 0.1))
    return Pipeline((*stages, Stage("outfeed", 0.0)), device="device")


def test_a_slow_host_leaves_the_device_idle() -> None:
    pipeline = slow_host()
    run = pipeline.run(200)
    assert pipeline.step_time() == pytest.approx(0.2)
    assert run.step_time(skip=10) == pytest.approx(0.2, rel=1e-6)
    assert run.idle() == pytest.approx(0.5, abs=0.01)
    assert run.bottleneck() == "decode"
    more = pipeline.using(decode={"workers": 8})
    assert more.step_time() == pytest.approx(0.1)
    assert more.run(200).bottleneck() == "device"


def test_shares_of_every_stage_add_up() -> None:
    run = slow_host().run(50, seed=1)
    for shares in run.shares().values():
        assert sum(shares.values()) == pytest.approx(1)
        assert all(-1e-12 <= share <= 1 for share in shares.values())


def test_room_helps_where_service_varies() -> None:
    pipeline = Pipeline((Stage("host", 1.0, variation=0.7), Stage("device", 1.0, variation=0.7)), device="device")
    small, large = (pipeline.using(host={"buffer": room}).run(4000, seed=3).step_time() for room in (1, 50))
    assert 1.0 < large < small


def test_a_shared_resource_is_simulated_and_has_no_recurrence() -> None:
    shared = Pipeline(
        (Stage("decode", 1.0, workers=4, buffer=2, resource="cores"), Stage("device", 0.1)), "device", {"cores": 2}
    )
    assert shared.simulate(40).step_time(skip=4) == pytest.approx(0.5)
    with pytest.raises(InputError, match="no recurrence for contention"):
        shared.run(4)


def test_the_chrome_trace_holds_every_service(tmp_path: Path) -> None:
    run = slow_host().run(10)
    count = write_timeline(tmp_path / "run.json", run.events())
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert len([each for each in events if each["ph"] == "X"]) == count
    stages = {each["args"]["name"]: each["pid"] for each in events if each["name"] == "process_name"}
    assert list(stages) == [stage.name for stage in run.pipeline.stages]
    services = [each for each in events if each.get("cat") == "service"]
    assert len(services) == 5 * 10
    assert max(each["ts"] + each["dur"] for each in services) == pytest.approx(run.time * 1e6)
    for stage in range(5):  # a worker does one thing at a time
        lanes = {each["tid"] for each in services if each["pid"] == stage}
        assert len(lanes) <= 2
        for worker in lanes:
            own = sorted((e["ts"], e["ts"] + e["dur"]) for e in services if (e["pid"], e["tid"]) == (stage, worker))
            assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(own))


def test_wrong_stages_are_refused_in_words() -> None:
    with pytest.raises(InputError, match="workers is 0"):
        Stage("decode", 1.0, workers=0)
    with pytest.raises(InputError, match="service is -1"):
        Stage("decode", -1.0)
    with pytest.raises(InputError, match="unknown stages"):
        slow_host().using(decoder={"workers": 2})
    with pytest.raises(InputError, match="is no stage"):
        Pipeline((Stage("a", 1.0),), device="b")
    with pytest.raises(InputError, match="unknown resource"):
        Pipeline((Stage("a", 1.0, resource="cores"),), device="a")
