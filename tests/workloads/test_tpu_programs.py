"""The programs of the TPUPoint study: published sizes of their networks, and one core's share of a step."""

from __future__ import annotations

import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.catalog import workload, workload_names
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.networks.tpu_programs import programs as dcgan
from slipstick.workloads.networks.tpu_programs import programs as qanet
from slipstick.workloads.networks.tpu_programs import programs as retinanet
from slipstick.workloads.networks.tpu_programs.programs import PROGRAMS
from slipstick.workloads.networks.transformer import bert
from slipstick.workloads.runs.feed import Feed, feed_of, run_of, with_feed
from slipstick.workloads.transforms.on_cores import MEAN, SUM, on_cores


def products(of: Workload) -> float:
    """Multiply-adds of the forward pass of one example."""
    forward = (op for op in of.bind_known({"batch": 1}).bound() if op.attributes.get("phase", "forward") == "forward")
    return sum(float(op.cost["flop.matrix.float32"]) for op in forward) / 2


def test_networks_have_the_published_sizes() -> None:
    # TensorFlow model garden, RetinaNet of ResNet-50 at 640: 97.0e9 multiply-adds, 34.0e6 parameters
    net = retinanet.retinanet()
    assert products(net) == pytest.approx(97.0e9, rel=0.03)
    assert net.metadata["parameters"] == pytest.approx(38.2e6, rel=0.12)
    # Devlin et al. 2019: 110e6; 12 (12 width^2 a token and two products of the scores)
    classifier = bert(head="classes")
    assert classifier.metadata["parameters"] == pytest.approx(110e6, rel=0.01)
    assert products(classifier) == pytest.approx(12 * (12 * 768**2 * 128 + 2 * 128**2 * 768), rel=1e-3)
    # Radford et al. 2016, layers of the program: 64, 128, 256 maps of 5 x 5 down from 32 pixels
    folds = 16**2 * 25 * (3 * 64) + 8**2 * 25 * (64 * 128) + 4**2 * 25 * (128 * 256)
    made = [
        op
        for op in dcgan.dcgan().bind_known({"batch": 1})
        if op.name in [f"discriminator.real.fold{i}" for i in range(3)]
    ]
    assert sum(float(op.cost["flop.matrix.float32"]) for op in made) / 2 == pytest.approx(folds)
    assert qanet.qanet().metadata["parameters"] == pytest.approx(1.2e6, rel=0.05)


def test_a_transposed_convolution_costs_what_its_counterpart_does() -> None:
    spread = next(op for op in dcgan.dcgan().bind_known({"batch": 2}) if op.name == "generator.spread0")
    assert float(spread.cost["flop.matrix.float32"]) == 2 * 2 * 4 * 4 * 25 * 256 * 128
    assert spread.dims["out_height"] == 8


def test_the_nine_runs_are_in_the_catalogue_with_the_numbers_of_table_i() -> None:
    assert len(PROGRAMS) == 9 and set(PROGRAMS) <= set(workload_names())
    steps = {name: run_of(workload(name))["steps"] for name in PROGRAMS}
    assert steps["tpupoint-resnet50-imagenet"] == 112_590
    assert steps["tpupoint-bert-mrpc"] == 343  # as the public log of the program says
    assert steps["tpupoint-qanet-squad"] == 5 * 20_000
    assert steps["tpupoint-retinanet-coco"] == 15 * 120_000 / 64


def test_the_work_of_all_cores_is_the_work_of_the_batch() -> None:
    whole = workload("resnet18").bind(batch=256)
    own = on_cores(workload("resnet18"), 8).bind_known({"batch": 256}).bound()
    kept = [op for op in own if op.name in {each.name for each in whole}]
    assert [op.name for op in kept] == [op.name for op in whole]
    matrix = [sum(float(op.cost["flop.matrix.float32"]) for op in ops) for ops in (kept, whole)]
    assert 8 * matrix[0] == pytest.approx(matrix[1])
    summed = next(op for op in own if op.name == SUM)
    assert summed.dims["elements"] == sum(op.dims["elements"] for op in whole if op.kind == "optimizer")
    updates = [op.name for op in whole if op.kind == "optimizer"]
    assert set(own.graph.successors(MEAN)) == set(updates)


def test_what_says_itself_how_it_is_divided_stays_and_a_forward_pass_sums_nothing() -> None:
    mlp = workload("data-parallel-mlp")
    assert on_cores(mlp, 8) == mlp
    assert not [op for op in on_cores(workload("resnet18-inference"), 8) if op.kind == "collective"]
    with pytest.raises(InputError, match="cores = 0"):
        on_cores(mlp, 0)


def test_a_feed_comes_back_and_cannot_be_negative() -> None:
    feed = Feed(1e-3, 100.0, "measured")
    assert feed_of(with_feed(workload("mlp"), feed)) == feed
    assert feed_of(workload("mlp")) is None
    with pytest.raises(InputError, match="host_seconds = -1"):
        Feed(-1.0, 0.0)
