"""A stage that is a user's own SimPy process: named by himself, its numbers vary and are fitted, seeds repeat it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.job import Job, job_numbers, with_numbers
from slipstick.estimators.simulation.stage import Stage
from slipstick.experiments.cli.cli import run
from slipstick.experiments.jobs.job_file import job_question
from slipstick.experiments.jobs.job_fit import fit_job

WORKERS = """
from dataclasses import dataclass

import slipstick as ss


@dataclass(frozen=True)
class Failing(ss.runs.Process):
    between: float = 20.0
    repair: float = 5.0
    most: int = 1_000_000

    def work(self, env, seconds, random):
        until = random.exponential(self.between)
        while until < seconds and self.most:
            yield env.timeout(until + self.repair)
            seconds -= until
            until = random.exponential(self.between)
        yield env.timeout(seconds)
"""
JOB = """
name: workers that fail
steps: 60
stages:
  - {name: decode, service: 2, workers: 3, buffer: 4, process: "my_workers:Failing"}
  - {name: step, service: 500 ms}
"""
NAMED = ("my_workers:Failing",)


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import my_workers  # type: ignore[import-not-found]

    yield my_workers.Failing
    sys.modules.pop("my_workers", None)


def one_stage(process: Any, steps: int = 4000, **fields: Any) -> Job:
    return Job("one", Pipeline((Stage("work", 2.0, process=process, **fields),), "work"), steps)


def test_its_time_is_that_of_the_closed_form(failing: Any) -> None:
    """A service of 2 s is interrupted 2 / between times on average, each for `repair` seconds."""
    for between, repair in ((20.0, 5.0), (3.0, 1.0), (0.5, 0.2)):
        time = one_stage(failing(between, repair)).simulate(5).time / 4000
        assert time == pytest.approx(2.0 * (1 + repair / between), rel=0.03)
    assert one_stage(failing(1e12)).simulate(1).time == pytest.approx(8000)


def test_a_process_that_only_waits_is_the_stage_without_it(failing: Any) -> None:
    quiet = failing(most=0)
    for together in (False, True):
        stages = [Stage("a", 1.0, 3, buffer=2, variation=0.5), Stage("b", 0.4, variation=0.7, together=together)]
        plain = Job("x", Pipeline(tuple(stages), "b"), 50, copies=3)
        own = [Stage(**{**vars(stage), "process": quiet}) for stage in stages]
        made = Job("x", Pipeline(tuple(own), "b"), 50, copies=3)
        np.testing.assert_array_equal(made.simulate(2).step_ends(), plain.simulate(2).step_ends())


def test_seeds_repeat_and_differ(failing: Any) -> None:
    job = one_stage(failing(), 50)
    assert job.simulate(3).time == job.simulate(3).time != job.simulate(4).time
    with pytest.raises(InputError, match="stages work are processes: there is no recurrence"):
        job.pipeline.run(5)


def test_its_numbers_are_numbers_of_the_job(failing: Any) -> None:
    numbers = job_numbers(one_stage(failing()))
    assert numbers["work.between"].value == 20 and numbers["work.most"].whole
    changed = with_numbers(one_stage(failing()), {"work.between": 7.0, "work.most": 2.0, "work.service": 1.0})
    assert changed.pipeline.stages[0].process == failing(7.0, 5.0, 2)
    assert changed.pipeline.stages[0].service == (1.0,)


def test_a_file_names_it_and_the_user_too(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "job.yaml", "--simulate", "--runs", "2"]) == 2
    assert "if you trust it, add --allow-code my_workers:Failing" in capsys.readouterr().err
    assert run(["estimate", "job.yaml", "--simulate", "--runs", "2", "--allow-code", *NAMED]) == 0
    assert run(["whatif", "job.yaml", "--simulate", "--runs", "2", "--allow-code", *NAMED,
                "--vary", "job.decode.between=5,1e9"]) == 0  # fmt: skip
    capsys.readouterr()
    assert run(["estimate", "job.yaml", "--simulate", "--allow-code", *NAMED, "--set", "job.decode.betwen=5"]) == 2
    assert "did you mean 'job.decode.between'" in capsys.readouterr().err
    rare, often = (
        ss.simulate("job.yaml", runs=4, settings=[f"job.decode.between={seconds}"], allow_code=NAMED)
        for seconds in (1e9, 4)
    )
    assert bool((often.numbers["time_s"] > 1.5 * rare.numbers["time_s"]).all())


def test_what_is_no_process_is_refused(failing: Any) -> None:
    Path("job.yaml").write_text(JOB.replace("my_workers:Failing", "my_workers:dataclass"))
    with pytest.raises(InputError, match="is no Process"):
        ss.simulate("job.yaml", runs=1, allow_code=["my_workers:dataclass"])


@pytest.mark.slow
def test_the_rate_of_failures_is_fitted_to_measured_steps(failing: Any) -> None:
    settings = ["job.steps=40", "job.decode.workers=1"]
    made = ss.simulate("job.yaml", runs=10, settings=[*settings, "job.decode.between=8"], allow_code=NAMED)
    Path("steps.csv").write_text("step_s\n" + "\n".join(map(str, made.steps)) + "\n")
    question = job_question("job.yaml", settings=settings, allow_code=NAMED)
    found = fit_job(question, "steps.csv", ["job.decode.between"], runs=24)
    low, high = found.calibration.percentiles(found.job, 0.98)["decode.between"]
    assert low < 8 < high and high < 2 * low


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("        raise KeyError('speed')\n        yield", "process Bad of stage 'work': KeyError: 'speed'"),
        ("        return None", "process Bad of stage 'work': TypeError"),
        ("        yield env.event()", "the process of stage work waits for what never comes"),
    ],
)
def test_an_error_of_a_process_is_said_as_its_own(failing: Any, body: str, said: str) -> None:
    """It was called a defect of ours, with exit code 3."""
    names: dict[str, Any] = {}
    text = WORKERS.split("    def work")[0].replace("Failing", "Bad")
    Path("bad_workers.py").write_text(f"{text}    def work(self, env, seconds, random):\n{body}\n")
    exec(Path("bad_workers.py").read_text(), names)
    with pytest.raises(InputError, match=said):
        one_stage(names["Bad"](), 3).simulate(1)


def test_a_number_that_every_stage_has_is_no_process_s(failing: Any) -> None:
    Path("my_workers.py").write_text(WORKERS.replace("most: int", "workers: int").replace("self.most", "self.workers"))
    sys.modules.pop("my_workers", None)
    with pytest.raises(InputError, match="workers is a number of every stage"):
        job_question("job.yaml", allow_code=NAMED).job()
