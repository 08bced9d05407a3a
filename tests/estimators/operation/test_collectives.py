"""Collectives against closed forms, and laws that any of them keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.interconnect.collective_law import nccl
from slipstick.estimators.interconnect.collective_libraries import LIBRARIES, NCCL, MessageProtocol
from slipstick.estimators.interconnect.collectives import Collectives
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sensitivity.elasticities import sensitivity
from slipstick.estimators.training.graph_on_devices import collective_times
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.collective import collective as one_call
from slipstick.workloads.layers.single import gemm

NODE, DEVICES = 8, 64
LIBRARY = Collectives(
    efficiency=FrozenDict(default=0.8),
    relayed=FrozenDict(default=0.7),
    protocols=FrozenDict(default=NCCL),
    algorithms=("ring", "tree"),
)
peers = st.integers(2, DEVICES)
sizes = st.floats(1.0, 1e10)
rates = st.floats(1e8, 1e12)
waits = st.floats(0.0, 1e-3)


def linked(
    near: float = 300e9, far: float = 25e9, latency: float = 3e-6, wait: float = 9e-6, cards: int = 1
) -> Machine:
    links = {
        "nvswitch": {"bandwidth": near, "latency": latency, "width": NODE},
        "infiniband": {"bandwidth": far, "latency": wait, "width": DEVICES, "shared_by": cards},
    }
    return Machine.model_validate(machine("a100-sxm-80gb").model_dump() | {"links": links})


def collective(function: str, elements: float, participants: int, **placed: int) -> Op:
    dims = {"elements": elements, "participants": participants, **placed}
    return operation("it", "collective", dims, "float16", {"function": function})


def seconds(model: Collectives, on: Machine, op: Op) -> float:
    return float(model.times([op], on)[0])


@given(st.integers(2, NODE), sizes, rates, waits)
def test_a_ring_inside_a_node_is_alpha_beta(p: int, n: float, bandwidth: float, alpha: float) -> None:
    on = linked(near=bandwidth, latency=alpha)
    sent = 2 * n
    share = (p - 1) / p * sent / bandwidth
    expected = {
        "all_reduce": 2 * (p - 1) * alpha + 2 * share,
        "reduce_scatter": (p - 1) * alpha + share,
        "all_gather": (p - 1) * alpha + share,
        "all_to_all": (p - 1) * alpha + share,
    }
    for function, time in expected.items():
        assert seconds(Collectives(), on, collective(function, n, p)) == pytest.approx(time, rel=1e-12)


@given(st.integers(2, 8), st.sampled_from([1, 2, 4]), sizes, rates)
def test_an_all_to_all_sends_what_leaves_its_node_over_each_devices_own_card(
    nodes: int, cards: int, n: float, far: float
) -> None:
    """No ring passes parts on: (p - 8) / p of a device's data leaves the node, over its part of a card."""
    on = linked(near=1e15, far=far, latency=0.0, wait=0.0, cards=cards)
    p = NODE * nodes
    expected = 2 * n * (p - NODE) / p * cards / far
    assert seconds(Collectives(), on, collective("all_to_all", n, p)) == pytest.approx(expected, rel=1e-9)
    assert seconds(Collectives(), on, collective("all_gather", n, p)) < expected


@given(peers, sizes, rates, rates, waits, waits)
def test_an_all_reduce_by_a_ring_is_a_reduce_scatter_and_an_all_gather(
    p: int, n: float, near: float, far: float, alpha: float, wait: float
) -> None:
    on = linked(near, far, alpha, wait)
    one, *two = (
        seconds(Collectives(), on, collective(name, n, p)) for name in ("all_reduce", "reduce_scatter", "all_gather")
    )
    assert one == pytest.approx(sum(two), rel=1e-12)


@given(st.integers(2, 8), sizes)
def test_between_nodes_a_ring_takes_the_slower_link_and_the_cards_of_all_its_members(nodes: int, n: float) -> None:
    on = linked(latency=0.0, wait=0.0)
    p = nodes * NODE
    moved = 2 * (p - 1) / p * 2 * n
    assert seconds(Collectives(), on, collective("all_reduce", n, p)) == pytest.approx(moved / (NODE * 25e9), rel=1e-12)
    one_card = linked(latency=0.0, wait=0.0, cards=NODE)
    assert seconds(Collectives(), one_card, collective("all_reduce", n, p)) == pytest.approx(moved / 25e9, rel=1e-12)


@given(st.integers(2, 8), sizes)
def test_groups_at_the_same_time_share_a_card(nodes: int, n: float) -> None:
    """Eight groups, each with one device a node, through one card a node, or through one card each."""
    op = collective("all_reduce", n, nodes, stride=NODE, sharing=NODE)
    moved = 2 * (nodes - 1) / nodes * 2 * n
    shared, own = (linked(latency=0.0, wait=0.0, cards=cards) for cards in (NODE, 1))
    assert seconds(Collectives(), shared, op) == pytest.approx(NODE * moved / 25e9, rel=1e-12)
    assert seconds(Collectives(), own, op) == pytest.approx(moved / 25e9, rel=1e-12)


