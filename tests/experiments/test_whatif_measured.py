"""slipstick whatif --measured: the user's own times are fitted, and what they vary may stay in the question."""

from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run

GEMM = ["whatif", "gemm", "--on", "v100-sxm", "--vary", "machine.clock=1GHz,1.5GHz"]
FIT = ["--fit", "operation.compute_efficiency"]


@pytest.fixture
def times(tmp_path: Path) -> str:
    path = tmp_path / "runs.csv"
    path.write_text("time_s,workload.m\n0.01,4096\n0.021,8192\n0.039,16384\n")
    return str(path)


def test_what_the_rows_vary_may_be_set_for_the_question(times: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GEMM, "--set", "workload.m=512", "--measured", times, *FIT]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "fitted to runs.csv (3 measurements)" in said
    assert "bands of ratios: what was fitted, and most of what the fit misses, is one for both times" in said


def test_times_over_threads_are_no_steps_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their median, 3.975 s, is the time of no number of threads; steps of several ranks are read."""
    path = tmp_path / "threads.csv"
    path.write_text("threads,time_s\n1,10.1\n2,5.2\n4,2.75\n8,1.6\n")
    asked = ["estimate", "gpt2", "--on", "h100-sxm", "--measured", str(path)]
    assert run(asked) == 2
    said = capsys.readouterr().err
    assert "times over threads" in said and f"slipstick extrapolate {path} --to N" in said and "23.4ms" in said
    path.write_text("iteration,rank,time_s\n0,0,0.26\n0,1,0.25\n1,0,0.25\n")
    assert run(asked) == 0
    assert "median of 3 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--set", "workload.l=2", "--measured", "TIMES", *FIT],
            "unknown symbol of workload 'gemm' 'l' (known: k, m, n)",
        ),
        (FIT, "give --measured FILE with --fit NAME"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    times: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*GEMM, *(times if one == "TIMES" else one for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1
