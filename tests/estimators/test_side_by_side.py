"""Side by side by rules: the sum without rules, the critical path with all, list scheduling in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.critical_path import CriticalPath
from slipstick.estimators.schedules.parallel_operations import SideBySide, parse_rule
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.bricks import find_bricks, quotient

PHI = machine("xeon-phi-7120p")


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    edges = [(f"o{a}", f"o{b}") for b in range(count) for a in range(b) if draw(st.booleans())]
    times = draw(st.lists(st.floats(1e-6, 1.0), min_size=count, max_size=count))
    kinds = draw(st.lists(st.sampled_from(["conv", "pool"]), min_size=count, max_size=count))
    return Workload("g", tuple(Op(f"o{i}", kind) for i, kind in enumerate(kinds)), tuple(edges)), np.array(times)


@given(graphs())
def test_no_rule_is_the_sum_and_every_rule_is_the_critical_path(case) -> None:
    graph, times = case
    assert SideBySide().combine(graph, times, PHI, {}).time == pytest.approx(times.sum())
    free = SideBySide((("*", "*"),)).combine(graph, times, PHI, {}).time
    assert free == pytest.approx(CriticalPath().combine(graph, times, PHI, {}).time)


@given(graphs(), st.integers(1, 3))
def test_rules_hold_in_the_trace_and_the_time_lies_between(case, workers: int) -> None:
    """Graham's bound holds for any list schedule whose rule lets all overlap: work / workers + the path."""
    graph, times = case
    kinds = {op.name: op.kind for op in graph}
    outcome = SideBySide((("conv", "pool"),), workers).combine(graph, times, PHI, {})
    for one in outcome.trace:
        beside = [other for other in outcome.trace if other.start <= one.start < other.end and other != one]
        assert all(kinds[other.name] != kinds[one.name] for other in beside) and len(beside) < workers
    path = CriticalPath().combine(graph, times, PHI, {}).time
    assert path * (1 - 1e-9) <= outcome.time <= times.sum() * (1 + 1e-9)
    every = SideBySide((("*", "*"),), workers).combine(graph, times, PHI, {}).time
    assert every <= (times.sum() / workers + path) * (1 + 1e-9)


def test_two_branches_of_a_diamond_overlap_only_where_a_rule_says_so() -> None:
    ops = (Op("a", "conv"), Op("left", "conv"), Op("right", "pool"), Op("end", "add"))
    edges = (("a", "left"), ("a", "right"), ("left", "end"), ("right", "end"))
    graph, times = Workload("diamond", ops, edges), np.array([1.0, 3.0, 2.0, 1.0])
    times_by_rule = {
        rule: SideBySide((parse_rule(rule),)).combine(graph, times, PHI, {}).time
        for rule in ("conv+pool", "left+right", "conv+conv", "pool+add")
    }
    assert times_by_rule == {"conv+pool": 5.0, "left+right": 5.0, "conv+conv": 7.0, "pool+add": 7.0}
    bricks = quotient(graph, find_bricks(graph, 2))
    assert SideBySide((("*", "*"),)).combine(bricks, np.array([4.0, 3.0]), PHI, {}).time == 7.0
    with pytest.raises(InputError, match="rule 'conv': want PATTERN"):
        parse_rule("conv")
    with pytest.raises(InputError, match="workers = 0"):
        SideBySide((), 0)


@pytest.mark.parametrize("schedule", [CriticalPath(), SideBySide((("*", "*"),))])
def test_no_schedule_copies_the_graph_for_each_operation(schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Workload.graph` is a copy for its user: one an operation made the path of 1,476 operations take 11 s."""
    chain = Workload(
        "chain", tuple(Op(f"o{i}", "add") for i in range(9)), tuple((f"o{i}", f"o{i + 1}") for i in range(8))
    )
    monkeypatch.setattr(Workload, "graph", property(lambda _: pytest.fail("a copy of the graph")))
    assert schedule.combine(chain, np.ones(9), PHI, {}).time == 9.0
