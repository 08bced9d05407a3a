"""Good files of every kind, written by the tool itself wherever it writes such files."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
from pathlib import Path
from typing import Any

from tests import files_made
from tests.attack.binary_seeds import gguf, onnx_model, xplane

DATA = Path(__file__).parents[1] / "data"

SERIES = "p,time_s\n1,10.2\n2,5.4\n4,3.1\n8,2.0\n16,1.4\n32,1.2\n"
LOG = "iteration,seq_len,time_s\n" + "".join(f"{i},{20 + i % 7},{0.01 * (1 + i % 5):.3f}\n" for i in range(40))
MLLOG = "".join(
    f':::MLLOG {{"time_ms": {time}, "key": "{key}", "value": {value}, "metadata": {{"samples_count": {samples}}}}}\n'
    for time, key, value, samples in (
        (0, "global_batch_size", 32, 0), (10, "run_start", "null", 0), (10, "block_start", "null", 0),
        (9000, "train_loss", 2.5, 64), (20000, "train_loss", 2.25, 128), (20010, "block_stop", "null", 128),
        (20020, "eval_start", "null", 128), (21020, "eval_stop", "null", 128), (22000, "run_stop", "null", 128),
    )
)  # fmt: skip
TIMES = (
    "workload.m,workload.n,workload.k,time_s\n64,64,64,1e-4\n128,128,128,4e-4\n512,512,512,9e-3\n1024,1024,1024,6e-2\n"
)
OPERATIONS = "machine,kind,m,n,k,dtype,time_s\n" + "".join(
    f"h100-sxm,gemm,{m},{m},{m},float32,{m**3 * 1e-12 + 1e-5:.3e}\n" for m in (64, 128, 256, 512, 1024, 2048)
)
EXTRAP = """PARAMETER p
POINTS ( 2 ) ( 4 ) ( 8 ) ( 16 ) ( 32 )
REGION main
METRIC time
DATA 2.1 2.0
DATA 4.2 4.1
DATA 8.3 8.2
DATA 16.1 16.4
DATA 32.2 32.5
"""
LSCPU = {
    "lscpu": [
        {"field": "Architecture:", "data": "x86_64"},
        {"field": "Model name:", "data": "A CPU @ 2.10GHz"},
        {"field": "Thread(s) per core:", "data": "2"},
        {"field": "Core(s) per socket:", "data": "8"},
        {"field": "Socket(s):", "data": "2"},
        {"field": "CPU max MHz:", "data": "3700.0000"},
        {"field": "Flags:", "data": "fpu sse2 avx avx2 fma avx512f"},
        {"field": "L1d cache:", "data": "512 KiB (16 instances)"},
        {"field": "L2 cache:", "data": "16 MiB (16 instances)"},
        {"field": "L3 cache:", "data": "44 MiB (2 instances)"},
        {"field": "NUMA node(s):", "data": "2"},
    ]
}
HYPERFINE = {
    "results": [
        {
            "command": f"run {n}",
            "mean": n * 0.1,
            "stddev": 0.01,
            "times": [n * 0.1, n * 0.11],
            "parameters": {"n": str(n)},
        }
        for n in (1, 2, 4, 8, 16)
    ]
}
STEPS = [
    {"step": n, "start_s": float(n), "duration_s": 1.0, "operations": {"a": [1, 0.5, "host"]}, "processor_time_s": 0.9}
    for n in range(6)
]
PIPELINE = [
    {
        "cols": [{"id": name} for name in ("stepnum", "noninfeedTimeMs", "infeedTimeMs")],
        "rows": [{"c": [{"v": step}, {"v": 20.0}, {"v": 100.0}]} for step in range(4)],
    }
]
SHEET = {
    "schema": "slipstick-brick-sheet-1",
    "bricks": [
        {
            "identity": "a",
            "nodes": [
                {"input": [[1, 3, 16, 16], [768, 256, 16, 1], "float32"]},
                {"constant": [[8, 3, 3, 3], [27, 9, 3, 1], "float32"]},
                {"call": "aten.conv2d.default", "args": [{"node": 0}, {"node": 1}, None, [1, 1], [1, 1]]},
                {"call": "aten.relu_.default", "args": [{"node": 2}]},
                {
                    "call": "aten.sum.dim_IntList",
                    "args": [{"node": 3}, [2, 3], True],
                    "kwargs": {"dtype": {"dtype": "float32"}},
                },
                {"output": [4]},
            ],
        }
    ],
}

JOB = """name: j
about: readers, a device, a collective
steps: 40
copies: 3
runs: 5
resources: {disk: 2}
checkpoint: {every: 10, time: 1 ms}
failures: {between: 10 s, restart: 1 s}
vary: ["job.copies=1,2", "job.read.workers=1..4:2"]
stages:
- {name: read, service: [1 ms, 2 ms], workers: 2, buffer: 3, variation: 0.2, distribution: gamma, resource: disk}
- {name: step, service: 3 ms, gather: 2, variation: 0.1, slow_share: 0.1, slow_factor: 3, uneven: 0.1, scatter: 0.1}
- {name: reduce, service: 1 ms, together: true, start_up: 1 ms}
formula: {seconds: "job.steps * job.step.service * 2", source: this file}
"""
JOB_TIMES = "step,step_s,run,job.infeed.buffer\n" + "".join(f"{n + 1},{0.2 + 0.01 * (n % 3)},a,2\n" for n in range(12))
JOB_CALIBRATION = {
    "schema": "slipstick-job-calibration-2",
    "job": "stragglers",
    "names": ["sum-of-gradients.service", "compute.service"],
    "values": [0.012, 0.2],
    "covariance": [[1e-8, 0.0], [0.0, 1e-6]],
    "bases": {"compute.service": 0.19},
    "residuals": [0.1, -0.2, 0.5],
    "degrees_of_freedom": 1,
    "formula": {"compute.service": 0.21},
    "sample": [],
    "source": "steps.csv (1 run)",
    "fingerprint": "0",
    "warnings": ["a line"],
}
JOB_OF_A_WORKLOAD = """name: j
steps: 20
stages:
- name: step
  workload: gemm
  machine: v100-sxm
  estimator: roofline
  dtype: float32
  set: [workload.m=64, workload.n=64, workload.k=64]