@given(st.sampled_from(["all_reduce", "all_gather", "send_recv"]), peers, sizes, st.floats(1.0, 100.0))
def test_more_bytes_never_take_less_time(function: str, p: int, n: float, factor: float) -> None:
    p = 2 if function == "send_recv" else p
    less, more = (seconds(LIBRARY, linked(), collective(function, size, p)) for size in (n, factor * n))
    assert more >= less * (1 - 1e-12)


@given(peers, sizes, st.floats(0.01, 1.0), st.sampled_from(["near", "far"]))
def test_less_bandwidth_is_never_faster(p: int, n: float, factor: float, which: str) -> None:
    whole = {"near": 300e9, "far": 25e9}
    op = collective("all_reduce", n, p)
    before = seconds(LIBRARY, linked(whole["near"], whole["far"]), op)
    less = whole | {which: whole[which] * factor}
    assert seconds(LIBRARY, linked(less["near"], less["far"]), op) >= before * (1 - 1e-12)


@given(peers, sizes)
def test_a_library_is_never_slower_than_one_of_its_ways(p: int, n: float) -> None:
    op, on = collective("all_reduce", n, p), linked()
    whole = seconds(Collectives(protocols=FrozenDict(default=NCCL), algorithms=("ring", "tree")), on, op)
    for name, protocol in NCCL.items():
        for algorithm in ("ring", "tree"):
            one = Collectives(protocols=FrozenDict(default=FrozenDict({name: protocol})), algorithms=(algorithm,))
            assert whole <= seconds(one, on, op) * (1 + 1e-12)


def test_small_messages_go_by_the_protocol_of_low_latency() -> None:
    slow, fast = MessageProtocol(share=1.0, latency=1.0, base=10e-6), MessageProtocol(share=0.5, latency=0.1, base=0.0)
    model = Collectives(protocols=FrozenDict(default=FrozenDict(slow=slow, fast=fast)))
    on, alpha, rate = linked(), 3e-6, 300e9
    assert seconds(model, on, collective("send_recv", 500, 2)) == pytest.approx(0.1 * alpha + 1000 / (0.5 * rate))
    assert seconds(model, on, collective("send_recv", 5e8, 2)) == pytest.approx(10e-6 + alpha + 1e9 / rate)


def test_a_group_of_one_takes_no_time() -> None:
    assert seconds(LIBRARY, linked(), collective("all_reduce", 1e6, 1)) == 0.0


def test_a_tree_waits_with_the_logarithm_of_the_nodes() -> None:
    tree, on = Collectives(algorithms=("tree",), tree_share=1.0), linked(near=1e30, far=1e30, latency=0.0, wait=1e-3)
    times = [seconds(tree, on, collective("all_reduce", 1.0, nodes * NODE)) for nodes in (2, 4, 8)]
    assert times == pytest.approx([2e-3 * math.log2(nodes) for nodes in (2, 4, 8)])


def test_a_machine_without_links_says_so() -> None:
    with pytest.raises(InputError, match=r"Jetson.*has no links between devices"):
        seconds(Collectives(), machine("jetson-agx-orin"), collective("all_reduce", 1.0, 2))


def test_an_unknown_parameter_entry_is_refused() -> None:
    with pytest.raises(InputError, match="no entry 'default'"):
        Collectives(efficiency=FrozenDict(nvlink=0.5))


def test_what_a_time_hangs_on_is_the_link_that_is_crossed() -> None:
    """A large sum inside a node follows the switch's bandwidth alone; the tiles' remainders are flat steps."""
    sums = Workload("sum", (collective("all_reduce", 1e9, 8),))
    found = sensitivity(ComposedEstimator(Collectives(), Sequential()).compile(sums, linked(), ()))
    assert float(found.elasticity["machine.links.nvswitch.bandwidth"]) == pytest.approx(-1, abs=0.01)
    assert float(found.elasticity["machine.links.infiniband.bandwidth"]) == 0.0
    product = Workload("one", (gemm("g", 4096, 4096, 4096),))
    tiled = ComposedEstimator(TiledRoofline(), Sequential()).compile(product, linked(), ())
    assert float(sensitivity(tiled).elasticity["machine.clock"]) < -0.3


