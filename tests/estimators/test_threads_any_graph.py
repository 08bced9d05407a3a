"""The thread model of Viebke et al. 2019 for any graph: their tables from graphs alone, and what must always hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu import xeon_phi_study
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement, by_weights, strategy
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload, workload_names
from slipstick.workloads.graph.instruction_count import counted_instructions
from slipstick.workloads.layers.single import dense, elementwise
from slipstick.workloads.networks.phi_cnn import all_weights, phi_network, training_step
from slipstick.workloads.runs.training_run import training_run

LINKS = {"network": {"bandwidth": "12.5 GB/s", "latency": "2 us"}}


@pytest.fixture(scope="module")
def phi() -> Machine:
    return machine("xeon-phi-7120p")


@pytest.mark.parametrize("size", xeon_phi_study.SIZES)
def test_table_x_from_graphs_alone(size: str, phi: Machine) -> None:
    network = phi_network(size)
    run = {"images": 60_000, "validation_images": 60_000, "test_images": 10_000, "epochs": network.epochs}
    for threads, (a, b) in zip(xeon_phi_study.PREDICTED_THREADS, xeon_phi_study.TABLE_X_MINUTES[size], strict=True):
        asked = {**run, "threads": threads, "preparation": network.preparation_in_use}
        counted = xeon_phi_study.threaded("a", "wider").estimate(training_step(size), phi, asked)
        timed = xeon_phi_study.threaded("b", "wider").estimate(training_step(size), phi, {**run, "threads": threads})
        assert counted.time / 60 == pytest.approx(a, rel=0.10)
        assert timed.time / 60 == pytest.approx(b, abs=0.06)
        assert any("a wider machine" in text for text in counted.assumptions)


def test_table_xi_from_the_graph_alone(phi: Machine) -> None:
    model, step = xeon_phi_study.threaded("a", "wider"), training_step("small")
    for (threads, images, tested), row in xeon_phi_study.TABLE_XI_MINUTES.items():
        for epochs, minutes in zip((70, 140, 280), row, strict=True):
            run = {"threads": threads, "images": images, "validation_images": images, "test_images": tested}
            found = model.estimate(step, phi, {**run, "epochs": epochs, "preparation": 1e9}).time / 60
            assert found == pytest.approx(minutes, rel=0.10)


@pytest.mark.parametrize("left_out", xeon_phi_study.SIZES)
def test_contention_of_a_network_from_the_weights_of_two_others(left_out: str) -> None:
    slopes = {size: xeon_phi_study.contention_fit(size).values[1] for size in xeon_phi_study.SIZES}
    others = [size for size in xeon_phi_study.SIZES if size != left_out]
    law = by_weights(
        FrozenDict({size: float(all_weights(size)) for size in others}),
        FrozenDict({size: slopes[size] for size in others}),
    )
    assert law.fixed + law.by_weight * all_weights(left_out) == pytest.approx(slopes[left_out], rel=0.03)


@given(threads=st.integers(1, 4000), images=st.integers(1, 5000), cores=st.integers(1, 64))
def test_threads_beyond_the_cores_are_no_faster_than_the_cores(threads: int, images: int, cores: int) -> None:
    on = machine("xeon-phi-7120p").using(cores=cores)
    model, step = xeon_phi_study.threaded("a", "oversubscribed"), training_step("small")
    one = model.estimate(step, on, {"threads": 1, "images": images}).time
    many = model.estimate(step, on, {"threads": threads, "images": images}).time
    working = min(threads, images, 4 * cores)
    assert many >= one / working * (1 - 1e-9)
    if threads > 4 * cores:
        assert many == model.estimate(step, on, {"threads": 4 * cores, "images": images}).time


def test_compiled_is_the_same_at_many_points(phi: Machine) -> None:
    model, step = xeon_phi_study.threaded("a", "oversubscribed"), training_step("medium")
    function = model.compile(step, phi, ("run.threads", "machine.cores"), {"images": 500})
    for threads, cores in ((1, 61), (100, 61), (1000, 61), (30, 4), (700, 200)):
        there = model.estimate(step, phi.using(cores=cores), {"images": 500, "threads": threads}).time
        assert float(function({"run.threads": threads, "machine.cores": cores})) == pytest.approx(there, rel=1e-12)


def test_the_whole_is_what_its_parts_add(phi: Machine) -> None:
    run = {"images": 1000, "epochs": 3, "validation_images": 100, "threads": 200}
    found = xeon_phi_study.threaded("a", "oversubscribed").estimate(training_step("large"), phi, run)
    assert sum(part.contribution for part in found.parts) == pytest.approx(found.time, rel=1e-9)


def test_several_nodes_share_the_images_and_exchange_weights(phi: Machine) -> None:
    model, on = xeon_phi_study.several_nodes(), phi.using(links=LINKS)
    run = {"images": 60_000, "epochs": 2, "exchanges": 10}
    one = model.estimate(training_step("large"), on, {**run, "nodes": 1}).time
    four = model.estimate(training_step("large"), on, {**run, "nodes": 4})
    exchanged = next(part for part in four.parts if part.name == "exchange")
    ring = 2 * (3 / 4) * 4 * all_weights("large") / 12.5e9
    assert exchanged.time == pytest.approx(ring + 6 * 2e-6, rel=0.01)
    assert one / 4 < four.time < one / 4 + 20 * exchanged.time + 1
    with pytest.raises(InputError, match="no links"):
        model.estimate(training_step("large"), phi, {**run, "nodes": 4})


def test_what_is_not_measured_is_said() -> None:
    eight = machine("xeon-e5-2630v4")
    found = question("resnet18", eight, "threads-counted", []).answer()
    assert found.interval() is None
    said = "; ".join(found.assumptions)
    assert "contention of resnet18 on" in said
    assert "operation factor 15 was fitted on intel-knights-corner" in said
    with pytest.raises(InputError, match="missing: forward, backward and preparation times"):
        question("resnet18", eight, "threads-timed", []).answer()
    one, shared = (question(name, eight, "threads-counted").answer().time for name in ("gpt2", "gpt2-data-parallel"))
    assert shared == pytest.approx(one, rel=1e-6)


def test_a_parallel_layout_is_taken_back_to_one_device() -> None:
    """Six flop a weight and token, and attention's; a graph whose layout is numbers already is refused."""
    network = workload("megatron-22b")
    step = training_run(network).bound()
    training, forward = (next(op for op in step if op.name == name) for name in ("training", "validation"))
    weights, tokens, attention = 22.07e9, 2048, 48 * 4 * 2048**2 * 6144
    flop = {op.name: float(op.cost["flop.matrix.float16"]) for op in (training, forward)}
    assert flop["validation"] == pytest.approx(2 * weights * tokens + attention, rel=0.02)
    assert flop["training"] == pytest.approx(3 * flop["validation"] + attention, rel=0.02)
    assert not any(op.kind == "collective" for op in training.body or ())
    with pytest.raises(InputError, match="missing: its layout as symbols"):
        training_run(network.bound())
    replicas = training_run(workload("data-parallel-mlp")).bound()
    image = next(op for op in replicas if op.name == "training")
    products = 3 * (2000 * 1024 + 7 * 1024**2 + 1024 * 1000) - 2000 * 1024
    assert float(image.cost["flop.matrix.float32"]) == pytest.approx(2 * products)
    assert float(image.times) == 1024


