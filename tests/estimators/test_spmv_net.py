"""The published network: its size by the paper's table, and that it learns, keeps and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.spmv_network import (
    ENERGY_NET,
    TIME_NET,
    NetShape,
    SpmvNetwork,
    load_net,
    network_of,
    weight_shapes,
)
from slipstick.estimators.sparse.spmv_network_training import METRICS, Recipe, fold_errors, search, train, train_family
from slipstick.workloads.kernels.blocks import block_features, network_input
from slipstick.workloads.kernels.generators import power_law, stencil


def test_parameter_counts_of_the_published_networks() -> None:
    assert TIME_NET.lengths == (249, 247, 35, 27, 5)
    assert TIME_NET.parameters == 340_625
    assert ENERGY_NET.parameters == 134_101


def test_shapes_that_leave_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="too short"):
        NetShape(block=20)
    with pytest.raises(InputError, match="dropout rates"):
        NetShape(neurons=(10, 10))


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Blocks of two matrices with a label that the input decides: how far columns lie apart."""
    matrices = (power_law((4000, 4000), 40.0, 1.0, seed=1), stencil((160, 160), 5))
    inputs = np.concatenate([network_input(matrix)[:300] for matrix in matrices])
    steps = np.concatenate([block_features(matrix).column("step.mean_log")[:300] for matrix in matrices])
    order = np.random.default_rng(0).permutation(600)
    return inputs[order], 1e-9 * (0.2 + 0.2 * steps[order].astype(np.float64))


