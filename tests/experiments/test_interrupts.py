"""Ctrl-C on every executor: one line, no worker's traceback, and every finished part stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STUDY = """
schema = "slipstick-study-1"
name = "interrupted"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
bands = "never"
chunk = 4

[sample]
method = "sobol"
count = 60000

[sample.ranges]
"machine.clock" = { low = "0.8 GHz", high = "3 GHz", scale = "log" }
"run.threads" = { low = 1, high = 3840, scale = "log", kind = "whole" }
"""


def _answers_to_ctrl_c() -> None:
    """A job in the background of a script is started deaf to Ctrl-C, and so are its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("kind", ["serial", "threads", "processes", pytest.param("dask", marks=pytest.mark.slow)])
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
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    lines = [line for line in said.splitlines() if not line.startswith("interrupted: ")]
    assert lines == ["slipstick: interrupted"], said
    assert len(list(results.glob("part-*"))) > 3
