"""Ctrl-C on every executor: one line, no worker's traceback, and every finished part stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstick.experiments.studies.runner import heard_interrupts

STUDY = """
schema = "slipstick-study-1"
name = "interrupted"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
bands = "never"
chunk = 4

[sample]
method = "sobol"
count = 8000

[sample.ranges]
"machine.clock" = { low = "0.8 GHz", high = "3 GHz", scale = "log" }
"run.threads" = { low = 1, high = 3840, scale = "log", kind = "whole" }
"""


def _answers_to_ctrl_c() -> None:
    """A job in the background of a script is started deaf to Ctrl-C, and so are its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "kind", ["threads", *(pytest.param(one, marks=pytest.mark.slow) for one in ("serial", "processes", "dask"))]
)
def test_ctrl_c_is_one_line_on_every_executor(kind: str, tmp_path: Path) -> None:
    if kind == "dask":
        pytest.importorskip("distributed", reason="needs the extra slipstick[dask]")
    (tmp_path / "study.toml").write_text(STUDY)
    words = ["study", "run", "study.toml", "--folder", "out", "--executor", kind]
    # a session of its own: the terminal sends Ctrl-C to the workers too
    child = subprocess.Popen(
        [sys.executable, "-m", "slipstick", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_answers_to_ctrl_c,
    )
    results, began = tmp_path / "out" / "results", time.monotonic()
    while time.monotonic() - began < 100 and not (results.is_dir() and len(list(results.glob("part-*"))) > 3):
        assert child.poll() is None
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=100)
    assert child.returncode == 130
    lines = [line for line in said.splitlines() if not line.startswith("interrupted: ")]
    assert lines == ["slipstick: interrupted"], said
    assert len(list(results.glob("part-*"))) > 3


@pytest.fixture
def usual_handler() -> Iterator[None]:
    """Python's own: a suite that runs in the background of a script is deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _lost() -> None:
    """What numpy does with an interrupt that comes while it compares records."""
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("usual_handler")
def test_an_interrupt_that_was_lost_ends_the_run() -> None:
    with pytest.raises(KeyboardInterrupt), heard_interrupts() as check:
        check()
        _lost()
        check()
        pytest.fail("the run went on")
    with pytest.raises(KeyboardInterrupt), heard_interrupts():
        _lost()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("usual_handler")
def test_an_error_after_an_interrupt_is_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), heard_interrupts():
        _lost()
        raise TypeError("Cannot compare structured arrays")
    with pytest.raises(TypeError, match="of its own"), heard_interrupts():
        raise TypeError("of its own")


def test_a_handler_of_the_caller_stays() -> None:
    told: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        with heard_interrupts() as check:
            signal.raise_signal(signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert told == [signal.SIGINT]
