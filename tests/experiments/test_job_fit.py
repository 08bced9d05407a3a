"""Jobs fitted through their simulation: planted numbers are found, errors are honest, bad files are one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.columns import for_people
from slipstick.common.errors import InputError
from slipstick.estimators.simulation.job_calibration import JobCalibration, load_job_calibration
from slipstick.estimators.simulation.run_quantities import series
from slipstick.experiments.cli.cli import run
from slipstick.experiments.jobs.job_file import JobQuestion, job_question
from slipstick.experiments.jobs.job_fit import FittedJob, fit_job
from tests.printed import rows as answer

FED = """
name: shared decoders
steps: {steps}
device: step
resources: {{cores: 4}}
stages:
  - {{name: decode, service: 60 ms, variation: 0.3, workers: 8, buffer: 4, resource: cores}}
  - {{name: step, service: 10 ms}}
"""
QUEUE = """
name: a server and its queue
steps: 400
device: server
stages:
  - {name: arrivals, service: 100 ms, distribution: exponential, buffer: null}
  - {name: server, service: 100 ms, distribution: exponential, workers: 2, order: free}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(FED.format(steps=120))
    (tmp_path / "queue.yaml").write_text(QUEUE)
    return tmp_path


def written(path: Path, column: str, values: np.ndarray) -> str:
    path.write_text(f"{column}\n" + "\n".join(f"{value:.7g}" for value in values) + "\n")
    return str(path)


def planted(folder: Path, number: int, generator: np.random.Generator) -> tuple[FittedJob, dict[str, float]]:
    """A job with drawn numbers, run once, and fitted from what one sees of it: the seconds of its steps."""
    true = {
        "decode.service": float(generator.uniform(0.05, 0.12)),
        "decode.variation": float(generator.uniform(0.2, 1.0)),
        "decode.start_up": float(generator.uniform(0.5, 3.0)),
    }
    question = job_question(str(folder / "job.yaml"))
    job, _ = question.using([f"job.{name}={value}" for name, value in true.items()]).job()
    steps = written(folder / f"steps-{number}.csv", "step_s", series(job.simulate(number), "step_s"))
    return fit_job(question, steps, [f"job.{name}" for name in true]), true


def errors_of(fitted: FittedJob, true: dict[str, float]) -> list[float]:
    """How many standard errors each number is off."""
    known = fitted.calibration
    sure = known.standard_errors()
    return [(value - true[name]) / sure[name] for name, value in zip(known.names, known.values, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 20])
def test_planted_numbers_lie_within_two_standard_errors(folder: Path, jobs: int) -> None:
    generator = np.random.default_rng(3)
    off = np.array([errors_of(*planted(folder, number, generator)) for number in range(jobs)])
    assert np.mean(np.abs(off) < 2) >= 0.9  # 95 % of a normal distribution
    if jobs == 20:
        assert 0.5 < off.std() < 1.5  # nor are the errors too large


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["job.resources.cores", "job.resources.cores,job.decode.service"])
def test_shared_cores_are_counted(folder: Path, fit: str) -> None:
    question = job_question("job.yaml")
    job, _ = question.using(["job.resources.cores=6", "job.decode.service=90 ms"]).job()
    one = job.simulate(1)
    rows = zip(series(one, "step_s"), series(one, "decode.service_s"), strict=True)
    (folder / "both.csv").write_text("step_s,decode.service_s\n" + "\n".join(f"{a:.6g},{b:.6g}" for a, b in rows))
    known = fit_job(
        question if "," in fit else question.using(["job.decode.service=90 ms"]), "both.csv", [fit]
    ).calibration
    assert known.values[0] == 6
    assert known.sample and min(row[0] for row in known.sample) > 4
    assert len(known.values) == 1 or known.values[1] == pytest.approx(0.09, rel=0.1)


