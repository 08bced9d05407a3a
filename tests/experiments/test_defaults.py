"""What answers where nobody names an estimator: by kind of machine, with a band, never past the physical bound."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.routing import ROUTES, route
from slipstick.experiments.question.cautions import hints
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.defaults.published_times import figures
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import MachineKind, machine_kind
from slipstick.workloads.catalog import workload, workload_names
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WorkloadKind
from slipstick.workloads.layers.single import dense, elementwise
from slipstick.workloads.transforms.attention import flash_attention

LARGE = ["workload.m=4096", "workload.n=4096", "workload.k=4096"]


KINDS = ("a100-sxm-80gb", "b200-sxm", "mi300x", "mi25", "p4", "k40m", "tpu-v3", "xeon-phi-7250", "epyc-7452", "a64fx")


@pytest.mark.parametrize("name", KINDS)
def test_no_default_answer_passes_the_bound_or_is_far_from_it(name: str) -> None:
    """A product of 4096 and a sum of many numbers; `slipstick validate defaults` asks every machine."""
    for asked, settings in (("gemm", LARGE), ("vector-sum", ["workload.elements=1e8"])):
        ours = question(asked, name, None, settings, "float32")
        bound = question(asked, name, "roofline", settings, "float32").answer().time
        answer = ours.answer()
        assert bound * 0.999 <= answer.time <= 20 * bound, (asked, answer.time / bound)
        low, high = answer.interval() or (0.0, 0.0)
        assert low < answer.time < high and ours.why


def test_a_kind_for_every_machine() -> None:
    assert machine_kind(machine("h100-sxm")) == machine_kind(machine("mi300x")) == "gpu"
    assert machine_kind(machine("tpu-v2-8")) == "tpu"
    assert machine_kind(machine("xeon-phi-7120p")) == "many-core"
    assert machine_kind(machine("epyc-7451")) == machine_kind(machine("a64fx")) == "cpu"


def npu(**engine: object) -> Machine:
    """One core with one large matrix engine."""
    cells = {"flop_per_cycle": {"bfloat16": 2 * 256 * 256, "float32": 2 * 256 * 256}, **engine}
    document = {
        "name": "npu",
        "clock": "1 GHz",
        "sources": {},
        "cores": 1,
        "engines": {"matrix": cells, "vector": {"flop_per_cycle": {"float32": 512, "bfloat16": 512}}},
        "memory": {
            "SRAM": {"capacity": "8 MiB", "bytes_per_cycle": 1024},
            "DRAM": {"capacity": "16 GiB", "bandwidth": "100 GB/s"},
        },
    }
    return Machine.model_validate(document)


def test_few_large_engines_are_no_gpu() -> None:
    """An array of 256 x 256 answers as the systolic model does; without: the data sheet, widely, up to its rates."""
    array = npu(rows=256, columns=256)
    ours, model = (question("gemm", array, name, LARGE).answer() for name in (None, "systolic"))
    assert ours.time == pytest.approx(model.time, rel=1e-7)  # of a working set far below its cache
    bare = question("gemm", npu(), None, LARGE).answer()
    low, high = bare.interval() or (1.0, 1.0)
    assert high / bare.time > 2 and low < model.time < high
    assert low == pytest.approx((3 * 4 * 4096**2 - 8 * 2**20) / 100e9)  # all that its cache cannot have kept


def test_precision_is_what_torch_chooses_and_said() -> None:
    mixed = question("gpt2", "a100-sxm-80gb", None, [], "bfloat16")
    assert any("autocast" in text for text in mixed.answer().assumptions)
    assert {op.dtype for op in mixed.workload if op.kind == "softmax"} == {"float32"}
    images = question("resnet18-inference", "a100-sxm-80gb", None, [])
    assert {op.dtype for op in images.workload if op.kind == "convolution"} == {"tfloat32"}
    assert {op.dtype for op in question("resnet18-inference", "v100-sxm", None, []).workload} == {"float32"}


def test_a_hint_at_the_matrix_engine_needs_work_that_would_move_there() -> None:
    """Convolutions run in TF32 already: of resnet18 one small product is left, and following the hint gains nothing."""
    hint = "float32 products run on the vector engine"
    images = question("resnet18-inference", "a100-sxm-80gb", None, [])
    assert not [text for text in hints(images) if hint in text]
    assert [text for text in hints(question("gemm", "a100-sxm-80gb", "roofline", [])) if hint in text]


def test_decoding_is_a_recorded_graph_unless_asked_otherwise() -> None:
    assert question("llama-3-8b-decode", "h100-sxm", None, []).machine.runtime.mode == "graph_replay"
    eager = question("llama-3-8b-decode", "h100-sxm", None, ["machine.runtime.mode=eager"])
    assert eager.machine.runtime.mode == "eager"
    assert eager.answer().time > question("llama-3-8b-decode", "h100-sxm", None, []).answer().time


def test_measured_kernels_go_under_the_schedule_of_parallel_training() -> None:
    """Nothing of the schedule is lost: bubble, collectives and memory as with the A100's kernels."""
    ours = question("megatron-175b", "h100-dgx", None, []).answer()
    named = question("megatron-175b", "h100-dgx", "parallel-training", []).answer()
    for part in ("tensor_parallel", "data_parallel"):
        seconds = [answer.metrics[part] * answer.time for answer in (ours, named)]
        assert seconds[0] == pytest.approx(seconds[1], rel=0.02)
    assert ours.metrics["memory_share"] == named.metrics["memory_share"]
    # the bubble is a share of the work of a microbatch, whatever kernels take
    ratio = [
        a.metrics["pipeline_bubble"] / (a.metrics["arithmetic"] + a.metrics["tensor_parallel"]) for a in (ours, named)
    ]
    assert ratio[0] == pytest.approx(ratio[1], rel=0.02)


