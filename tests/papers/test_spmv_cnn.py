"""The SpMV paper: relations inside its tables hold, errors are as its equations say."""

from __future__ import annotations

import pytest

from slipstick.estimators.sparse.product_energy import CLOCKS_GHZ, METRICS, TABLE_1
from slipstick.experiments.papers.spmv_cnn import spmv_cnn_rows as spmv_cnn


def test_every_row_that_can_be_checked_holds() -> None:
    rows = spmv_cnn.run()
    checked = [row for row in rows if row.ok is not None]
    assert len(checked) >= 30
    assert [f"{row.table}: {row.cell}" for row in checked if not row.ok] == []
    assert all(row.reason for row in rows if row.status == "not_reproducible")


def test_corrected_cycles_are_constant_and_published_times_are_not() -> None:
    times = [mean for mean, _ in TABLE_1["time"]]
    published = [time * clock for time, clock in zip(times, CLOCKS_GHZ, strict=True)]
    corrected = [time * clock**2 / 2.4 for time, clock in zip(times, CLOCKS_GHZ, strict=True)]
    assert max(published) / min(published) > 1.9
    assert max(corrected) / min(corrected) < 1.01
    assert [row.ours for row in spmv_cnn.run() if row.cell.startswith("cycles a non-zero at")] == pytest.approx(
        corrected, abs=5e-4
    )


def test_total_energy_is_package_and_memory() -> None:
    for total, package, memory in zip(*(TABLE_1[name] for name in METRICS[1:]), strict=True):
        assert total[0] == pytest.approx(package[0] + memory[0], abs=0.025)


def test_weighted_errors_cancel() -> None:
    estimated, measured = {"a": 2.0, "b": 4.0}, {"a": 3.0, "b": 3.0}
    assert spmv_cnn.weighted_errors(estimated, measured)["total"] == pytest.approx(0.0)
