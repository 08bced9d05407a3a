"""Kernels of PyTorch programs: physics, one formula for the fit and the answer, and the command on one's own module."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.gpu.programs.program_classes import class_of, kernel_class, relative
from slipstick.estimators.gpu.programs.program_kernels import NAME, PROGRAMS_FILE, ProgramRuntimes, program_values
from slipstick.estimators.gpu.programs.program_priors import INLINE_ECC
from slipstick.estimators.gpu.shared_kernels import ANOTHER_CLASS, STREAMS, SharedKernels, program_shares
from slipstick.estimators.gpu.step_of_kernels import step_of_kernels
from slipstick.estimators.interconnect.collectives import DeviceAndCollectives
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.programs import program_rows
from slipstick.experiments.scoreboards.programs import programs_board as board
from slipstick.experiments.scoreboards.programs.program_data import EAGER, Program, ProgramRun
from slipstick.experiments.scoreboards.programs.program_law import ProgramLaw, bounds
from slipstick.experiments.scoring.score import Rows
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import ROLE

IMAGE = {f"{part}_{axis}": 56 for part in ("in", "out") for axis in ("height", "width")}
IMAGE |= {f"{part}_depth": 1 for part in ("in", "out", "kernel")}


def convolution(channels: int, taps: int, groups: int = 1) -> Op:
    dims = {"batch": 32, "channels_in": channels, "channels_out": channels, "groups": groups, **IMAGE}
    dims |= {"kernel_height": taps, "kernel_width": taps}
    return operation("c", "convolution", dims, "float32", {"stride": (1, 1)})


OPERATIONS = (
    convolution(64, 3),
    convolution(256, 1),
    convolution(128, 3, groups=128),
    operation("p", "gemm", {"batch": 1, "m": 4096, "n": 4096, "k": 4096}, "float32"),
    operation(
        "e", "elementwise", {"elements": 2**26, "reads": 2**26, "writes": 2**26}, "float32", {"function": "relu"}
    ),
    operation("s", "softmax", {"rows": 128, "columns": 16384}, "float32"),
)


@pytest.mark.parametrize("name", ["h100-sxm", "l40s", "t4", "mi300x", "rtx-4090"])
def test_no_operation_beats_its_machine(name: str) -> None:
    """Peaks and bandwidth of the data sheet bound every kernel, depthwise convolutions' caches aside."""
    model = ProgramRuntimes()
    for op, time in zip(OPERATIONS, model.times(OPERATIONS, machine(name)), strict=True):
        if class_of(op) != "convolution.depthwise":
            sides = bounds([op], machine(name))
            assert time > 0.9 * max(sides.arithmetic, sides.traffic)
            again = 2 if op.kind == "softmax" else 1  # read up to three times
            assert sides.traffic * INLINE_ECC <= sides.main * again  # check bits move too


def test_amounts_of_many_are_those_of_each() -> None:
    model, on = ProgramRuntimes(), machine("h100-sxm")
    names = {name for op in OPERATIONS for name in model.formula(op, on).names if name.startswith("operation.")}
    shared = SharedKernels(model, model, FrozenDict({"gemm.float32": 0.25}))
    for asked, more in (
        (model, set()),
        (shared, {"operation.share"}),
        (DeviceAndCollectives(shared), {"operation.share"}),
    ):
        for name in sorted(names | more):
            counted = [op for op in OPERATIONS if _counts(asked, op, name)]
            assert asked.amounts(counted, name) == [asked.amount(op, name) for op in counted]


def test_image_networks_say_nothing_of_latent_attention() -> None:
    """DeepSeek-V3's decode step, 128 heads over a cached latent of 576: no timed network has one."""
    dims = {"batch": 8, "heads": 128, "kv_heads": 1, "queries": 1, "keys": 4096, "head_dim": 576, "value_dim": 512}
    shared = SharedKernels(ProgramRuntimes(), ProgramRuntimes(), FrozenDict({"attention.bfloat16": 1.0}))
    shares = [shared.share(operation("a", "attention", dims, "bfloat16", facts)) for facts in ({}, {ROLE: "latent"})]
    assert shares == [1.0, 0.0]


def _counts(model: FormulaModel, op: Op, name: str) -> bool:
    """Whether an operation has such an amount."""
    try:
        model.amount(op, name)
    except KeyError:
        return False
    return True


def test_what_the_last_cache_holds_is_not_read_from_memory() -> None:
    """16 MB of activations stay in an L40S's 96 MB and not in an A10G's 6; 512 MB stay in neither."""
    small, large = (
        operation("e", "elementwise", {"elements": n, "reads": n, "writes": n}, "float32", {"function": "relu"})
        for n in (2**21, 2**26)
    )
    wide, narrow = machine("l40s"), machine("a10g")
    assert bounds([small], wide).traffic < 0.5 * bounds([small], wide).main
    assert bounds([small], narrow).traffic > 0.6 * bounds([small], narrow).main
    assert bounds([large], wide).traffic > 0.6 * bounds([large], wide).main


