"""What people paste daily, as its program writes it: texts of formats that `tests/files_made.py` does not make."""

from __future__ import annotations

import json
from collections.abc import Mapping

VLLM_PRINTED = """============ Serving Benchmark Result ============
Successful requests:                     160
Maximum request concurrency:             16
Benchmark duration (s):                  31.20
Total input tokens:                      163840
Total generated tokens:                  20480
Request throughput (req/s):              5.13
Output token throughput (tok/s):         656.41
Total Token throughput (tok/s):          5907.69
---------------Time to First Token----------------
Mean TTFT (ms):                          182.13
Median TTFT (ms):                        170.70
P99 TTFT (ms):                           390.73
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          23.10
Median TPOT (ms):                        23.40
P99 TPOT (ms):                           27.21
==================================================
"""
SGLANG_PRINTED = """============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 8
Successful requests:                     64
Benchmark duration (s):                  20.00
Total input tokens:                      65536
Total generated tokens:                  8192
Request throughput (req/s):              3.20
Output token throughput (tok/s):         409.60
Concurrency:                             7.61
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   2400.00
---------------Time to First Token----------------
Mean TTFT (ms):                          96.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           18.10
==================================================
"""
TRTLLM_PRINTED = """===========================================================
= REQUEST DETAILS
===========================================================
Number of requests:             100
Number of concurrent requests:  94.6
Average Input Length (tokens):  128.0000
Average Output Length (tokens): 128.0000
===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     86.5373
Total Output Throughput (tokens/sec):             11076.7700
Total Latency (ms):                               1155.5715
Average request latency (ms):                     1093.2284
Average time-to-first-token [TTFT] (ms):          162.6706
Average time-per-output-token [TPOT] (ms):        7.3272
[TPOT] P99    : 8.1306
"""
TRTLLM = {
    "engine": {"model": "meta-llama/Llama-3.1-8B", "backend": "pytorch"},
    "world_info": {"tp_size": 1},
    "request_info": {
        "num_requests": 100, "avg_num_concurrent_requests": 94.6, "avg_input_length": 128, "avg_output_length": 128,
    },
    "performance": {
        "total_latency_ms": 1155.5715, "avg_request_latency_ms": 1093.2284, "request_throughput_req_s": 86.5373,
        "system_output_throughput_tok_s": 11076.77,
    },
    "streaming_metrics": {"avg_ttft_ms": 162.6706, "avg_tpot_ms": 7.3272},
}  # fmt: skip


def _statistics(unit: str, mean: float) -> dict[str, object]:
    return {"unit": unit, "avg": mean, "p50": mean, "p99": mean * 1.1}


GENAI = {
    "request_throughput": {"unit": "requests/sec", "avg": 2.4},
    "request_latency": _statistics("ms", 1650.0),
    "time_to_first_token": _statistics("ms", 60.0),
    "inter_token_latency": _statistics("ms", 12.5),
    "output_token_throughput": {"unit": "tokens/sec", "avg": 307.2},
    "output_sequence_length": _statistics("tokens", 128.0),
    "input_sequence_length": _statistics("tokens", 1024.0),
    "input_config": {"model": ["meta-llama/Llama-3.1-8B-Instruct"], "concurrency": 4, "backend": "vllm"},
}
AIPERF = {
    **GENAI,
    "request_count": {"unit": "requests", "avg": 48.0},
    "benchmark_duration": {"unit": "sec", "avg": 20.0},
    "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-8B"], "type": "chat"}, "loadgen": {"concurrency": 4}},
}


def _guided(mean: float) -> dict[str, object]:
    return {"successful": {"mean": mean, "median": mean, "percentiles": {"p50": mean, "p99": mean * 1.2}, "count": 60}}


