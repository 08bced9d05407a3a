"""Every option of a verb, given to every kind of workload: it changes the answer, writes a file, or is refused.

The options are those that the command line itself knows, so a new one is tried without a line here, unless it needs a
value of its own kind (`VALUES`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from slipstick.experiments.cli import calibrate, estimate, explain, whatif
from slipstick.experiments.cli.cli import build, run

MODEL = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
"""
JOB = """
name: a loader
steps: 20
runs: 4
stages:
  - {name: load, service: 3 ms, variation: 0.3, workers: 2}
  - {name: step, workload: gemm, estimator: roofline}
"""
STUDY = """
schema = "slipstick-study-1"
name = "times"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
estimator = "phi-a"
[fit]
measured = "times.csv"
parameters = ["estimator.operation.operation_factor"]
"""
VARY = {"phi": "run.threads=15,30", "job": "job.load.workers=2,400", "": "machine.clock=1 GHz,1.2 GHz"}
KINDS: dict[str, tuple[str, ...]] = {
    "catalogue": ("gemm", "--on", "h100-sxm"),
    "serving step": ("decode:llama-3.1-8b", "--on", "h100-sxm"),
    "own program": ("model.py:model", "--input", "4,8", "--on", "h100-sxm"),
    "graph file": ("graph.json", "--on", "h100-sxm"),
    "job": ("job.yaml", "--on", "h100-sxm"),
    "simulated job": ("job.yaml", "--on", "h100-sxm", "--simulate"),
    "simulated workload": ("gemm", "--on", "h100-sxm", "--simulate", "--runs", "4"),
}
VALUES = {
    "--on": "v100-sxm",
    "--set": "machine.clock=1 GHz",
    "--vary": "machine.cores=10,20",
    "--estimator": "roofline",
    "--calibration": "gpus",
    "--measured": "times.csv",
    "--fit": "operation.compute_efficiency",
    "--dtype": "fp8",
    "--input": "200000,8",
    "--train": "adamw",
    "--work": "forward",
    "--attention": "flash",
    "--number": "batch=3",
    "--trace": "trace.json",
    "--timeline": "timeline.json",
    "--report": "page.html",
    "--recorded-on": "v100-sxm",
    "--where": "machine.clock <= 1.1e9",
    "--save": "saved.toml",
    "--out": "saved.json",
    "--objective": "energy",
    "--target": "0.5",
    "--cost": "machine.clock=3",
    "--against": "v100-sxm",
    "--intervals": "bootstrap",
    "--level": "0.5",
    "--plot": "picture.png",
    "--format": "json",
    "--top": "2",
    "--runs": "7",
    "--seed": "9",
    "--rows": "1",
    "--quantity": "energy",
}
SAME = {
    "--allow-code": "a permission to run code that a file names, which these do not",
    "--calibration gpus": "what answers already where nothing is named",
    "--attention flash": "a serving step has its attention in one kernel already",
}
"""Options that may leave the answer as it is, and why."""


def options(verb: str) -> list[tuple[str, bool]]:
    """Name of each option of a verb, and whether it is a flag."""
    return [(max(one.opts, key=len), one.is_flag) for one in commands()[verb].params if one.param_type_name == "option"]


@cache
def commands() -> Mapping[str, Any]:
    """Verbs of the shell, built once: it takes most of a second."""
    return typer.main.get_command(build()).commands  # type: ignore[attr-defined, no-any-return]


def branches() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Verb and the words of each of its ways to an answer."""
    for kind, words in KINDS.items():
        for verb in ("estimate", "whatif", "explain"):
            if verb == "explain" and ("job" in kind or "simulated" in kind):
                continue
            vary = VARY["job"] if kind.endswith("job") else VARY[""]
            if kind == "simulated workload":
                vary = "job.copies=1,2"
            yield verb, (verb, *words, *(("--vary", vary) if verb == "whatif" else ()))
    yield "estimate", ("estimate", "gemm", "--on", "h100-sxm", "--counters", "--estimator", "tiled-roofline")
    yield "calibrate", ("calibrate", "study.toml")
    yield (
        "calibrate",
        ("calibrate", "job.yaml", "--on", "h100-sxm", "--measured", "steps.csv", "--fit", "job.load.service"),
    )


EVERY = [(words, option, flag) for verb, words in branches() for option, flag in options(verb)]
CASES = [
    pytest.param(*case, id=f"{' '.join(case[0][:3])} {' '.join(case[0][4:5])} {case[1]}", marks=pytest.mark.slow)
    for case in random.Random(47).sample(EVERY, 100)
]
"""A hundred of all: what is set, field by field, `test_unread` tries."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from slipstick.workloads.catalog import workload

    place = tmp_path_factory.mktemp("options")
    (place / "model.py").write_text(MODEL)
    (place / "job.yaml").write_text(JOB)
    (place / "study.toml").write_text(STUDY)
    (place / "times.csv").write_text("run.threads,time_s\n15,9000\n30,4700\n60,2500\n120,1400\n")
    (place / "steps.csv").write_text("step_s\n" + "0.003\n0.0016\n" * 10)
    (place / "trace.json").write_text(json.dumps({"traceEvents": []}))
    workload("gemm").save(place / "graph.json")
    return place


