"""The same study on real engines of one machine, one process each: equal bytes, and what each part costs.

Run by ``make engines``, in an environment of its own that has mpi4py, parsl and executorlib.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
STUDIES = {
    "roofline": """
schema = "slipstick-study-1"
name = "engines"
workloads = ["gemm"]
machines = ["v100-sxm"]
estimator = "roofline"
chunk = 20000

[vary]
"machine.clock" = "1GHz..2GHz:1000"
"workload.m" = "100..50000:200"
""",
    "default": """
schema = "slipstick-study-1"
name = "engines-default"
workloads = ["gpt2"]
machines = ["h100-sxm"]
chunk = 100

[vary]
"machine.clock" = "1GHz..1.9GHz:1000"
""",
}
"""Of a small formula, and of the answer that a question without an estimator has: thousands of rows."""
PARTS = 10
ENGINES = {
    "serial": [],
    "processes": ["--executor", "processes"],
    "dask": ["--executor", "dask"],
    "mpi4py": ["--executor", "own_engines:mpi"],
    "parsl": ["--executor", "own_engines:parsl"],
    "executorlib": ["--executor", "own_engines:executorlib"],
}


def command(engine: str, study: str, folder: str) -> list[str]:
    start = [sys.executable, "-m"]
    if engine == "mpi4py":
        start = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3", *start, "mpi4py.futures", "-m"]
    return [*start, "slipstick", "study", "run", f"{study}.toml", "--folder", folder, *ENGINES[engine]]


def content(folder: Path) -> str:
    parts = sorted((folder / "results").iterdir())
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in parts)).hexdigest()[:16]


def lacks(engine: str) -> str:
    """What an engine needs and this host has not; empty where nothing is missing."""
    if engine == "mpi4py":
        if shutil.which("mpiexec") is None:
            return "no mpiexec: it needs an MPI library (Debian: libopenmpi-dev openmpi-bin)"
        try:
            from mpi4py import MPI  # noqa: F401 - the import loads the library
        except (ImportError, RuntimeError) as error:
            return f"mpi4py cannot be used: {error}"
    elif engine in ("dask", "parsl", "executorlib") and importlib.util.find_spec(engine) is None:
        return f"the package {engine} is not installed"
    return ""


def studied(engine: str, study: str, place: str, env: dict[str, str]) -> tuple[str, float]:
    """Digest of the results and the seconds that a study took; what failed instead of a digest."""
    began = time.monotonic()
    words = command(engine, study, f"{study}-{engine}")
    try:
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "failed: not done after 300 s", 300.0
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}", 0.0
    return content(Path(place, f"{study}-{engine}")), time.monotonic() - began


def main() -> int:
    failed = skipped = 0
    with TemporaryDirectory() as place:
        shutil.copy(HERE / "own_engines.py", place)
        env = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{place}", "OMP_NUM_THREADS": "1"}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"  # parsl starts its own scripts
        known: dict[str, tuple[str, float]] = {}
        for study, text in STUDIES.items():
            Path(place, f"{study}.toml").write_text(text)
            for engine in ENGINES:
                missing = lacks(engine)
                if missing:
                    skipped += 1
                    print(f"{study:9} {engine:12} skipped: {missing}")
                    continue
                digest, took = studied(engine, study, place, env)
                of_serial, base = known.setdefault(study, (digest, took))
                failed += digest != of_serial or digest.startswith("failed")
                same = "" if digest.startswith("failed") else "same bytes" if digest == of_serial else "DIFFERENT"
                besides = f", {(took - base) / PARTS * 1e3:+.0f} ms a part beside serial" if engine != "serial" else ""
                print(f"{study:9} {engine:12} {digest} {same} {took:6.1f} s{besides}")
    print(f"{len(STUDIES) * len(ENGINES) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