@given(st.integers(2, DEVICES), st.floats(1.0, 1e10))
def test_switches_that_add_never_slow_a_call_and_serve_their_own_link_alone(p: int, n: float) -> None:
    on = linked()
    plain, added = LIBRARY, replace(LIBRARY, in_switch=FrozenDict(default=0.0, nvswitch=0.85))
    one, other = (seconds(model, on, collective("all_reduce", n, p)) for model in (plain, added))
    assert other <= one * (1 + 1e-12)
    if p > NODE:
        assert other == pytest.approx(one)
    for function in ("all_gather", "all_to_all", "reduce_scatter"):
        times = [seconds(model, on, collective(function, n, p)) for model in (plain, added)]
        assert times[0] == pytest.approx(times[1])


def test_eight_devices_add_large_data_in_their_switches() -> None:
    """Each sends its data once instead of 7/4 times: 1.75 x the share is what a large all-reduce gains."""
    model = Collectives(efficiency=FrozenDict(default=1.0), in_switch=FrozenDict(default=0.0, nvswitch=0.8))
    on = linked(latency=0.0)
    op = collective("all_reduce", 5e10, 8)
    assert seconds(Collectives(), on, op) / seconds(model, on, op) == pytest.approx(1.75 * 0.8, rel=1e-3)


def test_latencies_of_a_ring_are_those_of_the_librarys_table() -> None:
    """NCCL's src/graph/tuning.cc over NVLink: base 6.6, 14, 8.4 us and steps 0.6, 1.9, 3.4 us; a tree's 6.8 and 0.6."""
    on = linked(near=1e30, latency=3.4e-6)
    for name, base, step in (("LL", 6.6e-6, 0.6e-6), ("LL128", 14e-6, 1.9e-6), ("Simple", 8.4e-6, 3.4e-6)):
        one = Collectives(protocols=FrozenDict(default=FrozenDict({name: NCCL[name]})))
        for p in (2, 4, 8):
            assert seconds(one, on, collective("all_reduce", 1.0, p)) == pytest.approx(base + 2 * (p - 1) * step)
    tree = Collectives(protocols=FrozenDict(default=FrozenDict(LL=NCCL["LL"])), algorithms=("tree",))
    alone = Machine.model_validate(on.model_dump() | {"links": {"nvswitch": on.model_dump()["links"]["nvswitch"]}})
    for known in (on, alone):  # a chain within a node, whether a network lies beyond or not
        assert seconds(tree, known, collective("all_reduce", 1.0, 8)) == pytest.approx(6.8e-6 + 14 * 0.6e-6)


def test_the_way_changes_with_size_generation_and_library() -> None:
    model = nccl()

    def way(name: str, size: float, p: int = 8) -> tuple[str, str]:
        return model.chosen(collective("all_reduce", size / 2, p), machine(name))

    assert way("a100-sxm-80gb", 1e4)[1] == "LL" and way("a100-sxm-80gb", 1e9) == ("ring", "Simple")
    assert way("h100-sxm", 1e9) == ("NVLS", "Simple") and way("h100-sxm", 1e9, 2) == ("ring", "Simple")
    assert way("mi300x", 1e9) == ("ring", "Simple")
    assert model.chosen(collective("send_recv", 5e8, 2), machine("h100-sxm")) == ("direct", "Simple")
    assert "LL128" not in {model.chosen(collective("all_reduce", 10.0**n, 4), machine("arc-b60"))[1] for n in range(9)}


@given(st.sampled_from(["a100-sxm-80gb", "h100-sxm", "b200-sxm", "mi300x", "arc-b60"]), st.integers(2, 8), sizes)
def test_no_call_is_faster_than_its_bytes_over_the_link(name: str, p: int, n: float) -> None:
    """A ring passes 2 (p - 1) / p of the data over each link; switches that add pass it once, each way."""
    on, model = machine(name), nccl()
    op = collective("all_reduce", n, p)
    passes = 1.0 if model.chosen(op, on)[0] == "NVLS" else 2 * (p - 1) / p
    assert seconds(model, on, op) >= passes * 2 * n / float(next(iter(on.links.values())).bandwidth)


@given(
    st.sampled_from(["a100-sxm-80gb", "h100-sxm", "gb200", "mi300x"]), st.integers(2, 8), sizes, st.floats(1.0, 100.0)
)
def test_more_bytes_never_take_less_time_on_machines_of_the_catalogue(name: str, p: int, n: float, more: float) -> None:
    less, longer = (seconds(nccl(), machine(name), collective("all_reduce", size, p)) for size in (n, more * n))
    assert longer >= less * (1 - 1e-12)


def test_an_answer_names_algorithm_and_protocol() -> None:
    answer = collective_times().estimate(one_call("all_reduce"), machine("h100-sxm"), {"bytes": 1e9})
    assert "all-reduce: NVLS by Simple" in answer.assumptions


def test_a_library_without_a_default_is_refused() -> None:
    with pytest.raises(InputError, match="protocols of collectives: no entry 'default'"):
        Collectives(protocols=FrozenDict(nvlink=LIBRARIES["default"]))
