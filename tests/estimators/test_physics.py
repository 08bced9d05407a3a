"""Rows that no machine can have done, by the data sheet: A100 80 GB SXM, 19.5 TFLOP/s float32, 2039 GB/s, 40 MB L2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.gpu.transfer.operation_times import (
    OperationTimes,
    least_times,
    possible,
    violations,
)
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine

A100 = machine("a100-sxm-80gb")
CUBE = {"batch": 1, "m": 8192, "n": 8192, "k": 8192}
SECONDS = 2 * 8192**3 / 19.49e12


def products(*times: float, dtype: str = "float32") -> OperationTimes:
    dims = {name: np.full(len(times), float(size)) for name, size in CUBE.items()}
    return OperationTimes.of(A100, "gemm", dtype, dims, np.array(times), source="a.csv")


def additions(elements: float, *times: float) -> OperationTimes:
    dims = {name: np.full(len(times), f * elements) for name, f in (("elements", 1), ("reads", 2), ("writes", 1))}
    return OperationTimes.of(A100, "elementwise", "float32", dims, np.array(times))


def test_faster_than_the_peak_is_flagged_with_the_dtype_that_would_explain_it() -> None:
    (found,) = violations([products(1.1 * SECONDS, 0.5 * SECONDS, SECONDS / 4)])
    assert (found.bound, found.rows, found.total, found.source) == ("arithmetic", (1, 2), 3, "a.csv")
    assert found.worst == pytest.approx(4.0, rel=0.01)
    assert found.example.endswith("(within the peak of tfloat32)")


def test_a_narrower_dtype_has_its_own_peak() -> None:
    assert not violations([products(SECONDS / 10, dtype="bfloat16")])
    assert violations([products(SECONDS / 17, dtype="bfloat16")])


def test_main_memory_bounds_only_what_no_cache_holds() -> None:
    """12 bytes an element: 2^20 of them fit into the L2 and may take any time; 2^30 take 6.3 ms."""
    assert not violations([additions(2.0**20, 1e-9 + 2**20 / 9.7e12)])
    (found,) = violations([additions(2.0**30, 12 * 2**30 / 2039e9, 0.9 * 12 * 2**30 / 2039e9)])
    assert (found.bound, found.rows) == ("main memory", (1,))


def test_what_caches_keep_is_taken_off() -> None:
    form = additions(2.0**24, 1.0)
    kept = sum(A100.memory[name].capacity * A100.instances(name) for name in list(A100.memory)[:-1])
    beyond = 12 * 2**24 - kept
    assert least_times(form)["main memory"][0] == pytest.approx(beyond / A100.bandwidth("HBM2e"), rel=1e-6)


@pytest.mark.parametrize(("side", "saved"), [(1, 1.0), (3, 4.0), (5, 25.0)])
def test_algorithms_that_save_products_are_allowed(side: int, saved: float) -> None:
    """Winograd's F(4x4, 3x3) needs 36 products for 144; a Fourier transform at least one a place and channel."""
    dims = {name: np.full(1, 1.0) for name in ("groups", "in_depth", "out_depth", "kernel_depth")}
    dims |= {f"{part}_{axis}": np.full(1, 64.0) for part in ("in", "out") for axis in ("height", "width")}
    dims |= {f"kernel_{axis}": np.full(1, float(side)) for axis in ("height", "width")}
    dims |= {"batch": np.full(1, 64.0), "channels_in": np.full(1, 256.0), "channels_out": np.full(1, 256.0)}
    form = OperationTimes.of(A100, "convolution", "float32", dims, np.ones(1), {"stride": (1, 1)})
    flop = 2 * 256 * 256 * 64 * 64 * 64 * side * side
    assert least_times(form)["arithmetic"][0] == pytest.approx(flop / saved / A100.peak("vector", "float32"))


def test_a_causal_mask_halves_the_work() -> None:
    dims = {"batch": 8.0, "heads": 32, "kv_heads": 32, "queries": 4096, "keys": 4096, "head_dim": 128, "value_dim": 128}
    columns = {name: np.full(1, float(value)) for name, value in dims.items()}
    full, causal = (
        least_times(OperationTimes.of(A100, "attention", "bfloat16", columns, np.ones(1), {"causal": mask}))
        for mask in (False, True)
    )
    assert causal["arithmetic"][0] / full["arithmetic"][0] == pytest.approx(4097 / 8192, rel=1e-6)


def test_impossible_rows_can_be_left_out() -> None:
    forms = [products(1.1 * SECONDS, 0.5 * SECONDS), products(0.1 * SECONDS)]
    (kept,) = possible(forms)
    assert kept.times.tolist() == [1.1 * SECONDS]
    assert not violations([kept])


def test_public_float32_products_break_no_law() -> None:
    folder = data_folder()
    if folder is None:
        pytest.skip("no public measurements here (SLIPSTICK_DATA)")
    from slipstick.experiments.scoreboards.gpu.physics_board import neusight

    forms = [form for form in neusight(folder) if form.source.startswith("linear")]
    assert len(forms) >= 8 and sum(map(len, forms)) > 1000
    assert violations(forms) == []


def test_keys_may_be_stored_in_a_narrower_dtype() -> None:
    """Decode over a cache of 64 x 8 x 16384 keys and values of 128: half the bytes in float8."""
    dims = {"batch": 64.0, "heads": 8, "kv_heads": 8, "queries": 1, "keys": 16384, "head_dim": 128, "value_dim": 128}
    columns = {name: np.full(1, float(value)) for name, value in dims.items()}
    wide, narrow = (
        least_times(OperationTimes.of(A100, "attention", "bfloat16", columns, np.ones(1), {"kv_dtype": stored}))
        for stored in ("bfloat16", "float8")
    )
    saved = 64 * 8 * 16384 * 256 / A100.bandwidth(A100.main_memory)
    assert wide["main memory"][0] - narrow["main memory"][0] == pytest.approx(saved, rel=1e-9)


def test_the_verb_flags_rows_of_a_table_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "machine,kind,dtype,time_s,m,n,k"
    sound = f"a100-sxm-80gb,gemm,float32,{2 * SECONDS},8192,8192,8192"
    (tmp_path / "mine.csv").write_text(f"{head}\n{sound}\n")
    assert run(["validate", "physics", "--data", str(tmp_path / "mine.csv")]) == 0
    (tmp_path / "mine.csv").write_text(f"{head}\n{sound}\n{sound.replace(str(2 * SECONDS), str(SECONDS / 3))}\n")
    assert run(["validate", "physics", "--data", str(tmp_path / "mine.csv")]) == 1
    assert "3 x too fast for its arithmetic" in capsys.readouterr().out
    assert run(["validate", "defaults", "--data", str(tmp_path / "mine.csv")]) == 2
