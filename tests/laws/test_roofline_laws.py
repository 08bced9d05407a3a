"""What must hold of the tiled roofline on any machine and operation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.layers.single import convolution, elementwise, gemm

MODEL = TiledRoofline()
UNCAPPED = {"power.cap": None, "runtime.launch_overhead": 0.0}
MACHINES = {
    name: machine(name).using(UNCAPPED) for name in ("vega-fe", "a100-sxm-80gb", "l4", "mi210", "xeon-phi-7250")
}

sizes = st.integers(1, 8192)


@st.composite
def operations(draw: st.DrawFn) -> Op:
    kind = draw(st.sampled_from(["gemm", "elementwise", "softmax", "norm", "convolution"]))
    a, b, c = draw(sizes), draw(sizes), draw(sizes)
    match kind:
        case "gemm":
            return gemm("o", a, b, c, batch=draw(st.integers(1, 64)))
        case "elementwise":
            return elementwise("o", a * b, inputs=2)
        case "softmax":
            return operation("o", "softmax", {"rows": a, "columns": b})
        case "norm":
            return operation("o", "norm", {"elements": a * b, "groups": a})
    side = draw(st.integers(1, 64))
    return convolution("o", draw(st.integers(1, 64)), a % 512 + 1, b % 512 + 1, (3, 3), (side, side))


machines = st.sampled_from(sorted(MACHINES))


def time_of(op: Op, on: Machine) -> float:
    return float(MODEL.times((op,), on)[0])


@given(operations(), machines, st.floats(0.2, 0.99), st.sampled_from(["clock", "bandwidth", "L1", "L2"]))
def test_never_faster_with_less(op: Op, name: str, share: float, what: str) -> None:
    """Less clock, main-memory bandwidth or cache never saves time on a machine without a power cap."""
    on = MACHINES[name]
    path = {
        "clock": "clock",
        "bandwidth": f"memory.{on.main_memory}.bandwidth",
        "L1": "memory.L1.capacity",
        "L2": "memory.L2.capacity",
    }[what]
    less = on.using({path: float(on.get(path)) * share})
    assert time_of(op, less) >= time_of(op, on) * (1 - 1e-9)


@given(sizes, sizes, sizes, machines, st.integers(1, 4))
def test_never_faster_with_fewer_cores(m: int, n: int, k: int, name: str, divisor: int) -> None:
    """A product on a share of the cores takes at least as long."""
    on = MACHINES[name]
    fewer = on.using(cores=max(1, on.cores // (divisor + 1)))
    op = gemm("o", m, n, k)
    assert time_of(op, fewer) >= time_of(op, on) * (1 - 1e-9)


@given(st.integers(256, 8192), sizes, sizes, machines, st.floats(0.3, 3.0))
def test_all_rates_times_x_divide_time_by_x(m: int, n: int, k: int, name: str, factor: float) -> None:
    """Clock and bandwidths scaled together scale time, launch apart (split reductions cost a launch: taken off)."""
    from slipstick.common.records import FrozenDict
    from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters

    model = TiledRoofline(FrozenDict({"default": KernelParameters(split_overhead=0.0)}))
    on = MACHINES[name]
    main = f"memory.{on.main_memory}.bandwidth"
    faster = on.using({"clock": on.clock * factor, main: float(on.get(main)) * factor})
    op = gemm("o", m, n, max(k, 2048))
    assert float(model.times((op,), faster)[0]) == pytest.approx(float(model.times([op], on)[0]) / factor, rel=1e-6)


@given(operations(), machines, st.floats(0.2, 5.0))
def test_continuous_across_the_ridge(op: Op, name: str, share: float) -> None:
    """A small change of the bandwidth is a small change of the time, on either side of the ridge."""
    on = MACHINES[name]
    main = f"memory.{on.main_memory}.bandwidth"
    here = on.using({main: float(on.get(main)) * share})
    near = here.using({main: float(here.get(main)) * 1.001})
    assert time_of(op, near) == pytest.approx(time_of(op, here), rel=2e-3)


@given(sizes, sizes, sizes, st.sampled_from(["l4", "t4", "h100-sxm"]))
def test_never_above_the_peak_nor_the_cap(m: int, n: int, k: int, name: str) -> None:
    """Under a cap the rate stays below the data-sheet peak (with the efficiency), launch included."""
    on = machine(name)
    op = gemm("o", m, n, k)
    assert float(op.cost.flop) / time_of(op, on) <= on.peak("vector", "float32") * 0.92 * (1 + 1e-9)


STREAM = elementwise("o", 1 << 30, inputs=1)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 1.0), st.floats(0.9, 1.0), st.sampled_from(["a100-sxm-80gb", "h100-sxm 3g.40gb", "mi210"]))
def test_main_memory_is_no_faster_than_the_path_through_the_last_cache(clock: float, less: float, name: str) -> None:
    """Nor does it jump where that path takes over."""
    ons = [machine(name).using(UNCAPPED | {"clock": f"{share}x"}) for share in (clock, clock * less)]
    rates = [float(STREAM.cost.bytes_moved) / time_of(STREAM, on) for on in ons]
    assert rates[0] <= min(ons[0].bandwidth(level) for level in ("L2", ons[0].main_memory)) * (1 + 1e-9)
    assert less * (1 - 1e-9) <= rates[1] / rates[0] <= 1 + 1e-9


@pytest.mark.parametrize("name", ["a100-sxm-80gb 3g.40gb", "h100-sxm 1g.10gb", "a30 2g.12gb"])
def test_a_slice_is_no_machine_that_was_changed(name: str) -> None:
    """Its own file would answer alike."""
    part = machine(name)
    assert time_of(STREAM, part) == time_of(STREAM, Machine.model_validate(part.model_dump()))


def test_a_path_slower_than_main_memory_bounds_no_machine_as_its_file_states_it() -> None:
    """A host of the cloud's: 31.5 GB/s through its last cache, 32.3 of memory."""
    on = machine("cloud-cascade-lake-host").using(UNCAPPED)
    path = [*on.memory][-2]
    assert on.bandwidth(path) < on.bandwidth(on.main_memory)
    faster = on.using({f"memory.{path}.bytes_per_cycle": "10x"})
    assert time_of(STREAM, faster) == pytest.approx(time_of(STREAM, on), rel=1e-9)
