"""Measuring blocks: the filter, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.kernel_costs import load_host_kernels
from slipstick.estimators.sparse.sparse_products import estimate_spmv
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.spmv.block_times import BlockTimes, SpmvProtocol, filtered_mean, measure_blocks
from slipstick.experiments.measure.spmv.labels import FolderLabels, save_times
from slipstick.experiments.methods.spmv.spmv_answers import KernelOptions, read_anchors
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.kernels.generators import stencil
from slipstick.workloads.kernels.sparse_files import read_matrix


def test_preempted_samples_are_dropped_and_the_mean_of_the_rest_taken() -> None:
    samples = np.full((20, 3), 100.0)
    samples[4, 1] = 5000.0
    samples[5, 2] = 200.0
    mean, dropped = filtered_mean(samples)
    assert mean.tolist() == [100.0, 100.0, 105.0]
    assert dropped == pytest.approx(1 / 60)


def test_protocols_of_too_few_sweeps_are_refused() -> None:
    with pytest.raises(InputError, match="sweeps = 5: want at least 20"):
        SpmvProtocol(sweeps=5)


def test_samples_never_taken_do_not_count() -> None:
    samples = np.array([[100.0, np.nan], [np.nan, 50.0], [110.0, 50.0]])
    mean, dropped = filtered_mean(samples)
    assert mean.tolist() == [105.0, 50.0] and dropped == 0


def test_blocks_are_timed_on_this_host(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the extra [measure] is not installed")
    matrix = stencil((60, 60), 5)
    times = measure_blocks(matrix, SpmvProtocol(hot_blocks=3, hot_repeats=20, budget_seconds=0.3))
    assert len(times.hot) == 3
    known = times.hot[~np.isnan(times.hot)]
    assert np.all(known > 1e-10) and np.all(known < 1e-7)  # a third to three hundred cycles a non-zero
    assert {"counter_hz", "load", "reference_ns", "sweeps"} <= set(times.facts)


def test_what_was_measured_here_is_trained_on_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels of one cost a non-zero, saved as the measurement saves them: the model finds that cost."""
    folder, file = tmp_path / "labels", tmp_path / "grid.mtx"
    mmwrite(file, stencil((30, 30), 5).to_scipy())
    matrix, host = read_matrix(file), machine("cloud-cascade-lake-core")
    count = matrix.nonzeros // 250
    times = BlockTimes(matrix.name, np.full(count, 2e-9), np.arange(5), np.full(5, 1e-9), {"load": 0.0})
    save_times(times, matrix, file, host, folder / "grid.npz")
    train = ["spmv", "train", str(tmp_path / "m.spmv.json"), "--measured", str(folder), "--format", "json"]
    assert run(train) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["blocks"] == count and row["matrices"] == 1
    own_kernels = load_host_kernels(tmp_path / "m.spmv.json")
    found = estimate_spmv(matrix, calibration=own_kernels).time
    assert own_kernels.costs[0].clock == host.clock and found == pytest.approx(2e-9 * matrix.nonzeros, rel=1e-6)
    own = ["--calibration", str(tmp_path / "m.spmv.json"), "--format", "json"]
    assert run(["estimate", str(file), "--on", "cloud-cascade-lake-core", *own]) == 0
    assert json.loads(capsys.readouterr().out)[0]["time_s"] == pytest.approx(2e-9 * matrix.nonzeros, rel=1e-6)
    assert run(["spmv", "train", str(tmp_path / "m.npz")]) == 2
    assert "want a name that ends in .spmv.json" in capsys.readouterr().err
    save_times(times, matrix, file, machine("xeon-gold-6148"), folder / "other.npz")
    assert run(train) == 2
    assert "labels of different machines" in capsys.readouterr().err
    (folder / "other.npz").write_bytes(b"PK no")
    with pytest.raises(InputError, match="no labels of slipstick measure spmv"):
        FolderLabels(folder).facts  # noqa: B018
    (folder / "other.npz").unlink()
    mmwrite(file, stencil((31, 30), 5).to_scipy())
    assert run(train) == 2
    assert "is not the one that was measured" in capsys.readouterr().err


