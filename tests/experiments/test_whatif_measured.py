"""slipstick whatif --known: the user's own times are fitted, and what they vary may stay in the question."""

from pathlib import Path

import pytest

from slipstick.experiments.commands.cli import run

GEMM = ["whatif", "gemm", "--on", "v100-sxm", "--vary", "machine.clock=1GHz,1.5GHz"]
FIT = ["--fit", "operation.compute_efficiency"]


@pytest.fixture
def times(tmp_path: Path) -> str:
    path = tmp_path / "runs.csv"
    path.write_text("time_s,workload.m\n0.01,4096\n0.021,8192\n0.039,16384\n")
    return str(path)


def test_what_the_rows_vary_may_be_set_for_the_question(times: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GEMM, "--set", "workload.m=512", "--known", times, *FIT]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "fitted to runs.csv (3 measurements)" in said
    assert "bands of ratios: what was fitted, and most of what the fit misses, is one for both times" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--set", "workload.l=2", "--known", "TIMES", *FIT],
            "unknown symbol of workload 'gemm' 'l' (known: k, m, n)",
        ),
        (["--known", "TIMES"], "say what they fit, --fit estimator.NAME"),
        (FIT, "give --known FILE with --fit NAME"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    times: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*GEMM, *(times if one == "TIMES" else one for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1
