"""Command lines with one or two words broken: every verb and every option, found by looking at the command itself."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.attack.edits import CODE, NUMBERS, WORDS
from tests.verbs_there import options

GOOD: dict[str, list[str]] = {
    "estimate": ["gemm", "--on", "v100-sxm"],
    "whatif": ["gemm", "--on", "v100-sxm", "--vary", "machine.cores=10,20"],
    "extrapolate": ["series.csv", "--to", "64"],
    "explain": ["gemm", "--on", "v100-sxm"],
    "replay": ["trace.json", "--on", "v100-sxm"],
    "read": ["vllm.json", "--on", "h100-sxm"],
    "seqpoint": ["log.csv"],
    "phases": ["steps.jsonl"],
    "calibrate": ["study.toml"],
    "bricks split": ["mlp"],
    "bricks compose": ["mlp", "--store", "bricks.sqlite"],
    "bricks advise": ["mlp", "--store", "bricks.sqlite"],
    "bricks score": ["--store", "bricks.sqlite"],
    "bricks similarity": ["mlp", "gemm"],
    "spmv predict": ["matrix.mtx"],
    "study run": ["study.toml", "--folder", "out"],
    "study resume": ["study.toml", "--folder", "store"],
    "study report": ["study.toml", "--folder", "store"],
    "machines show": ["h100-sxm"],
    "machines check": ["h100-sxm"],
    "machines compare": ["h100-sxm", "v100-sxm"],
    "machines import": ["kerncraft.yml"],
    "workloads show": ["gemm"],
    "workloads diff": ["gemm", "mlp"],
    "workloads draw": ["gemm", "out.html"],
    "workloads import": ["model.onnx", "--out", "out.json"],
    "serve": ["config.json", "--on", "h100-sxm"],
    "plan serving": ["config.json", "--on", "h100-sxm"],
}
"""Words that make a verb answer; a verb that is not here is attacked with broken words alone."""
WITHOUT = {
    "measure scaling": "runs the program that its words are",
    "measure contention": "writes calibrations by the clock",
    "measure pipeline": "starts processes, which a worker of the attack may not",
}
LONG = (
    "measure",
    "demo",
    "reproduce",
    "validate",
    "tune",
    "spmv train",
    "spmv calibrate",
    "spmv validate",
    "calibrate",
)
"""Verbs that work for minutes where their words are good: they are interrupted."""
FILES = (
    "series.csv",
    "log.csv",
    "xeon-phi-7120p.yaml",
    "gemm.json",
    "trace.json",
    "study.toml",
    "calibration-gpus.json",
)
FILES += ("matrix.npz", "bricks.sqlite", "config.json", "store", "nope.yaml", "model.onnx", "times.csv", "spmv.json")
FILES += ("nsys.sqlite", "rocprof.json", "llama-bench.json", "ncu.csv", "profile.cali", "step.mlir")
NAMES = ("gpus", "roofline", "json", "csv", "float16", "run.threads=3", "workload.m=64", "machine.clock=1GHz", "a=b")
NAMES += (
    "machine.memory.HBM2.bandwidth=1e-5",
    "estimator.operation.overhead=1",
    "run.threads=1..5:3",
    "v100-sxm",
    "0..1:1e9",
)
PIECES = (*NUMBERS, *WORDS, *CODE[:7], *FILES, *NAMES)
SECONDS = 8.0
WAITING = 120.0


@dataclass(frozen=True)
class LineCase:
    """The words after `slipstick`."""

    words: tuple[str, ...]


def line_cases(names: Sequence[str] = ()) -> SearchStrategy[LineCase]:
    """Any verb (or one of `names`) with good words, one to three of them changed, left out, or added as options."""

    def broken(verb: str, changes: list[tuple[int, int, int]]) -> LineCase:
        words = list(GOOD.get(verb, []))
        known = options()[verb]
        for kind, where, piece in changes:
            text = PIECES[piece]
            if kind == 0 and words:
                words[where % len(words)] = text
            elif kind == 1 and words:
                del words[where % len(words)]
            elif kind == 2 and known:
                words += [known[where % len(known)], text]
            elif kind == 3 and known:
                words.append(f"{known[where % len(known)]}={text}")
            else:
                words.insert(where % (len(words) + 1), text)
        return LineCase((*verb.split(), *(word.replace("\0", "%00") for word in words)))

    change = st.tuples(st.sampled_from([0, 1, 2, 2, 2, 3, 4]), st.integers(0, 99), st.integers(0, len(PIECES) - 1))
    some = list(names) or [verb for verb in options() if verb not in WITHOUT]
    return st.builds(broken, st.sampled_from(some), st.lists(change, min_size=1, max_size=3))


def line_case(case: LineCase, folder: Path, seeds: Path) -> str | None:
    """Run one line in this process, among the seeds; exit codes 0, 1, 2 and one line on stderr are the good answer."""
    from slipstick.experiments.cli.cli import run

    for path in seeds.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "store").unlink()
    if " ".join(case.words).startswith(LONG):
        return _interrupted(case)
    errors = io.StringIO()
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stderr(errors):
            code = run([*case.words, "--traceback"])
    except (SystemExit, KeyboardInterrupt) as error:
        return f"{type(error).__name__} comes through"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.flush()
    if code == 130:
        return f"takes more than {SECONDS:g} s: {' '.join(case.words[:2])}"
    said = [line for line in errors.getvalue().splitlines() if line and not line.startswith("slipstick: ")]
    if code == 2 and said:
        return f"more than lines of its own on stderr: {said[0][:80]}"
    return None if code in (0, 1, 2) else f"exit code {code}"


def _ring(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _interrupted(case: LineCase) -> str | None:
    """Run a long verb in a process of its own and interrupt it: an import cut half-way would spoil the next cases."""
    from slipstick.experiments.cli.cli import run

    child = os.fork()
    if not child:
        code = 3
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with open("said", "w") as said, contextlib.redirect_stderr(said):
                code = run(list(case.words))
        os._exit(code)
    for tries in range(160):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            # a library that is interrupted while it is imported fails in its own ways
            return (
                None if code in (0, 1, 2, 130) or tries >= 40 else f"exit code {code}: {Path('said').read_text()[:200]}"
            )
        if tries == 40:
            os.kill(child, signal.SIGINT)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None  # a kernel of a library that does not look up; the clock of `forked` holds for readers
