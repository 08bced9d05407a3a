"""Small files in the formats of other people's tools, made here: what the tests read and the attack breaks."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.pasted import PASTED
from tests.programs_made import GENERIC, STABLEHLO
from tests.runs_made import LLAMA_TABLE, MEGATRON_LOG, SERVED, TRAINER_STATE, llama_tests

STRINGS = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpy_v3020",
    "sgemm_128x64_nn",
    "elementwise_kernel",
    "iteration 1",
    "iteration 2",
)
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
  globalTid INTEGER, textId INTEGER);
"""
PROCESS, THREAD = 77 << 24, (77 << 24) + 78
START, STEP, COPIED, KERNEL = 5_000_000_000, 1_000_000, 100_000, 300_000
"""Nanoseconds: the first event, a step, its copy, each of its two kernels."""


def nsys(path: Path, steps: int = 2) -> Path:
    """Steps of a copy to the device and two kernels, each launched a little before; ranges of NVTX around them."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(STRINGS, 1))
    database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA A100-SXM4-80GB')")
    for table, rows in _nsys_rows(steps).items():
        marks = ", ".join("?" * len(next(iter(rows))))
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    database.commit()
    database.close()
    return path


def _nsys_rows(steps: int) -> dict[str, list[tuple[Any, ...]]]:
    kernels, copies, calls, ranges = [], [], [], []
    for step in range(steps):
        at = START + step * STEP
        number = 10 * step
        calls += [
            (at, at + COPIED + 10_000, 1, THREAD, number, 2, 0),
            (at + 120_000, at + 125_000, 1, THREAD, number + 1, 1, 0),
            (at + 130_000, at + 135_000, 1, THREAD, number + 2, 1, 0),
        ]
        copies.append((at + 5_000, at + 5_000 + COPIED, 0, 1, 7, number, PROCESS, 4096, 1, 1, 2))
        first = at + 130_000
        kernels += [
            (first, first + KERNEL, 0, 1, 7, number + 1, PROCESS, 3, 3),
            (first + KERNEL, first + 2 * KERNEL, 0, 1, 7, number + 2, PROCESS, 4, 4),
        ]
        if step % 2:
            ranges.append((at, at + STEP - 1000, 59, None, THREAD, 5 + step % 2))
        else:
            ranges.append((at, at + STEP - 1000, 59, f"iteration {step + 1}", THREAD, None))
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "NVTX_EVENTS": ranges,
    }


def rocprof() -> dict[str, Any]:
    """Two kernels and a copy, launched by calls of HIP."""

    def record(kind: int, operation: int, number: int, start: int, end: int, **more: Any) -> dict[str, Any]:
        common = {"kind": kind, "operation": operation, "thread_id": 9, "start_timestamp": start, "end_timestamp": end}
        return common | {"correlation_id": {"internal": number, "external": 0}} | more

    def dispatch(number: int, kernel: int, start: int, end: int) -> dict[str, Any]:
        info = {"agent_id": {"handle": 4}, "queue_id": {"handle": 1}, "kernel_id": kernel, "dispatch_id": number}
        return record(11, 2, number, start, end, dispatch_info=info, stream_id={"handle": 2})

    ends = {"src_agent_id": {"handle": 3}, "dst_agent_id": {"handle": 4}}
    kinds: list[dict[str, Any]] = [{"kind": f"KIND_{number}", "operations": []} for number in range(13)]
    kinds[3]["operations"] = ["hipLaunchKernel", "hipMemcpy"]
    kinds[12]["operations"] = ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 9},
                "agents": [
                    {"id": {"handle": 3}, "type": 1, "product_name": "A CPU"},
                    {"id": {"handle": 4}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
                ],
                "kernel_symbols": [
                    {"kernel_id": 1, "demangled_kernel_name": "Cijk_Ailk_Bljk_HHS_BH_MT128x128"},
                    {"kernel_id": 2, "demangled_kernel_name": "void vectorized_elementwise_kernel<4>"},
                ],
                "strings": {"buffer_records": kinds},
                "buffer_records": {
                    "kernel_dispatch": [dispatch(2, 1, 20_000, 60_000), dispatch(3, 2, 60_000, 80_000)],
                    "memory_copy": [record(12, 1, 1, 5_000, 15_000, **ends)],
                    "hip_api": [
                        record(3, 1, 1, 1_000, 16_000),
                        record(3, 0, 2, 17_000, 18_000),
                        record(3, 0, 3, 18_500, 19_000),
                    ],
                },
            }
        ]
    }


ROCPROF_CSV = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4",1,9,1,16,"first(float*, int)",1,1000000,1200000\n'
    '"KERNEL_DISPATCH","Agent 4",1,9,2,17,"second(float*)",2,1250000,1350000\n'
)

CALI = r"""__rec=node,id=12,attr=10,data=64,parent=3
__rec=node,id=13,attr=8,data=attribute.unit,parent=12
__rec=node,id=20,attr=10,data=21,parent=5
__rec=node,id=21,attr=8,data=avg#inclusive#sum#time.duration,parent=20
__rec=node,id=30,attr=10,data=268,parent=3
__rec=node,id=31,attr=8,data=function,parent=30
__rec=node,id=40,attr=31,data=main
__rec=node,id=41,attr=31,data=solve\,once,parent=40
__rec=ctx,ref=40,attr=21,data={main}
__rec=ctx,ref=41,attr=21,data={solve}
__rec=node,id=50,attr=10,data=133,parent=1
__rec=node,id=51,attr=8,data=jobsize,parent=50
__rec=node,id=52,attr=51,data={ranks}
__rec=globals,ref=52
"""


def cali(ranks: int) -> str:
    """A profile of two regions: one that shrinks with the ranks, one that does not."""
    return (
        CALI.replace("{main}", f"{64 / ranks + 1:.6f}")
        .replace("{solve}", f"{64 / ranks:.6f}")
        .replace("{ranks}", str(ranks))
    )


CALIPER_JSON = {
    "data": [[0, 2.0, 0], [1, 2.2, 0], [0, 1.0, 1], [1, 1.2, 1], [0, 0.1, None]],
    "columns": ["mpi.rank", "time", "path"],
    "column_metadata": [{"is_value": True}, {"is_value": True, "attribute.unit": "sec"}, {"is_value": False}],
    "nodes": [{"label": "main", "column": "path"}, {"label": "solve", "column": "path", "parent": 0}],
}


NCU_HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Section Name","Metric Name",'
    '"Metric Unit","Metric Value","Rule Name"\n'
)


def ncu() -> str:
    """Two launches of one kernel and one of another: 2e9 flop and 1 GB in 2 ms each, with lines of the tool before."""
    metrics = (
        ("gpu__time_duration.sum", "msecond", "2"),
        ("dram__bytes_read.sum", "Mbyte", "750.0"),
        ("dram__bytes_write.sum", "Gbyte", "0.25"),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "900,000,000"),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", "200,000,000"),
        ("Compute (SM) Throughput", "%", "12.5"),
    )
    text = "==PROF== Connected to process 7 (/bin/app)\nits own line\n" + NCU_HEAD
    for launch, kernel in enumerate(("axpy(float*)", "axpy(float*)", "scale(float*)")):
        for name, unit, value in metrics:
            text += f'"{launch}","7","app","host","{kernel}","1","7","Command line","{name}","{unit}","{value}",\n'
        text += f'"{launch}","7","app","host","{kernel}","1","7","Rules","","","","Bottleneck"\n'
    return text


NCU_RAW = (
    '"ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"\n'
    '"","","Gbyte","ms"\n'
    '"0","axpy(float*)","1.5","3"\n'
    '"1","axpy(float*)","0.5","1"\n'
)
PMC = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp",'
    '"End_Timestamp"\n'
    '1,1,"Agent 4","first(float*, int)","SQ_INSTS_VALU_FMA_F32",1000000,1000,201000\n'
    '1,1,"Agent 4","first(float*, int)","FETCH_SIZE",1000,1000,201000\n'
    '1,1,"Agent 4","first(float*, int)","WRITE_SIZE",250,1000,201000\n'
)
PERF_CSV = """# started on Thu Jan  1 00:00:00 2026

