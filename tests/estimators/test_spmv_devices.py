"""Products on whole devices: costs found again, relatives pooled, anchors believed as far as they deserve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.sparse.kernel_costs import shipped_blocks
from slipstick.estimators.sparse.sparse_products import estimate_spmv, spmv_devices_estimator
from slipstick.estimators.sparse.spmv_devices import (
    DIMS,
    FORMATS,
    TERMS,
    DeviceCosts,
    SpmvDevices,
    amount_table,
    anchored,
    load_devices,
    shipped_devices,
)
from slipstick.experiments.scoreboards.spmv.ginkgo import fit_device, spread_of, widenings
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import load_machine
from slipstick.workloads.kernels.blocks import block_features
from slipstick.workloads.kernels.generators import stencil, uniform
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import rows_operation, spmv, stored_sizes

README_MACHINE = """
name: my workstation
clock: 3.2 GHz
cores: 8
engines:
  vector: {flop_per_cycle: {float32: 32, float64: 16}}
memory:
  L2: {capacity: 1 MiB, per: core, bytes_per_cycle: 32}
  DRAM: {capacity: 64 GiB, bandwidth: 45 GB/s}
sources:
  clock: data sheet
"""


def products(count: int = 200) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = 10 ** random.uniform(4, 6.5, count)
    mean = 10 ** random.uniform(0.3, 2.3, count)
    longest = mean * 10 ** random.uniform(0, 3, count)
    return dict(zip(DIMS, (rows, rows, rows * mean, longest, random.uniform(0, 2, count)), strict=True))


def device(name: str, family: str, **cost: float) -> DeviceCosts:
    return DeviceCosts(name, family, True, FrozenDict({**dict.fromkeys(TERMS, 0.0), **cost}))


def test_amounts_by_hand() -> None:
    """100 rows of 10 and one of 1,000 on a V100: 900 GB/s, 80 cores at 1.53 GHz; the vector fits 6 MiB."""
    v100 = machine("v100-sxm")
    one = dict(zip(DIMS, ([101.0], [2000.0], [2000.0], [1000.0], [5.0]), strict=True))
    call, stream, row, wait, gather = amount_table(one, v100)[0]
    assert call == 4e-6
    assert stream == pytest.approx((12 * 2000 + 12 * 101 + 8 * 2000) / 900e9)
    assert row == pytest.approx(101 * np.log2(1 + 2000 / 101) / (80 * 1.53e9))
    assert wait == pytest.approx(101 * 1000 * 101 / 2000 / (80 * 1.53e9))  # 50 times the mean, below the bound of 100
    assert gather < 1e-20, "16 kB of the vector on 6 MiB"
    one["columns"] = [10e6]
    assert amount_table(one, v100)[0, 4] == pytest.approx(2000 * 24 / 900e9)


def test_costs_that_made_the_times_are_found_and_never_negative() -> None:
    v100 = machine("v100-sxm")
    amount = amount_table(products(), v100)
    truth = np.array([1.1, 1.3, 4.0, 0.02, 0.3])
    found = fit_device(amount, amount @ truth, v100)
    assert [found.cost[term] for term in TERMS] == pytest.approx(truth, rel=1e-3)
    shrinking = fit_device(amount, 1e-9 / amount[:, 1], v100)
    assert min(shrinking.cost.values()) >= 0
    with pytest.raises(InputError, match="3 times for 5 costs"):
        fit_device(amount[:3], [1.0, 1.0, 1.0], v100)


def test_one_product_and_many_agree_and_the_device_measured_answers_alone() -> None:
    model, v100 = shipped_devices().model, machine("v100-sxm")
    assert model.shares(v100).tolist() == [float(one.machine == v100.name) for one in model.devices] + [0.0]
    matrix = uniform((4000, 4000), 8.0, 1, "poisson")
    op = rows_operation(matrix)
    for asked in (v100, machine("a100-pcie-40gb"), machine("mi100")):
        many = model.seconds({name: [float(op.dims[name])] for name in DIMS}, asked)
        assert model.times([op], asked)[0] == pytest.approx(many[0], rel=1e-9)


def test_relatives_count_more_and_processors_do_not_tell_of_accelerators() -> None:
    near, far = device("a", "nvidia-volta-gv100", stream=1.0), device("b", "amd-vega20", stream=4.0)
    core = DeviceCosts("c", "intel-cascade-lake", False, FrozenDict({**dict.fromkeys(TERMS, 0.0), "stream": 99.0}))
    new = machine("v100-pcie")
    shares = SpmvDevices((near, far, core), 2.0).shares(new)
    assert shares[2] == 0 and shares.sum() == pytest.approx(1)
    counts = fitted_similarity().weights
    assert shares[0] / shares[1] == pytest.approx(counts[3] / counts[0])  # same chip against another vendor
    assert counts[3] > 100 * counts[0]
    assert shares[0] / shares[3] == pytest.approx(counts[3])  # and against the prior
    both = products(5)
    alone, pooled = (SpmvDevices(known, 2.0).seconds(both, new) for known in ((near,), (near, far, core)))
    assert np.all(pooled >= alone) and np.all(pooled < 1.01 * alone)


def test_a_stranger_gets_the_geometric_mean_of_the_others_and_the_usual_roofline() -> None:
    """As much of the measured device as a stranger counts against a prior of one."""
    share = fitted_similarity().weights[0] / (1 + fitted_similarity().weights[0])
    model = SpmvDevices((device("a", "nvidia-volta-gv100", stream=1.0),), 8.0)
    both, stranger = products(5), machine("mi100")
    amount = amount_table(both, stranger)
    prior = 8 * (amount[:, 0] + amount[:, 1])
    assert model.seconds(both, stranger) == pytest.approx(amount[:, 1] ** share * prior ** (1 - share))


def test_other_formats_stream_what_they_store() -> None:
    """130 rows of 3 but for one of 50, in slices of 64: 64 x 50 + 64 x 3 + 64 x 3 entries, of which rows fill 437."""
    lengths = np.full(130, 3)
    lengths[7] = 50
    sizes = stored_sizes(lengths)
    assert sizes == {"sliced_entries": 64 * 56, "hybrid_bytes": 12 * 3 * 130 + 16 * 47}
    v100 = machine("v100-sxm")
    dims = {"rows": [130.0], "columns": [200.0], "nonzeros": [437.0], "longest_row": [50.0], "row_variation": [1.2]}
    dims |= {name: [float(size)] for name, size in sizes.items()}
    read = {"csr": 12 * 437 + 12 * 130, "coo": 16 * 437 + 8 * 130, "ell": 12 * 64 * 56 + 8 * 130}
    read |= {"sellp": read["ell"], "hybrid": 12 * 3 * 130 + 16 * 47 + 8 * 130}
    for stored, size in read.items():
        call, stream, _, wait, _ = amount_table(dims, v100, stored=stored)[0]
        assert call == 4e-6 and stream == pytest.approx((size + 8 * 200) / 900e9)
        if stored in ("ell", "sellp"):
            assert wait == pytest.approx(50 / 1.53e9)
    with pytest.raises(InputError, match="format of a sparse matrix"):
        shipped_devices("dia")


def test_every_format_answers_for_a_matrix_and_padding_shows() -> None:
    """A power of rows: filled up to their longest, slices hold several times the non-zeros, and ELL takes longer."""
    even, uneven = uniform((20_000, 20_000), 8.0, 1, "constant"), uniform((20_000, 20_000), 8.0, 1, "geometric")
    v100 = machine("v100-sxm")
    for stored in FORMATS:
        model = shipped_devices(stored).model
        one, other = (float(model.times([rows_operation(matrix)], v100)[0]) for matrix in (even, uneven))
        assert 0 < one < 1e-3 and 0 < other < 1e-3
        if stored in ("ell", "sellp"):
            assert other > 1.2 * one


def test_anchors_are_doubted_by_what_devices_left_out_showed() -> None:
    """Where nothing scatters one anchor is believed; where a matrix in four is far off and machines agree it is not."""
    random = np.random.default_rng(0)
    apart = [np.full(200, factor) for factor in (0.5, 2.0, 1.5, 0.7)]
    assert set(widenings(apart, 0.5, 0.1).values()) == {1.0}
    heavy = [np.where(random.random(200) < 0.25, 8.0, 1.0) for _ in range(6)]
    trust = widenings(heavy, 0.3, 0.3)
    assert trust[1] >= 3.0 and trust[1] >= trust[8]
    trained = shipped_devices()
    assert trained.doubt(1) == trained.doubts["1"] and trained.doubt(50) == trained.doubts["8"]
    assert trained.doubt(0) == 1.0
    with pytest.raises(InputError, match="x = 1: .* of doubts by the number of anchors"):
        replace(trained, doubts=FrozenDict(x=1.0))


def test_many_anchors_are_believed_and_one_in_part() -> None:
    assert anchored(np.full(1000, 2.0), 0.5, 0.4).factor == pytest.approx(2.0, rel=0.01)
    one = anchored([2.0], 0.4, 0.4)
    assert one.factor == pytest.approx(np.sqrt(2.0))  # as unsure of the machine as of the matrix: half the way
    assert one.spread == pytest.approx(0.4 / np.sqrt(2))
    assert anchored([], 0.4, 0.4).factor == 1 and anchored([], 0.4, 0.4).spread == 0.4
    with pytest.raises(InputError, match="want numbers > 0"):
        anchored([0.0], 0.4, 0.4)


def test_spreads_of_a_normal_law_are_found() -> None:
    random = np.random.default_rng(1)
    logs = [middle + 0.3 * random.standard_normal(20_000) for middle in (-0.5, 0.5)]
    assert spread_of(logs) == pytest.approx((0.5, 0.3), abs=0.01)


def test_anchors_scale_and_narrow_the_answer_on_any_machine(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(README_MACHINE)
    matrix, other = stencil((20, 20), 5), uniform((300, 300), 5.0, 1, "poisson")
    for asked in (load_machine(tmp_path / "my.yaml"), machine("a100-pcie-40gb")):
        plain, there = (estimate_spmv(one, asked) for one in (matrix, other))
        known = estimate_spmv(matrix, asked, measured=[(other, 2 * there.time)] * 20)
        assert 1.8 * plain.time < known.time < 2 * plain.time
        (low, high), (near_low, near_high) = plain.interval() or (0, 0), known.interval() or (0, 0)
        assert near_high / near_low < high / low


@pytest.mark.parametrize("name", ["xeon-gold-6230", "v100-sxm", "mi210"])
def test_the_answer_goes_through_what_was_measured_with_this_matrix(name: str) -> None:
    matrix, other = stencil((20, 20), 5), uniform((300, 300), 5.0, 1, "poisson")
    there = estimate_spmv(matrix, machine(name)).time
    both = [(matrix, 3.1 * there), (other, 1e-3), (matrix, 2.9 * there), (matrix, 3 * there)]
    found = estimate_spmv(matrix, machine(name), measured=both)
    low, high = found.interval() or (0, 0)
    assert found.time == pytest.approx(3 * there) and 0.8 * found.time < low < high < 1.2 * found.time


def test_matrices_smaller_than_a_block_are_one_block() -> None:
    small = SparseMatrix.from_triplets("small", [0, 1, 2, 0], [0, 1, 2, 2], (3, 3))
    by_block = shipped_blocks().costs[0].seconds_per_nonzero(block_features(small, 4))
    assert estimate_spmv(small).time == pytest.approx(float(by_block[0]) * 4)
    for asked in (None, machine("xeon-gold-6148"), machine("v100-sxm")):
        assert estimate_spmv(small, asked).time > 0
    with pytest.raises(InputError, match="1 non-zeros: want at least 2"):
        estimate_spmv(SparseMatrix.from_triplets("one", [0], [0], (2, 2)))
    with pytest.raises(InputError, match="no non-zero"):
        estimate_spmv(SparseMatrix.from_triplets("none", [], [], (2, 2)), machine("v100-sxm"))


def test_machines_without_a_cache_and_models_of_a_core_for_accelerators_are_refused(tmp_path: Path) -> None:
    bare = README_MACHINE.replace("  L2: {capacity: 1 MiB, per: core, bytes_per_cycle: 32}\n", "")
    (tmp_path / "bare.yaml").write_text(bare)
    matrix = stencil((20, 20), 5)
    with pytest.raises(InputError, match="levels DRAM with a capacity: a sparse product also needs a cache"):
        estimate_spmv(matrix, load_machine(tmp_path / "bare.yaml"))
    with pytest.raises(InputError, match="costs of one core are not for it"):
        estimate_spmv(matrix, machine("v100-sxm"), shipped_blocks())
    with pytest.raises(InputError, match="a model of whole devices: needs a target machine"):
        estimate_spmv(matrix, None, shipped_devices())


def test_the_estimator_of_workloads_is_the_same_model() -> None:
    matrix, asked = stencil((60, 60), 5), machine("p100-pcie")
    answer = spmv_devices_estimator().estimate(spmv(matrix), asked)
    assert answer.time == pytest.approx(estimate_spmv(matrix, asked).time)
    assert any("leaves there" in text for text in answer.assumptions)
    assert not any("cold" in text for text in answer.assumptions)
    whole, core = machine("xeon-gold-6230"), stencil((300, 300), 5)
    assert estimate_spmv(core, whole, shipped_devices()).time < estimate_spmv(core, whole).time  # 20 cores against one


def test_files_that_are_no_devices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('{"schema": "other"}')
    with pytest.raises(InputError, match="schema = 'other'"):
        load_devices(path)
    path.write_text('{"schema": "slipstick-spmv-devices-2", "model": {"devices": [{"machine": "a"}]}}')
    with pytest.raises(InputError, match="family"):
        load_devices(path)
    with pytest.raises(InputError, match="all are 0"):
        device("a", "b")
