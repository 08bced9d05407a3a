"""python -m tools.walks: through how many folders a value goes until it is an answer, and how often it climbs.

A value is followed as the program runs: a function is on its way where one of its arguments is the value or was made by
such a function. A folder counts once. A climb is a call into a folder that imports the folder of the caller, itself or
through others: only what the caller was handed leads there, such as an estimator behind its contract.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import networkx as nx

import slipstick
from slipstick.experiments.cli.cli import run
from tools.imports import ROOT, folders

PACKAGE = str(Path(slipstick.__file__).parent)
PLAIN = (type(None), bool, int, float, complex, type, ModuleType, BuiltinFunctionType, FunctionType)
"""Too many are equal: they are not followed."""
PASSES_ON = "renamed_arguments.py"
SHORTEST, LONGEST = 8, 2000
"""Shorter texts are names, which many share; of longer sequences the elements are not followed."""


@dataclass(eq=False)
class Walk:
    """The calls on a value's way, each from a folder to a folder; a profile function of `sys`."""

    value: Any
    calls: list[tuple[str, str]] = field(default_factory=list)
    followed: dict[int, Any] = field(default_factory=dict)
    frames: dict[int, FrameType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.follow(self.value)

    def follow(self, thing: Any, depth: int = 1) -> None:
        """Follow a thing, the fields of a record of ours and the elements of a sequence."""
        short = isinstance(thing, str) and len(thing) < SHORTEST
        if isinstance(thing, PLAIN) or short or (isinstance(thing, (tuple, list, dict)) and not thing):
            return
        if id(thing) in self.followed:
            return
        self.followed[id(thing)] = thing  # and kept, so that no other thing takes its place in memory
        parts = thing if isinstance(thing, (tuple, list)) and len(thing) < LONGEST else ()
        if type(thing).__module__.startswith("slipstick"):
            parts = tuple(getattr(thing, "__dict__", {}).values())
        for part in parts if depth else ():
            self.follow(part, depth - 1)

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """What Python calls at each call and return."""
        if event == "return" and self.frames.pop(id(frame), None):
            self.follow(result)
        if event != "call" or (frame.f_code.co_filename != "<string>" and not _folder(frame)):
            return
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names]
        if not any(id(thing) in self.followed for thing in given):
            return
        self.frames[id(frame)] = frame
        if frame.f_code.co_name in ("__init__", "__post_init__"):
            self.follow(given[0])
        caller = frame.f_back
        while caller is not None and not _folder(caller):
            caller = caller.f_back
        if _folder(frame) and caller is not None:
            self.calls.append((_folder(caller), _folder(frame)))

    def rooms(self) -> list[str]:
        """Folders on the way, in order."""
        return list(dict.fromkeys(folder for _, folder in self.calls))

    def climbs(self, above: nx.DiGraph[str]) -> list[tuple[str, str]]:
        """Calls into a folder above, each pair of folders once; `above`: folder -> folders that it imports."""
        pairs = dict.fromkeys(pair for pair in self.calls if pair[0] != pair[1] and set(pair) <= set(above))
        return [(caller, callee) for caller, callee in pairs if nx.has_path(above, callee, caller)]


def _folder(frame: FrameType) -> str:
    return _folder_of(frame.f_code.co_filename)


@cache
def _folder_of(path: str) -> str:
    """The folder of a file below the package; "" outside, and of what only passes a call on (`renamed_arguments`)."""
    if path.endswith(PASSES_ON):
        return ""
    return str(Path(path).parent.relative_to(PACKAGE)) if path.startswith(PACKAGE + os.sep) else ""


def walked(words: list[str]) -> Walk:
    """The way of the file that a command names, and of all that is read from it.

    Raises
    ------
    RuntimeError
        Where the command fails.
    """
    walk, errors = Walk(next(word for word in words if Path(word).is_file())), StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors):
        sys.setprofile(walk)
        try:
            code = run(words)
        finally:
            sys.setprofile(None)
    if code:
        raise RuntimeError(f"{' '.join(words)}: {errors.getvalue()}")
    return walk


def trace() -> str:
    """Three steps of four kernels, as a profiler writes them."""
    events: list[dict[str, Any]] = []
    for step in range(3):
        start = 1000 * step
        events.append({"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": 990, "tid": 1})
        for kernel in range(4):
            args = {"correlation": 10 * step + kernel, "stream": 7, "device": 0}
            launch, begin = start + 10 + 100 * kernel, start + 30 + 100 * kernel
            events.append({"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launch, "dur": 8, "tid": 1})
            events.append({"cat": "kernel", "name": "volta_sgemm_128x64_nn", "ts": begin, "dur": 80, "tid": 7})
            events[-1]["args"] = events[-2]["args"] = args
    device = {"name": "Tesla V100-SXM2-16GB"}
    return json.dumps(
        {"traceEvents": [{"ph": "X", "pid": 1, **event} for event in events], "deviceProperties": [device]}
    )


CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 8192,
}
STUDY = """schema = "slipstick-study-1"
name = "clock"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
estimator = "phi-a"
set = {"run.threads" = 240}
vary = {"machine.clock" = "1GHz..2GHz:4"}
"""
WALKS = {
    "machine file to answer": "estimate phi-cnn-small --on machine.yaml --estimator phi-a --set run.threads=240",
    "CSV to band": "extrapolate runs.csv --to 64",
    "trace to replay": "replay trace.json --on v100-sxm --set machine.clock=1GHz",
    "config.json to TTFT": "serve config.json --on h100-sxm --input-tokens 64 --output-tokens 8 --concurrency 2",
    "study to Parquet": "study run study.toml --folder out",
}


def table() -> list[tuple[str, int, int]]:
    """Way, folders entered, climbs; run in a new process, since what is remembered is not entered again."""
    texts = {
        "machine.yaml": (ROOT / "hwmodels" / "catalog" / "xeon-phi-7120p.yaml").read_text(),
        "runs.csv": "threads,time_s\n1,100\n2,51.3\n4,26.2\n8,13.9\n16,7.7\n",
        "trace.json": trace(),
        "config.json": json.dumps(CONFIG),
        "study.toml": STUDY,
    }
    above, rows = folders(), []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for file, text in texts.items():
            Path(file).write_text(text)
        for name, command in WALKS.items():
            walk = walked(command.split())
            rows.append((name, len(walk.rooms()), len(walk.climbs(above))))
    return rows


if __name__ == "__main__":
    for name, rooms, climbs in table():
        print(f"| {name} | {rooms} | {climbs} |")