def test_flash_attention_keeps_the_arithmetic_and_drops_the_traffic() -> None:
    plain = workload("gpt2")
    flash = flash_attention(plain)
    assert sum(op.kind == "attention" for op in flash) == 24
    sizes = plain.bind(**plain.defaults), flash.bind(**flash.defaults)
    flops = [sum(float(op.cost["flop.matrix.float32"]) for op in one) for one in sizes]
    moved = [sum(float(op.cost.bytes_moved) for op in one) for one in sizes]
    assert flops[0] == flops[1] and moved[1] < 0.6 * moved[0]


def test_the_list_of_figures() -> None:
    listed = figures()
    assert len(listed.figures) >= 40 and len({figure.id for figure in listed.figures}) == len(listed.figures)
    known = set(workload_names())
    unknown = {figure.workload for figure in listed.figures} - known
    assert {name for name in unknown if f"{name}-decode" not in known} == {"llama-3-405b"}  # refused, and counted
    for figure in listed.figures:
        assert figure.machine in machine_names() and listed.sources[figure.source].url.startswith("https://")
        assert bool(figure.data) + bool(figure.seconds) + bool(figure.rate and figure.of) == 1


def test_a_kernel_library_is_named_by_the_user() -> None:
    """vLLM 0.22 and SGLang 0.5.10 were measured on an H200; both answers differ, and an unknown name lists them."""
    answers = {
        name: question("llama-2-7b-inference", "h200", settings={"machine.runtime.library": name})
        for name in ("vllm", "sglang 0.5.10")
    }
    assert "with vllm 0.22.0" in answers["vllm"].why
    vllm, sglang = (one.answer() for one in answers.values())
    assert vllm.time != sglang.time
    given = [(one.name, one.value, one.origin) for one in vllm.conditions]
    assert ("machine.runtime.library", "vllm", "given") in given
    with pytest.raises(InputError, match=r"'cutlass' \(known: aiter, sglang 0.5.10, trtllm, vllm 0.22.0\)"):
        question("llama-2-7b-inference", "h200", settings={"machine.runtime.library": "cutlass"})
    own = machine("h200").using({"runtime.library": "my kernels 3"})
    of_file = [one for one in question("llama-2-7b-inference", own).answer().conditions if one.origin == "file"]
    assert [(one.name, one.value) for one in of_file] == [("machine.runtime.library", "my kernels 3")]
    assert "not measured" in of_file[0].note


def test_products_in_blocks_are_as_measured_in_blocks() -> None:
    """H100 and H200 ran FP8 in blocks: their rows answer, and an L40S, which did not, has a wider band."""
    sizes = {f"workload.{name}": 4096 for name in "mnk"}  # one product, which no host bounds
    answers = {on: question("gemm", on, settings=sizes, dtype="fp8_block").answer() for on in ("h100-sxm", "l40s")}
    assert any("gemm.float8_block: its own 400 rows" in text for text in answers["h100-sxm"].assumptions)
    widths = {}
    for on, answer in answers.items():
        low, high = answer.interval() or (0.0, 0.0)
        widths[on] = high / low
    assert 1 < widths["h100-sxm"] < widths["l40s"]


def test_products_of_float32_run_at_the_rate_of_16_bits_where_the_compiler_casts_them() -> None:
    """AWS Neuron documentation: by default, the compiler casts FP32 matrix multiplications to BF16, at four times the
    rate (190 against 47.5 TFLOP/s); operands stay in float32."""
    sizes = [f"workload.{name}=8192" for name in ("m", "n", "k")]
    asked = question("gemm", "inferentia2", None, sizes).answer()
    assert 0.999 * 2 * 8192**3 / 190e12 <= asked.time < 1.3 * 2 * 8192**3 / 190e12
    assert any("Neuron compiler" in text for text in asked.assumptions)
    narrow = question("gemm", "inferentia2", None, sizes, "bfloat16").answer()
    assert not any("Neuron compiler" in text for text in narrow.assumptions)


def test_programs_timed_on_one_maker_s_devices_say_little_of_another_s() -> None:
    """Image networks in 16 bits ran on two GeForce cards: a Radeon's band is wider, and its answer warns."""
    network = "resnet18-inference"
    batch = {"workload.batch": 1024.0}  # by the device: at few images the host of either is as unknown
    answers = {on: question(network, on, settings=batch, dtype="float16") for on in ("rtx-4090", "mi300x")}
    near, far = (answers[on].answer().interval() for on in ("rtx-4090", "mi300x"))
    assert near is not None and far is not None and far[1] / far[0] > 1.5 * near[1] / near[0]
    factors = {on: [one.band_factor for one in made.answer().conditions if one.widens] for on, made in answers.items()}
    assert factors["mi300x"] and not factors["rtx-4090"]