def test_trains_saves_and_predicts_the_same(tmp_path: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    inputs, labels = samples
    seen: list[float] = []
    net = train(inputs, labels, recipe=Recipe(epochs=8, batch=16), progress=lambda epoch, error: seen.append(error))
    held = slice(0, 120)  # the first 20 % only guide
    constant = np.abs(labels[120:].mean() / labels[held] - 1).mean()
    assert np.abs(net.predict(inputs[held]) / labels[held] - 1).mean() < 0.6 * constant
    assert len(seen) <= 8
    net.save(tmp_path / "net.npz")
    again = load_net(tmp_path / "net.npz")
    assert np.array_equal(again.predict(inputs[:50]), net.predict(inputs[:50]))
    assert again.provenance["blocks"] == 600
    network_weights = sum(w.size for w in again.weights.values())
    assert network_weights == 340_625


@pytest.mark.parametrize("shape", [TIME_NET, ENERGY_NET, NetShape((16, 32), (9, 5), (2, 3), (), ())])
def test_the_forward_pass_is_that_of_torch(shape: NetShape) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.manual_seed(1)
    network = network_of(shape).eval()
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    assert {name: array.shape for name, array in weights.items()} == weight_shapes(shape)
    blocks = np.random.default_rng(2).standard_normal((300, 249)).astype(np.float32)
    with torch.no_grad():
        theirs = network(torch.from_numpy(blocks[:, None, :])).numpy()[:, 0]
    assert SpmvNetwork(shape, weights, 1.0).predict(blocks) == pytest.approx(theirs, rel=1e-4, abs=1e-5)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    weights = {name: np.zeros(shape[::-1], np.float32) for name, shape in weight_shapes(TIME_NET).items()}
    SpmvNetwork(TIME_NET, weights, 1.0).save(tmp_path / "turned.npz")
    with pytest.raises(InputError, match="want 340625 in the arrays 0.weight"):
        load_net(tmp_path / "turned.npz")


def test_fine_tuning_starts_from_the_other_machines_weights(samples: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    inputs, labels = samples
    first = train(inputs, labels, recipe=Recipe(epochs=4, batch=32))
    few = Recipe(epochs=1)
    tuned = train(inputs[:200], 1.3 * labels[:200], recipe=few, start=first)
    fresh = train(inputs[:200], 1.3 * labels[:200], recipe=few)
    assert tuned.provenance["validation_rms"] * tuned.scale < fresh.provenance["validation_rms"] * fresh.scale


def test_search_stays_in_the_papers_ranges(samples: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    trials = search(samples[0][:300], samples[1][:300], trials=2)
    assert trials[0][0] <= trials[1][0]
    assert all(set(shape.kernels) <= {3, 5, 7, 9} for _, shape, _ in trials)


def test_bad_networks_and_samples_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(InputError, match="no SpMV network"):
        load_net(tmp_path / "x.npz")
    pytest.importorskip("torch", reason="the extra [torch] is not installed")
    with pytest.raises(InputError, match="want 249 columns"):
        train(np.zeros((4, 7), np.float32), np.ones(4))
    with pytest.raises(InputError, match="cannot be split"):
        train(np.zeros((2, 249), np.float32), np.ones(2))


def test_five_folds_and_families(samples: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    inputs, labels = samples[0][:100], samples[1][:100]
    assert len(fold_errors(inputs, labels, recipe=Recipe(epochs=1), parts=5)) == 5
    with pytest.raises(InputError, match="folds of 100 blocks"):
        fold_errors(inputs, labels, parts=1)
    asked = {(clock, metric): labels * clock / 1e9 for clock in (1.2e9, 2.4e9) for metric in METRICS}
    nets = train_family(inputs, asked, Recipe(epochs=2), Recipe(epochs=1))
    assert set(nets) == set(asked)
    assert nets[1.2e9, "DRAM energy"].shape == ENERGY_NET and nets[1.2e9, "time"].shape == TIME_NET
    assert nets[1.2e9, "time"].provenance["epochs"] == 1  # goes on from 2.4 GHz
    with pytest.raises(InputError, match="goes on from total energy"):
        train_family(inputs, {(2.4e9, "DRAM energy"): labels}, Recipe(epochs=1))


def test_a_network_of_train_is_accepted_by_predict_estimate_and_pagerank(
    tmp_path: Path, samples: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    from slipstick.experiments.cli.cli import run

    known = {"label_kind": "hot", "labels": "a host of the test", "matrix_spread": 0.1}
    net = train(*samples, recipe=Recipe(epochs=1, batch=64), provenance=known)
    net.save(tmp_path / "net.npz")
    graph = tmp_path / "graph.edges"
    links = np.random.default_rng(0).integers(0, 200, (2000, 2))
    graph.write_text("\n".join(f"{one} {other}" for one, other in links))
    model, host = str(tmp_path / "net.npz"), "xeon-gold-6230"
    answers = {}
    for name, arguments in {
        "here": ["spmv", "predict", str(graph), "--calibration", model],
        "there": ["spmv", "predict", str(graph), "--calibration", model, "--on", host],
        "estimate": ["estimate", str(graph), "--on", host, "--calibration", model],
        "pagerank": ["estimate", f"pagerank:{graph}", "--on", host, "--calibration", model],
    }.items():
        assert run([*arguments, "--format", "json"]) == 0
        (answers[name],) = json.loads(capsys.readouterr().out)
        assert 0 < answers[name]["low_s"] < answers[name]["time_s"] < answers[name]["high_s"]
    assert answers["here"]["label"] == "hot"
    assert answers["estimate"]["time_s"] == pytest.approx(answers["there"]["time_s"], rel=1e-6)
    assert answers["pagerank"]["time_s"] > 5 * answers["estimate"]["time_s"]
    assert run(["estimate", "resnet50", "--on", host, "--calibration", model]) == 2
    assert "want a matrix file or pagerank:FILE" in capsys.readouterr().err


def test_the_network_that_ships_is_table_2_on_measured_labels() -> None:
    from slipstick.estimators.sparse.network_products import shipped_net
    from slipstick.estimators.sparse.spmv_model import trained_model

    network, costs = shipped_net("hot"), trained_model("hot")
    assert network.net.shape == TIME_NET and network.source.endswith(costs.source)
    known = network.net.provenance
    # 17 matrices were left out of its training; the constant is off by 9.4 % there, the eight costs by 2.7 %
    assert len(known["matrices_left_out"]) >= 15 and known["matrix_error"] < 0.05
    assert network.matrix_spread is not None and 0.01 < network.matrix_spread < 0.10
    matrix = stencil((120, 120), 5)
    assert network.matrix_seconds(matrix) == pytest.approx(costs.matrix_seconds(matrix), rel=0.20)


def test_the_better_of_costs_and_network_on_left_out_matrices_answers() -> None:
    from slipstick.estimators.sparse.network_products import better_of, shipped_net
    from slipstick.estimators.sparse.reuse_model import LABEL_KINDS
    from slipstick.estimators.sparse.spmv_model import trained_model

    for label in LABEL_KINDS:
        network, costs = shipped_net(label), trained_model(label)
        assert network.label == label
        assert len(network.net.provenance["matrices_left_out"]) >= 15
        best, why = better_of(label)
        assert best.matrix_spread == min(network.matrix_spread or 9, costs.matrix_spread or 9)
        assert "network of Table 2" in why
