"""A command that an answer proposes runs: those of `read` on a file of each kind, and the words of all the others."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.replay.read_files import read_any
from slipstick.workloads.catalog import workload
from slipstick.workloads.importers.formats.registry import FORMATS
from tests import files_made
from tests.attack import seeds
from tests.verbs_there import options
from tests.workloads.test_execution_traces import node
from tools.imports import FILES, nodes

PLACES = {
    "MACHINE": "h100-dgx",
    "VALUE": "64",
    "N": "16",
    "B": "128",
    "CONFIG.json": "llama-3.1-8b",
    "MODEL": "qwen2.5-7b",
    "WORKLOAD": "gpt2",
}
"""What a reader would put for the words in capitals."""
CPU_TRACE = {
    "traceEvents": [event for event in seeds.trace()["traceEvents"] if event["cat"] in ("user_annotation", "cpu_op")]
}
TEXTS = {
    "cpu-trace.json": json.dumps(CPU_TRACE),
    "cpu-trace-of-one-step.json": json.dumps({"traceEvents": CPU_TRACE["traceEvents"][:2]}),
    "trace.json": json.dumps(seeds.trace()),
    "chakra.json": json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [node(5, 1), node(6, 1)]}),
    "one.csv": "p,time_s\n4,10.2\n",
    "series.csv": seeds.SERIES,
    "two.csv": "m,n,time_s\n1,1,1.0\n2,1,2.1\n4,1,4.2\n1,2,1.9\n2,2,4.1\n4,2,7.8\n1,4,4.2\n2,4,8.1\n4,4,16.5\n",
    "extrap.txt": seeds.EXTRAP,
    "hyperfine.json": json.dumps(seeds.HYPERFINE),
    "log.csv": seeds.LOG,
    "run.mllog": seeds.MLLOG,
    "matrix.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1.0\n2 2 1.0\n3 3 1.0\n3 1 2.0\n",
    "config.json": json.dumps(seeds.CONFIG),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One of each kind, in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    workload("gemm").save("gemm.json")
    return [*files_made.write_all(Path()), *TEXTS, "gemm.json"]


def filled(word: str) -> str:
    return re.sub(r"(^|=)([A-Z]\S*?)(?=,|$)", lambda found: found[1] + PLACES.get(found[2], found[2]), word)


@pytest.mark.slow
def test_what_read_proposes_runs(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    read = {name: read_any(name) for name in files}
    failed = []
    for holding in read.values():
        for command in holding.commands:
            if run([filled(word) for word in shlex.split(command)[1:]]) != 0:
                failed.append((command, capsys.readouterr().err))
    assert failed == []
    for name in ("cpu-trace.json", "cpu-trace-of-one-step.json", "one.csv"):
        assert not any("replay" in command or "extrapolate" in command for command in read[name].commands), name
    seen = {holding.kind.target for holding in read.values()}
    assert seen == {one.target for one in FORMATS}


def proposals() -> Iterator[tuple[str, str]]:
    """(file, text after the name of the command) of every text of the program that says it, a hole for each value."""
    for path in FILES:
        for part in nodes(path):
            if isinstance(part, ast.JoinedStr):
                text = "".join(str(one.value) if isinstance(one, ast.Constant) else "HOLE" for one in part.values)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                text = part.value
            else:
                continue
            for found in re.finditer(r"(?<![\w.])slipstick ((?:[a-z-]+ )?[a-z-]+[^\n`'();:]*)", text):
                yield path.name, found[1]


def test_every_verb_and_option_that_a_text_names_is_there() -> None:
    known = options()
    words = {name.split()[0] for name in known}
    wrong, seen = [], 0
    for file, text in proposals():
        first, *rest = text.split()
        if first not in words:
            continue
        verb = f"{first} {rest[0]}" if rest and f"{first} {rest[0]}" in known else first
        if verb not in known:  # a group by itself: slipstick spmv
            continue
        seen += 1
        named = re.findall(r"(?<!\S)--[a-z][\w-]*", text)
        wrong += [(file, text, option) for option in named if option not in known[verb]]
    assert seen > 60 and wrong == []