GUIDELLM = {
    "args": {"model": "Qwen/Qwen3-8B", "backend": "openai_http"},
    "benchmarks": [
        {
            "args": {"strategy": {"type_": "concurrent", "streams": 8}},
            "duration": 30.0,
            "metrics": {
                "requests_per_second": _guided(2.0), "request_concurrency": _guided(7.9),
                "prompt_token_count": _guided(512.0), "output_token_count": _guided(128.0),
                "time_to_first_token_ms": _guided(90.0), "inter_token_latency_ms": _guided(15.0),
            },
        }
    ],
}  # fmt: skip
ONE_BATCH = "\n".join(
    json.dumps({
        "run_name": "default", "batch_size": users, "input_len": 1024, "output_len": 128, "prefill_latency": first,
        "median_decode_latency": each, "median_decode_throughput": users / each, "total_latency": first + 127 * each,
    })
    for users, first, each in ((1, 0.021, 0.0076), (16, 0.336, 0.0091))
)  # fmt: skip
BATCHED = """main: n_kv_max = 20480, n_batch = 2048, n_ubatch = 2048, is_pp_shared = 0, n_gpu_layers = -1

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     32 |    1 |    544 |    0.211 |  2428.42 |    0.241 |   132.94 |    0.452 |  1204.73 |
|   512 |     32 |    4 |   2176 |    0.707 |  2897.74 |    0.583 |   219.38 |    1.290 |  1686.54 |
"""
OLLAMA = """total duration:       5.213498458s
load duration:        24.6ms
prompt eval count:    26 token(s)
prompt eval duration: 130.5ms
prompt eval rate:     199.23 tokens/s
eval count:           298 token(s)
eval duration:        4.966666667s
eval rate:            60.00 tokens/s
"""
OLLAMA_JSON = {
    "model": "llama3.1:8b", "done": True, "total_duration": 5_213_498_458, "prompt_eval_count": 26,
    "prompt_eval_duration": 130_500_000, "eval_count": 298, "eval_duration": 4_966_666_667,
}  # fmt: skip
LLAMA_TIMINGS = """llama_perf_context_print:        load time =    1301.52 ms
llama_perf_context_print: prompt eval time =     130.50 ms /    26 tokens (    5.02 ms per token)
llama_perf_context_print:        eval time =    4966.67 ms /   298 runs   (   16.67 ms per token)
"""
LLAMA_LOG = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes
| model                          |       size |     params | backend    | ngl |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
| llama 7B F16                   |  12.55 GiB |     6.74 B | CUDA       |  99 |           tg128 |         61.03 ± 0.07 |

build: 086a63e3a (7340)
"""
KERN_SUM = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
62.5,500000,100,5000.0,4990.0,4800,5300,90.1,"ampere_sgemm_128x64_tn"
37.5,300000,200,1500.0,1490.0,1400,1700,40.5,"void elementwise<4>(int, T2, T3)"
"""
OLD_KERN_SUM = """Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name
100.0,500000,100,5000.0,4800,5300,"ampere_sgemm_128x64_tn"
"""
ROCPROF_STATS = """"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"matrixTranspose(float*, float*, int) [clone .kd]",10,1500000,150000,75.0
"__amd_rocclr_copyBuffer.kd",5,500000,100000,25.0
"""
ROCPROF_KERNELS = """"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs","DurationNs"
0,"axpy(float*)",0,0,1000,4000,3000
1,"axpy(float*)",0,0,5000,7000,2000
"""
NVPROF = """==7== Profiling application: ./app
==7== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",80.0,1.6,100,16.0,15.0,18.0,"sgemm_128x64_nn"
"GPU activities",20.0,0.4,10,40.0,39.0,41.0,"[CUDA memcpy HtoD]"
"""
_RULE = "-------------------  ------------  ------------  ------------  ------------  ------------  ------------"
TORCH_TABLE = f"""{_RULE}
               Name    Self CPU %      Self CPU     CPU total     Self CUDA    CUDA total    # of Calls
{_RULE}
           aten::mm        10.00%       1.000ms       2.000ms     600.000us     600.000us            20
          aten::add        90.00%       9.000ms       9.000ms     200.000us     200.000us            40
{_RULE}
Self CPU time total: 10.000ms
Self CUDA time total: 800.000us
"""
SMI = """timestamp, name, utilization.gpu [%], memory.used [MiB], power.draw [W], clocks.current.sm [MHz]
2026/03/03 10:00:00.123, NVIDIA A100-SXM4-80GB, 97 %, 40213 MiB, 389.00 W, 1410 MHz
2026/03/03 10:00:01.124, NVIDIA A100-SXM4-80GB, 99 %, 40213 MiB, 391.00 W, 1410 MHz
2026/03/03 10:00:02.125, NVIDIA A100-SXM4-80GB, 14 %, 40213 MiB, [N/A], 1410 MHz
"""
DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0    389     55      -     97     60      0      0   1593   1410
    1    100     35      -      0      0      0      0   1593    210
    0    391     56      -     99     62      0      0   1593   1410
