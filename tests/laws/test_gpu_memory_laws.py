"""Tiles on GPUs: less cache, bandwidth or cores never helps; a level that is off sends re-reads outward."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.gpu.kernels.gpu_counters import counters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload

MODEL = TiledRoofline()
sizes = st.integers(1, 4096)


def product(m: int, n: int, k: int) -> Op:
    return operation("product", "gemm", {"batch": 1, "m": m, "n": n, "k": k})


def step(batch: int, hidden: int) -> Op:
    dims = {"batch": batch, "hidden": hidden, "gates": 4, "outputs": hidden}
    return operation("step", "recurrent", dims, "float32", {"function": "lstm"})


@given(sizes, sizes, sizes, st.sampled_from(["vega-fe", "v100-sxm", "a100-sxm-80gb"]))
def test_less_of_anything_is_never_faster(m: int, n: int, k: int, name: str) -> None:
    on = machine(name)
    main = on.main_memory
    bandwidth = on.memory[main].bandwidth or 1.0
    for op in (product(m, n, k), step(min(m, 256), n)):
        base = float(MODEL.times((op,), on)[0])
        for less in (
            {"memory.L1.capacity": 0},
            {"memory.L2.capacity": 0},
            {"memory.L2.capacity": on.memory["L2"].capacity / 4},
            {f"memory.{main}.bandwidth": bandwidth / 2},
            {"clock": on.clock / 2},
        ):
            assert float(MODEL.times((op,), on.using(less))[0]) >= base * (1 - 1e-9), less


@pytest.mark.parametrize("op", [product(2048, 2048, 2048), step(64, 1024)])
def test_without_a_cache_its_bytes_come_from_the_next_level(op: Op) -> None:
    on = machine("vega-fe")
    workload = Workload("one", (op,))
    whole, no_l2 = (counters(workload, on.using({"memory.L2.capacity": size}), MODEL) for size in (4 << 20, 0))
    assert whole.total("flop") == no_l2.total("flop") == float(op.cost.flop)
    assert no_l2.total("bytes.L2") == 0
    assert no_l2.total("bytes.HBM2") > 1.3 * whole.total("bytes.HBM2") >= 0.99 * 1.3 * float(op.cost.bytes_moved)
    assert whole.total("bytes.L1") >= whole.total("bytes.HBM2")
    assert whole.instructions_per_cycle <= 64 * 2  # 64 cores of two wavefronts a cycle


@pytest.mark.parametrize(
    ("dtype", "facts", "bytes_of"),
    [
        ("float8", {"quantizes": True}, lambda _, n, k: n * k * (2 + 1)),
        ("float8_block", {"packs_scales": True}, lambda m, _, k: 9 * m * k / 128),
        ("bfloat16", {"role": "experts"}, lambda m, n, k: 2 * n * (m + k / 2)),
    ],
)
def test_bytes_of_kernels_beside_a_product_are_counted(
    dtype: str, facts: dict[str, bool | str], bytes_of: Callable[[int, int, int], float]
) -> None:
    """They were in the time, and in no level of the memory."""
    m, n, k = 1024, 512, 2048
    on = machine("h100-sxm")
    op = operation("product", "gemm", {"batch": 1, "m": m, "n": n, "k": k}, dtype, facts)
    found = counters(Workload("one", (op,)), on, MODEL).total(f"bytes.{on.main_memory}")
    assert found == pytest.approx(float(op.cost.bytes_moved) + bytes_of(m, n, k), rel=2e-3)


def test_frames_and_free_kinds() -> None:
    on = machine("vega-fe")
    view = operation("view", "view", {"elements": 10}, "float32")
    found = counters(Workload("two", (product(64, 64, 64), view)), on, MODEL)
    assert list(found.to_frame().columns[:3]) == ["operation", "kind", "seconds"]
    assert found.values["bytes.HBM2"][1] == 0


def test_counters_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["estimate", "gnmt", "--on", "vega-fe", "--estimator", "tiled-roofline", "--counters", "--format", "json"]
    assert run([*words, "--set", "workload.seq_len=9"]) == 0
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["all"]["bytes_HBM2"] == pytest.approx(sum(r["bytes_HBM2"] for k, r in rows.items() if k != "all"))
    assert rows["recurrent"]["cycles"] > rows["softmax"]["cycles"] > 0
    assert run(["estimate", "gnmt", "--on", "vega-fe", "--estimator", "roofline", "--counters"]) == 2
    assert "give --estimator tiled-roofline" in capsys.readouterr().err
