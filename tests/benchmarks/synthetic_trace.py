"""A synthetic trace of a profiler, of any length: operations, the calls that launch their kernels, kernels, steps.

    python -m tests.benchmarks.synthetic_trace EVENTS FILE.json[.gz]

Layers of a transformer, with the fields and the length of text of Kineto's events (about 300 characters each), shapes
included. Written as a stream: the length is bounded by the disk alone.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMBERS = (
    ("aten::linear", [[8, 1024, 768], [768, 768], [768]], "gemm_bf16_128x128_tn_align8", 42.0),
    ("aten::addmm", [[768], [8192, 768], [768, 3072], [], []], "cutlass_80_tensorop_bf16_s16816gemm_relu", 95.0),
    ("aten::gelu", [[8, 1024, 3072], []], "vectorized_elementwise_kernel_gelu_cuda", 21.0),
    ("aten::native_layer_norm", [[8, 1024, 768], [], [768], [768], []], "vectorized_layer_norm_kernel", 12.0),
    ("aten::add", [[8, 1024, 768], [8, 1024, 768], []], "vectorized_elementwise_kernel_add", 9.0),
    ("aten::_softmax", [[8, 12, 1024, 1024], [], []], "cunn_SoftMaxForward", 60.0),
)
"""Operation, shapes of its inputs, its kernel, microseconds of the kernel."""
STEP = 3000
"""Operations of a step."""
GAP = 8.0
"""Microseconds between the starts of two operations on the host."""


def events(count: int) -> Iterator[dict[str, Any]]:
    """So many events: of each operation itself, its launch, its kernel; and a mark for each step."""
    host, device, made, number = 1000.0, 1000.0, 0, 0
    begin = host
    while made < count:
        name, dims, kernel, length = MEMBERS[number % len(MEMBERS)]
        number += 1
        arguments = {"External id": number, "Ev Idx": number, "Record function id": 0}
        types = ["float" if some else "Scalar" for some in dims]
        shapes = {"Input Dims": dims, "Input type": types, "Concrete Inputs": [""] * len(dims)}
        yield _event("cpu_op", name, 77, host, 6.0, {**arguments, "Sequence number": number, **shapes})
        launch = {"External id": number, "cbid": 211, "correlation": number}
        yield _event("cuda_runtime", "cudaLaunchKernel", 77, host + 1, 4.0, launch)
        device = max(device, host + 7.0)
        shape = {"device": 0, "context": 1, "stream": 7, "grid": [128, 6, 1], "block": [256, 1, 1]}
        seen = {"queued": 0, "registers per thread": 96, "shared memory": 49152, "est. achieved occupancy %": 50}
        yield _event("kernel", kernel, 7, device, length, {**seen, **shape, **launch})
        device += length
        host = max(host + GAP, device - 5000.0)  # a queue of bounded length
        made += 3
        if number % STEP == 0:
            host = max(host, device)
            yield _event("user_annotation", f"ProfilerStep#{number // STEP}", 77, begin, host - begin, {})
            begin, made = host + 1, made + 1
            host += 2


def _event(category: str, name: str, thread: int, start: float, length: float, arguments: Any) -> dict[str, Any]:
    process = 0 if category == "kernel" else 4242
    fields = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread}
    return {**fields, "ts": round(start, 3), "dur": length, "args": arguments}


def write(path: Path, count: int) -> None:
    """The trace as a file."""
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],\n')
        file.write('"traceEvents": [\n')
        for index, event in enumerate(events(count)):
            file.write(",\n" if index else "")
            file.write(json.dumps(event))
        file.write("\n]}\n")


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