def test_a_queue_meets_erlang_and_its_server_is_found(folder: Path) -> None:
    question = job_question("queue.yaml", settings=["job.server.service=150 ms"])
    job, _ = question.job()
    seen = np.array([series(job.simulate(seed), "latency_s")[100:].mean() for seed in range(40)])
    error = seen.std(ddof=1) / np.sqrt(len(seen))
    # M/M/2 at a load of 0.75 a server: s / (1 - 0.75^2) in the queue and the server
    assert abs(seen.mean() - (0.15 / (1 - 0.75**2))) < 3 * error
    steps = written(folder / "latency.csv", "latency_s", series(job.simulate(99), "latency_s"))
    known = fit_job(job_question("queue.yaml"), steps, ["job.server.service"]).calibration
    assert abs(known.values[0] - 0.15) < 3 * known.standard_errors()["server.service"] < 0.1


def test_the_host_of_a_tpu_is_fitted_as_a_factor_on_its_estimate(folder: Path) -> None:
    quiet = [f"job.{stage}.scatter=0" for stage in ("host", "infeed", "step")]
    question = job_question("resnet50", "tpu-v2-8", settings=["job.steps=40", *quiet])
    job, _ = question.using(["job.host.service=1.5"]).job()
    steps = written(folder / "tpu.csv", "step_s", series(job.simulate(3), "step_s"))
    known = fit_job(question, steps, ["job.host.service"]).calibration
    assert known.values[0] == pytest.approx(1.5, rel=0.02)
    assert known.bases["host.service"] == pytest.approx(
        job_question("resnet50", "tpu-v2-8").job()[0].pipeline.stages[0].mean
    )
    twice = JobQuestion(
        question.document, question.where, question.machine, settings=question.settings, calibration=known
    )
    ratio = (
        twice.using(["workload.batch=128"]).job()[0].pipeline.stages[0].mean / twice.job()[0].pipeline.stages[0].mean
    )
    assert ratio == pytest.approx(2, rel=0.02)  # a batch of twice as many examples: the factor stays


@pytest.mark.slow
def test_a_calibration_is_kept_and_gives_bands_of_percentiles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = job_question("job.yaml")
    job, _ = question.using(["job.decode.service=90 ms"]).job()
    written(folder / "steps.csv", "step_s", series(job.simulate(7), "step_s"))
    fit = ("--measured", "steps.csv", "--fit", "job.decode.service,job.decode.variation")
    rows = answer(capsys, "calibrate", "job.yaml", *fit, "--out", "fitted.json")
    assert rows[0]["low"] < 0.09 < rows[0]["high"]  # type: ignore[operator]
    known = load_job_calibration("fitted.json")
    (table, *_) = fit_job("job.yaml", "steps.csv", ["job.decode.service"]).tables()
    assert for_people(table.rows, table.columns)[0]["value"].endswith(" ms")  # each row with its unit
    assert known.names == ("decode.service", "decode.variation") and known.values[0] == rows[0]["value"]
    by = {
        row["quantity"]: row
        for row in answer(capsys, "estimate", "job.yaml", "--simulate", "--calibration", "fitted.json", "--runs", "40")
    }
    now = by["time_s"]
    assert now["p50_low"] < now["p50"] < now["p50_high"] and by["step_s"]["p90_low"] < by["step_s"]["p90_high"]  # type: ignore[operator]
    assert job.simulate(8).time == pytest.approx(now["p50"], rel=0.2)
    assert by["job.decode.service"]["mean"] == known.values[0]
    wide = answer(
        capsys,
        "whatif",
        "job.yaml",
        "--simulate",
        "--calibration",
        "fitted.json",
        "--runs",
        "20",
        "--vary",
        "job.resources.cores=4,8",
    )
    assert wide[0]["time_ratio"] == 1 and 0.4 < wide[1]["time_ratio"] < 0.9  # type: ignore[operator]
    assert wide[1]["low_ratio"] < wide[1]["high_ratio"]  # type: ignore[operator]
    again = ss.simulate("job.yaml", calibration=known, runs=40)
    assert again.rows()[0]["p50"] == now["p50"] and again.provenance == "calibrated"


