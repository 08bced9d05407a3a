"""Traces of ROCm, made as Kineto writes them: HIP calls, AMD's kernel names, a device clock of its own.

Facts from github.com/pytorch/kineto, libkineto/src/RocprofActivity_inl.h and RoctracerActivity_inl.h: calls are of
category "cuda_runtime" with names of HIP and numbers in `correlation`; kernels have `kind` "Dispatch Kernel", the queue
as stream; copies are "Memcpy HtoD (Host -> Device)".
"""

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, dtype_on, reached, resource_of
from slipstick.estimators.schedules.trace_replay import replay
from slipstick.experiments.replay.replay import read_recorded
from slipstick.experiments.replay.trace_whatif import TraceChange, trace_whatif
from slipstick.hwmodels.catalog import machine, machine_of_device

PRODUCT = "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1_ASEM1.kd"
ATTENTION = "attn_fwd.kd"
STREAMED = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const>"
)
LAUNCHES = {PRODUCT: "hipExtModuleLaunchKernel", ATTENTION: "hipModuleLaunchKernel", STREAMED: "hipLaunchKernel"}
COPY = "Memcpy HtoD (Host -> Device)"


def event(name: str, category: str, place: tuple[int, int], start: float, length: float, **facts: object) -> object:
    process, thread = place
    own = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": length}
    return own | {"args": facts}


def step_of(kernels: list[tuple[str, float]], issue: float, offset: float, steps: int = 4) -> list[object]:
    """Steps of a copy, kernels (name, us), and a wait; the device's clock is `offset` us ahead of the host's."""
    host, device = (4711, 4711), (2, 0)
    events, time, free, number = [], 1000.0, 0.0, 0
    for step in range(steps):
        begin = time
        number += 1
        facts = {"correlation": number, "bytes": "8192", "kind": "1", "cid": 28}
        events.append(event("hipMemcpyWithStream", "cuda_runtime", host, time, 30.0, **facts))
        events.append(event(COPY, "gpu_memcpy", device, time + 8 + offset, 14.0, correlation=number, kind="HtoD"))
        time += 32.0
        for name, length in kernels:
            number += 1
            events.append(event(LAUNCHES[name], "cuda_runtime", host, time, 4.0, correlation=number, cid=1))
            start = max(time + 6.0, free)
            facts = {"device": 2, "stream": 0, "correlation": number, "kind": "Dispatch Kernel", "grid": [64, 1, 1]}
            events.append(event(name, "kernel", device, start + offset, length, **facts))
            free = start + length
            time += issue
        end = max(time, free) + 3.0
        events.append(event("hipDeviceSynchronize", "cuda_runtime", host, time, end - time, correlation=number + 10**6))
        time = end
        events.append(event(f"ProfilerStep#{step}", "user_annotation", host, begin, time - begin))
    return events


def written(tmp_path: Path, events: list[object], device: str = "AMD Instinct MI300X") -> str:
    path = tmp_path / "rocm.pt.trace.json"
    properties = [{"id": 0, "name": device, "warpSize": 64, "numSms": 304}] if device else []
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}))
    return str(path)


BUSY = [(PRODUCT, 400.0), (ATTENTION, 150.0), (STREAMED, 250.0)] * 4
SPARSE = [(PRODUCT, 6.0), (STREAMED, 4.0)] * 20


def test_a_rocm_trace_names_its_machine_and_replays(tmp_path: Path) -> None:
    read = read_recorded(written(tmp_path, step_of(BUSY, issue=10.0, offset=0.0)))
    assert read.machine == machine("mi300x")
    again = replay(read.graph)
    assert np.asarray(again.steps) == pytest.approx(read.graph.measured_steps, rel=1e-9)
    assert again.step * 1e6 == pytest.approx(32 + 6 + 12 / 3 * 800 + 3, rel=1e-6)
    assert {node.kind for node in read.graph.nodes} == {"host", "wait", "kernel", "copy"}
    assert machine_of_device("AMD Instinct MI300X OAM") == machine("mi300x")
    assert machine_of_device("AMD Instinct MI999") is None


@pytest.mark.parametrize("offset", [-250.0, -20.0, 0.0])
def test_a_device_clock_before_the_hosts_is_put_right_and_said(tmp_path: Path, offset: float) -> None:
    graph = read_recorded(written(tmp_path, step_of(SPARSE, issue=20.0, offset=offset))).graph
    said = [note for note in graph.notes if "clock" in note]
    assert bool(said) == (offset < -6.0), "a launch takes 6 us here"
    service = graph.service
    service[[node.kind == "kernel" for node in graph.nodes]] *= 0.2
    kept = replay(graph, service).step / replay(graph).step
    assert 0.97 < kept <= 1.0 + 1e-9, "launches hold the kernels back, whatever the clocks say"


def test_a_step_bound_by_its_host_stays_so_on_another_vendors_machine_with_a_wide_band(tmp_path: Path) -> None:
    read = read_recorded(written(tmp_path, step_of(SPARSE, issue=20.0, offset=0.0)))
    answer = trace_whatif(read.graph, TraceChange(read.machine, machine("h100-sxm")), operations=read.operations)
    assert answer.after.step == pytest.approx(answer.before.step, rel=0.03)
    assert answer.bottleneck.startswith("host")
    assert answer.high / answer.low > 1.4, "the other machine's host is not known"
    faster = trace_whatif(
        read.graph, TraceChange(read.machine, machine("h100-sxm"), host_ratio=0.5), operations=read.operations
    )
    assert faster.after.step < 0.65 * answer.after.step