"""
_JOBS = ((1, 7260), (2, 3660), (4, 1860), (8, 960))
SACCT_JSON = {
    "meta": {"plugin": {"type": "openapi/slurmdbd"}},
    "jobs": [
        {
            "job_id": 10 + nodes, "allocation_nodes": {"set": True, "infinite": False, "number": nodes},
            "time": {"elapsed": seconds}, "state": {"current": ["FAILED" if nodes == 4 else "COMPLETED"]},
            "required": {"CPUs": 64 * nodes},
        }
        for nodes, seconds in _JOBS
    ],
}  # fmt: skip
SACCT_BARE = "".join(
    f"{4711 + nodes}|lulesh|COMPLETED|{nodes}|{64 * nodes}|{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}|0:0\n"
    for nodes, s in _JOBS
)
TALPAS = "".join(
    f'{{"parameters":{{"p":{p}}};"callpath":"main";"metric":"time";"value":{2 + p / 2}}}\n' for p in (4, 8, 16, 32, 64)
)
EXTRAP_JSON = {
    "parameters": ["p"],
    "measurements": {"main": {"time": [{"point": [p], "values": [2 + p / 2]} for p in (4, 8, 16, 32, 64)]}},
}
HYPERFINE_CSV = """command,mean,stddev,median,user,system,min,max,parameter_n
./stencil 1000,0.031,0.001,0.03,0.03,0.01,0.029,0.033,1000
./stencil 2000,0.041,0.001,0.04,0.04,0.01,0.039,0.043,2000
./stencil 4000,0.061,0.001,0.06,0.06,0.01,0.059,0.063,4000
"""
LSCPU_TEXT = """Architecture:            x86_64
CPU(s):                  32
Vendor ID:               GenuineIntel
Model name:              Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz
Thread(s) per core:      1
Core(s) per socket:      16
Socket(s):               2
Flags:                   fpu sse2 avx avx2 fma avx512f
L1d cache:               1 MiB (32 instances)
L2 cache:                32 MiB (32 instances)
L3 cache:                44 MiB (2 instances)
NUMA node(s):            2
"""
LSTOPO_TEXT = """Machine (16GB total)
  Package L#0
    NUMANode L#0 (P#0 16GB)
    L3 L#0 (8192KB)
      L2 L#0 (256KB) + L1d L#0 (32KB) + L1i L#0 (32KB) + Core L#0
        PU L#0 (P#0)
        PU L#1 (P#2)
      L2 L#1 (256KB) + L1d L#1 (32KB) + L1i L#1 (32KB) + Core L#1
        PU L#2 (P#1)
        PU L#3 (P#3)
"""
HWLOC_KINDS = """<?xml version="1.0"?>
<topology version="2.0"><object type="Machine"><object type="Package">
<object type="Core" cpuset="0x00000003"><object type="PU"/><object type="PU"/></object>
<object type="Core" cpuset="0x00000004"><object type="PU"/></object>
<object type="Core" cpuset="0x00000008"><object type="PU"/></object></object></object>
<cpukind cpuset="0x0000000c"><info name="CoreType" value="IntelAtom"/></cpukind>
<cpukind cpuset="0x00000003"><info name="CoreType" value="IntelCore"/></cpukind></topology>
"""
CPUINFO = "".join(
    f"processor\t: {i}\nmodel name\t: A CPU @ 2.10GHz\nphysical id\t: {i // 4}\n"
    f"core id\t: {i % 2}\nflags\t: sse2 avx\n\n"
    for i in range(8)
)
KERNCRAFT_TAGS = """FLOPs per cycle:
  DP: {ADD: 4, FMA: 8, MUL: 4, total: 16}
cacheline size: 64 B
clock: 2.4 GHz
cores per socket: 10
cores per NUMA domain: 10
sockets: 2
threads per core: 2
memory hierarchy:
- {cores per group: 1.0, cycles per cacheline transfer: 2, level: L1,
   size per group: !!python/object:prefixedunit.PrefixedUnit {prefix: k, unit: B, value: 32.0}}
- cores per group: 1.0
  cycles per cacheline transfer: 4
  level: L2
  size per group: !!python/object:prefixedunit.PrefixedUnit
    prefix: k
    unit: B
    value: 256.0
