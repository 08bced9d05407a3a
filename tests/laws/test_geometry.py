"""Machines that do not exist: stated rates follow the geometry, folds decide, dies share a link."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.tpu.systolic_array import cycles
from slipstick.experiments.question.question import question
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_file import load_machine, save_machine

SIDES = [32, 64, 128, 256, 512]
LARGE = {"workload.m": 8192, "workload.n": 8192, "workload.k": 8192}
ON_ARRAYS = [("trainium2", None), ("trainium2", "systolic"), ("gaudi2", None), ("tpu-v6e", None), ("tpu-v7", "tpu")]


def time(workload: str, on: Machine, estimator: str | None, settings: Mapping[str, float] | None = None) -> float:
    return question(workload, on, estimator, settings or {}).answer().time


@pytest.mark.parametrize(("name", "estimator"), ON_ARRAYS)
@pytest.mark.parametrize("side", ["rows", "columns", "arrays"])
def test_a_smaller_array_does_a_large_product_no_faster(name: str, estimator: str | None, side: str) -> None:
    path = f"machine.engines.matrix.{side}"
    answer = whatif("gemm", name, {path: SIDES}, estimator=estimator, settings=LARGE)
    assert np.all(np.diff(answer.frame.time_s) < 1e-12)
    apart = [time("gemm", machine(name).using({path[8:]: value}), estimator, LARGE) for value in SIDES]
    assert answer.frame.time_s.to_numpy() == pytest.approx(apart, rel=1e-9)


def test_rates_at_a_changed_geometry_are_those_stated_times_the_ratio() -> None:
    v6e = machine("tpu-v6e")
    small = v6e.using({"engines.matrix.rows": 32, "engines.matrix.columns": 64})
    assert small.peak("matrix", "bfloat16") == v6e.peak("matrix", "bfloat16") / 32
    assert small.using({"engines.matrix.rows": 256, "engines.matrix.columns": 256}).peak(
        "matrix", "bfloat16"
    ) == v6e.peak("matrix", "bfloat16")
    both = v6e.using({"engines.matrix.flop_per_cycle.bfloat16": 1000, "engines.matrix.rows": 128})
    assert both.engines["matrix"].flop_per_cycle["bfloat16"] == 500


def test_where_a_rate_and_its_geometry_are_set_both_count_and_the_answer_says_so() -> None:
    rate, rows = "machine.engines.matrix.flop_per_cycle.bfloat16", "machine.engines.matrix.rows"
    told = question("gemm", "tpu-v6e", None, {rate: 1000, rows: 128}).answer().assumptions
    assert any("rows 128 instead of 256" in text and "a rate that is set beside" in text for text in told)
    assert not any("instead of" in text for text in question("gemm", "tpu-v6e").answer().assumptions)
    axes = {rate.replace("bfloat16", "float32"): [262_144.0, 524_288.0], rows: [128, 256]}
    seconds = whatif("gemm", "tpu-v6e", axes, estimator="roofline", settings=LARGE).frame.time_s.to_numpy()
    assert seconds / seconds[-1] == pytest.approx([4, 2, 2, 1])


@pytest.mark.parametrize("dataflow", ["output_stationary", "weight_stationary", "input_stationary"])
def test_times_on_a_changed_array_are_the_cycles_of_its_folds(dataflow: str, tmp_path: Path) -> None:
    """One multiply-add a cell and cycle: seconds times the clock are the fold formula's cycles, at every size."""
    file = tmp_path / "npu.yaml"
    file.write_text(
        "name: npu\nclock: 1 GHz\ncores: 1\nmemory: {DRAM: {capacity: 64 GB, bandwidth: 1e15 byte/s}}\n"
        f"engines: {{matrix: {{rows: 256, columns: 256, flop_per_cycle: {{float32: 131072}}, dataflow: {dataflow}}}}}\n"
        "runtime: {mode: compiled}\nsources: {clock: a test}\n"
    )
    for rows, columns, m, n, k in [(32, 512, 100, 333, 65), (256, 64, 1, 4096, 4096), (96, 48, 8192, 17, 300)]:
        npu = load_machine(file).using({"engines.matrix.rows": rows, "engines.matrix.columns": columns})
        # a gemm's weights are (m, k): m and n change places
        answer = question("gemm", npu, "systolic", {"workload.m": n, "workload.n": m, "workload.k": k}).answer()
        counted = cycles(m, n, k, rows, columns, dataflow, "double_buffered")
        assert answer.time * 1e9 == pytest.approx(float(counted))


def test_a_larger_array_may_cost_more_on_a_small_product() -> None:
    answer = whatif("gemm", "trainium2", {"machine.engines.matrix.rows": [128, 512]}, settings={"workload.m": 64})
    assert answer.frame.time_ratio[1] > 1