2000.00,msec,task-clock,2000000000,100.00,1.000,CPUs utilized
4000000000,,cycles,2000000000,100.00,2.0,GHz
8000000000,,instructions,2000000000,100.00,2.0,insn per cycle
1000000000,,fp_arith_inst_retired.256b_packed_double,2000000000,100.00,,
500000000,,fp_arith_inst_retired.scalar_double:u,2000000000,100.00,,
1024.00,MiB,uncore_imc/data_reads/,2000000000,100.00,,
512.00,MiB,uncore_imc/data_writes/,2000000000,100.00,,
<not supported>,,cache-misses,0,0.00,,
"""
PERF_TEXT = """
 Performance counter stats for './app 10':

          2,000.00 msec task-clock                #    1.000 CPUs utilized
     4,000,000,000      cycles                    #    2.000 GHz
     8,000,000,000      instructions              #    2.00  insn per cycle
   <not supported>      cache-misses

       2.500000000 seconds time elapsed
"""
PERF_JSON = """{"counter-value" : "4000000000.000000", "unit" : "", "event" : "cycles", "pcnt-running" : 100.00}
{"counter-value" : "<not counted>", "unit" : "", "event" : "cache-misses", "pcnt-running" : 0.00}
"""
PERF_SCRIPT = """# ========
app  100 [001]  10.000001:     250000 cycles:
            7f01 solve+0x12 (/bin/app)
            7f02 main (/bin/app)

