"""Traces as graphs: replay gives the trace back; what-ifs follow from what waited for what."""

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, reached, resource_of
from slipstick.estimators.schedules.trace_replay import replay, under_runtime, with_workers
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.replay.replay import changes, read_recorded
from slipstick.experiments.replay.trace_whatif import TraceChange, trace_whatif
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.importers.traces.kernel_shapes import read_kernel_operations
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph
from slipstick.workloads.importers.traces.trace_graph import TraceGraph

LAUNCH, KERNEL, LOAD, ISSUE = 5.0, 40.0, 60.0, 10.0  # microseconds


def event(
    name: str, category: str, thread: object, start: float, duration: float, **arguments: object
) -> dict[str, object]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": 1,
        "tid": thread,
        "ts": start,
        "dur": duration,
        "args": arguments,
    }


def loop(kernels: int, steps: int = 6, kernel: float = KERNEL, loading: float = LOAD) -> list[dict[str, object]]:
    """A training loop: load a batch in the loop, launch kernels one after the other, wait for the device."""
    events, time, device, correlation = [], 0.0, 0.0, 0
    for step in range(steps):
        begin = time
        events.append(event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "cpu_op", 1, time, loading))
        time += loading
        for _ in range(kernels):
            correlation += 1
            events.append(event("cudaLaunchKernel", "cuda_runtime", 1, time, 3.0, correlation=correlation))
            start = max(time + LAUNCH, device)
            events.append(
                event("ampere_sgemm_128x64_tn", "kernel", 7, start, kernel, correlation=correlation, stream=7)
            )
            device = start + kernel
            time += ISSUE
        correlation += 1
        finish = max(time, device) + 4.0
        events.append(event("cudaDeviceSynchronize", "cuda_runtime", 1, time, finish - time, correlation=correlation))
        time = finish
        events.append(event(f"ProfilerStep#{step}", "user_annotation", 1, begin, time - begin))
    return events


def trace(tmp_path: Path, events: list[dict[str, object]]) -> TraceGraph:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read_trace_graph(path)


def test_replay_gives_the_trace_back(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5))
    again = replay(graph)
    assert np.asarray(again.steps) == pytest.approx(graph.measured_steps, rel=1e-9)
    step = LOAD + LAUNCH + 5 * KERNEL + 4.0
    assert again.step * 1e6 == pytest.approx(step, rel=1e-6)
    assert again.busy == pytest.approx(5 * KERNEL / step, rel=0.01)


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0])
def test_other_kernels_give_what_the_loop_would_have_given(tmp_path: Path, factor: float) -> None:
    graph = trace(tmp_path, loop(5))
    service = graph.service
    service[[node.kind == "kernel" for node in graph.nodes]] *= factor
    truth = trace(tmp_path, loop(5, kernel=KERNEL * factor)).measured_steps
    assert replay(graph, service).step == pytest.approx(float(np.median(truth)), rel=0.02)


def test_workers_hide_the_loading_as_far_as_they_can(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5, steps=40))
    busy = LAUNCH + 5 * KERNEL + 4.0
    fetch = 2e-6
    assert replay(with_workers(graph, 4, fetch)).step * 1e6 == pytest.approx(busy + 2, rel=0.01)
    slow = trace(tmp_path, loop(5, steps=40, loading=1000.0))
    late = np.mean(replay(with_workers(slow, 2, fetch)).steps[-20:]) * 1e6
    assert late == pytest.approx(500, rel=0.05)  # two workers make a batch every 500 us
    assert with_workers(graph, 0) is graph


def test_the_account_sums_to_the_change(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5))
    change = TraceChange(machine("v100-sxm"), machine("h100-sxm"), workers=2, host_ratio=0.5)
    answer = trace_whatif(graph, change)
    assert set(answer.account) == {"kernels", "host", "loading"}
    assert sum(answer.account.values()) == pytest.approx(answer.after.step - answer.before.step, rel=1e-9)
    assert answer.low < answer.after.step < answer.high