def test_a_number_that_is_set_is_not_the_fitted_one(folder: Path) -> None:
    question = job_question("job.yaml")
    steps = written(folder / "steps.csv", "step_s", series(question.job()[0].simulate(7), "step_s"))
    known = fit_job(question, steps, ["job.decode.service"]).calibration
    simulated = ss.simulate("job.yaml", settings=["job.decode.service=500 ms"], calibration=known, runs=2)
    assert simulated.job.pipeline.stages[0].mean == 0.5
    assert any("set and not taken from it: job.decode.service" in line for line in simulated.assumptions)


STEPS = "step_s\n" + "0.02\n" * 30
BAD = [
    (None, "job.decode.service", "no_such_file.csv: no such file"),
    (STEPS, "nonsense.name", "--fit nonsense.name: numbers of a simulated job are job.STAGE.FIELD"),
    (STEPS, "job.decode.servise", "unknown number of job 'shared decoders' 'job.decode.servise'"),
    (STEPS, "job.step.service,job.step.service", "each once"),
    ("time_s\n3\n", "job.step.service,job.decode.service", "1 measured figures cannot fix 2 parameters"),
    ("step_s\n-1\n", "job.step.service", "line 2: step_s = -1 lies outside"),
    ("step_s\nnan\n", "job.step.service", "line 2: step_s = 'nan' is not finite"),
    ("step_s\n0\n0\n", "job.step.service", "all of its 2 values are 0 s"),
    ("step_s\n", "job.step.service", "no measurements below the header"),
    ("", "job.step.service", "is empty"),
    ("seconds\n1\n", "job.step.service", "unknown column 'seconds'"),
    ("job.steps\n3\n", "job.step.service", "no measured column"),
    ("step,step_s\n2,1\n1,1\n", "job.step.service", "line 3: step = 1 comes after step 2"),
    ("step,step_s\nfirst,1\n", "job.step.service", "step = 'first'"),
    ("job.step.service,step_s\n1 ms,1\n", "job.step.service", "is set in a row, so it cannot be fitted"),
    ("job.nothing.workers,step_s\n1,1\n", "job.step.service", "nothing"),
    ("step,step_s\n900000,1\n", "job.step.service", "more than"),
]


@pytest.mark.parametrize(("text", "fit", "words"), BAD)
def test_what_cannot_be_fitted_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str | None, fit: str, words: str
) -> None:
    name = "no_such_file.csv"
    if text is not None:
        name = "measured.csv"
        (folder / name).write_text(text)
    vary = ("--vary", "job.decode.workers=4,16")
    for verb, more in (("whatif", vary), ("estimate", ())):
        assert run([verb, "job.yaml", "--simulate", "--measured", name, "--fit", fit, *more]) == 2
        told = capsys.readouterr().err
        assert words in told and told.count("\n") == 1


def test_a_file_of_another_kind_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, words in (
        ("{}", "want 'slipstick-job-calibration-2'"),
        ('{"schema": "slipstick-job-calibration-1"}', "make one of another version anew: calibrate JOB.yaml"),
        ('{"schema": "slipstick-job-calibration-2", "names": ["x"], "covariance": [[null]]}', "'values' is missing"),
    ):
        (folder / "other.json").write_text(text)
        assert run(["estimate", "job.yaml", "--simulate", "--calibration", "other.json"]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(InputError, match="want 1 to 1000 names, a finite value each"):
        JobCalibration("job", ("a", "b"), (1.0, 2.0, float("nan")), ((1.0, 0.0), (0.0, 1.0)))
    known = JobCalibration("shared decoders", ("decode.service",), (0.05,), ((1e-6,),), source="s.csv")
    known.save("of-decoders.json")
    assert run(["estimate", "queue.yaml", "--simulate", "--calibration", "of-decoders.json"]) == 2
    assert "is of another job" in capsys.readouterr().err
    assert run(["estimate", "gpt2", "--on", "t4", "--calibration", "of-decoders.json"]) == 2
    assert "calibration of a simulated job" in capsys.readouterr().err
