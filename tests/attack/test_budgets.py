"""Small files and single options whose products are hours: each is refused with its product, or made linear."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.sampling import phases
from slipstick.experiments.cli.cli import run
from slipstick.experiments.cli.phases import compared
from slipstick.workloads.importers.mllog.mllog_reader import read_mllog
from slipstick.workloads.runs.step_profiles import Operation, StepProfile, StepTable
from tests.attack.seeds import CONFIG

SOON = 8.0
"""CPU seconds; each took from 20 s to hours, or gigabytes."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cpu_seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.parametrize(
    ("fields", "stage", "more", "product"),
    [
        ("", "gather: 10000000", [], "1,000,000,100 services"),
        ("steps: 1", "gather: 10000000", [], "10,000,001 services"),
        ("steps: 10000, runs: 10000", "workers: 2", [], "20,000 services x 10,000 runs = 200,000,000"),
        ("steps: 10", "workers: 2", ["--runs", str(2**64)], "20 services x 18,446,744,073,709,551,616 runs"),
        ("steps: 100, copies: 5000", "together: true", ["--runs", "100"], "2,500,000 services x 100 runs"),
    ],
)
def test_a_job_is_refused_by_its_services(
    fields: str, stage: str, more: list[str], product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = f"[{{name: a, service: 1 ms}}, {{name: b, service: 1 ms, {stage}}}]"
    Path("j.yaml").write_text("{name: j, " + (f"{fields}, " if fields else "") + f"stages: {stages}}}")
    assert cpu_seconds(lambda: run(["estimate", "j.yaml", "--simulate", *more])) < SOON
    error = capsys.readouterr().err
    assert product in error and "more than" in error and "take fewer" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "product"),
    [
        ("stages: [{name: a, service: 1 ms, gather: 10000000}]", "100,000,090 services in a run"),
        ("copies: 100000, steps: 1, stages: [{name: a, service: 1 ms}]", "9,999,901 services x 1 runs"),
        ("copies: 100000, steps: 50, stages: [{name: a, service: 1 ms}]", "9,999,950 services x 1 runs"),
    ],
)
def test_a_job_is_refused_by_what_it_gathers_and_copies(
    fields: str, product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of services each, which took 1 GB of inputs, or 16 s to set up."""
    Path("j.yaml").write_text(f"{{name: j, {fields}}}")
    assert cpu_seconds(lambda: run(["estimate", "j.yaml", "--simulate"])) < SOON / 4
    error = capsys.readouterr().err
    assert product in error and "more than" in error and error.count("\n") == 1


def test_inputs_of_a_first_stage_come_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The stage never lacks input, so that 100 outputs of 1 ms take 0.1 s whatever one gathers."""
    Path("j.yaml").write_text("{name: j, steps: 100, stages: [{name: a, service: 1 ms, gather: 20000}]}")
    assert cpu_seconds(lambda: run(["estimate", "j.yaml", "--simulate", "--runs", "1", "--format", "json"])) < SOON
    rows = {row["quantity"]: row["mean"] for row in json.loads(capsys.readouterr().out)}
    assert rows["time_s"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n100000000 100000000 1\n1 1 1.0\n"),
        ("b.mtx", "%%MatrixMarket matrix coordinate real general\n3 100000000 1\n1 1 1.0\n"),
        ("c.triplet0", "0 0 1.0\n99999999 0 1.0\n"),
    ],
)
def test_a_matrix_of_rows_that_hold_nothing_is_refused_before_it_is_made(name: str, text: str) -> None:
    """Sixty bytes were 2.5 GB of pointers to empty rows."""
    Path(name).write_text(text)
    tracemalloc.start()
    with pytest.raises(InputError, match=f"{name}: matrix .* non-zeros: beyond 4,194,304 rows or columns want"):
        ss.read_matrix(name)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_a_sweep_of_a_job_is_refused_by_its_points(capsys: pytest.CaptureFixture[str]) -> None:
    Path("j.yaml").write_text("{name: j, steps: 10000, stages: [{name: a, service: 1 ms}]}")
    assert run(["whatif", "j.yaml", "--simulate", "--vary", "job.copies=1..100:100", "--runs", "10"]) == 2
    assert "50,510,000 services x 10 runs = 505,100,000, more than 8,000,000" in capsys.readouterr().err


