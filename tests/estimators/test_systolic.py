"""Systolic arrays: somebody else's simulator to the cycle, the laws of the conventions, and the operation model."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.tpu.systolic_array import DATAFLOWS, SystolicArray, accesses, cycles, cycles_formula
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.hwmodels.catalog import machine as catalogued
from slipstick.hwmodels.compute import Engine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.memory import Level
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.layers.single import convolution, elementwise, gemm

sizes = st.integers(1, 3000)
sides = st.integers(1, 300)
dataflows = st.sampled_from(sorted(DATAFLOWS))
conventions = st.sampled_from(["scalesim", "textbook", "double_buffered"])


def own_rows() -> list[list[str]]:
    text = (Path(__file__).parents[1] / "data" / "scalesim_3_rectangular.csv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line.split(",") for line in lines[1:]]


def test_rectangular_arrays_equal_scalesim_to_the_cycle() -> None:
    rows = own_rows()
    assert len(rows) >= 20
    assert all(row[0] != row[1] for row in rows)
    for rows_, columns, dataflow, m, n, k, counted in rows:
        assert int(cycles(int(m), int(n), int(k), int(rows_), int(columns), dataflow)) == int(counted)


def test_square_arrays_equal_scalesim_to_the_cycle() -> None:
    path = training_file("tpu/scalesim_v3_layers.csv")
    if path is None:
        pytest.skip(why_missing("tpu/scalesim_v3_layers.csv"))
    import pandas as pd

    table = pd.read_csv(path).dropna(subset=["compute_cycles"])
    assert len(table) == 28
    for row in table.itertuples():
        given_ = (row.M, row.N, row.K, row.R, row.C, row.dataflow)
        assert int(cycles(*given_)) == row.compute_cycles
        share = row.M * row.N * row.K / (row.R * row.C * float(cycles(*given_)))
        assert 100 * share == pytest.approx(row.overall_util, rel=1e-12)


@given(m=sizes, n=sizes, k=sizes, rows=sides, columns=sides, dataflow=dataflows)
def test_conventions_in_order(m: int, n: int, k: int, rows: int, columns: int, dataflow: str) -> None:
    textbook = cycles(m, n, k, rows, columns, dataflow, "textbook")
    assert cycles(m, n, k, rows, columns, dataflow, "double_buffered") <= textbook
    assert cycles(m, n, k, rows, columns, dataflow, "scalesim") < textbook
    one_fold = {"m": min(m, rows, columns), "n": min(n, rows, columns), "k": min(k, rows, columns)}
    assert cycles(**one_fold, rows=rows, columns=columns, dataflow=dataflow, convention="double_buffered") == cycles(
        **one_fold, rows=rows, columns=columns, dataflow=dataflow, convention="textbook"
    )


@given(m=sizes, n=sizes, k=sizes, rows=sides, columns=sides, dataflow=dataflows, convention=conventions)
def test_never_faster_than_the_multiply_adds_and_never_faster_with_more_work(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, convention: str
) -> None:
    counted = int(cycles(m, n, k, rows, columns, dataflow, convention))
    assert (counted + 1) * rows * columns >= m * n * k
    for more in ({"m": m + 1}, {"n": n + 1}, {"k": k + 1}):
        larger = {"m": m, "n": n, "k": k, **more}
        assert cycles(**larger, rows=rows, columns=columns, dataflow=dataflow, convention=convention) >= counted
    assert cycles(m, n, k, rows, columns, dataflow, convention, arrays=2) <= counted
    assert cycles(m, n, k, rows, columns, dataflow, convention, products=3) >= counted


@given(m=sizes, n=sizes, k=sizes, rows=sides, columns=sides)
def test_input_stationary_is_weight_stationary_with_the_operands_exchanged(
    m: int, n: int, k: int, rows: int, columns: int
) -> None:
    assert cycles(m, n, k, rows, columns, "is") == cycles(n, m, k, rows, columns, "ws")


@given(m=sizes, n=sizes, k=sizes, rows=sides, columns=sides, dataflow=dataflows, buffer=st.floats(1, 1e7))
def test_every_element_is_moved_and_none_more_often_than_by_the_array(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, buffer: float
) -> None:
    counted = accesses(m, n, k, rows, columns, dataflow, buffer)
    for name, least in {"input": m * k, "weights": k * n, "outputs": m * n}.items():
        assert least <= counted[f"dram.{name}"] <= counted[f"sram.{name}"]
        assert accesses(m, n, k, rows, columns, dataflow)[f"dram.{name}"] <= counted[f"dram.{name}"]


@pytest.mark.timed
def test_a_million_layers_a_second() -> None:
    count = 200_000
    rng = np.random.default_rng(0)
    m, n, k = rng.integers(1, 4096, (3, count))
    rows, columns = rng.integers(1, 512, (2, count))
    cycles(1, 1, 1, 1, 1, "ws")  # compile
    start = time.thread_time()
    cycles(m, n, k, rows, columns, "ws")
    assert count / (time.thread_time() - start) >= 1e6


def tpu(dataflow: str = "weight_stationary", cores: int = 2) -> Machine:
    engine = Engine.model_validate(
        {"flop_per_cycle": {"bfloat16": 2 * 128 * 128}, "rows": 128, "columns": 128, "dataflow": dataflow}
    )
    vector = Engine(flop_per_cycle=FrozenDict({"bfloat16": 2048.0, "float32": 2048.0}))
    return Machine(
        name="an array",
        clock=700e6,
        cores=cores,
        engines=FrozenDict({"matrix": engine, "vector": vector}),
        memory=FrozenDict({"HBM": Level(capacity=16e9, bandwidth=1e15)}),
        sources=FrozenDict(),
    )


def test_a_gemm_takes_its_cycles_over_the_clock() -> None:
    op = gemm("g", m=512, n=1000, k=256, dtype="bfloat16")  # weights (512, 256), 1000 rows of input
    counted = int(cycles(1000, 512, 256, 128, 128, "ws", "double_buffered", arrays=2))
    assert SystolicArray().times([op], tpu())[0] == pytest.approx(counted / 700e6, rel=1e-12)


def test_a_batch_fills_the_arrays() -> None:
    one = gemm("one", m=128, n=64, k=128, dtype="bfloat16")
    eight = gemm("eight", m=128, n=64, k=128, batch=8, dtype="bfloat16")
    times = SystolicArray(convention="textbook").times([one, eight], tpu(cores=4))
    assert times[1] == pytest.approx(2 * times[0])


def test_passes_of_a_convolution_do_as_many_multiply_adds() -> None:
    dims = {
        "batch": 4, "channels_in": 64, "channels_out": 128, "groups": 2, "in_depth": 1, "in_height": 28, "in_width": 28,
        "out_depth": 1, "out_height": 14, "out_width": 14, "kernel_depth": 1, "kernel_height": 3, "kernel_width": 3,
    }  # fmt: skip
    tiny = tpu(cores=1).using({"engines.matrix.rows": 1, "engines.matrix.columns": 1})  # two flop a cycle
    tiny = tiny.using({"engines.vector.flop_per_cycle.bfloat16": 1e-3, "engines.vector.flop_per_cycle.float32": 1e-3})
    for direction in ("forward", "backward_data", "backward_weight"):
        op = operation("c", "convolution", dims, "bfloat16", {"pass": direction})
        # on one cell the textbook is (T + 1) cycles a fold: exactly all multiply-adds plus a cycle for each fold
        folds = {"forward": 2 * 64 * 288, "backward_data": 2 * 64 * 288, "backward_weight": 2 * 784 * 64}[direction]
        seconds = SystolicArray(convention="textbook").times([op], tiny)[0]
        assert seconds * 700e6 == pytest.approx(float(op.cost.flop) / 2 + folds, rel=1e-9)


def test_what_is_no_product_goes_to_the_roofline() -> None:
    op = elementwise("add", elements=10**6, inputs=2)
    assert SystolicArray().times([op], tpu())[0] == Roofline().times([op], tpu())[0]
    slow = SystolicArray(others=Roofline(compute_efficiency=0.5)).times([op], tpu())[0]
    assert slow == pytest.approx(2 * SystolicArray().times([op], tpu())[0])
    conv = convolution("c", 1, 3, 8, (3, 3), (10, 10), dtype="bfloat16")
    vector_only = tpu().using({"engines.matrix.rows": 0})
    assert SystolicArray().times([conv], vector_only)[0] == Roofline().times([conv], vector_only)[0]


def test_time_bound_by_bandwidth_where_that_is_slow() -> None:
    op = gemm("g", m=128, n=128, k=128, dtype="bfloat16")
    slow = tpu().using({"memory.HBM.bandwidth": 1e6})
    formula = SystolicArray().formula(op, slow)
    assert SystolicArray().times([op], slow)[0] == pytest.approx(float(op.cost.bytes_moved) / 1e6)
    assert set(formula.terms) == {"compute", "memory"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cycles(0, 1, 1, 8, 8), "m = 0: want 1 or more"),
        (lambda: cycles(1, 1, 1, 8, 8, "zigzag"), "unknown dataflow 'zigzag'"),
        (lambda: cycles_formula("weight_stationary", "v2"), "unknown convention 'v2'"),
        (lambda: SystolicArray(convention="v2"), "unknown convention 'v2'"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        call()


def test_products_without_traffic_do_not_share_the_formula_of_those_with_it() -> None:
    """One of two equal products is fused: its operands come from where they are, and only cycles count."""
    on = tpu().using({"memory.HBM.bandwidth": 1e9})
    moved = gemm("a", 64, 64, 64, dtype="bfloat16")
    fused = replace(moved, name="b", cost=Cost({k: v for k, v in moved.cost.items() if k not in ("read", "written")}))
    both = SystolicArray().times([moved, fused], on)
    assert both[0] == pytest.approx(3 * 64 * 64 * 2 / 1e9)
    assert both[1] == pytest.approx(int(cycles(64, 64, 64, 128, 128, "ws", "double_buffered", arrays=2)) / 700e6)


@pytest.mark.parametrize("name", ["gaudi3", "trainium2", "tpu-v4"])
def test_depthwise_convolutions_take_no_longer_in_a_narrower_type(name: str) -> None:
    """Each type is exact in float32, so that the vector engine computes it where a channel fills no array."""
    on, times = catalogued(name), {}
    for dtype in ("float32", "tfloat32", "bfloat16"):
        depthwise = convolution("a", 1, 40, 40, (3, 3), (56, 56), groups=40, dtype=dtype)
        try:
            times[dtype] = float(SystolicArray().times((depthwise,), on)[0])
        except InputError:
            continue  # no engine of it
    assert all(seconds <= times.get("float32", seconds) * 1.0001 for seconds in times.values())
