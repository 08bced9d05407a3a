"""What several verbs, faces and spellings of one question must agree on."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_file import FITTED
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import ImplausibleWarning, load_machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload


@pytest.mark.parametrize("name", ["tpu-v2-8", "tpu-v4", "h100-sxm", "gaudi3"])
def test_a_list_of_operations_is_the_workload_that_a_tuple_is(name: str) -> None:
    one = workload("gemm").bind(m=512, n=512, k=512).bound().operations[0]
    both = one, replace(one, name="second")
    edges = [["product", "second"]]
    made = Workload("mine", both, (("product", "second"),), workload("gemm").defaults)
    listed = Workload("mine", list(both), edges, dict(workload("gemm").defaults))  # type: ignore[arg-type]
    assert listed == made and hash(listed) == hash(made)
    assert question(listed, name).answer().time == question(made, name).answer().time


@pytest.mark.parametrize("name", ["resnet-50", "gpt2"])
def test_a_board_of_four_chips_needs_a_quarter_of_what_one_needs_at_least(name: str) -> None:
    """Cloud TPU v2-8: four chips of the same peaks, bandwidth and two cores; the batch is that of all."""
    board, chip = (question(name, on).answer().least for on in ("tpu-v2-8", "tpu-v2"))
    assert machine("tpu-v2-8").cores == 4 * machine("tpu-v2").cores
    assert board == pytest.approx(chip / 4, rel=1e-9)


def test_the_times_and_devices_of_programs_are_those_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = json.loads((FITTED / "programs.json").read_text())
    count = next(one["rows"] for one in fitted["outer"] if one["kind"] == "programs in float32")
    hosts = {group for _, level, group, _ in fitted["fits"]["program-kernels"]["values"] if level == "host"}
    levels = {host for host in hosts if not host.startswith("GeForce")}  # those ran image networks in 16 bits
    from slipstick.estimators.gpu.shared_kernels import timed_programs

    assert f"{count:,} times" in timed_programs()
    devices = {level.split("_")[0] for level in levels}
    assert all(device in timed_programs() for device in devices)
    assert run(["estimators", "show", "torch-program"]) == 0
    said = capsys.readouterr().out
    assert all(device in said for device in devices)


def test_all_options_that_are_missing_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "training", "llama-3.1-8b"]) == 2
    assert capsys.readouterr().err == "slipstick: Missing options '--on', '--devices', '--batch'.\n"
    assert run(["plan", "training"]) == 2
    assert capsys.readouterr().err.startswith("slipstick: Missing argument 'model' and options '--on', '--devices'")
    assert run(["plan", "training", "llama-3.1-8b", "--on=h100-dgx", "--devices", "8"]) == 2
    assert capsys.readouterr().err == "slipstick: Missing option '--batch'.\n"


@pytest.mark.parametrize("ranks", [5.0, 192.0, 1000.0, 1e12])
def test_ranks_that_do_not_divide_the_heads_are_refused(ranks: float) -> None:
    """Megatron-LM, arguments.py: num_attention_heads is a multiple of the tensor-parallel ranks."""
    with pytest.raises(InputError, match=r"run.tensor_parallel = .*: want what divides the 96 heads: 1, 2, 3, .*, 96"):
        question("megatron-175b", "a100-sxm-80gb", settings={"run.tensor_parallel": ranks}).answer()


def test_a_batch_that_is_no_whole_number_of_microbatches_is_said() -> None:
    sizes = {"run.data_parallel": 3.0}
    rounded = question("megatron-175b", "a100-sxm-80gb", settings=sizes).answer()
    assert any("no multiple of run.data_parallel x run.microbatch = 3" in text for text in rounded.assumptions)
    whole = question("megatron-175b", "a100-sxm-80gb", settings={**sizes, "run.batch": 66.0}).answer()
    assert rounded.time == pytest.approx(whole.time, rel=1e-12)
    assert not any("no multiple" in text for text in whole.assumptions)


def test_a_link_that_no_device_talks_over_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nextends: h100-sxm\nlinks: {slow: {bandwidth: 1 GB/s, latency: 50 us, width: 8}}\n")
    with pytest.warns(ImplausibleWarning, match=r"links.slow joins 8 devices, as links.nvswitch before it does"):
        load_machine(file)
    file.write_text(file.read_text().replace("width: 8", "width: 64"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_machine(file)


def test_an_mi250x_has_the_compute_units_of_its_data_sheet() -> None:
    """AMD Instinct MI250X data sheet: 220 CU, 383.0 TFLOP/s FP16 and 95.7 FP64 by matrix units, 47.9 FP64 by vector."""
    die, other = machine("MI250X"), machine("MI250")
    assert (die.cores, other.cores) == (110, 104)
    assert 2 * die.peak("matrix", "float16") == pytest.approx(383.0e12, rel=1e-3)
    assert 2 * die.peak("matrix", "float64") == pytest.approx(95.7e12, rel=1e-3)
    assert 2 * die.peak("vector", "float64") == pytest.approx(47.9e12, rel=1e-3)
    assert die.bandwidth("L2") == pytest.approx(other.bandwidth("L2"), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "cores", "clock", "reads", "copies"),
    [("ryzen-9-7950x", 6, 5.3e9, 1028.5e9, 1017.6e9), ("ryzen-9-9950x", 6, 5.4e9, 1874.6e9, 1859.7e9)],
)
def test_a_copy_out_of_l2_moves_as_much_as_reads_alone(
    name: str, cores: int, clock: float, reads: float, copies: float
) -> None:
    """AIDA64 of a Ryzen 5 7600X and 9600X (Tom's Hardware, 10 June 2024): with one path for both ways, a copied line,
    its line read for ownership and its way back would take three passes for two lines counted, two thirds of reads."""
    level = machine(name).memory["L2"]
    assert level.bytes_per_cycle is not None and level.duplex == "full"
    assert 0.85 < reads / (cores * clock * level.bytes_per_cycle) <= 1.02
    assert copies / reads > 0.9
