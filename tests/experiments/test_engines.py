"""Shares of a study, merged; executors of the user's own; workers that die."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.question.question import question
from slipstick.experiments.studies.array_share import Share, share_of
from slipstick.experiments.studies.runner import StudyCase
from slipstick.experiments.studies.shipped_studies import preset_paths
from slipstick.experiments.studies.study import load_study
from slipstick.experiments.studies.sweep import task

STUDY = """
schema = "slipstick-study-1"
name = "shares"
workloads = ["gemm"]
machines = ["v100-sxm"]
estimator = "roofline"
chunk = 500

[vary]
"machine.clock" = "1GHz..2GHz:100"
"workload.m" = "100..5000:50"
"""
MINE = """
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path


def threads():
    return ThreadPoolExecutor(2)


class Dying(ThreadPoolExecutor):
    def submit(self, function, *arguments):
        mark = Path("died")
        if not mark.exists() and arguments[0] >= 1000:
            mark.write_text("once")
            raise BrokenExecutor("a worker was killed")
        return super().submit(function, *arguments)


def dying():
    return Dying(1)


number = 3


def broken():
    raise RuntimeError("no cluster today")
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shares.toml"
    path.write_text(STUDY)
    (tmp_path / "mine_engines.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert command(["study", "run", str(path), "--folder", "whole"]) == 0
    return path


def content(folder: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder, "results").iterdir()}


def test_shares_merged_are_the_bytes_of_one_run(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in (3, 1, 2):
        assert command(["study", "run", str(study), "--share", f"{part}/3"]) == 0
    folders = [f"slipstick-out/shares-part-{part}-of-3" for part in (1, 2, 3)]
    assert command(["study", "merge", str(study), *folders[:2], "--folder", "merged"]) == 1
    assert "7 of 10 chunks" in capsys.readouterr().out
    assert command(["study", "merge", str(study), *folders, "--folder", "merged"]) == 0
    assert content("merged") == content("whole")
    assert command(["study", "merge", str(study), "whole", "--folder", "merged"]) == 0  # nothing is new


def test_a_damaged_part_and_another_study_are_refused_by_name(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["study", "run", str(study), "--share", "2/2"]) == 0
    folder = Path("slipstick-out/shares-part-2-of-2")
    damaged = sorted((folder / "results").iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert command(["study", "merge", str(study), str(folder), "--folder", "merged"]) == 2
    assert damaged.name in capsys.readouterr().err
    other = study.with_name("other.toml")
    other.write_text(STUDY.replace("5000", "6000"))
    assert command(["study", "merge", str(other), "whole", "--folder", "merged"]) == 2
    assert "another study" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["mine_engines:threads", "mine_engines:dying"])
def test_own_executors_give_the_same_bytes_also_when_a_worker_dies(
    study: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.modules.pop("mine_engines", None)
    assert command(["study", "run", str(study), "--folder", "own", "--executor", engine]) == 0
    said = capsys.readouterr().err
    assert "imports mine_engines and runs its code" in said
    assert ("a worker died" in said) == engine.endswith("dying")
    assert content("own") == content("whole")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("mine_engines:number", "cannot be called"),
        ("mine_engines:broken", "no cluster today"),
        ("mine_engines:none", "want MODULE:FACTORY"),
        ("mpi", "unknown executor 'mpi'"),
    ],
)
def test_what_is_no_executor_is_refused_in_one_line(
    study: Path, engine: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["study", "run", str(study), "--folder", "own", "--executor", engine]) == 2
    assert words in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("text", ["0/3", "4/3", "x/3", "3", "1/0", "1/2/3"])
def test_wrong_shares(text: str) -> None:
    with pytest.raises(InputError, match="part"):
        share_of(text)


def test_shares_are_disjoint_and_complete() -> None:
    for parts in (1, 3, 7, 20):
        numbers = [number for part in range(1, parts + 1) for number in Share(part, parts).of(10)]
        assert sorted(numbers) == list(range(10))


def test_an_engine_that_this_host_lacks_is_named_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(__file__).parents[1] / "engines" / "run_engines.py"
    spec = importlib.util.spec_from_file_location("run_engines", place)
    assert spec and spec.loader
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "an MPI library (Debian: libopenmpi-dev openmpi-bin)" in engines.lacks("mpi4py")
    assert engines.lacks("parsl") == "the package parsl is not installed"
    assert engines.lacks("serial") == ""


def test_studies_of_papers_name_the_authors_of_the_papers() -> None:
    """As the page of the papers does: `[TPUPoint](papers/tpupoint.md), Wudenhe and Tseng 2021`."""
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text()
    papers = re.findall(r"\(papers/([\w-]+)\.md\), (.+? \d{4}) \|", page)
    studies = preset_paths()
    assert len(papers) == 5 == len(studies)
    for name, authors in papers:
        assert load_study(studies[name]).description.startswith(f"{authors}: ")


class Unread:
    def __dask_tokenize__(self) -> None:
        raise AssertionError("dask reads the work")


def test_dask_names_a_chunk_without_reading_the_work() -> None:
    """A default answer's rows took it 15 s a chunk, so that a study stored none in ten minutes."""
    dask = pytest.importorskip("dask.tokenize", reason="needs the extra slipstick[dask]")
    work = task(question("vector-sum", "v100-sxm", "roofline", vary={"machine.clock": [1e9, 2e9]}))
    case = StudyCase("vector-sum", "v100-sxm", replace(work, function=Unread()))
    assert dask.tokenize(case.rows, 0, 1) != dask.tokenize(case.rows, 0, 1)
    assert dask.tokenize(case.work.columns, 0, 1)
