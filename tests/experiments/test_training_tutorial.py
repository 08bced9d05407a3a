"""The commands of the page on training runs, executed with its files; hosts, buildings and prices apart."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from slipstick.experiments.commands.cli import run
from slipstick.experiments.subjects.power.facility import Facility, price_text
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```console\n\$ slipstick (.*?)\n(.*?)```", re.DOTALL)


def mlperf_log() -> str:
    """Two blocks of 40 steps with an evaluation behind each."""
    events = [
        (0, "submission_benchmark", "llama31_8b", {}), (0, "global_batch_size", 32, {}),
        (10_000, "run_start", None, {}),
        (10_000, "block_start", None, {"samples_count": 0}), (410_000, "block_stop", None, {"samples_count": 1280}),
        (410_000, "eval_start", None, {}), (430_000, "eval_stop", None, {}),
        (430_000, "block_start", None, {"samples_count": 1280}), (830_000, "block_stop", None, {"samples_count": 2560}),
        (830_000, "eval_start", None, {}), (850_000, "eval_stop", None, {}),
        (850_000, "run_stop", None, {"status": "success"}),
    ]  # fmt: skip
    lines = [{"time_ms": time, "key": key, "value": value, "metadata": notes} for time, key, value, notes in events]
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)


def test_the_page_on_training_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("my-model.json", "measured-steps.csv"):
        shutil.copy(DOCS / "tutorial" / name, tmp_path)
    (tmp_path / "result_0.txt").write_text(mlperf_log())
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    page = (DOCS / "training-runs.md").read_text()
    assert (tmp_path / "measured-steps.csv").read_text() in page
    steps = BLOCK.findall(page)
    assert len(steps) == 2
    for command, shown in steps:
        code = run(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, said.err
        assert same(shown, said.out, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{said.out}"


def test_hosts_and_buildings_stand_apart() -> None:
    facility = Facility(host=400.0, pue=1.25)
    assert facility.watts(5600.0, 8) == (5600 + 3200) * 1.25
    assert "5,600 W of devices + 3,200 W of hosts" in facility.text(5600.0, 8)
    assert not Facility().counted and Facility().watts(700.0, 1) == 700.0
    with pytest.raises(InputError, match="PUE = 0.5"):
        Facility(pue=0.5)
    with pytest.raises(InputError, match="host power = -1"):
        Facility(host=-1.0)


def test_a_price_has_its_date() -> None:
    assert price_text(machine("a10g")).endswith("2024-06)")
    assert price_text(machine("h100-sxm")) == ""
    assert "its date is not stated" in price_text(machine("h100-sxm").using({"price": 2.5}))


def test_a_server_at_the_meter(capsys: pytest.CaptureFixture[str]) -> None:
    words = "serve llama-3.1-8b --on h100-sxm --concurrency 2 --output 8 --count 4 --host-power 300W --pue 1.2"
    assert run([*words.split(), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["meter_W"] == pytest.approx((answer["power_W"] + 300) * 1.2)
    assert run(words.split()) == 0
    assert "at the meter: " in capsys.readouterr().out