def test_the_same_machine_changes_nothing_and_a_faster_one_is_never_slower(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5))
    v100 = machine("v100-sxm")
    assert trace_whatif(graph, TraceChange(v100, v100)).after.step == pytest.approx(replay(graph).step, rel=1e-12)
    faster = v100.using(clock=2 * v100.clock)
    assert trace_whatif(graph, TraceChange(v100, faster)).after.step < replay(graph).step


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("volta_scudnn_128x64_relu_medium_nn_v1", ("matrix", "float32")),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", ("matrix", "bfloat16")),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32", ("matrix", "tfloat32")),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16", ("matrix", "float16")),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64", ("matrix", "bfloat16")),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_1LDSB0", ("matrix", "float32")),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", ("matrix", "float32")),
        ("void ck::kernel_gemm_xdl_cshuffle_v3<ck::half_t>", ("matrix", "float16")),
        ("attn_fwd", ("matrix", "")),
        ("ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", ("matrix", "float16")),
        ("cutlass_80_tensorop_s1688gemm_256x64_16x4_nt_align4", ("matrix", "tfloat32")),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", ("matrix", "bfloat16")),
        ("triton_poi_fused_add_relu_0", ("memory", "")),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", ("link", "")),
        ("CopyHostToDevice", ("host_link", "")),
        ("void at::native::vectorized_elementwise_kernel<4, ...>", ("memory", "")),
        ("cudnn::bn_fw_tr_1C11_kernel_NCHW", ("memory", "")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", ("link", "")),
        ("Memcpy HtoD (Pageable -> Device)", ("host_link", "")),
    ],
)
def test_names_of_real_kernels_say_what_they_live_on(name: str, resource: tuple[str, str]) -> None:
    assert resource_of(name) == resource


def test_short_kernels_keep_their_fixed_part() -> None:
    v100, h100 = machine("v100-sxm"), machine("h100-sxm")
    ratios = KernelScaling(fixed=2e-6).ratios(["add", "add"], np.array([2e-6, 1.0]), v100, h100)
    assert ratios[0] == pytest.approx(1.0)
    peaks = v100.bandwidth(v100.main_memory) / h100.bandwidth(h100.main_memory)
    assert ratios[1] == pytest.approx(peaks * reached(v100)[1] / reached(h100)[1], rel=1e-5)


def test_a_trace_without_marks_is_one_step_that_ends_with_the_device(tmp_path: Path) -> None:
    events = [one for one in loop(5, steps=1) if "Profiler" not in str(one["name"]) and "Data" not in str(one["name"])]
    graph = trace(tmp_path, [one for one in events if "Synchronize" not in str(one["name"])])
    assert graph.step_names == ("whole trace",)
    assert replay(graph).step * 1e6 == pytest.approx(LAUNCH + 5 * KERNEL, rel=1e-6)
    service = graph.service
    service[[node.kind == "kernel" for node in graph.nodes]] *= 0.5
    assert replay(graph, service).step * 1e6 == pytest.approx(LAUNCH + 5 * KERNEL / 2, rel=0.02)


def shaped(step: list[dict[str, object]], dims: list[object], types: list[str], name: str) -> list[dict[str, object]]:
    """The same events with an operation of the host, and its shapes, around every launch."""
    found = []
    for one in step:
        if one["name"] == "cudaLaunchKernel":
            facts = {"Input Dims": dims, "Input type": types, "External id": 1000 + int(one["args"]["correlation"])}
            found.append(event(name, "cpu_op", 1, float(one["ts"]) - 1, 5.0) | {"args": facts})
        found.append(one)
    return found


