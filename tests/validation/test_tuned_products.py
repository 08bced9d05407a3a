"""Products that AMD's tuner timed: which rows count, and a device's own fit beside those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.transfer.device_fits import filled
from slipstick.estimators.gpu.transfer.kernel_class import MachineFit, priors_of
from slipstick.experiments.scoreboards.gpu.other_programs import tuned_products, tuned_times

pd = pytest.importorskip("pandas")
ROW = {"compute_units": 304, "m": 16, "n": 4096, "k": 7168, "batches": 1, "weight_dtype": "fp8", "time_s": 2e-5}


def table(folder: Path, *rows: dict[str, object]) -> Path:
    whole = [{**ROW, "scaling": "block of 128", "suspicious": None, **row} for row in rows]
    path = folder / "gemm.csv.gz"
    pd.DataFrame(whole).to_csv(path, index=False)
    return path


def test_rows_of_known_devices_and_types_count(tmp_path: Path) -> None:
    """The table's m are tokens, our n; 80 units may be a partition; batches and FP4 have no fit."""
    kept = table(
        tmp_path, {}, {"compute_units": 80}, {"batches": 2}, {"suspicious": "slow"}, {"weight_dtype": "fp4"},
        {"compute_units": 256, "scaling": "row"}, {"compute_units": 256, "weight_dtype": "bf16", "scaling": None},
    )  # fmt: skip
    made = tuned_products(kept)
    assert made[["machine", "dtype"]].to_numpy().tolist() == [
        ["mi300x", "float8_block"], ["mi355x", "float8"], ["mi355x", "bfloat16"],
    ]  # fmt: skip
    assert made[["m", "n", "k"]].iloc[0].tolist() == [4096, 16, 7168]
    times = tuned_times(made)
    assert {(one.name, one.machine.runtime.library) for one in times} == {
        (f"gemm.{dtype}", "aiter") for dtype in ("float8_block", "float8", "bfloat16")
    }


def test_a_fit_without_a_parameter_keeps_what_is_usual() -> None:
    """A machine that states no energy of a flop is pooled with those that do."""
    one, other = (
        MachineFit(name, "nvidia-hopper", "HBM", FrozenDict(values), 0.1, 24)
        for name, values in (("a", {"overhead": 1e-6, "energy": 1.3}), ("b", {"overhead": 2e-6}))
    )
    assert [dict(fit.values) for fit in filled((one, other), priors_of("gemm.float8"))] == [
        {"overhead": 1e-6, "energy": 1.3}, {"overhead": 2e-6, "energy": 1.0},
    ]  # fmt: skip
