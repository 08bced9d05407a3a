"""SeqPoint's five configurations (Pati et al. 2020, Table II) on random machines: what physics says of each.

#1 the base; #2 a clock of 852 MHz for 1.6 GHz; #3 16 CUs for 64; #4 no L1; #5 no L2.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.power.voltage import KNEE
from slipstick.experiments.papers.seqpoint.seqpoint_study import vega
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.layers.single import elementwise, gemm

MODEL = TiledRoofline()
BASE = vega("#1").using({"power.cap": None, "runtime.launch_overhead": 0.0})
CHANGES = {
    "#2": ("clock", 852 / 1600),
    "#3": ("cores", 16 / 64),
    "#4": ("memory.L1.capacity", 0.0),
    "#5": ("memory.L2.capacity", 0.0),
}


@st.composite
def relatives(draw: st.DrawFn) -> Machine:
    """Machines of Vega's shape with other numbers, without a power cap."""
    shares = st.floats(0.4, 3.0)
    fields = ("clock", "memory.L1.capacity", "memory.L2.capacity", "memory.HBM2.bandwidth")
    changes = {path: float(BASE.get(path)) * draw(shares) for path in fields}
    return BASE.using({**changes, "cores": 4 * draw(st.integers(3, 40))})


@st.composite
def operations(draw: st.DrawFn) -> Op:
    a, b, c = (draw(st.integers(1, 6000)) for _ in range(3))
    kind = draw(st.sampled_from(["gemm", "elementwise", "softmax"]))
    if kind == "gemm":
        return gemm("o", a, b, c)
    return (
        elementwise("o", a * b, inputs=2) if kind == "elementwise" else operation("o", kind, {"rows": a, "columns": b})
    )


def seconds(op: Op, on: Machine) -> float:
    return float(MODEL.times((op,), on)[0])


def changed(on: Machine, name: str) -> Machine:
    path, share = CHANGES[name]
    value = float(on.get(path)) * share
    return on.using({path: int(value) if path == "cores" else value})


@given(operations(), relatives(), st.sampled_from(sorted(CHANGES)))
def test_no_configuration_is_faster_than_the_base(op: Op, on: Machine, name: str) -> None:
    assert seconds(op, changed(on, name)) >= seconds(op, on) * (1 - 1e-9)


@settings(max_examples=15, deadline=None)
@given(operations(), relatives())
def test_a_slower_clock_costs_at_most_its_ratio(op: Op, on: Machine) -> None:
    """What the clock does not drive stays; what it drives takes 1600 / 852 times as long."""
    assert seconds(op, changed(on, "#2")) <= seconds(op, on) * 1600 / 852 * (1 + 1e-9)


def test_each_configuration_hits_what_depends_on_it() -> None:
    """Long products take four times as long on a quarter of the CUs; streams of main memory do not see a missing L2.

    A missing L1 is hidden behind Vega's float32 arithmetic; where arithmetic is fast it shows
    (`test_a_cache_of_no_capacity_spares_nothing`, bfloat16 on an A100).
    """
    product, stream = gemm("p", 8192, 8192, 8192), elementwise("s", 2**28, inputs=2)
    base = {op.name: seconds(op, BASE) for op in (product, stream)}
    assert seconds(product, changed(BASE, "#3")) / base["p"] == pytest.approx(4, rel=0.1)
    assert seconds(product, changed(BASE, "#2")) / base["p"] == pytest.approx(1600 / 852, rel=0.1)
    assert seconds(stream, changed(BASE, "#2")) / base["s"] < 1.2
    assert seconds(stream, changed(BASE, "#5")) / base["s"] == pytest.approx(1, rel=0.02)
    small = elementwise("r", 2**15, inputs=2)
    assert seconds(small, changed(BASE, "#5")) > 2 * seconds(small, BASE)


@settings(max_examples=15, deadline=None)
@given(st.integers(64, 12000), st.integers(64, 12000), relatives(), st.floats(30.0, 300.0))
def test_under_a_cap_no_limit_is_passed(m: int, n: int, on: Machine, watts: float) -> None:
    """A cap never saves time, and once it has taken hold the energy of the flop fits under it."""
    op = gemm("o", m, n, 4096)
    capped = on.using({"power.cap": watts, "power.idle": 0.1 * watts})
    time = seconds(op, capped)
    assert time >= seconds(op, on.using({"power.idle": 0.1 * watts})) * (1 - 1e-9)
    joules = float(op.cost.flop) * float(on.power.per_flop or 0.0) * min(1.0, (on.clock / KNEE) ** 2)
    assert time >= joules / (0.9 * watts) - float(on.power.time_constant or 0.0)
