"""A job in a study: its points are those of `simulate`, its numbers are checked, its code is named by the user."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.studies.study import load_study

JOB = """
name: loaders
steps: 30
runs: 5
stages:
  - {name: decode, service: 2 s, variation: 0.3, workers: 4, buffer: 4}
  - {name: step, service: 500 ms}
"""
STUDY = """
schema = "slipstick-study-1"
name = "loaders"
workloads = ["mine/job.yaml"]
machines = ["v100-sxm"]
set = {"job.step.variation" = 0.1}

[vary]
"job.decode.workers" = [2, 4]
"job.decode.service" = [1.0, 2.0]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "job.yaml").write_text(JOB)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_points_are_those_of_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "run", "study.toml"]) == 0
    assert run(["study", "report", "study.toml"]) == 0
    table = ss.study("study.toml").frame()
    assert len(table) == 4
    for _, row in table.iterrows():
        settings = [
            "job.step.variation=0.1",
            f"job.decode.workers={row['job.decode.workers']:g}",
            f"job.decode.service={row['job.decode.service']}",
        ]
        found = ss.simulate("mine/job.yaml", settings=settings, runs=5)
        low, high = found.band()
        assert row["time_s"] == pytest.approx(float(sorted(found.numbers["time_s"])[2]))
        assert (row["low_s"], row["high_s"]) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"job.decode.workers" = [2, 4]', '"job.decode.workers" = [2.5]', "want a whole number"),
        ('"job.decode.workers" = [2, 4]', '"job.decode.worker" = [2]', "job.decode.workers"),
        ("mine/job.yaml", "gpt2", "is no job"),
    ],
)
def test_what_is_no_number_of_the_job_is_refused(old: str, new: str, said: str) -> None:
    Path("study.toml").write_text(STUDY.replace(old, new).replace('set = {"job.step.variation" = 0.1}\n', ""))
    study = load_study("study.toml")
    with pytest.raises(InputError, match=said):
        query = study.question(study.workloads[0], "v100-sxm")
        names = tuple(study.vary)
        query.estimator.compile(query.workload, query.machine, names, query.run)(
            {name: float(study.vary[name][0]) for name in names}  # type: ignore[arg-type,index]
        )


def test_its_process_is_named_by_the_user() -> None:
    Path("my_stage.py").write_text(
        "import dataclasses\nimport slipstick as ss\n\n@dataclasses.dataclass(frozen=True)\n"
        "class Twice(ss.runs.Process):\n"
        "    factor: float = 2.0\n\n    def work(self, env, seconds, random):\n"
        "        yield env.timeout(self.factor * seconds)\n"
    )
    Path("mine/job.yaml").write_text(JOB.replace("buffer: 4", 'buffer: 4, process: "my_stage:Twice"'))
    Path("study.toml").write_text(STUDY.replace('"job.decode.service" = [1.0, 2.0]', '"job.decode.factor" = [1, 2]'))
    with pytest.raises(InputError, match="add allow_code=my_stage:Twice"):
        ss.study("study.toml")
    table = ss.study("study.toml", allow_code=["my_stage:Twice"]).frame()
    sys.modules.pop("my_stage", None)
    times = table.set_index(["job.decode.workers", "job.decode.factor"])["time_s"]
    assert times[2, 2] > 1.8 * times[2, 1]


@pytest.mark.parametrize(
    "line", ['dtype = "bfloat16"', 'quantity = "energy"', 'measured = "nope.csv"', 'train = "adam"']
)
def test_what_a_job_does_not_read_is_refused(folder: Path, line: str) -> None:
    """All of them were dropped without a word."""
    text = STUDY.replace("set =", f"{line}\nset =")
    (folder / "study.toml").write_text(text)
    with pytest.raises(InputError, match=f"{line.split()[0]}: mine/job.yaml is a job"):
        load_study(folder / "study.toml").question("mine/job.yaml", "v100-sxm")


def test_numbers_of_a_machine_are_refused_beside_a_job(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY.replace('"job.step.variation" = 0.1', '"machine.clock" = "1 GHz"'))
    with pytest.raises(InputError, match="set.machine.clock: mine/job.yaml is a job"):
        load_study(folder / "study.toml").question("mine/job.yaml", "v100-sxm")


@pytest.mark.slow
def test_what_failures_cost_stands_in_the_table_and_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step of 1 s and a run of 1,000 of them twice as long: the rest is lost, and the words say so."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: run\nsteps: 300\ncopies: 4\ndevice: compute\nstages:\n  - {name: compute, service: 1 s}\n"
        "checkpoint: {every: 20, time: 1 s}\nfailures: {between: 20 min, restart: 10 s}\n"
    )
    words = ["whatif", str(path), "--simulate", "--vary", "job.checkpoint.every=20,300", "--runs", "60"]
    assert run([*words, "--format", "json"]) == 0
    often, never = json.loads(capsys.readouterr().out)
    assert never["lost"] > often["lost"] > 0
    assert never["step_s"] * 300 < never["time_s"] and 1 - never["lost"] == pytest.approx(
        300 / never["time_s"], rel=0.3
    )
    assert run(words) == 0 and "lost: share of the run that failures cost" in capsys.readouterr().out
    assert run(["estimate", str(path), "--simulate", "--runs", "20"]) == 0
    assert "lost: share of the run that failures cost" in capsys.readouterr().out
    path.write_text(path.read_text().partition("failures")[0])
    assert run(words) == 0 and "lost" not in capsys.readouterr().out
