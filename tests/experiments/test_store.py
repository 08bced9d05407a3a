"""Stores keep every finished point exactly once, whatever kills the writer, and never mix or believe damaged parts."""

from __future__ import annotations

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

from experiments.runner import Plan, executor, plan, run
from experiments.store import create, load
from experiments.studies import Study, load_study
from hwmodels.files import InputError

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


def _plan(folder: Path, count: int = 2500, chunk: int = 40) -> Plan:
    path = folder / "study.toml"
    path.write_text(STUDY.format(count=count, chunk=chunk))
    return plan(load_study(path))


def _identical(frame: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(frame, other, check_exact=True)


def test_thirty_kills_lose_no_point_and_repeat_none(tmp_path: Path) -> None:
    made = _plan(tmp_path)
    assert made.points == 10_000
    whole = run(made, tmp_path / "undisturbed").frame()
    fork = multiprocessing.get_context("fork")
    clock, kept, kills = random.Random(5), 0, 0
    folder = tmp_path / "killed"
    while kills < 30:
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


def test_a_dask_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra slipstick[dask]")
    made = _plan(tmp_path, count=500, chunk=25)
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


def test_others_read_the_parts(tmp_path: Path) -> None:
    store = run(_plan(tmp_path, count=25, chunk=50), tmp_path / "out")
    frame = pd.read_parquet(store.results).sort_values("point").reset_index(drop=True)
    _identical(frame, store.frame())


def test_a_saved_what_if_is_the_same_study(tmp_path: Path) -> None:
    vary = ["machine.clock=1GHz,2GHz", "run.threads=1..240:5"]
    study = Study.of_question("phi-cnn-small", "xeon-phi-7120p", "phi-a", ["run.threads=240"], vary)
    study.save(tmp_path / "deep" / "what if.toml")
    assert plan(load_study(tmp_path / "deep" / "what if.toml")).fingerprint == plan(study).fingerprint