def test_products_of_16_bits_without_an_engine_run_at_the_rate_of_float32() -> None:
    found = question("tpupoint-retinanet-coco", "epyc-7451", "threads-counted", ["run.images=1"]).answer()
    assert any("matrix.bfloat16 at the rate of float32 (EPYC 7451 states none" in text for text in found.assumptions)
    assert serving_rate(machine("epyc-7451"), "matrix", "bfloat16") == ("vector", "float32")
    with pytest.raises(InputError, match="states no rate for matrix.float8"):
        serving_rate(machine("epyc-7451"), "matrix", "float8")
    with pytest.raises(InputError, match="states no rate for matrix.bfloat16"):
        serving_rate(machine("v100-sxm"), "matrix", "bfloat16")


def test_the_alias_keeps_the_published_band_on_the_studys_machine_alone() -> None:
    there = question("phi-cnn-small", "xeon-phi-7120p", None, ["run.threads=3840"]).answer()
    assert there.interval() is not None
    assert there.time / 60 == pytest.approx(4.6, abs=0.06)
    elsewhere = question("phi-cnn-small", "xeon-e5-2630v4", None, ["run.threads=240"]).answer()
    assert elsewhere.interval() is None
    assert any("oversubscribe" in text for text in elsewhere.assumptions)


@pytest.mark.parametrize("name", ["resnet50", "gnmt", "imported/unet_cityscapes", "imported/gru-language-model", "mlp"])
@pytest.mark.parametrize("on", ["xeon-phi-7120p", "epyc-7451", "a64fx"])
def test_training_graphs_are_answered_on_machines_with_cores(name: str, on: str) -> None:
    assert name in workload_names()
    found = question(name, on, "threads-counted", []).answer()
    assert math.isfinite(found.time)
    assert found.time > 0


def test_instructions_are_counted_by_the_rules() -> None:
    assert counted_instructions(dense("a", 8, 16, 32)) == 8 * 16 * 32
    add = elementwise("b", 1000)
    assert counted_instructions(add) == max(float(add.cost.flop), float(add.cost.bytes_moved) / 4)
    step = training_run(training_step("small")).bound()
    inside = next(op for op in step if op.name == "training")
    assert counted_instructions(inside) == pytest.approx(431_960, rel=0.02)


def test_a_measured_network_answers_by_both_strategies() -> None:
    on = machine("epyc-7451")
    measured = ThreadMeasurement(
        "net", 6405.0, 5e5, on.clock, on.name, on.family or "", on.fingerprint,
        contention=((1, 1e-5), (2, 2e-5), (4, 4e-5)),
        training=((1, 1.01e-2), (2, 1.02e-2), (4, 1.04e-2)),
        forward=3e-3, backward=7e-3, cores=24,
    )  # fmt: skip
    assert measured.operation_factor == pytest.approx((1.01e-2 - 1e-5) * on.clock / 5e5)
    step = training_step("small")
    for name in ("counted", "timed"):
        made = strategy(measured, name)
        assert len(made.residuals) == (2 if name == "counted" else 3)
        if name == "timed":
            with pytest.raises(InputError, match="measured are the passes of 'net'"):
                made.estimate(step, on)
    with pytest.raises(InputError, match="want times, clock and instructions"):
        ThreadMeasurement("net", 1.0, 0.0, 1e9, "m", "", "f", ((1, 1.0),), ((1, 1.0),), 1.0, 1.0)


def test_a_run_over_images_is_no_step_of_a_language_model() -> None:
    """A decode step by threads: its energy on a GPU was read as that of the step, of which it keeps the declaration."""
    answer = question("llama-3-8b-decode", "titan-xp", "phi-a", []).answer()
    assert answer.energy is not None
    assert 0 < answer.energy / answer.time <= 1.05 * (machine("titan-xp").power.cap or 0)