PLAIN: dict[tuple[str, ...], tuple[str, frozenset[str]]] = {}


def answer(words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, frozenset[str]]:
    capsys.readouterr()
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    code = run(list(words))
    files = frozenset(path.name for path in folder.iterdir() if before.get(path.name) != path.stat().st_mtime_ns)
    return code, capsys.readouterr().out, files


@pytest.mark.parametrize(("words", "option", "flag"), CASES)
def test_an_option_is_used_or_refused(
    words: tuple[str, ...],
    option: str,
    flag: bool,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    if words not in PLAIN:
        code, text, files = answer(words, folder, capsys)
        assert code == 0, f"{' '.join(words)} does not answer"
        PLAIN[words] = text, files
    if option in SAME or f"{option} {VALUES.get(option)}" in SAME or (flag and option in words):
        return
    assert flag or option in VALUES, f"{option}: add a value to VALUES"
    value = () if flag else (option_value(words, option),)
    more = (option, *value)
    cut = words
    if option in words and not flag and option not in ("--set", "--vary", "--fit"):
        at = words.index(option)
        cut = (*words[:at], *words[at + 2 :])
    code, text, files = answer((*cut, *more), folder, capsys)
    assert code in (0, 2)
    assert code == 2 or text != PLAIN[words][0] or files - PLAIN[words][1], (
        f"{' '.join((*cut, *more))}: dropped in silence"
    )


WAYS = [
    (("estimate", "job.yaml"), estimate.JOB),
    (("estimate", "job.yaml", "--simulate"), estimate.SIMULATED),
    (("estimate", "gemm", "--on", "h100-sxm"), estimate.PLAIN),
    (("whatif", "job.yaml"), whatif.JOB),
    (("whatif", "job.yaml", "--simulate"), whatif.SIMULATED),
    (("whatif", "gemm", "--on", "h100-sxm"), whatif.PLAIN),
    (("whatif", "--trace", "trace.json"), whatif.TRACE),
    (("explain", "--trace", "trace.json"), explain.TRACE),
    (("calibrate", "job.yaml"), calibrate.JOB),
    (("calibrate", "study.toml"), calibrate.STUDY),
]


@pytest.mark.parametrize(("words", "read"), WAYS)
def test_what_a_way_does_not_read_is_refused_by_name(
    words: tuple[str, ...],
    read: tuple[str, ...],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    commands = typer.main.get_command(build()).commands  # type: ignore[attr-defined]
    known = [one for one in commands[words[0]].params if one.param_type_name == "option"]
    unread = [one for one in known if one.name not in (*read, "simulate", "trace", "counters")]
    assert set(read) <= {one.name for one in known}
    for one in unread:
        name = max(one.opts, key=len)
        assert run([*words, name, *([] if one.is_flag else [VALUES.get(name, "x")])]) == 2
        error = capsys.readouterr().err
        assert f"does not read {name}" in error, error


def option_value(words: tuple[str, ...], option: str) -> str:
    if option == "--set" and "job.yaml" in words:
        return "job.load.workers=1"
    if option == "--set" and "decode:llama-3.1-8b" in words:
        return "machine.memory.HBM3.bandwidth=1 TB/s"
    if option == "--set" and "model.py:model" in words:
        return "machine.runtime.mode=graph_replay"
    if option == "--vary" and "--simulate" in words:
        return "job.steps=5,9"
    if option == "--number" and "job.yaml" in words:
        return "steps=9"
    if option == "--number" and "gemm" in (words[1], words[1].replace("graph.json", "gemm")):
        return "m=64"
    return VALUES[option]
