"""Files are opened at one place: a reader that opens its own would hang at a pipe and unpack any bomb."""

from __future__ import annotations

import ast

from tools.imports import FILES, nodes

OWN = {
    "slipstick/common/opener.py": "the opener",
    "slipstick/common/writer.py": "writes whole files",
    "slipstick/common/frames.py": "frames of bytes that the opener read",
    "workloads/kernels/sparse_files.py": "a table of bytes that the opener read",
    "slipstick/common/arrays.py": "entries of an archive whose bytes the opener read",
    "workloads/graph/workload_writer.py": "packs what it writes",
    "workloads/runs/step_profiles.py": "packs what it writes",
    "experiments/studies/store.py": "the lock of a store, no link is followed",
    "experiments/studies/versions.py": "its own source",
    "experiments/question/user_code.py": "the source of code that the user named",
    "experiments/measure/training/epochs.py": "appends to its own log; /proc/cpuinfo",
    "experiments/measure/clocks/measured_estimator.py": "/proc/cpuinfo",
    "experiments/measure/threads/network_threads.py": "/sys",
    "hwmodels/importers/cpuinfo.py": "/proc and /sys",
    "experiments/measure/host/decoders.py": "pictures in memory that it packed itself",
    "slipstick/common/sqlite_files.py": "the opener of SQLite files",
}
CALLS = {
    "open",
    "connect",
    "read_text",
    "read_bytes",
    "read_csv",
    "read_parquet",
    "loadtxt",
    "GzipFile",
    "ZipFile",
    "mmread",
}


def test_only_the_opener_opens_files() -> None:
    found = set()
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and _opens(node.func) and str(path) not in OWN:
                found.add(f"{path}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert not found, "open files with slipstick.common (opener, readers, frames, arrays)"


def _opens(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "open"
    if not isinstance(called, ast.Attribute) or called.attr not in CALLS:
        return False
    of = ast.unparse(called.value)
    if called.attr in ("loadtxt", "mmread"):
        return False  # of bytes that the opener read
    return not of.startswith(("gate", "self.gate", "opener")) and called.attr != "readers"
