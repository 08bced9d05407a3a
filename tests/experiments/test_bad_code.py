"""Files that name code, steer the terminal or lead elsewhere: refused, and nothing runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from tests.experiments.test_bad_input import changed, complains

CODE = "open('it-ran', 'w')\n"
CALIBRATION = '{"schema": "slipstick-calibration-1", "estimator": "pwn:x", "names": [], "values": []}'
STUDY = """
schema = "slipstick-study-1"
name = "s"
workloads = ["mlp-inference"]
machines = ["v100-sxm"]
calibration = "c.json"
vary = {"machine.clock" = ["1 GHz", "2 GHz"]}
"""
VARIED = ["mlp-inference", "--on", "v100-sxm", "--vary", "machine.clock=1GHz,2GHz"]


def test_a_calibration_names_code_and_does_not_run_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pwn.py").write_text(CODE)
    (here / "c.json").write_text(CALIBRATION)
    (here / "s.toml").write_text(STUDY)
    for arguments in (
        ["estimate", "mlp-inference", "--on", "v100-sxm", "--calibration", "c.json"],
        ["estimate", "mlp-inference", "--on", "v100-sxm", "--calibration", "c.json", "--estimator", "roofline"],
        ["whatif", *VARIED, "--calibration", "c.json"],
        ["study", "run", "s.toml"],
        ["study", "run", "s.toml", "--allow-code", "pwn:y"],
    ):
        complains(arguments, "c.json: estimator = 'pwn:x' would import", capsys)
    assert not (here / "it-ran").exists()
    assert run(["study", "run", "s.toml", "--allow-code", "pwn:x"]) == 2  # it holds no estimator, but is run
    assert (here / "it-ran").exists()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nothing"], ": want a list of fitted parameters"),
        ([], ": want a list of fitted parameters"),
        ([[]], ": 0 = []: want a text"),
        (5, " = 5: want a list"),
    ],
)
def test_calibrations_of_no_parameter(names: object, said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"schema": "slipstick-calibration-1", "estimator": "roofline", "names": names, "parameters": {}}
    (here / "c.json").write_text(json.dumps(document))
    words = f"c.json: names{said}"
    complains(["estimate", "mlp-inference", "--on", "v100-sxm", "--calibration", "c.json"], words, capsys)


def test_a_page_shows_names_and_does_not_run_them(here: Path) -> None:
    script = "<script>document.write(6*7)</script>"
    (here / "s.toml").write_text(
        STUDY.replace('calibration = "c.json"', f'objectives = ["time", "{script}=machine.clock*2"]')
    )
    assert run(["study", "run", "s.toml"]) == 0
    assert run(["study", "report", "s.toml"]) == 0
    assert (
        run(["whatif", *VARIED, "--objective", "time", "--objective", f"{script}=machine.clock", "--report", "r.html"])
        == 0
    )
    for page in (here / "slipstick-out" / "s" / "report.html", here / "r.html"):
        text = page.read_text()
        assert script not in text and "&lt;script&gt;document.write(6*7)" in text


def test_a_lock_that_leads_elsewhere_is_not_followed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "victim.txt").write_text("precious")
    (here / "s.toml").write_text(STUDY.replace('calibration = "c.json"', ""))
    assert run(["study", "run", "s.toml", "--folder", "out"]) == 0
    (here / "out" / ".lock").unlink()
    (here / "out" / ".lock").symlink_to("../victim.txt")
    assert run(["study", "resume", "s.toml", "--folder", "out"]) == 2
    assert "symbolic links" in capsys.readouterr().err
    assert (here / "victim.txt").read_text() == "precious"


def test_only_files_are_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(here / "pipe")
    (here / "folder").mkdir()
    complains(["whatif", *VARIED, "--save", "pipe"], "pipe: is no regular file", capsys)
    complains(["whatif", *VARIED, "--save", "folder"], "folder: is a folder", capsys)
    assert (here / "pipe").is_fifo() and [path.name for path in sorted(here.iterdir())] == ["folder", "pipe"]
    before = os.umask(0o077)
    try:
        assert run(["whatif", *VARIED, "--save", "s.toml"]) == 0
    finally:
        os.umask(before)
    assert (here / "s.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_name_does_not_steer_the_terminal(form: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.yaml").write_text(changed("name: mine", r'name: "\e]0;pwned\a\e[31mred\e[2J\x9b\0"'))
    assert run(["estimate", "mlp-inference", "--on", "mine.yaml", "--set", "workload.batch=8", "--format", form]) == 0
    assert run(["estimate", "mlp-inference", "--on", "mine.yaml", "--set", "machine.x\x1b[2J=8", "--format", form]) == 2
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert r"\x1b" in text or "\\u001b" in text
        assert not any((ord(sign) < 32 and sign != "\n") or 0x7F <= ord(sign) < 0xA0 for sign in text)