def test_lanes_channels_and_dies_scale_what_is_stated_at_them(tmp_path: Path) -> None:
    file = tmp_path / "made.yaml"
    file.write_text(
        "name: made\nextends: h100-sxm\nengines: {vector: {lanes: 128}}\nmemory: {HBM3: {channels: 5}}\n"
        "dies: {count: 2}\nsources: {engines.vector.lanes: a test}\n"
    )
    made = load_machine(file)
    assert made.using({"engines.vector.lanes": 64}).peak("vector", "float32") == made.peak("vector", "float32") / 2
    assert made.using({"memory.HBM3.channels": 6}).bandwidth("HBM3") == pytest.approx(1.2 * made.bandwidth("HBM3"))
    four = made.using({"dies.count": 4})
    assert (four.cores, four.bandwidth("HBM3")) == (264, 2 * made.bandwidth("HBM3"))
    assert four.memory["L2"].capacity == 2 * made.memory["L2"].capacity
    assert four.bandwidth("L2") == 2 * made.bandwidth("L2") and four.memory["L1"] == made.memory["L1"]
    with pytest.raises(InputError, match="cores"):
        made.using({"dies.count": 4, "cores": 131.5})
    save_machine(four, tmp_path / "four.yaml")
    assert load_machine(tmp_path / "four.yaml").fingerprint == four.fingerprint


def of_dies(folder: Path, bandwidth: str, count: int = 2, more: str = "") -> Machine:
    """An H100 that is said to be of so many dies."""
    file = folder / "dies.yaml"
    file.write_text(f"name: dies\nextends: h100-sxm\ndies: {{count: {count}, bandwidth: {bandwidth}{more}}}\n")
    return load_machine(file)


@pytest.mark.parametrize(
    "workload",
    [
        "stream-triad",
        "gpt2-inference",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("llama-3-8b-decode", "spmv-uniform")),
    ],
)
def test_a_link_between_dies_is_monotone_and_vanishes_in_the_limit(workload: str, tmp_path: Path) -> None:
    whole = time(workload, machine("h100-sxm"), None)
    links = ["0.1 TB/s", "0.3 TB/s", "0.5 TB/s", "0.8 TB/s", "1.5 TB/s", "10 TB/s"]
    seconds = [time(workload, of_dies(tmp_path, link), None) for link in links]
    assert all(fast <= slow * (1 + 1e-9) for slow, fast in itertools.pairwise(seconds))
    assert seconds[-1] == pytest.approx(whole) and seconds[0] > 1.05 * whole


@pytest.mark.parametrize(("count", "local", "share"), [(2, None, 1 / 2), (4, None, 3 / 4), (4, 0.6, 0.4)])
def test_a_die_moves_its_share_of_the_bytes(count: int, local: float | None, share: float, tmp_path: Path) -> None:
    """n dies of bandwidth B each: bytes x share / (n B), where that is more than the memory's own time."""
    made = of_dies(tmp_path, "100 GB/s", count, "" if local is None else f", local: {local}")
    stream = question("stream-triad", made, "roofline").answer()
    plain = question("stream-triad", "h100-sxm", "roofline").answer()
    start = made.runtime.launch_overhead
    moved = (plain.time - start) * machine("h100-sxm").bandwidth("HBM3")
    assert stream.time - start == pytest.approx(moved * share / (count * 1e11))
    assert made.using({"dies.local": 1}).bandwidth("HBM3") == machine("h100-sxm").bandwidth("HBM3")


def test_a_link_between_dies_varies_as_it_is_set(tmp_path: Path) -> None:
    made, links = of_dies(tmp_path, "1 TB/s"), [1e11, 3e11, 8e11, 2e12]
    for estimator in (None, "roofline"):
        swept = whatif("stream-triad", made, {"machine.dies.bandwidth": links}, estimator=estimator)
        apart = [time("stream-triad", made.using({"dies.bandwidth": link}), estimator) for link in links]
        assert swept.frame.time_s.to_numpy() == pytest.approx(apart)
        assert swept.unused == ()
    rows = ss.analysis.elasticity_rows(question("stream-triad", of_dies(tmp_path, "0.1 TB/s"), "roofline"))
    known = {row["quantity"]: row["elasticity"] for row in rows}
    assert known["machine.dies.bandwidth"] == pytest.approx(-1, abs=0.02)
    assert known["machine.memory.HBM3.bandwidth"] == 0


@pytest.mark.parametrize(("on", "network"), [("h100-sxm", "spmv-grid"), ("mi250x-gcd", "spmv-uniform")])
def test_the_last_cache_acts_on_sparse_products_steadily(on: str, network: str) -> None:
    """More of it is never slower, a little more is a little faster, and the cache that is stated answers as before.

    Whatever its size, all comes from main memory at a hundredth of the footprint, and all from the cache at ten times.
    """
    made = machine(on)
    cache = list(made.memory)[-2]
    footprint = float(question(network, on).workload.operations[0].dims["footprint"])
    sizes = footprint * np.geomspace(0.01, 10, 121)
    path = f"machine.memory.{cache}.capacity"
    seconds = whatif(network, on, {path: sizes}).frame.time_s.to_numpy()
    steps = np.diff(np.log(seconds))
    assert steps.max() <= 1e-12 and steps.min() > -0.12 and seconds[0] > 1.4 * seconds[-1]
    near, far = (f"machine.memory.{cache}.bytes_per_cycle", f"machine.memory.{made.main_memory}.bandwidth")
    held, streamed = (
        [
            whatif(network, made.using({path[8:]: size}), {name: ["1x", "2x"]}).frame.time_ratio[1]
            for name in (near, far)
        ]
        for size in (sizes[-1], sizes[0])
    )
    assert held[0] < 1 and held[1] == pytest.approx(1) and streamed[0] == pytest.approx(1) and streamed[1] < 1