app  100 [001]  10.000002:     500000 cycles:
            7f01 solve+0x1a (/bin/app)

app  100 [001]  10.000003:     250000 cycles:
            7e01 std::sort<int (*)(int)>(int*) (/lib/libstdc++.so)
            7f02 main (/bin/app)
"""
LIKWID = """STRUCT,Info,3,,
CPU name:,A CPU @ 2.40GHz,,,
CPU type:,A CPU,,,
CPU clock:,2.4 GHz,,,
TABLE,Region solve,Group 1 Raw,MEM_DP,4
Region Info,HWThread 0,HWThread 1,,
RDTSC Runtime [s],2.0,1.9,,
call count,5,5,,
Event,Counter,HWThread 0,HWThread 1,
INSTR_RETIRED_ANY,FIXC0,1000,2000,
TABLE,Region solve,Group 1 Raw STAT,MEM_DP,4
Event,Counter,Sum,Min,Max
INSTR_RETIRED_ANY STAT,FIXC0,3000,1000,2000
TABLE,Region solve,Group 1 Metric,MEM_DP,6
Metric,HWThread 0,HWThread 1,,
Runtime (RDTSC) [s],2.0,1.9,,
DP [MFLOP/s],1500.0,500.0,,
AVX DP [MFLOP/s],1000.0,400.0,,
Memory data volume [GBytes],8.0,0,,
Operational intensity,0.5,-,,
"""


def write_all(folder: Path) -> dict[str, Path]:
    """One of each, by its format's name."""
    texts = dict(_texts())
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in texts} | {"nsys.sqlite": nsys(folder / "nsys.sqlite")}


def _texts() -> Iterator[tuple[str, str]]:
    yield from PASTED.items()
    yield "rocprof.json", json.dumps(rocprof())
    yield "rocprof.csv", ROCPROF_CSV
    yield "vllm.json", json.dumps(SERVED)
    yield "llama-bench.json", json.dumps(llama_tests())
    yield "llama-bench.md", LLAMA_TABLE
    yield "llama-bench.jsonl", "\n".join(map(json.dumps, llama_tests()))
    yield "profile.cali", cali(8)
    yield "caliper.json", json.dumps(CALIPER_JSON)
    yield "ncu.csv", ncu()
    yield "ncu-raw.csv", NCU_RAW
    yield "pmc.csv", PMC
    yield "perf-stat.csv", PERF_CSV
    yield "perf-stat.txt", PERF_TEXT
    yield "perf-stat.json", PERF_JSON
    yield "perf-script.txt", PERF_SCRIPT
    yield "likwid.csv", LIKWID
    yield "step.mlir", STABLEHLO
    yield "generic.mlir", GENERIC
    yield "megatron.log", MEGATRON_LOG
    yield "trainer_state.json", json.dumps(TRAINER_STATE)
