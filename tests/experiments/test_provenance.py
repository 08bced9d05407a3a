"""Every answer says on what it rests, by one word of its record: measured before calibrated before estimated."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run

NET, SERVER = "mlp-inference --on a100-sxm-80gb", "llama-3.1-8b --on h100-sxm"
FEW = "--concurrency 2 --num-requests 4 --output-tokens 16"
WORDS = {
    f"estimate {NET}": "estimated",
    f"estimate {NET} --measured 30ms": "measured",
    f"whatif {NET} --vary machine.clock=1GHz --measured 30ms": "calibrated",
    f"explain {NET} --measured 30ms": "measured",
    f"serve {SERVER} {FEW}": "estimated",
    f"serve {SERVER} {FEW} --measured 8ms": "calibrated",
    f"plan serving {SERVER} --devices 1": "estimated",
    f"plan serving {SERVER} --devices 1 --measured 8ms@concurrency=8,tp=1": "calibrated",
    "plan training llama-3.1-8b --on h100-sxm --devices 8 --batch 16": "estimated",
    "plan training llama-3.1-8b --on h100-sxm --devices 8 --batch 16 --measured 9s@devices=8,tp=8": "calibrated",
    "plan power-limit --time 240s --power 220W --rated 250W": "calibrated",
    "extrapolate times.csv --to 64": "calibrated",
}


@pytest.fixture
def _times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("threads,time_s\n1,10\n2,5.4\n4,3.1\n8,1.9\n16,1.4\n")


@pytest.mark.usefixtures("_times")
@pytest.mark.parametrize("command", WORDS)
def test_every_verb_says_on_what_its_answer_rests(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "table") if "plan serving" in command or "estimate" in command else ("json",):
        assert run([*shlex.split(command), "--format", form]) == 0
        said = capsys.readouterr().out
        if form == "json":
            assert {row["provenance"] for row in json.loads(said)} == {WORDS[command]}
        else:
            assert said.split("\n")[0].rstrip().endswith(f"; {WORDS[command]}")


def test_another_size_than_the_measured_is_calibrated() -> None:
    held = ss.question("alexnet", "a100-sxm-80gb", calibration=ss.read_calibration(None, "30ms", "a100-sxm-80gb"))
    assert held.answer().provenance == "measured"
    faster = held.estimator.estimate(held.workload, held.machine.using(clock=1e9), held.run)
    assert faster.provenance == "calibrated"


def test_products_say_whether_own_measurements_moved_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix, known = tmp_path / "m.mtx", tmp_path / "known.csv"
    matrix.write_text("%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1.0\n2 2 1.0\n3 3 1.0\n3 1 2.0\n")
    known.write_text("matrix,time_s\nm.mtx,1e-6\n")
    for more, word in (([], "estimated"), (["--measured", str(known)], "calibrated")):
        words = ["spmv", "predict", str(matrix), "--on", "xeon-gold-6148", *more]
        assert run([*words, "--format", "json"]) == 0
        assert {row["provenance"] for row in json.loads(capsys.readouterr().out)} == {word}
        assert run(words) == 0
        assert capsys.readouterr().out.split("\n")[0].rstrip().endswith(f"; {word}")
