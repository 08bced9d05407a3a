"""Measuring blocks: the filter, the counters, made-up energy that says so, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.spmv_model import load_spmv_model
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.spmv.block_energy import (
    SYNTHETIC,
    energy_of,
    rapl_domains,
    synthetic_energy,
    synthetic_family,
)
from slipstick.experiments.measure.spmv.block_times import BlockTimes, SpmvProtocol, filtered_mean, measure_blocks
from slipstick.experiments.measure.spmv.label_folder import FolderLabels, save_times
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


def counters(folder: Path, start: int) -> None:
    for number, name in enumerate(("package-0", "dram")):
        domain = folder / f"intel-rapl:{number}"
        domain.mkdir()
        (domain / "name").write_text(f"{name}\n")
        (domain / "max_energy_range_uj").write_text("1000000\n")
        (domain / "energy_uj").write_text(f"{start}\n")


def test_energy_counters_are_read_and_wrap_around(tmp_path: Path) -> None:
    counters(tmp_path, 900_000)
    domains = rapl_domains(tmp_path)
    assert [domain.name for domain in domains] == ["package-0", "dram"]

    def work() -> None:
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text("150000")
        (tmp_path / "intel-rapl:1" / "energy_uj").write_text("950000")

    assert energy_of(work, domains) == pytest.approx({"package-0": 0.25, "dram": 0.05})


def test_a_host_without_counters_says_so(tmp_path: Path) -> None:
    assert rapl_domains(tmp_path) == ()
    with pytest.raises(InputError, match="no readable RAPL counter"):
        energy_of(lambda: None, ())


def test_made_up_energy_keeps_to_table_1_and_is_named() -> None:
    energy = synthetic_energy(np.random.default_rng(1).normal(1.42e-9, 0.07e-9, 4000))
    assert energy.mean() == pytest.approx(39.58e-9, rel=0.01)
    assert energy.std() == pytest.approx(2.51e-9, rel=0.06)
    assert energy.min() >= 34.52e-9 and energy.max() <= 58.40e-9
    assert "not measured" in SYNTHETIC


def test_made_up_labels_of_all_clocks_and_metrics_keep_to_table_1() -> None:
    """Table 1 at 1.2 GHz: package 60.05 and DRAM 4.06 nJ; times of core-bound blocks follow the clock."""
    times = np.random.default_rng(1).normal(1.1e-9, 0.05e-9, 4000)
    labels = synthetic_family(times, 3.09e9)
    assert len(labels) == 16
    assert labels[1.2e9, "package energy"].mean() == pytest.approx(60.05e-9, rel=0.01)
    assert labels[1.2e9, "DRAM energy"].mean() == pytest.approx(4.06e-9, rel=0.02)
    assert np.allclose(labels[1.2e9, "time"], 2 * labels[2.4e9, "time"])


def test_samples_never_taken_do_not_count() -> None:
    samples = np.array([[100.0, np.nan], [np.nan, 50.0], [110.0, 50.0]])
    mean, dropped = filtered_mean(samples)
    assert mean.tolist() == [105.0, 50.0] and dropped == 0


def test_the_energy_network_learns_from_made_up_labels() -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    from slipstick.estimators.sparse.spmv_network import ENERGY_NET
    from slipstick.estimators.sparse.spmv_network_training import Recipe, train
    from slipstick.workloads.kernels.blocks import network_input

    inputs = network_input(stencil((120, 120), 5))[:200]
    energy = synthetic_energy(np.linspace(1.3e-9, 1.6e-9, 200))
    net = train(inputs, energy, ENERGY_NET, Recipe(epochs=1), quantity="energy", provenance={"labels": SYNTHETIC})
    assert net.quantity == "energy"
    assert net.provenance["labels"] == SYNTHETIC
    assert 1e-8 < net.predict(inputs).mean() < 1e-7


def test_blocks_are_timed_on_this_host(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the extra [measure] is not installed")
    matrix = stencil((60, 60), 5)
    times = measure_blocks(matrix, SpmvProtocol(hot_blocks=3, hot_repeats=20, budget_seconds=0.3))
    assert len(times.hot) == 3
    known = times.hot[~np.isnan(times.hot)]
    assert np.all(known > 1e-10) and np.all(known < 1e-7)  # a third to three hundred cycles a non-zero
    assert {"counter_hz", "counter_grain_ticks", "load", "preemptions", "sweeps"} <= set(times.facts)


def test_what_was_measured_here_is_trained_on_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels of one cost a non-zero, saved as the measurement saves them: the model finds that cost."""
    folder, file = tmp_path / "labels", tmp_path / "grid.mtx"
    mmwrite(file, stencil((30, 30), 5).to_scipy())
    matrix, host = read_matrix(file), machine("cloud-cascade-lake-core")
    count = matrix.nonzeros // 250
    times = BlockTimes(matrix.name, np.full(count, 2e-9), np.arange(5), np.full(5, 1e-9), {"load": 0.0})
    save_times(times, matrix, file, host, folder / "grid.npz")
    train = ["spmv", "train", str(tmp_path / "m.npz"), "--measured", str(folder), "--format", "json"]
    assert run(train) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["blocks"] == count and row["matrices"] == 1
    model = load_spmv_model(tmp_path / "m.npz")
    assert model.clock == host.clock and model.matrix_seconds(matrix) == pytest.approx(2e-9 * matrix.nonzeros, rel=1e-6)
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
    assert (
        1.1 * plain["time_s"] < row["time_s"] < 1
    )  # one measured second of a product of microseconds is believed in part
    (tmp_path / "known.csv").write_text("matrix,time_s\ngrid.mtx,0\n")
    assert run(anchored) == 2
    assert "line 2: time_s = 0: want seconds > 0" in capsys.readouterr().err
    assert run(["spmv", "predict", str(tmp_path / "none.mtx")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_loops_of_pagerank_are_timed_or_said_to_be_too_noisy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba", reason="the extra [measure] is not installed")
    (tmp_path / "ring.edges").write_text("".join(f"{i} {(i * 7 + 1) % 500}\n" for i in range(500)))
    command = ["measure", "spmv", str(tmp_path / "ring.edges"), "--seconds", "0.5", "--format", "json"]
    assert run([*command, "--kernel", "pagerank"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["iterations"] == 16 and 0 <= row["quiet_share"] <= 1
    assert "SpMV_s" not in row or 1e-7 < row["SpMV_s"] < 1e-3  # a fifth of a nanosecond to 2 us a link
    assert run([*command, "--kernel", "cg"]) == 2
    assert "unknown sparse kernel 'cg'" in capsys.readouterr().err