def steps(count: int, names: int, duration: float = 1.0) -> list[StepProfile]:
    """Steps each of which has operations that no other has."""
    return [
        StepProfile(i, float(i), duration, {f"{i} {k}": Operation(1, 0.01 + k / 1e4) for k in range(names)})
        for i in range(count)
    ]


@pytest.mark.parametrize("duration", [pytest.param(1.0, marks=pytest.mark.slow), 1000.0])
def test_phases_of_steps_whose_operations_never_come_again(duration: float) -> None:
    """4,000 steps of 20 names were 5 GB as a table, and the mean of their phase grew with every step."""
    table = StepTable.of(steps(4000, 20, duration))
    assert cpu_seconds(lambda: phases.scan_labels(phases.DurationScan(0.5), table.steps)) < SOON
    for method in ("k-means", "dbscan"):
        text = compared(table, method)
        assert text.startswith(f"{method}: not compared: 4,000 steps x 80,000 operations")


def test_steps_that_are_all_alike() -> None:
    """DBSCAN held all pairs of 20,000 steps: 2.8 GB; k-means is fitted to some."""
    same = [StepProfile(i, float(i), 1.0 + i % 7, {"a": Operation(1, 0.5 + i % 7)}) for i in range(20_000)]
    table = StepTable.of(same)
    with pytest.raises(InputError, match="20,000 steps are 400,000,000 pairs, more than dbscan's 25,000,000"):
        phases.density(table)
    labels = phases.k_means(table, clusters=7).labels
    assert all(len(set(labels[k::7].tolist())) == 1 for k in range(7))


def test_a_log_of_losses_and_evaluations_is_read_in_one_pass() -> None:
    """Every pair of losses looked at every evaluation: 15,000 of each were 2 minutes."""
    lines = ['{"time_ms": 0, "key": "global_batch_size", "value": 8}', '{"time_ms": 0, "key": "run_start"}']
    for number in range(8000):
        at = 1000 * number
        lines.append(
            f'{{"time_ms": {at}, "key": "train_loss", "value": 1, "metadata": {{"samples_count": {8 * number}}}}}'
        )
        lines += [
            f'{{"time_ms": {at + 100 + 250 * stop}, "key": "eval_{end}"}}' for stop, end in ((0, "start"), (1, "stop"))
        ]
    Path("run.mllog").write_text("".join(f":::MLLOG {line}\n" for line in lines))
    begun = time.process_time()
    log = read_mllog("run.mllog")
    assert time.process_time() - begun < SOON
    assert log.step_seconds == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("words", "product"),
    [
        (["--concurrency", "4", "--replicas", "1000000000"], "1,000,000,000 replicas x 200 requests = 200,000,000,000"),
        (["--rate", "5", "--num-requests", "1000000"], "less than or equal to 100000"),
        (["--concurrency", str(2**64)], "--concurrency 18,446,744,073,709,551,616: want 1 to 100,000 users"),
        (["--rate", "nan"], "--rate nan: want a finite number"),
    ],
)
def test_a_server_is_refused_by_requests_and_copies(
    words: list[str], product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("config.json").write_text(json.dumps(CONFIG))
    assert cpu_seconds(lambda: run(["serve", "config.json", "--on", "h100-sxm", *words])) < SOON
    assert product in capsys.readouterr().err


def test_a_number_of_devices_with_a_thousand_divisors(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "training", "llama-3.1-70b", "--on", "dgx-h100", "--devices", "735134400", "--batch", "735134400"]
    assert cpu_seconds(lambda: run(words)) < SOON
    assert "more than 250,000 ways to divide" in capsys.readouterr().err