def test_a_busy_step_follows_what_its_kernels_live_on(tmp_path: Path) -> None:
    read = read_recorded(written(tmp_path, step_of(BUSY, issue=10.0, offset=-40.0)))
    here, there = machine("mi300x"), machine("h100-sxm")
    answer = trace_whatif(read.graph, TraceChange(here, there), operations=read.operations)
    products = here.peak("matrix", "bfloat16") * reached(here)[0] / there.peak("matrix", "bfloat16") / reached(there)[0]
    streams = here.bandwidth("HBM3") * reached(here)[1] / there.bandwidth("HBM3") / reached(there)[1]
    # attention does not say its dtype: it is that of the products around it
    assert answer.after.step * 1e6 == pytest.approx(4 * (550 * products + 250 * streams) + 41, rel=0.02)
    assert answer.bottleneck.startswith("matrix products")


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        (PRODUCT, ("matrix", "bfloat16")),
        ("Cijk_Ailk_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1", ("matrix", "float16")),
        ("Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x32_MI16x16x1", ("matrix", "float32")),
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HAS_SAB_SAV_UserArgs_MT256x256x128", ("matrix", "float8")),
        ("void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::bf16_t>>(...)", ("matrix", "bfloat16")),
        ("bwd_kernel_dk_dv.kd", ("matrix", "")),
        ("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt256x256x32", ("matrix", "float16")),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp16_f2x3_stride1.kd", ("matrix", "float16")),
        ("MIOpenBatchNormFwdTrainSpatial.kd", ("memory", "")),
        ("batched_transpose_64x64_half.kd", ("memory", "")),
        ("Im2d2Col_v2.kd", ("memory", "")),
        ("__amd_rocclr_copyBuffer.kd", ("memory", "")),
        ("__amd_rocclr_fillBufferAligned.kd", ("memory", "")),
        ("ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)", ("link", "")),
        ("rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", ("link", "")),
        (COPY, ("host_link", "")),
        ("Memcpy DtoH (Device -> Host)", ("host_link", "")),
        ("Memcpy DtoD (Device -> Device)", ("memory", "")),
    ],
)
def test_names_of_rocms_kernels_say_what_they_live_on(name: str, resource: tuple[str, str]) -> None:
    assert resource_of(name) == resource


@pytest.mark.parametrize("other", ["h100-sxm", "a100-sxm-80gb", "v100-sxm", "mi210"])
def test_there_and_back_again_is_where_it_began(other: str) -> None:
    here, there = machine("mi300x"), machine(other)
    names = ["Cijk_Ailk_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x32", STREAMED, COPY, "ncclDevKernel_Generic_4"]
    seconds = np.array([1e-3, 2e-4, 1e-5, 3e-3])
    ratios = KernelScaling().ratios(names, seconds, here, there)
    assert KernelScaling().ratios(names, seconds * ratios, there, here) * ratios == pytest.approx(1.0, rel=1e-9)


def test_float32_is_rounded_where_frameworks_do_so() -> None:
    assert dtype_on(machine("h100-sxm"), "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", "float32") == "tfloat32"
    assert dtype_on(machine("mi300x"), "sm80_xmma_fprop_implicit_gemm_tf32f32", "tfloat32") == "float32"


def test_a_stream_that_waits_while_another_fills_the_device_follows_that_one(tmp_path: Path) -> None:
    """A small kernel issued early on a second queue starts only as a kernel of the first one drains."""
    host, first, second = (9, 9), (2, 0), (2, 1)
    events: list[object] = []
    for number in range(1, 11):
        launch = event("hipLaunchKernel", "cuda_runtime", host, 10.0 * number, 4.0, correlation=number)
        events += [launch, event(STREAMED, "kernel", first, 300.0 * number, 300.0, correlation=number)]
    small = {"correlation": 11}
    events.append(event("hipLaunchKernel", "cuda_runtime", host, 110.0, 4.0, **small))
    events.append(event(STREAMED, "kernel", second, 3290.0, 5.0, **small))
    graph = read_recorded(written(tmp_path, events)).graph
    service = graph.service
    service[[node.kind == "kernel" and node.service > 1e-4 for node in graph.nodes]] *= 0.5
    assert replay(graph).step * 1e6 == pytest.approx(3290.0)
    assert replay(graph, service).step * 1e6 == pytest.approx(300 + 1500 - 10, rel=0.1)


def test_queues_of_two_devices_are_two_streams(tmp_path: Path) -> None:
    host = (9, 9)
    events: list[object] = []
    for number, device in ((1, 0), (2, 1)):
        start = 10.0 * number
        events.append(event("hipLaunchKernel", "cuda_runtime", host, start, 4.0, correlation=number))
        events.append(event(STREAMED, "kernel", (device, 0), start + 6, 500.0, correlation=number))
    graph = read_recorded(written(tmp_path, events)).graph
    assert len({node.lane for node in graph.nodes if node.kind == "kernel"}) == 2