def chained(*operations: Op, **metadata: str) -> Workload:
    """A workload of operations one after the other."""
    names = [op.name for op in operations]
    return Workload("chain", operations, tuple(pairwise(names)), metadata=FrozenDict(metadata))


def layers(count: int) -> list[Op]:
    return [dense(f"layer{index}", 128, 1024, 1024) for index in range(count)]


def test_one_operation_changes_no_network_s_law() -> None:
    """An attention of one query beside it makes a network no recorded graph, a ReLU in bfloat16 none of 16 bits."""
    dims = dict.fromkeys(("batch", "heads", "kv_heads", "queries"), 1) | {"keys": 16, "head_dim": 64, "value_dim": 64}
    beside = operation("beside", "attention", dims, "float32")
    half = elementwise("beside", 1024, function="relu", dtype="bfloat16")
    alone = question(chained(*layers(24)), "a100-sxm-80gb").answer()
    for one in (beside, half):
        asked = question(chained(*layers(24), one), "a100-sxm-80gb")
        assert asked.machine.runtime.mode == "eager"
        made = asked.answer()
        assert alone.time <= made.time <= 1.05 * alone.time + 40e-6
        assert made.sides["device"] == pytest.approx(alone.sides["device"], rel=0.05)


def test_a_step_is_the_same_whatever_its_output_layer_is_called() -> None:
    step = workload("qwen3-8b-decode")
    names = {name: f"part{index}" for index, name in enumerate(step.names)}
    edges = tuple((names[before], names[after]) for before, after in step.edges)
    renamed = tuple(op.repeated(names[op.name], op.times) for op in step)
    for metadata in (step.metadata, FrozenDict[Attribute]()):
        other = Workload(step.name, renamed, edges, step.defaults, metadata)
        for dtype in ("bfloat16", "fp8"):
            one, two = (question(graph, "h100-sxm", dtype=dtype).answer() for graph in (step, other))
            assert two.time == pytest.approx(one.time, rel=1e-9) and two.energy == pytest.approx(one.energy, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_device_and_host_are_linear_in_equal_operations(dtype: str) -> None:
    """No count of operations is another quantity: 1, 2, 3, N equal sums of numbers, which no weights slow down where
    others push them out of a cache, take the longer of two lines."""
    sums = {count: [elementwise(f"sum{index}", 10**7, 2) for index in range(count)] for count in (1, 2, 3, 48)}
    answers = {count: question(chained(*one), "rtx-4090", dtype=dtype).answer() for count, one in sums.items()}
    for count, answer in answers.items():
        assert dict(answer.sides) == pytest.approx({name: count * each for name, each in answers[1].sides.items()})
        assert answer.time == pytest.approx(max(answer.sides.values()))
        assert answer.quantities["host"].value == answer.sides["host"]


def test_a_declared_kernel_is_timed_by_itself() -> None:
    """Its answer begins with the device's time; undeclared, the same product is a program, as the answer says."""
    kernel, program = (question(one, "h100-sxm") for one in (chained(*layers(1), work="kernel"), chained(*layers(1))))
    made = kernel.answer()
    assert made.time == made.sides["device"] < made.sides["host"] == program.answer().time
    assert "because a kernel is timed by itself" in kernel.reason and "by its operations" not in kernel.reason
    assert "by its operations it is a program" in program.reason
    with pytest.raises(InputError, match="kind of work"):
        question(chained(*layers(1), work="network"), "h100-sxm")


def test_the_table_of_routes_is_complete_and_each_row_is_reached() -> None:
    """Every kind of work on every kind of machine has an answer, and no row stands behind one that holds wherever it
    does."""
    for kind in get_args(MachineKind):
        for work in get_args(WorkloadKind):
            assert route(kind, work, lambda name: ()) in ROUTES
    for place, row in enumerate(ROUTES):
        for before in ROUTES[:place]:
            wider = not before.machine or (set(row.machine) and set(row.machine) <= set(before.machine))
            wider = wider and (not before.work or (row.work and set(row.work) <= set(before.work)))
            assert not (wider and not before.when), (before, row)


@pytest.mark.parametrize("machine_name", ["h100-sxm", "v100-sxm"])
def test_a_traced_program_answers_as_its_operations_do(machine_name: str) -> None:
    """Whose words stand in the metadata has no say: as the catalogue has it, as torch would name it, and bare."""
    graph = workload("resnet18-inference").bind(batch=64)
    named = {"source": "torch 2.9", "purpose": "inference"}
    others = (FrozenDict({**graph.metadata, **named}), FrozenDict[Attribute]())
    first = question(graph, machine_name).answer()
    for metadata in others:
        other = Workload(graph.name, graph.operations, graph.edges, graph.defaults, metadata)
        assert question(other, machine_name).answer().time == pytest.approx(first.time, rel=1e-5)
