"""What a command adds to a question is no word of the user's, and what varies is read or refused."""

from __future__ import annotations

import json

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run

Captured = pytest.CaptureFixture[str]


def _conditions(words: list[str], capsys: Captured) -> dict[str, dict[str, str]]:
    assert run([*words, "--format", "json"]) == 0
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)[0]["conditions"]}


@pytest.mark.parametrize("vary", ["run.concurrency=1,4", "run.rate=1,2", "machine.memory.HBM3.bandwidth=3TB/s,4TB/s"])
def test_one_user_is_nobodys_word(vary: str, capsys: Captured) -> None:
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--num-requests", "8", "--vary", vary]
    assert _conditions(words, capsys).get("run.concurrency", {"origin": ""})["origin"] != "given"
    named = _conditions([*words[:4], "--concurrency", "4", *words[4:6], "--vary", "run.seed=0,1"], capsys)
    assert named["run.concurrency"]["origin"] == "given"


def test_a_rate_that_varies_is_read() -> None:
    answer = ss.whatif("serve:llama-3.1-8b", "h100-sxm", {"run.rate": [1, 4]}, settings={"run.num_requests": 20})
    assert not answer.unused
    assert answer.frame.time_ratio.nunique() == 2


def test_threads_of_today_are_a_default(capsys: Captured) -> None:
    words = ["whatif", "phi-cnn-small", "--on", "xeon-phi-7120p", "--vary", "run.threads=120,240"]
    assert _conditions(words, capsys)["run.threads"]["origin"] == "default"
    assert _conditions([*words, "--threads", "240"], capsys)["run.threads"]["origin"] == "given"


def test_every_oversubscribed_point_is_named(capsys: Captured) -> None:
    words = ["whatif", "phi-cnn-small", "--on", "xeon-phi-7120p", "--estimator", "threads-counted"]
    assert run([*words, "--vary", "run.threads=60,240,480,960,1920"]) == 0
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "oversubscribe" in one)
    assert line.startswith("at run.threads = 480, 960, 1920: that many threads oversubscribe 244")
