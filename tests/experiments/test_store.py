"""Stores keep every finished point exactly once, whatever kills the writer, and never mix or believe damaged parts."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.studies import runner
from slipstick.experiments.studies.executors import executor
from slipstick.experiments.studies.runner import PreparedStudy, plan, run
from slipstick.experiments.studies.store import create, load
from slipstick.experiments.studies.study import Study, load_study

STUDY = """
schema = "slipstick-study-1"
name = "killed"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
bands = "never"
chunk = {chunk}

[set]
"run.threads" = 240

[vary]
"machine.cores" = [61, 122, 244, 488]

[sample]
method = "sobol"
count = {count}

[sample.ranges]
"machine.clock" = {{ low = "0.8 GHz", high = "3 GHz", scale = "log" }}
"run.threads" = {{ low = 1, high = 3840, scale = "log", kind = "whole" }}
"""


def _plan(folder: Path, count: int = 2500, chunk: int = 40) -> PreparedStudy:
    path = folder / "study.toml"
    path.write_text(STUDY.format(count=count, chunk=chunk))
    return plan(load_study(path))


def _identical(frame: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(frame, other, check_exact=True)


@pytest.mark.parametrize("least", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_lose_no_point_and_repeat_none(least: int, tmp_path: Path) -> None:
    made = _plan(tmp_path, chunk=80)
    assert made.points == 10_000
    whole = run(made, tmp_path / "undisturbed").frame()
    fork = multiprocessing.get_context("fork")
    clock, kept, kills = random.Random(5), 0, 0
    folder = tmp_path / "killed"
    while kills < least:
        child = fork.Process(target=run, args=(made, folder))
        child.start()
        time.sleep(clock.uniform(0.0, 0.12))
        if child.pid is not None and child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
        child.join()
        kills += child.exitcode == -signal.SIGKILL
        parts = len(load(folder).verify()) if (folder / "study.json").exists() else 0
        assert parts >= kept, "a finished part was lost"
        kept = parts
        if parts == len(made.chunks):  # the machine was quick: start over, the kills go on
            shutil.rmtree(folder)
            kept = 0
    store = run(made, folder)
    frame = store.frame()
    assert not frame.duplicated(["workload", "machine", "point"]).any()
    assert np.array_equal(frame.point, np.arange(10_000))
    _identical(frame, whole)
    assert not list(store.results.glob(".part-*"))


@pytest.mark.slow  # `test_engines` kills a worker of an executor of one's own
def test_a_dask_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra slipstick[dask]")
    made = _plan(tmp_path, count=200, chunk=25)
    whole = run(made, tmp_path / "serial").frame()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True)
    with cluster, distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killed = []

        def progress(done: int, total: int) -> None:
            if done > total // 10 and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(done)

        store = run(made, tmp_path / "dask", client.get_executor(), progress)
    assert killed
    _identical(store.frame(), whole)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_executors_store_the_same_bytes(tmp_path: Path, kind: str) -> None:
    made = _plan(tmp_path, count=100, chunk=50)
    alone = {path.name for path in run(made, tmp_path / "serial").parts().values()}
    with executor(kind) as pool:
        assert {path.name for path in run(made, tmp_path / kind, pool).parts().values()} == alone


def test_every_stretch_of_a_flipped_byte_is_found(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=25, chunk=50)
    store = run(made, tmp_path / "out")
    path = store.parts()[1]
    content = path.read_bytes()
    for position in range(0, len(content), max(1, len(content) // 50)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(InputError, match="is damaged"):
            store.frame()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"part-00000001.*is damaged.*remove it and resume"):
        run(made, tmp_path / "out")
    path.unlink()
    assert len(run(made, tmp_path / "out").frame()) == 100


def test_a_part_under_another_number_is_refused(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=50, chunk=20)
    store = run(made, tmp_path / "out")
    first, second = (store.parts()[number] for number in (0, 1))
    digest = first.name.rpartition("-")[2]
    second.unlink()
    copied = store.results / f"part-00000001-{digest}"
    shutil.copy(first, copied)
    for read in (store.verify, store.frame, lambda: run(made, tmp_path / "out")):
        with pytest.raises(InputError, match=r"part-00000001.*: holds part 0, not 1; remove it and resume"):
            read()
    copied.unlink()
    frame = run(made, tmp_path / "out").frame()
    assert len(frame) == frame.point.nunique() == made.points


def test_parts_that_are_none_of_the_plan_and_links_and_pipes_are_refused_by_name(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=50, chunk=20)
    out = tmp_path / "out"
    store = run(made, out)
    path = store.parts()[1]
    beyond = store.results / f"part-{len(made.chunks):08d}-{'0' * 16}.parquet"
    shutil.copy(path, beyond)
    with pytest.raises(InputError, match=rf"{beyond.name}: part 10 is none of the study's 10"):
        run(made, out)
    beyond.unlink()
    kept = path.rename(tmp_path / "elsewhere")
    for place in (lambda: path.symlink_to(kept), lambda: os.mkfifo(path), path.mkdir):
        place()
        for read in (lambda: run(made, out), lambda: load(out).frame()):
            with pytest.raises(InputError, match=rf"{path.name}: is a link or no regular file; remove it"):
                read()
        path.rmdir() if path.is_dir() else path.unlink()
    kept.rename(path)
    store.results.rename(out / "moved")
    store.results.symlink_to(out / "moved")
    with pytest.raises(InputError, match="results: is a link"):
        load(out).frame()


def test_results_of_other_formulas_are_another_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(_plan(tmp_path, count=5), tmp_path / "out")
    monkeypatch.setattr(runner, "formulas_digest", lambda: "changed")
    with pytest.raises(InputError, match="holds another study.*a version has changed"):
        run(_plan(tmp_path, count=5), tmp_path / "out")


def test_parts_that_somebody_else_wrote_are_refused(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=5)
    store = run(made, tmp_path / "out")
    path = store.parts()[0]
    frame = pd.read_parquet(path)
    path.unlink()
    store.append(0, frame.drop(columns=["time_ratio"]))
    with pytest.raises(InputError, match=r"part-00000000.*has no column time_ratio; remove it"):
        store.frame()
    store.parts()[0].unlink()
    junk = b"PAR1 and no more"
    (store.results / f"part-00000000-{hashlib.sha256(junk).hexdigest()[:16]}.parquet").write_bytes(junk)
    with pytest.raises(InputError, match="is no Parquet"):
        store.frame()


def test_times_of_today_for_other_cases_are_refused(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=5)
    manifest = run(made, tmp_path / "out").folder / "study.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "today_s": document["today_s"] * 2}))
    with pytest.raises(InputError, match=r"study\.json: today_s has 2 times for 1 cases"):
        run(made, tmp_path / "out")


def test_studies_are_not_mixed(tmp_path: Path) -> None:
    first, second = _plan(tmp_path, count=10), _plan(tmp_path, count=20)
    run(first, tmp_path / "out")
    with pytest.raises(InputError, match="holds another study"):
        run(second, tmp_path / "out")
    other = run(second, tmp_path / "other").parts()[0]
    alone = create(tmp_path / "out", first.fingerprint, {})
    next(iter(alone.parts().values())).unlink()
    shutil.copy(other, alone.results / other.name)
    with pytest.raises(InputError, match="belongs to another study"):
        alone.frame()


def test_a_folder_of_other_files_and_a_second_writer_are_refused(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=10)
    with pytest.raises(InputError, match=r"no study\.json"):
        run(made, tmp_path)
    (tmp_path / "out" / "results").mkdir(parents=True)
    (tmp_path / "out" / ".study.json-x").touch()  # what a kill leaves before the manifest stands is no other's file
    store = create(tmp_path / "out", made.fingerprint, {})
    with store.locked(), pytest.raises(InputError, match="another process is writing"):
        run(made, tmp_path / "out")


def test_what_changes_an_answer_changes_the_fingerprint(tmp_path: Path) -> None:
    made = _plan(tmp_path, count=10)
    text = (tmp_path / "study.toml").read_text()
    for old, new in (
        ("= 240", "= 120"),
        ("[61,", "[60,"),
        ('"3 GHz"', '"3.1 GHz"'),
        ("phi-cnn-small", "phi-cnn-large"),
        ('bands = "never"', 'estimator = "phi-simulated"'),
    ):
        (tmp_path / "other.toml").write_text(text.replace(old, new))
        assert plan(load_study(tmp_path / "other.toml")).fingerprint != made.fingerprint
    (tmp_path / "other.toml").write_text(text)
    assert plan(load_study(tmp_path / "other.toml")).fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "[61, 122, 244, 488]",
            '"1..1000:1000"\n"run.batch" = "1..1e6:1000000"',
            r"study\.toml: 10,000,000,000 points of a sample of machine\.clock, run\.threads \(10 values\) x "
            r"machine\.cores \(1,000 values\) x run\.batch \(1,000,000 values\): want at most 1,000,000,000 points",
        ),
        ("[61, 122, 244, 488]", "[]", r"study\.toml: vary: axis machine\.cores has no values"),
        ('"3 GHz"', '"0.1 GHz"', r"study\.toml: sample\.ranges\.machine\.clock: range .*: want .* low < high"),
        (
            'bands = "never"',
            'objectives = ["a=().__class__"]',
            r"study\.toml: objectives = .*: objective a: names in a",
        ),
        (
            'bands = "never"',
            'objectives = ["=time_s"]',
            r"study\.toml: objectives = .*want time, energy, cost, a column",
        ),
    ],
)
def test_a_study_that_cannot_be_is_refused_in_words(tmp_path: Path, old: str, new: str, words: str) -> None:
    _plan(tmp_path, count=10)
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=words):
        plan(load_study(tmp_path / "study.toml"))


def test_points_and_chunks_of_all_cases_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _plan(tmp_path, count=10)  # 40 points a case
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace('["phi-cnn-small"]', '["phi-cnn-small", "phi-cnn-large"]'))
    monkeypatch.setattr(runner, "MAX_POINTS", 79)
    with (
        monkeypatch.context() as unasked,
        pytest.raises(
            InputError,
            match=r"80 points in its 2 cases \(a case has 40 points .*machine\.cores \(4 values\).* at most 79",
        ),
    ):
        unasked.setattr(Study, "question", lambda *_: pytest.fail("a case was asked before the total was known"))
        plan(load_study(path))
    monkeypatch.setattr(runner, "MAX_POINTS", 80)
    monkeypatch.setattr(runner, "MAX_CHUNKS", 1)
    with pytest.raises(InputError, match="80 points in 2 chunks of 40: want at most 1 chunks"):
        plan(load_study(path))
    monkeypatch.setattr(runner, "MAX_CHUNKS", 2)
    assert plan(load_study(path)).points == 80


def test_a_run_says_how_many_points_there_are_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = _plan(tmp_path, count=10)
    assert command(["study", "run", str(tmp_path / "study.toml"), "--folder", str(tmp_path / "out")]) == 0
    assert f"{made.points:,} points" in capsys.readouterr().err


def test_steps_that_fall_on_one_whole_number_are_said_with_a_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study.of_question("phi-cnn-small", "xeon-phi-7120p", "phi-a", [], ["run.threads=1..8:6log"])
    study.save(tmp_path / "study.toml")
    words = "run.threads: 5 different whole numbers in the 6 steps of 1..8:6log"
    where = [str(tmp_path / "study.toml"), "--folder", str(tmp_path / "out")]
    assert command(["study", "run", *where]) == 0
    assert words in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "study.json").read_text())["notes"][0] == words
    assert command(["study", "report", *where]) == 0
    assert words in capsys.readouterr().out
    assert (
        command(["study", "report", *where, "--objective", "time", "--objective", "t=run.threads", "--format", "json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)[0]["note"].startswith(words)


def test_others_read_the_parts(tmp_path: Path) -> None:
    store = run(_plan(tmp_path, count=25, chunk=50), tmp_path / "out")
    frame = pd.read_parquet(store.results).sort_values("point").reset_index(drop=True)
    _identical(frame, store.frame())


def test_a_saved_what_if_is_the_same_study(tmp_path: Path) -> None:
    vary = ["machine.clock=1GHz,2GHz", "run.threads=1..240:5"]
    study = Study.of_question("phi-cnn-small", "xeon-phi-7120p", "phi-a", ["run.threads=240"], vary)
    study.save(tmp_path / "deep" / "what if.toml")
    assert plan(load_study(tmp_path / "deep" / "what if.toml")).fingerprint == plan(study).fingerprint