- {cores per group: 10, cycles per cacheline transfer: null, level: L3, size per group: 25.0 MB}
- {cores per group: 10, cycles per cacheline transfer: null, level: MEM, size per group: null}
benchmarks:
  kernels:
    copy: {FLOPs per iteration: 0, read streams: {streams: 1}, write streams: {streams: 1}}
  measurements:
    MEM:
      1: {cores: [1, 2, 10], threads per core: 1, results: {copy: [11.60 GB/s, 21.82 GB/s, 45.47 GB/s]}}
"""
HLO = """HloModule jit_scan, is_scheduled=true

%fused (p0: f32[16,128], p1: f32[128,128]) -> f32[16,128] {
  %p0 = f32[16,128]{1,0} parameter(0)
  %p1 = f32[128,128]{1,0} parameter(1)
  %dot.9 = f32[16,128]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %tanh.1 = f32[16,128]{1,0} tanh(%dot.9)
}

%body (arg.1: (s32[], f32[16,128], f32[128,128])) -> (s32[], f32[16,128], f32[128,128]) {
  %arg.1 = (s32[], f32[16,128]{1,0}, f32[128,128]{1,0}) parameter(0)
  %gte.0 = s32[] get-tuple-element(%arg.1), index=0
  %one = s32[] constant(1)
  %add.1 = s32[] add(%gte.0, %one)
  %gte.1 = f32[16,128]{1,0} get-tuple-element(%arg.1), index=1
  %gte.2 = f32[128,128]{1,0} get-tuple-element(%arg.1), index=2
  %fusion.1 = f32[16,128]{1,0} fusion(%gte.1, %gte.2), kind=kOutput, calls=%fused
  ROOT %t = (s32[], f32[16,128]{1,0}, f32[128,128]{1,0}) tuple(%add.1, %fusion.1, %gte.2)
}

%cond (arg.2: (s32[], f32[16,128], f32[128,128])) -> pred[] {
  %arg.2 = (s32[], f32[16,128]{1,0}, f32[128,128]{1,0}) parameter(0)
  %gte.5 = s32[] get-tuple-element(%arg.2), index=0
  %lim = s32[] constant(100)
  ROOT %lt = pred[] compare(%gte.5, %lim), direction=LT
}

ENTRY %main.5 (a: f32[128,128], b: f32[16,128]) -> f32[16,128] {
  %a = f32[128,128]{1,0} parameter(0)
  %b = f32[16,128]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %tuple = (s32[], f32[16,128]{1,0}, f32[128,128]{1,0}) tuple(%zero, %b, %a)
  %while = (s32[], f32[16,128]{1,0}, f32[128,128]{1,0}) while(%tuple), condition=%cond, body=%body
  ROOT %out = f32[16,128]{1,0} get-tuple-element(%while), index=1
}
"""
PASTED: Mapping[str, str] = {
    "vllm.txt": VLLM_PRINTED, "sglang.txt": SGLANG_PRINTED, "trtllm.txt": TRTLLM_PRINTED,
    "trtllm.json": json.dumps(TRTLLM), "genai.json": json.dumps(GENAI), "aiperf.json": json.dumps(AIPERF),
    "guidellm.json": json.dumps(GUIDELLM), "one-batch.jsonl": ONE_BATCH, "batched.md": BATCHED,
    "ollama.txt": OLLAMA, "ollama.json": json.dumps(OLLAMA_JSON), "llama-timings.txt": LLAMA_TIMINGS,
    "llama-log.md": LLAMA_LOG, "kern-sum.csv": KERN_SUM, "old-kern-sum.csv": OLD_KERN_SUM,
    "rocprof-stats.csv": ROCPROF_STATS, "rocprof-kernels.csv": ROCPROF_KERNELS, "nvprof.csv": NVPROF,
    "torch-table.txt": TORCH_TABLE, "smi.csv": SMI, "dmon.txt": DMON, "sacct.json": json.dumps(SACCT_JSON),
    "sacct-bare.txt": SACCT_BARE, "talpas.txt": TALPAS, "extrap.json": json.dumps(EXTRAP_JSON),
    "hyperfine.csv": HYPERFINE_CSV, "lscpu.txt": LSCPU_TEXT, "lstopo.txt": LSTOPO_TEXT, "lstopo.xml": HWLOC_KINDS,
    "cpuinfo.txt": CPUINFO, "kerncraft-tags.yml": KERNCRAFT_TAGS, "scan.hlo": HLO,
}  # fmt: skip
"""Name of a file -> its text."""