"""
REQUESTS = "".join(
    json.dumps({"arrival_s": 0.5 * n, "input_tokens": 100 + n, "output_tokens": 10 + n}) + "\n" for n in range(12)
)

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
STEP_ROWS = """model,phase,operation,kind,count,time_s
net,forward,addmm,gemm,4,1e-4
net,backward,mm,gemm,8,2e-4
net,step,call,call,1,1e-5
net,step,step,step,1,5e-3
"""


def trace() -> dict[str, Any]:
    """Four steps of a profiler's trace."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append(
            {**common, "name": f"ProfilerStep#{step}", "cat": "user_annotation", "ts": 1000 * step, "dur": 900}
        )
        for number, category in enumerate(("cpu_op", "cuda_runtime", "kernel")):
            start = 1000 * step + 20.5 + 50 * number
            args: dict[str, Any] = {"correlation": step + 1, "External id": step + 1}
            if category == "cpu_op":
                args |= {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
            if category == "kernel":
                args |= {"stream": 7, "device": 0}
            name = "aten::mm" if category == "cpu_op" else f"op{number}"
            events.append({**common, "name": name, "cat": category, "ts": start, "dur": 40, "args": args})
    return {"schemaVersion": 1, "traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 1}}


def write(folder: Path) -> None:
    """All seeds, in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - here, so that no case pays for it
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        _write(folder)


def _write(folder: Path) -> None:
    from slipstick.hwmodels.catalog import machine
    from slipstick.hwmodels.machine_file import save_machine
    from slipstick.workloads.catalog import workload

    for name in ("xeon-phi-7120p", "h100-sxm", "tpu-v3-8", "a100-80-dgx"):
        save_machine(machine(name), folder / f"{name}.yaml")
    for name in ("gemm", "phi-cnn-small", "all-reduce"):
        workload(name).save(folder / f"{name}.json")
    workload("gemm").save(folder / "packed.json.gz")
    shutil.copy(DATA / "kerncraft_cod.yml", folder / "kerncraft.yml")
    shutil.copy(DATA / "hwloc_two_complexes.xml", folder / "hwloc.xml")
    texts = {
        "series.csv": SERIES,
        "series.txt": EXTRAP,
        "log.csv": LOG,
        "run.mllog": MLLOG,
        "metered.csv": "time_s,power_W\n240,220\n",
        "known.csv": "devices,step_s,tp,pp,batch,sequence\n8,2.4,4,2,16,8192\n16,2.5,4,2,32,8192\n",
        "times.csv": TIMES,
        "operations.csv": OPERATIONS,
        "lscpu.json": json.dumps(LSCPU),
        "hyperfine.json": json.dumps(HYPERFINE),
        "lines.jsonl": "\n".join(
            json.dumps({"params": {"p": p}, "metric": "time", "value": 2.0 * p}) for p in (1, 2, 4, 8, 16, 32)
        ),
        "steps.jsonl": "\n".join(map(json.dumps, STEPS)),
        "input_pipeline.json": json.dumps(PIPELINE),
        "trace.json": json.dumps(trace()),
        "sheet.json": json.dumps(SHEET),
        "matrix.edges": "".join(f"{i} {(i * 7) % 40}\n" for i in range(300)),
        "matrix.triplet0": "".join(f"{i % 30} {(i * 7) % 40} {i / 7:.3f}\n" for i in range(300)),
        "config.json": json.dumps(CONFIG),
        "cpuinfo.txt": "processor\t: 0\nmodel name\t: A CPU @ 2.10GHz\ncpu MHz\t\t: 2100.000\n",
        "steps.csv": STEP_ROWS,
        "events.csv": "step,operation,duration_ms,start_s,place\n"
        + "".join(f"{i // 3},op{i % 3},{1 + i % 3},{0.01 * i},device\n" for i in range(30)),
        "lengths.csv": "length\n" + "".join(f"{10 + i % 17}\n" for i in range(50)),
        "served-steps.csv": "step,dtype,decodes,context,prompt,time_s\ndecode:llama-3.1-8b,fp8,8,1024,,0.006\n"
        "prompt:llama-3.1-8b,fp8,,,512,0.02\n",
        "anchors.csv": "matrix,time_s\nmatrix.mtx,1e-5\n",
        "job.yaml": JOB,
        "job-workload.yaml": JOB_OF_A_WORKLOAD,
        "job-times.csv": JOB_TIMES,
        "calibration-job.json": json.dumps(JOB_CALIBRATION),
        "requests.jsonl": REQUESTS,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "trace.json.gz").write_bytes(gzip.compress(json.dumps(trace()).encode()))
    (folder / "model.gguf").write_bytes(gguf())
    (folder / "profile.xplane.pb").write_bytes(xplane())
    (folder / "model.onnx").write_bytes(onnx_model())
    files_made.write_all(folder)
    _matrices(folder)
    _tool_writes(folder)


def _matrices(folder: Path) -> None:
    from scipy import sparse
    from scipy.io import mmwrite

    matrix = sparse.random_array((60, 50), density=0.2, random_state=1, format="csr")
    mmwrite(folder / "matrix.mtx", matrix)
    sparse.save_npz(folder / "matrix.npz", matrix)


def _tool_writes(folder: Path) -> None:
    """What verbs leave behind: a study, its store, calibrations, models, bricks."""
    import slipstick
    from slipstick.common.records import FrozenDict
    from slipstick.experiments.cli.cli import run
    from slipstick.experiments.measure.bricks.brick_store import BrickStore, Composition, StoredTiming, Where
    from slipstick.experiments.measure.clocks.timing import Protocol, measure
    from slipstick.hwmodels.catalog import machine

    rooms = [room.resolve() for room in Path(slipstick.__file__).parent.iterdir()]
    for place, name in {
        "spmv-hot.json": "spmv.json",
        "spmv-devices-csr.json": "devices.json",
        "gpus.json": "calibration-gpus.json",
        "tpu.json": "calibration-tpu.json",
    }.items():
        shutil.copy(next(found for room in rooms for found in room.rglob(place)), folder / name)
    ask = [
        "whatif",
        "gemm",
        "--on",
        "xeon-phi-7120p",
        "--vary",
        "machine.cores=10,20,40",
        "--vary",
        "workload.m=64,128",
    ]
    run([*ask, "--save", str(folder / "study.toml")])
    run(["study", "run", str(folder / "study.toml"), "--folder", str(folder / "store")])
    store = BrickStore(folder / "bricks.sqlite")
    host = machine("xeon-phi-7120p")
    store.add_machine(host)
    timing = measure(
        {"a": lambda: sum(range(100))}, Protocol(repeats=3, warmups=0, sample_seconds=0.0, budget_seconds=1.0)
    )["a"]
    store.add(Where(host.fingerprint, "torch"), [StoredTiming("a", "p", timing, "x")])
    store.add_model(1, Composition("net", "whole", FrozenDict({"a": 3})))
