"""Links between servers' workers, streams beyond any rate, clocks that no chip has, budgets without an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli import cli
from slipstick.experiments.serve.serve import serve
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import ImplausibleWarning, load_machine, save_machine

SERVE = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--num-requests", "8", "--output-tokens", "16"]


@pytest.mark.parametrize("link", ["0", "0GB/s", "-5GB/s", "50", "1e-300GB/s", "5e-324", "nan", "inf", "1e400GB/s"])
def test_a_link_that_sends_nothing_is_refused(link: str, capsys: pytest.CaptureFixture[str]) -> None:
    """0 was the machine's own link; a negative one ended as a negative delay, a tiny one as a division by zero."""
    words = [*SERVE, "--concurrency", "2", "--prefill-workers", "1", "--link-bandwidth", link]
    assert cli.run(words) == 2
    said = capsys.readouterr().err
    assert "bandwidth" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("link", [-5e9, 5e-324, float("nan"), float("inf"), True])
def test_a_link_in_python_is_refused_too(link: float) -> None:
    with pytest.raises(InputError, match="link_bandwidth = "):
        serve("llama-3.1-8b", "h100-sxm", concurrency=4, prefill_workers=1, link_bandwidth=link)


def test_a_varied_link_that_sends_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """0 was the machine's own link, in silence."""
    words = ["whatif", *SERVE[1:4], "--set", "run.prefill_workers=1", "--vary", "run.link_bandwidth=0,50GB/s"]
    cli.run(words)
    assert "refused at run.link_bandwidth = 0" in capsys.readouterr().out


@pytest.mark.parametrize("workers", [float("nan"), float("inf"), 1.5, -1])
def test_workers_in_python_are_counted(workers: float) -> None:
    with pytest.raises(InputError, match=r"prefill_workers = .*: want a whole number >= 0"):
        serve("llama-3.1-8b", "h100-sxm", concurrency=4, prefill_workers=workers)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", ["inf", "nan", "0", "-1"])
def test_a_stream_of_no_finite_rate_is_refused(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An infinite one ended in the conversion to a whole number, with --num-requests and without."""
    assert cli.run([*SERVE, "--rate", rate]) == 2
    assert capsys.readouterr().err == f"slipstick: --rate {rate}: want a finite number of requests/s > 0\n"


@pytest.mark.parametrize("pool", [[], ["--prefill-workers", "1"]])
def test_no_more_requests_are_present_than_come(pool: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """All at once is all at once: Little's law counted users that never came, and the first token took hours."""
    shown = []
    many = [word if word != "8" else "32" for word in SERVE]  # one prompt alone is a small part of all
    for rate in ("1e6", "1e9", "1e300"):
        assert cli.run([*many, *pool, "--rate", rate, "--format", "csv"]) == 0
        shown.append(capsys.readouterr().out)
    seconds = [float(text.splitlines()[1].split(",")[2]) for text in shown]  # the mean first token
    assert seconds == pytest.approx([seconds[0]] * 3, rel=0.1)  # the first may be read alone or beside the others


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rated_clock": 5e9}, "rated_clock = 5 GHz is hardly meant: expected at most 3.96 GHz"),
        ({"base_clock": 1e30}, "base_clock = "),
        ({"peak_clock": 1.5e9}, "rated_clock = 1.83 GHz is hardly meant: expected at most 1.5 GHz"),
    ],
)
def test_a_clock_above_the_highest_is_doubted(changes: dict[str, float], said: str, tmp_path: Path) -> None:
    """The share of the peak (MFU) counts by it: at a rated clock of 1e30 Hz it was 0 %, and nothing was said."""
    path = tmp_path / "own.yaml"
    save_machine(machine("h100-sxm").model_copy(update=changes), path)
    with pytest.warns(ImplausibleWarning, match=said):
        load_machine(path)


@pytest.mark.parametrize("budget", ["inf", "nan", "1e300", "0", "-5", "1e6"])
def test_a_probe_ends(budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An infinite budget was taken."""
    assert cli.run(["probe", "--budget-seconds", budget, "--out", str(tmp_path)]) == 2
    assert "--budget-seconds" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
