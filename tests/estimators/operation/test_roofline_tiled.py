"""The tiled roofline against numbers of others and closed forms."""

from __future__ import annotations

import time

import numpy as np
import pytest
import sympy as sp

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import elementwise, gemm

IDEAL = KernelParameters(
    compute_efficiency=1.0, memory_efficiency=1.0, tile_cycles=0.0, step_cycles=0.0, small_tile=0.0, overlap=0.0
)
MODEL = TiledRoofline(FrozenDict({"default": IDEAL}))
A100 = machine("a100-sxm-80gb").using({"runtime.launch_overhead": 0.0, "power.cap": None})


def seconds(op: object, on: object = A100, model: TiledRoofline = MODEL) -> float:
    return float(model.times([op], on)[0])  # type: ignore[list-item, arg-type]


@pytest.mark.parametrize(("tiles", "waves"), [(108, 1), (109, 2), (216, 2), (217, 3)])
def test_waves_of_tiles_are_counted(tiles: int, waves: int) -> None:
    """Free traffic, one column of 128 x 128 tiles: each takes 2 x 128 x 128 x k / (2048 flop a cycle and core)."""
    free = A100.using({f"memory.{A100.main_memory}.bandwidth": 1e18, "memory.L2.bytes_per_cycle": 1e12})
    op = operation("row", "gemm", {n: sp.Symbol(n, positive=True) for n in ("batch", "m", "n", "k")}, "bfloat16")
    formula = MODEL.formula(op, free)
    assert isinstance(formula, MinOverConfigs)
    only = MinOverConfigs(
        formula.expression,
        "s",
        "",
        menu=FrozenDict({"choice.rows": (128.0,), "choice.columns": (128.0,), "choice.parts": (1.0,)}),
    )
    dims = {"batch": 1.0, "m": 128.0 * tiles, "n": 128.0, "k": 65536.0}
    flop = 2 * dims["m"] * dims["n"] * dims["k"]
    own = {f"parameter.kernels.default.{n}": getattr(IDEAL, n) for n in KernelParameters.__dataclass_fields__}
    values = {**machine_values(only, free), **own, **{f"operation.{n}": v for n, v in dims.items()}}
    values |= {"operation.flop": flop, "operation.flop.matrix.bfloat16": flop, "operation.launches": 1.0}
    assert float(only.evaluate(values)) == pytest.approx(waves * 2 * 128 * 128 * 65536 / 2048 / 1.41e9, rel=1e-6)


def test_whole_waves_reach_the_data_sheet_peak() -> None:
    """NVIDIA A100 data sheet: 312 TFLOP/s in bfloat16."""
    op = gemm("a", 256 * 108, 128 * 16, 16384, dtype="bfloat16")
    assert float(op.cost.flop) / seconds(op) == pytest.approx(312e12, rel=0.01)


def test_streams_reach_the_data_sheet_bandwidth() -> None:
    """NVIDIA A100 80GB data sheet: 2039 GB/s."""
    op = elementwise("a", 2**32)
    assert float(op.cost.bytes_moved) / seconds(op) == pytest.approx(2039e9, rel=0.01)


def test_time_may_fall_with_a_larger_dimension() -> None:
    """Rows that are aligned again load at full width: padding 4097 to 4104 saves time in a product bound by traffic.

    The menu alone cannot fall: it is the least of times that each grow with the product.
    """
    model = TiledRoofline()
    times = model.times([gemm(str(m), m, 16, 4096, dtype="bfloat16") for m in (4096, 4097, 4104)], A100)
    assert times[1] > 1.03 * times[2]
    assert times[2] >= times[0]


def test_a_cache_of_no_capacity_spares_nothing() -> None:
    """Without L2 every tile comes from main memory, without L1 tiles are loaded in pieces."""
    op = gemm("a", 4096, 4096, 4096, dtype="bfloat16")
    model = TiledRoofline()
    whole = seconds(op, A100, model)
    assert seconds(op, A100.using({"memory.L2.capacity": 0}), model) > whole
    assert seconds(op, A100.using({"memory.L1.capacity": 0}), model) > whole


@pytest.mark.parametrize(
    ("name", "peak", "low", "high"),
    [("t4", 8.14e12, 0.40, 0.85), ("l4", 30.3e12, 0.20, 0.45), ("v100-pcie", 14.1e12, 0.80, 1.0)],
)
def test_long_products_run_into_the_power_cap(name: str, peak: float, low: float, high: float) -> None:
    """Public FP32 products of long duration reach 48 % (T4), 28 % (L4) and 97 % (V100) of the data-sheet peak."""
    op = gemm("a", 16384, 16384, 16384)
    share = float(op.cost.flop) / seconds(op, machine(name), TiledRoofline()) / peak
    assert low < share < high


def test_a_cap_below_idle_makes_work_slow_and_not_unknown() -> None:
    op, on = gemm("a", 8192, 8192, 8192), machine("a100-sxm-80gb")  # 60 W idle
    found = [seconds(op, on.using({"power.cap": cap}), TiledRoofline()) for cap in (400.0, 100.0, 61.0, 50.0)]
    assert found == sorted(found) and found[-1] > 100 * found[0]


def test_attention_of_one_query_is_bound_by_its_keys() -> None:
    """Decode reads the key-value cache once: 64 sequences x 8 heads x 8192 keys x 2 x 128 x 2 bytes over 2039 GB/s."""
    dims = {"batch": 64, "heads": 8, "kv_heads": 8, "queries": 1, "keys": 8192, "head_dim": 128, "value_dim": 128}
    op = operation("a", "attention", dims, "bfloat16")
    least = 64 * 8 * 8192 * 2 * 128 * 2 / 2039e9
    assert least <= seconds(op) <= 1.3 * least


