"""A million points as an array of 64 parts on two folders' worth of processes, one part killed, merged: the same bytes.

python tests/engines/run_parts.py: prints CPU seconds of the serial run, of the parts, and what a part costs besides.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PARTS, WORKERS, KILLED = 64, 2, 7
STUDY = """
schema = "slipstick-study-1"
name = "million"
workloads = ["gnmt"]
machines = ["v100-sxm"]
estimator = "roofline"
chunk = 15625

[vary]
"machine.clock" = "1 GHz..2 GHz:1000"
"machine.memory.HBM2.bandwidth" = "0.5 TB/s..1.5 TB/s:1000"
"""


def command(*words: str) -> list[str]:
    """The command line of the interpreter that runs this."""
    return [sys.executable, "-m", "slipstick", "study", *words]


def spend(words: Sequence[str], folder: Path) -> float:
    """CPU seconds of a command in a folder; it has to succeed."""
    before = os.times()
    run(words, folder)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def run(words: Sequence[str], folder: Path) -> None:
    """A command in a folder; what it says is shown where it fails."""
    child = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    if child.returncode:
        raise SystemExit(f"{' '.join(words[2:6])} ...: exit code {child.returncode}: {child.stderr[-500:]}")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every stored chunk by its name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in (".parquet", ".json"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def killed_then_resumed(folder: Path, part: str) -> None:
    """Start a part, kill it while it works, and run it again to its end."""
    child = subprocess.Popen(command("run", "million.toml", "--share", part), cwd=folder, stderr=subprocess.DEVNULL)
    time.sleep(4.0)
    child.send_signal(signal.SIGKILL)
    print(f"part {part}: killed, exit code {child.wait()}")
    run(command("resume", "million.toml", "--share", part), folder)


def main() -> int:
    """Serial, parts on two folders, merge, compare; 0 where all bytes are equal."""
    with tempfile.TemporaryDirectory() as root:
        serial, *machines = (Path(root) / name for name in ("serial", "one", "other"))
        for folder in (serial, *machines):
            folder.mkdir()
            (folder / "million.toml").write_text(STUDY)
        alone = spend(command("run", "million.toml"), serial)
        print(f"serial: {alone:.1f} CPU s")

        def some(number: int) -> None:
            for part in range(1 + number, PARTS + 1, WORKERS):
                if part == KILLED:
                    killed_then_resumed(machines[number], f"{part}/{PARTS}")
                else:
                    words = command("run", "million.toml", "--share", f"{part}/{PARTS}")
                    run(words, machines[number])

        before = os.times()
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(some, range(WORKERS)))
        after = os.times()
        parts = after.children_user + after.children_system - before.children_user - before.children_system
        for folder in sorted(machines[1].glob("slipstick-out/*-part-*")):
            shutil.move(folder, machines[0] / "slipstick-out")
        found = sorted(str(path) for path in (machines[0] / "slipstick-out").glob("*-part-*"))
        merging = spend(command("merge", "million.toml", *found), machines[0])
        besides = f"{(parts - alone) / PARTS:.2f} a part besides"
        print(f"{PARTS} parts: {parts:.1f} CPU s, {besides}; merge: {merging:.1f} CPU s")
        ours, theirs = (digests(folder / "slipstick-out" / "million") for folder in (machines[0], serial))
        different = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
        print(f"{len(theirs)} files, {len(different)} differ: {', '.join(sorted(different)[:5])}")
        return 1 if different or not theirs else 0


if __name__ == "__main__":
    raise SystemExit(main())