def test_one_command_gives_time_interval_and_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mmwrite(tmp_path / "grid.mtx", stencil((80, 80), 5).to_scipy())
    assert run(["spmv", "predict", str(tmp_path / "grid.mtx"), "--power", "20 W", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["low_s"] < row["time_s"] < row["high_s"]
    assert row["energy_J"] == pytest.approx(20 * row["time_s"])
    assert row["nonzeros"] == 5 * 6400 - 4 * 80
    (tmp_path / "known.csv").write_text("matrix,time_s\ngrid.mtx,1.0\n")
    anchored = ["spmv", "predict", str(tmp_path / "grid.mtx"), "--measured", str(tmp_path / "known.csv")]
    assert run([*anchored[:3], "--on", "v100-sxm", "--format", "json"]) == 0
    plain = json.loads(capsys.readouterr().out)[0]
    assert run([*anchored, "--on", "v100-sxm", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["time_s"] == pytest.approx(1.0)  # this matrix as measured
    mmwrite(tmp_path / "other.mtx", stencil((90, 90), 5).to_scipy())
    (tmp_path / "known.csv").write_text("matrix,time_s\nother.mtx,1.0\n")
    assert run([*anchored, "--on", "v100-sxm", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 1.1 * plain["time_s"] < row["time_s"] < 1  # one second of another, of microseconds, is believed in part
    (tmp_path / "known.csv").write_text("matrix,time_s\ngrid.mtx,0\n")
    assert run(anchored) == 2
    assert "line 2: time_s = 0 lies outside [1e-12, inf]" in capsys.readouterr().err
    assert run(["measure", "spmv", str(tmp_path / "grid.mtx"), "--kernel", "cg"]) == 2
    assert "unknown sparse kernel 'cg'" in capsys.readouterr().err
    assert run(["spmv", "predict", str(tmp_path / "none.mtx")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_columns_that_say_how_a_product_ran_are_refused(tmp_path: Path) -> None:
    known = tmp_path / "known.csv"
    known.write_text("matrix,kernel,time_s\ngrid.mtx,scipy,1e-6\ngrid.mtx,numba,2e-6\n")
    with pytest.raises(InputError, match="column 'kernel': want the rows of one kernel"):
        read_anchors(known, KernelOptions())


@pytest.mark.parametrize(
    ("options", "said", "ran"),
    [
        (["--clock", "1.2 GHz"], "", ""),
        (["--threads", "4"], "threads", "1"),
        pytest.param(["--caches", "cold"], "caches", "warm", marks=pytest.mark.slow),
        (["--threads", "4"], "threads", "4"),
    ],
)
def test_products_that_ran_otherwise_scale_by_the_models_ratio(
    options: list[str], said: str, ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time of one's own matrix stood for every clock, every number of threads and both states of the caches."""
    mmwrite(tmp_path / "grid.mtx", stencil((300, 300), 5).to_scipy())
    known = tmp_path / "known.csv"
    ask = ["spmv", "predict", str(tmp_path / "grid.mtx"), "--on", "xeon-e5-2680", "--kernel", "numba"]

    def seconds(*more: str) -> float:
        assert run([*ask, *more, "--format", "json"]) == 0
        return float(json.loads(capsys.readouterr().out)[0]["time_s"])

    plain, changed = seconds(), seconds(*options)
    known.write_text(f"matrix,time_s\ngrid.mtx,{1.3 * plain!r}\n")
    assert seconds("--measured", str(known)) == pytest.approx(1.3 * plain)
    if said:
        assert run([*ask, *options, "--measured", str(known)]) == 2
        assert f"line 2: how did it run? With --{said} want a column {said}" in capsys.readouterr().err
        known.write_text(f"matrix,time_s,{said}\ngrid.mtx,{1.3 * plain!r},{ran}\n")
    as_asked = ran == options[1]
    held = seconds(*options, "--measured", str(known))
    assert changed != pytest.approx(plain)
    assert held == pytest.approx(1.3 * (plain if as_asked else changed))


def test_times_of_matrices_are_no_time_of_one_question(tmp_path: Path) -> None:
    known = tmp_path / "known.csv"
    known.write_text("matrix,time_s\ngrid.mtx,1e-6\nother.mtx,2e-6\n")
    with pytest.raises(InputError, match="slipstick spmv predict MATRIX --measured"):
        read_known_answer(str(known), machine("a100-sxm-80gb"))