def test_attention_that_writes_the_cache_moves_new_keys_and_values_twice() -> None:
    """Read and written: 2 x 4 sequences x 32 heads x 8192 tokens x 2 x 128 x 2 bytes over 2039 GB/s, no cache kept."""
    dims = {"batch": 4, "heads": 32, "kv_heads": 32, "queries": 8192, "keys": 8192, "head_dim": 128, "value_dim": 128}
    cold = A100.using({"runtime.cache": "cold"})
    plain, writing = (
        seconds(operation("a", "attention", dims, "bfloat16", {"causal": True, **more}), cold)
        for more in ({}, {"writes_cache": True})
    )
    assert writing - plain == pytest.approx(2 * 4 * 32 * 8192 * 2 * 128 * 2 / 2039e9, rel=1e-6)


def test_one_point_and_an_array_agree() -> None:
    """compile() over the clock equals estimate() at each."""
    net = Workload("net", (gemm("a", 512, 384, 256), elementwise("b", 10_000)))
    whole = ComposedEstimator(TiledRoofline(), Sequential())
    clocks = np.array([0.7e9, 1.0e9, 1.41e9])
    compiled = whole.compile(net, A100, ("machine.clock",))({"machine.clock": clocks})
    single = [whole.estimate(net, A100.using(clock=float(clock))).time for clock in clocks]
    assert compiled == pytest.approx(single, rel=1e-12)


@pytest.mark.timed
def test_vectorised_is_as_fast_as_numpy_by_hand() -> None:
    """The formula over 20,000 operations against the same arithmetic written out for one tile and no split."""
    op = operation("row", "gemm", {n: sp.Symbol(n, positive=True) for n in ("batch", "m", "n", "k")}, "float32")
    formula = TiledRoofline().formula(op, A100)
    assert isinstance(formula, MinOverConfigs)
    one = Formula(
        formula.substitute({f"choice.{n}": v for n, v in (("rows", 128), ("columns", 128), ("parts", 1))}).expression,
        "s",
        "",
    )
    generator = np.random.default_rng(0)
    sizes = {n: generator.integers(16, 4096, 20_000).astype(float) for n in ("batch", "m", "n", "k")}
    own = {
        f"parameter.kernels.default.{n}": getattr(KernelParameters(), n) for n in KernelParameters.__dataclass_fields__
    }
    values = {**machine_values(one, A100), **own, **{f"operation.{n}": v for n, v in sizes.items()}}
    flop = 2 * sizes["batch"] * sizes["m"] * sizes["n"] * sizes["k"]
    values |= {"operation.flop.matrix.float32": flop, "operation.flop": flop, "operation.launches": 1.0}
    one.evaluate(values)
    start = time.thread_time()
    one.evaluate(values)
    ours = time.thread_time() - start
    start = time.thread_time()
    _by_hand(sizes)
    by_hand = time.thread_time() - start
    assert ours <= 4 * by_hand + 0.01


def _by_hand(s: dict[str, np.ndarray]) -> np.ndarray:
    batch, m, n, k = (s[name] for name in ("batch", "m", "n", "k"))
    a, b, c = batch * m * k * 4, batch * k * n * 4, batch * m * n * 4
    blocks = batch * np.ceil(m / 128) * np.ceil(n / 128)
    work = np.ceil(blocks / 108) * (2 * 128 * 128 / 128 / 0.92 * np.ceil(k) + 1500) / 1.41e9
    side = np.sqrt(np.minimum(blocks, 108) * 128 * 128)
    panel = k * 4 * (np.minimum(side, m) + np.minimum(side, n))
    missed = panel**2 / (panel**2 + 4.2e7**2)
    again_a = 1 + (np.maximum(n / np.maximum(side, 128), 1) - 1) * missed
    again_b = 1 + (np.maximum(m / np.maximum(side, 128), 1) - 1) * missed
    spared = 0.9 * 4.2e7**3 / (4.2e7**3 + (6 * (a + b + c)) ** 3)
    traffic = (a * again_a + b * again_b + c) * (1 - spared) / 1.8e12 + (a + b + c) * spared / 7e12
    return np.asarray(np.maximum(work, traffic) + 0.3 * np.minimum(work, traffic) + 3e-6)


def test_extrema_differentiate_their_active_side() -> None:
    """d max(2 x, 3) / dx is 2 above x = 1.5 and 0 below; Smallest the other way round."""
    x = symbol("x")
    slope = Formula(Largest(2 * x, 3), "1", "").derivative("x")
    assert [float(slope.evaluate({"x": v})) for v in (1.0, 2.0)] == [0.0, 2.0]
    other = Formula(Smallest(2 * x, 3), "1", "").derivative("x")
    assert [float(other.evaluate({"x": v})) for v in (1.0, 2.0)] == [2.0, 0.0]


def test_derivative_of_a_choice_keeps_the_chosen_row() -> None:
    """least over a in {1, 4} of (n - a)^2: at n = 3.5 the row a = 4 is chosen, slope 2 (3.5 - 4) = -1."""
    squares = MinOverConfigs(
        (symbol("n") - symbol("choice.a")) ** 2, "1", "", menu=FrozenDict({"choice.a": (1.0, 4.0)})
    )
    assert float(squares.evaluate({"n": 3.5})) == 0.25
    assert float(squares.derivative("n").evaluate({"n": 3.5})) == -1.0


def test_an_empty_menu_is_refused() -> None:
    with pytest.raises(InputError, match="menu of a formula: want columns of one length"):
        MinOverConfigs(symbol("n"), "1", "", menu=FrozenDict({"choice.a": (), "choice.b": (1.0,)}))


def test_kernels_need_a_default() -> None:
    with pytest.raises(InputError, match="no entry 'default'"):
        TiledRoofline(FrozenDict({"gemm": KernelParameters()}))