def test_kernels_of_known_shapes_follow_the_operation_and_keep_their_residual(tmp_path: Path) -> None:
    a100, h100 = machine("a100-sxm-80gb"), machine("h100-sxm")
    ratios = {}
    for name, size in (("thin", 1), ("square", 8192)):
        path = tmp_path / f"{name}.json"
        dims: list[object] = [[size, 8192], [8192, 8192]]
        events = shaped(loop(3), dims, ["c10::BFloat16", "c10::BFloat16"], "aten::mm")
        path.write_text(json.dumps({"traceEvents": events}).replace("ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm"))
        operations = read_kernel_operations(path)
        graph = read_trace_graph(path)
        kernels = [node for node in graph.nodes if node.kind == "kernel"]
        assert {operations[node.correlation].kind for node in kernels} == {"gemm"}
        known = [operations[node.correlation] for node in kernels]
        seconds = np.full(len(kernels), 1e-3)
        scaling = KernelScaling(fixed=0.0)
        found = scaling.ratios([node.name for node in kernels], seconds, a100, h100, known)
        assert found == pytest.approx(scaling.ratios([n.name for n in kernels], 2 * seconds, a100, h100, known))
        ratios[name] = found[0]
    memory = a100.bandwidth("HBM2e") * reached(a100)[1] / (h100.bandwidth("HBM3") * reached(h100)[1])
    assert ratios["thin"] == pytest.approx(memory, rel=0.1), "a product with one row reads its weights"
    assert ratios["square"] < 0.8 * ratios["thin"]


def test_one_launch_of_a_graph_and_fused_kernels_are_faster_by_what_they_save(tmp_path: Path) -> None:
    slow = loop(5, kernel=2.0)  # bound by the host
    text = json.dumps({"traceEvents": slow}).replace("ampere_sgemm_128x64_tn", "vectorized_elementwise_kernel<add>")
    path = tmp_path / "trace.json"
    path.write_text(text)
    graph = read_trace_graph(path)
    eager = replay(graph).step * 1e6
    graphed = trace_whatif(graph, TraceChange(runtime="graph_replay"))
    compiled = trace_whatif(graph, TraceChange(runtime="compiled"))
    assert eager - graphed.after.step * 1e6 >= 3 * ISSUE
    assert compiled.after.step < graphed.before.step
    assert compiled.after.shares["kernel"] < replay(graph).shares["kernel"]
    assert graphed.account == {"runtime": pytest.approx(graphed.after.step - graphed.before.step)}
    with pytest.raises(InputError, match="runtime of a trace to go to"):
        under_runtime(graph, "eager", lambda first, second: False)


def test_the_same_machine_at_another_clock_is_a_change_of_clock(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5))
    v100 = machine("v100-sxm")
    answer = trace_whatif(graph, TraceChange(v100, v100.using(clock=v100.clock / 2)))
    assert set(answer.account) == {"clock"} and answer.account["clock"] > 0


def chakra(tmp_path: Path, nodes: list[dict[str, object]]) -> Path:
    path = tmp_path / "chakra.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    return path


def test_a_chakra_trace_with_durations_is_replayed(tmp_path: Path) -> None:
    gpu = [{"name": "is_cpu_op", "bool_val": False}]
    nodes: list[dict[str, object]] = [
        {"id": 1, "name": "mm", "type": "COMP_NODE", "data_deps": [], "start_time_micros": 100, "attr": gpu},
        {"id": 2, "name": "relu", "type": "COMP_NODE", "data_deps": [1], "start_time_micros": 140, "attr": gpu},
        {"id": 3, "name": "reduce", "type": "COMM_COLL_NODE", "ctrl_deps": [1], "start_time_micros": 130},
    ]
    for node, duration in zip(nodes, (30, 20, 50), strict=True):
        node["duration_micros"] = duration
    read = read_recorded(str(chakra(tmp_path, nodes)))
    assert replay(read.graph).step * 1e6 == pytest.approx(80)
    service = read.graph.service
    service[[node.kind == "collective" for node in read.graph.nodes]] = 0.0
    assert replay(read.graph, service).step * 1e6 == pytest.approx(60), "the product, its delay of 10 us, and relu"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": True}, "want a whole number"),
        ({"duration_micros": -1}, "duration_micros = -1 lies outside"),
        ({"data_deps": [2]}, "wait for each other"),
    ],
)
def test_broken_chakra_traces_are_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    nodes: list[dict[str, object]] = [
        {"id": 1, "name": "a", "duration_micros": 5, "data_deps": []} | change,
        {"id": 2, "name": "b", "duration_micros": 5, "data_deps": [1]},
    ]
    with pytest.raises(InputError, match=words):
        read_recorded(str(chakra(tmp_path, nodes)))