def test_few_rows_keep_few_cores_busy() -> None:
    on = machine("h100-sxm")
    few, many = (operation("s", "softmax", {"rows": n, "columns": 2**20}, "float32") for n in (4, 132))
    assert bounds([few], on).cores == pytest.approx(bounds([many], on).cores)


def test_a_row_is_the_work_of_one_block() -> None:
    """Twice the cores do not help 16 rows; 128 threads (layer norm) are slower than 512 (batch norm)."""
    on = machine("h100-sxm")
    layer, batch = (
        operation("n", "norm", {"elements": 2**26, "groups": 16}, "float32", {"function": function})
        for function in ("layer", "batch")
    )
    wide = on.using({"cores": 2 * on.cores})
    assert bounds([layer], wide).cores == pytest.approx(bounds([layer], on).cores)
    assert bounds([layer], on).cores == pytest.approx(4 * bounds([batch], on).cores)


def test_rows_that_a_cache_holds_are_read_once_from_memory() -> None:
    """A softmax of rows of 2 MB reads them three times from memory, one of rows of 4 kB once."""
    on = machine("h100-sxm")
    long, short = (
        operation("s", "softmax", {"rows": 2**30 // columns, "columns": columns}, "float32")
        for columns in (2**19, 2**10)
    )
    assert bounds([long], on).traffic == pytest.approx(2 * bounds([long], on).main, rel=0.1)
    assert bounds([short], on).traffic == pytest.approx(bounds([short], on).main, rel=0.1)


def test_a_cap_bounds_float32_products() -> None:
    """An L40S has room for 42 of its 92 TFLOP/s under 350 W (7 pJ a flop): public products reach no more."""
    on = machine("l40s")
    product = OPERATIONS[3]
    arithmetic = bounds([product], on).arithmetic
    assert 2 * 4096**3 / arithmetic == pytest.approx((350 - 52.5) / 7.02e-12, rel=1e-6)
    free = bounds([product], on.using({"power.cap": 2000.0})).arithmetic
    assert 2 * 4096**3 / free == pytest.approx(on.peak("vector", "float32"))


def timed(host: str, device: str, known: dict[str, Program], names: list[str], logs: FloatArray) -> program_rows.Timed:
    rows = program_rows.operations(tuple(known), known, names, device)
    return program_rows.Timed(host, device, rows, np.arange(len(known)), logs)


ISSUED = ("issue", "")
"""The parameter of a host, no effect of one."""


@pytest.mark.parametrize("device", ["h100-pcie", "l4", "a100-sxm-80gb"])
def test_the_fit_and_the_answer_are_one_formula(device: str) -> None:
    """What ships, by the law that was fitted and by the formula that answers: groups of the machine included."""
    fit = load_fitted(PROGRAMS_FILE).fit(NAME)
    names = [name.removeprefix("compute.") for name in program_values("") if name.startswith("compute.")]
    one = timed("", device, {"a": Program(OPERATIONS, ())}, names, np.zeros(1))
    told = np.exp(program_rows.FittedPrograms(tuple(names), fit).logs(one))
    on_device = ProgramRuntimes().times(OPERATIONS, machine(device)).sum()
    issue = next(
        log for one, log in zip(fit.coordinates, fit.logs, strict=True) if (one.parameter, one.level) == ISSUED
    )
    assert told[0] == pytest.approx((on_device**8 + (6 * np.exp(issue)) ** 8) ** 0.125, rel=1e-6)


def law_and_rows() -> tuple[ProgramLaw, LawRows]:
    """Sixty programs of two operations each on two machines, at the law's own expectations."""
    names = program_rows.classes({"a": Program(OPERATIONS, ())})
    generator = np.random.default_rng(0)
    known = {}
    for i in range(60):
        chosen = generator.choice(len(OPERATIONS), 2, replace=False)
        known[str(i)] = Program(tuple(OPERATIONS[j] for j in chosen), ())
    data = [timed(name, name, known, names, np.zeros(60)) for name in ("h100-sxm", "a10g")]
    return program_rows.law_rows(data, names)


def test_a_fit_finds_the_efficiencies_it_was_made_with() -> None:
    law, rows = law_and_rows()
    truth = {p.name: np.full(len(rows), p.expected * (1.5 if p.kind == "compute" else 1.0)) for p in law.parameters}
    made = replace(rows, seconds=law.predict(truth, rows.columns))
    again = fit(law, made).seconds(law, made.columns, made.groups)
    assert np.median(np.abs(np.log(again / made.seconds))) < 0.03


def test_the_law_s_slopes_are_those_of_differences() -> None:
    law, rows = law_and_rows()
    values = {p.name: np.full(len(rows), p.expected * 1.1) for p in law.parameters}
    here, made = np.log(law.predict(values, rows.columns)), law.slopes(values, rows.columns)
    for at, prior in enumerate(law.parameters):
        moved = law.predict({**values, prior.name: values[prior.name] * np.exp(1e-5)}, rows.columns)
        assert made[:, at] == pytest.approx((np.log(moved) - here) / 1e-5, abs=1e-3), prior.name


def test_the_simple_method_knows_no_device_that_ours_does_not() -> None:
    """Two cards of a generation with equal times: the baseline may copy the other only where the law has seen it."""
    runs = [
        ProgramRun(str(i), name, name, EAGER, float(np.exp(5.0 * (at // 2))))
        for at, name in enumerate(PAIRED_CARDS)
        for i in range(30)
    ]
    rows, copied = Rows(runs), {}
    for case, key in (("device unseen", "generation"), ("device unseen, its relatives known", "machine")):
        near = board._copied(rows, rows.folds([getattr(run, key) for run in runs]))
        copied[case] = float(np.median(np.abs(np.log(near / np.array([run.seconds for run in runs])))))
    assert copied["device unseen, its relatives known"] < 0.6
    assert copied["device unseen"] > 2.0  # the other pair takes 148 times as long


PAIRED_CARDS = ("h100-sxm", "h200-sxm", "l40s", "rtx-4090")


PROGRAM = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 64, 3)
        self.norm = torch.nn.BatchNorm2d(64)
    def forward(self, image):
        return torch.relu(self.norm(self.first(image)))
def build():
    return Net(), (torch.randn(16, 3, 128, 128),)
"""


def test_a_program_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "own_network_for_a_test.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert run(["estimate", "own_network_for_a_test:build", "--on", "a10g", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    written = 16 * 64 * 126 * 126 * 4
    least = (written * 5 + 16 * 3 * 128 * 128 * 4) / machine("a10g").bandwidth("GDDR6")  # 6 MB of cache
    assert least < answer["time_s"] < 4 * least and answer["low_s"] < answer["time_s"] < answer["high_s"]
    assert [part["kind"] for part in answer["parts"]].count("convolution") == 1


NETS = """
import torch
def chain():
    class Chain(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(torch.sigmoid(x) * x + 1)
    return Chain(), (torch.empty(16384, 4096),)  # kernels long enough that no host binds them
class Scaled(torch.nn.Module):
    def forward(self, matrix, factor: float, bias=None):
        return matrix * factor
def scaled():
    return Scaled(), (torch.empty(16384, 4096), 3.14, None)
def depthwise():
    return torch.nn.Conv2d(128, 128, 3, groups=128), (torch.empty(64, 128, 256, 256),)
"""


def test_eager_and_compiled_are_one_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chain of four operations moves a quarter of the bytes; a depthwise convolution becomes slower (KernelBench)."""
    pytest.importorskip("torch")
    (tmp_path / "own_programs_for_a_test.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)

    def seconds(program: str, *more: str) -> float:
        name = f"own_programs_for_a_test:{program}"
        assert run(["estimate", name, "--on", "h100-sxm", "--format", "json", *more]) == 0
        return float(json.loads(capsys.readouterr().out)[0]["time_s"])

    compiled = ("--set", "machine.runtime.mode=compiled")
    assert seconds("chain") > 2.5 * seconds("chain", *compiled)
    assert seconds("scaled") > 2 * 16384 * 4096 * 4 / machine("h100-sxm").bandwidth("HBM3")  # a number among its inputs
    assert seconds("depthwise", *compiled) > 1.2 * seconds("depthwise")  # measured: 1.2 to 2.0 with a point convolution


def test_a_study_file_runs_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'schema = "slipstick-study-1"\nname = "x"\nworkload = "os:getcwd"\nmachine = "l40s"\n'
        '[vary]\n"machine.clock" = [1e9]\n'
    )
    assert run(["study", "run", str(study)]) == 2


def test_each_operation_of_an_own_program_is_bound_by_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block of ConvNeXt: the answer names model and bounds, and holds where TF32 is faster than float32's peak."""
    pytest.importorskip("torch")
    (tmp_path / "convnext_for_a_test.py").write_text(BLOCK)
    monkeypatch.chdir(tmp_path)
    command = ["estimate", "convnext_for_a_test.py:block", "--on", "l40s,h100,a100", "--format", "json"]
    assert run(command) == 0
    for answer in json.loads(capsys.readouterr().out):
        assert {part["bound_by"] for part in answer["parts"]} <= {"compute", "memory", "cores", "latency"}
        assert "forward passes of programs were timed as a whole" in answer["why"]


def test_inputs_training_and_what_cannot_be_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shapes on the command line, a training step beside the forward pass, and errors that say what to change."""
    pytest.importorskip("torch")
    (tmp_path / "convnext_for_a_test.py").write_text(BLOCK)
    monkeypatch.chdir(tmp_path)

    def seconds(*more: str) -> float:
        assert run(["estimate", *more, "--on", "a100", "--format", "json"]) == 0
        return float(json.loads(capsys.readouterr().out)[0]["time_s"])

    layer = "convnext_for_a_test.py:layer", "--input", "batch,4096"
    forward = seconds(*layer, "--batch", "8192")
    flop = 2 * 8192 * 4096 * 4096
    assert forward > flop / machine("a100-sxm-80gb").peak("vector", "float32")
    assert seconds(*layer, "--batch", "8192", "--train", "adam") > 1.5 * forward  # weights' gradients and the update
    assert seconds(*layer, "--batch", "16384") > 1.5 * forward
    for words, mended in (
        (["convnext_for_a_test.py:layer"], "--input"),
        (["convnext_for_a_test.py:branch"], "no branch may hang on values"),
        (["gpt2", "--train", "adam"], "FILE.py:FUNCTION"),
    ):
        assert run(["estimate", *words, "--on", "a100"]) == 2
        assert mended in capsys.readouterr().err


BLOCK = """
import torch
def layer():
    return torch.nn.Linear(4096, 4096)
def branch():
    return (lambda x: x + 1 if x.sum().item() > 0 else x), (torch.randn(4),)
def block():
    layers = torch.nn.Conv2d(192, 192, 7, padding=3, groups=192), torch.nn.Conv2d(192, 768, 1), torch.nn.GELU()
    return torch.nn.Sequential(*layers), (torch.randn(32, 192, 28, 28),)
"""


@pytest.mark.parametrize("name", ["h100-sxm", "l40s", "v100-sxm", "mi300x"])
def test_attention_in_float32_shares_the_vector_engine_with_its_softmax(name: str) -> None:
    """Both sums of flop stand on one engine: no fitted share may undercut them."""
    dims = {"batch": 16, "heads": 16, "kv_heads": 16, "queries": 512, "keys": 512, "head_dim": 64, "value_dim": 64}
    op = operation("a", "attention", dims, "float32")
    least, _ = PhysicalBound(machine(name)).least(op)
    (time,) = ProgramRuntimes().times((op,), machine(name))
    assert time >= least * (1 - 1e-12)


def test_backward_passes_in_16_bits_are_classes_of_their_own() -> None:
    """Training steps were fitted in 16 bits alone; a class that no step had takes the forward pass's numbers."""
    plain = convolution(64, 3)
    back = replace(plain, attributes=FrozenDict({**plain.attributes, "phase": "backward"}))
    half = replace(back, dtype="float16")
    assert [kernel_class(op) for op in (plain, back, half)] == ["convolution"] * 2 + ["convolution.backward"]
    names = ("gemm", "convolution.last", "convolution.last.backward", "pool.backward", "pool", "gemm.thin.backward")
    known = ("gemm", "convolution", "convolution.backward", "pool", "elementwise")
    nearest = ["gemm", "convolution", "convolution.backward", "pool", "pool", "gemm"]
    assert [relative(name, known.__contains__) for name in names] == nearest


@pytest.mark.parametrize("name", ["l40s", "rtx-5090", "a100-sxm-80gb"])
def test_what_moves_bytes_is_answered_alike_in_16_bits_and_in_float32(name: str) -> None:
    """A program's additions are its kernels in either type: a GeForce left out read 17 to 19 % too slow without."""
    streams = [op for op in OPERATIONS if op.kind in STREAMS]
    operations = [replace(op, dtype=dtype) for op in streams for dtype in ("float32", "float16")]
    shares = program_shares(gpu_kernels(), machine(name), operations, programs=True)
    assert streams and {shares.get(f"{op.kind}.{op.dtype}") for op in operations} == {1.0}


def test_16_bits_on_a_class_of_gpus_that_ran_no_network_say_so_and_are_less_sure() -> None:
    """Image networks were timed on two GeForce with GDDR: an H100's convolutions in 16 bits are of another class."""
    graph = Workload("one", (replace(convolution(64, 3), dtype="float16"),))
    here, there = (step_of_kernels(gpu_kernels(), machine(name), graph) for name in ("rtx-4090", "h100-sxm"))
    said = [[one.name for one in each[1] if one.name == ANOTHER_CLASS] for each in (here, there)]
    assert said == [[], [ANOTHER_CLASS]]
    assert (there[0].residual_std or 0) > 1.1 * (here[0].residual_std or 1)
