"""Traces as graphs: replay gives the trace back; what-ifs follow from what waited for what."""

import json
from pathlib import Path

import numpy as np
import pytest

from estimators.operation.kernels import KernelScaling, resource_of
from estimators.schedule.replay import replay, with_workers
from experiments.trace_whatif import Change, trace_whatif
from hwmodels.catalog import machine
from hwmodels.files import InputError
from workloads.importers.trace_graph import TraceGraph, read_trace_graph

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
    change = Change(machine("v100-sxm"), machine("h100-sxm"), workers=2, host_ratio=0.5)
    answer = trace_whatif(graph, change)
    assert set(answer.account) == {"kernels", "host", "loading"}
    assert sum(answer.account.values()) == pytest.approx(answer.after.step - answer.before.step, rel=1e-9)
    assert answer.low < answer.after.step < answer.high


def test_the_same_machine_changes_nothing_and_a_faster_one_is_never_slower(tmp_path: Path) -> None:
    graph = trace(tmp_path, loop(5))
    v100 = machine("v100-sxm")
    assert trace_whatif(graph, Change(v100, v100)).after.step == pytest.approx(replay(graph).step, rel=1e-12)
    faster = v100.using(clock=2 * v100.clock)
    assert trace_whatif(graph, Change(v100, faster)).after.step < replay(graph).step


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("volta_scudnn_128x64_relu_medium_nn_v1", ("matrix", "float32")),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", ("matrix", "bfloat16")),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32", ("matrix", "tfloat32")),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16", ("matrix", "float16")),
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
    assert ratios[1] == pytest.approx(v100.bandwidth(v100.main_memory) / h100.bandwidth(h100.main_memory), rel=1e-5)


def test_wrong_traces_are_refused(tmp_path: Path) -> None:
    steps = [event("ProfilerStep#1", "user_annotation", 1, 0, 9)]
    with pytest.raises(InputError, match="no device operations"):
        trace(tmp_path, steps)
    kernel = event("k", "kernel", 7, 1, 2, correlation=1, stream=7)
    with pytest.raises(InputError, match="no call launches"):
        trace(tmp_path, [*steps, kernel])
    launch = event("cudaLaunchKernel", "cuda_runtime", 1, 0, 1, correlation=1)
    with pytest.raises(InputError, match="no ProfilerStep annotations"):
        trace(tmp_path, [kernel, launch])
    fed = [one for one in loop(2) if "DataLoader" not in str(one["name"])]
    with pytest.raises(InputError, match="must load in the loop"):
        with_workers(trace(tmp_path, fed), 4)