def test_a_chakra_trace_without_durations_wants_a_machine(tmp_path: Path) -> None:
    path = chakra(tmp_path, [{"id": 1, "name": "aten::relu", "inputs": {}, "outputs": {}}])
    with pytest.raises(InputError, match="say --recorded-on MACHINE"):
        read_recorded(str(path))


def test_convolutions_without_durations_are_rounded_where_frameworks_round_them() -> None:
    found = training_file("traces/chakra_resnet18_own.json.gz")
    if found is None:
        pytest.skip("no traces/chakra_resnet18_own.json.gz (set SLIPSTICK_DATA)")
    for name, dtype in (("a100-sxm-80gb", "tfloat32"), ("v100-sxm", "float32"), ("mi300x", "float32")):
        operations = read_recorded(str(found), machine(name)).operations.values()
        assert {op.dtype for op in operations if op.kind == "convolution"} == {dtype}


def test_wrong_traces_are_refused(tmp_path: Path) -> None:
    steps = [event("ProfilerStep#1", "user_annotation", 1, 0, 9)]
    with pytest.raises(InputError, match="no device operations"):
        trace(tmp_path, steps)
    kernel = event("k", "kernel", 7, 1, 2, correlation=1, stream=7)
    with pytest.raises(InputError, match="no call of the host launches"):
        trace(tmp_path, [*steps, kernel])
    fed = [one for one in loop(2) if "DataLoader" not in str(one["name"])]
    with pytest.raises(InputError, match="must load in the loop"):
        with_workers(trace(tmp_path, fed), 4)


def test_the_machine_of_a_replay_is_set_not_varied() -> None:
    with pytest.raises(InputError, match=r"run\.host_ratio; --set machine\.clock=VALUE \(with --recorded-on"):
        changes(["machine.clock=1GHz,2GHz"], machine("v100-sxm"), None)


def test_a_long_trace_replays_to_its_steps_and_its_first_steps_are_a_trace(tmp_path: Path) -> None:
    from slipstick.estimators.schedules.trace_replay import first_steps
    from tests.benchmarks.synthetic_trace import write

    path = tmp_path / "long.json"
    write(path, 30_000)
    graph = read_trace_graph(path)
    steps = replay(graph).steps
    assert len(steps) == 3
    np.testing.assert_allclose(steps, graph.measured_steps, rtol=1e-12)
    assert len(read_kernel_operations(path)) == int(graph.of_kind("kernel").sum())
    first = first_steps(graph, graph.steps[1][1] + 1)
    assert replay(first).steps == steps[:2]
    assert first_steps(graph, len(graph.nodes)) is graph and len(first_steps(graph, 0).steps) == 1
    assert [graph.nodes[i] for i in (0, -1)] == [first.nodes[0], graph.nodes[len(graph.nodes) - 1]]


def test_a_wait_that_the_profiler_gave_no_number_is_a_wait(tmp_path: Path) -> None:
    """A synchronisation launches nothing: without a correlation its time is still the device's, not the host's."""
    numbered = trace(tmp_path, loop(5))
    plain = loop(5)
    for one in plain:
        if one["name"] == "cudaDeviceSynchronize":
            one["args"] = {}
    graph = trace(tmp_path, plain)
    service = graph.service
    service[graph.of_kind("kernel")] /= 4
    assert replay(graph, service).step == pytest.approx(replay(numbered, service).step)
    assert replay(graph, service).step < 0.6 * replay(graph).step


def test_a_step_without_length_is_left_out_and_alone_is_no_step(tmp_path: Path) -> None:
    events = loop(5)
    nothing = event("ProfilerStep#99", "user_annotation", 1, 0.0, 0.0)
    assert trace(tmp_path, [nothing, *events]).step_names == trace(tmp_path, events).step_names
    unmarked = [one for one in events if one["cat"] != "user_annotation"]
    whole = trace_whatif(trace(tmp_path, [nothing, *unmarked]), TraceChange())
    assert whole.after.step > 0
    assert np.isfinite([whole.low, whole.high]).all()
