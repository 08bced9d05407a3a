"""The wheel in an environment of its own: every verb, from an empty folder, by the light install and with extras."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.verbs_there import options

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LIGHT_BYTES = 600_000_000
MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2.0\n2 2 3.0\n3 1 1.0\n3 3 4.0\n"
STUDY = """
schema = "slipstick-study-1"
name = "small"
workloads = ["gemm"]
machines = ["v100-sxm"]
estimator = "roofline"

[vary]
"machine.clock" = ["1 GHz", "1.2 GHz"]
"""
COMMANDS = {
    "bricks advise resnet18-inference": (2, "no such store of bricks"),
    "bricks compose resnet18-inference --store none.sqlite": (2, "none.sqlite"),
    "bricks merge none.sqlite other.sqlite": (2, "other.sqlite"),
    "bricks score": (2, "no such store of bricks"),
    "bricks similarity resnet18-inference resnet50-inference": (0, "resnet50"),
    "bricks split resnet18-inference": (0, "resnet18"),
    "calibrate none.toml": (2, "none.toml"),
    "data get scaling": (0, "git clone"),
    "data list": (0, "set"),
    "demo": (2, "pip install 'slipstick[pages]'"),
    "estimate gpt2 --on h100-sxm": (0, "80 %"),
    "estimators list": (0, "roofline"),
    "estimators show phi-a": (0, "Xeon Phi"),
    "explain gemm --on v100-sxm --estimator roofline": (0, "gemm"),
    "extrapolate runs.csv --to 64": (0, "64"),
    "machines compare a100-sxm-80gb h100-sxm": (0, "memory bandwidth"),
    "machines detect": (0, "clock"),
    "machines fields": (0, "clock"),
    "machines check none.yaml": (2, "none.yaml: no such file"),
    "machines import none.cfg": (2, "none.cfg: no such file"),
    "machines list": (0, "h100-sxm"),
    "machines show h100-sxm": (0, "HBM3"),
    "mcp": (2, "pip install 'slipstick[agents]'"),
    "mcp --skill": (0, "how to ask"),
    "measure anchors --on h100-sxm": (0, "gemm"),
    "measure bricks none:net": (2, "pip install 'slipstick[torch]'"),
    "measure contention none:net": (2, "No module named 'none'"),
    "measure decoders --repeats 3": (2, "pip install 'slipstick[measure]'"),
    "measure host": (2, "pip install 'slipstick[measure]'"),
    "measure pipeline": (2, "pip install 'slipstick[torch]'"),
    "measure scaling none:run": (2, "No module named 'none'"),
    "measure spmv a.mtx": (2, "pip install 'slipstick[measure]'"),
    "measure steps": (2, "pip install 'slipstick[torch]'"),
    "measure training": (2, "pip install 'slipstick[torch]'"),
    "phases none.pb": (2, "none.pb"),
    "plan power-limit --time 100ms --power 300W --rated 400W": (0, "160 W"),
    "plan serving llama-3.1-8b --on h100-sxm --dtype bf16": (0, "h100-sxm"),
    "plan training llama-3.1-8b --on h100-dgx --devices 64 --batch 128": (0, "ZeRO"),
    "probe": (2, "pip install 'slipstick[measure]'"),
    "read profile.sqlite": (0, "next:"),
    "replay profile.sqlite --step-pattern 'iteration (\\d+)'": (0, "step"),
    "reproduce dlbricks": (0, "dlbricks:"),
    "reproduce seqpoint": (1, "seqpoint:"),
    "reproduce spmv-cnn": (0, "spmv-cnn:"),
    "reproduce tpupoint": (1, "tpupoint:"),
    "reproduce xeon-phi": (1, "xeon-phi:"),
    "seqpoint none.csv": (2, "none.csv"),
    "serve llama-3.1-8b --on h100-sxm --concurrency 4": (0, "latency"),
    "spmv calibrate none.yaml --kernel none": (2, "none"),
    "spmv predict a.mtx": (0, "costs of reuse"),
    "spmv train mine.spmv.json": (2, "are not part of the installed package"),
    "spmv validate": (2, "pip install 'slipstick[torch]'"),
    "study list": (0, "tpupoint"),
    "study merge small.toml none": (2, "none"),
    "study report small.toml": (2, "study.json"),
    "study resume small.toml": (2, "pip install 'slipstick[parquet]'"),
    "study run small.toml": (2, "pip install 'slipstick[parquet]'"),
    "tune none:batches": (2, "none"),
    "validate scaling": (2, "scoreboards and their measurements are not part of the installed package"),
    "whatif gpt2 --on h100-sxm --vary machine.clock=1GHz,2GHz": (0, "ratio"),
    "workloads diff gpt2 bert-base": (1, "gpt2"),
    "workloads draw gemm --out gemm.dot": (0, ""),
    "workloads import none.mlir": (2, "none.mlir"),
    "workloads list": (0, "gpt2"),
    "workloads show gpt2": (0, "gpt2"),
}
"""Words after `slipstick`: the exit code, and a text of its output. Code 2 is a refusal with its reason; 1 says that a
published number is missed, or that two graphs differ."""
WITH_EXTRAS = {
    "demo": (0, "report:"),
    "extrapolate runs.csv --to 64 --plot runs.png": (0, "64"),
    "study run small.toml": (0, "2 points"),
    "study report small.toml": (0, "report:"),
    "whatif gpt2 --on h100-sxm --vary machine.clock=1GHz,2GHz --report page.html": (0, "page.html"),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, light, in a new environment."""
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "tools.prebuilt"], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    _install(folder, "")
    return folder


def _install(folder: Path, extras: str) -> None:
    wheel = next(folder.glob("*.whl"))
    pip = [folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run([*pip, f"{wheel}{extras}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no packages to install from: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a user may have, and nothing of ours."""
    folder = tmp_path_factory.mktemp("user")
    shutil.copy(ROOT / "docs/tutorial/runs.csv", folder)
    zipfile.ZipFile(ROOT / "docs/files/examples.zip").extract("profile.sqlite", folder)
    (folder / "a.mtx").write_text(MATRIX)
    (folder / "small.toml").write_text(STUDY)
    return folder


def _said(installed: Path, place: Path, command: str) -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTICK_", "PYTHON"))}
    environment = {**inherited, "COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "SLIPSTICK_CACHE": "off"}
    line = f"{installed}/venv/bin/slipstick {command}"
    done = subprocess.run(line, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_list_names_every_verb() -> None:
    assert {verb for verb in options() if not any(f"{one} ".startswith(f"{verb} ") for one in COMMANDS)} == set()


def test_the_light_install_is_light(installed: Path) -> None:
    packages = (installed / "venv").rglob("*")
    size = sum(path.stat().st_blocks * 512 for path in packages if path.is_file() and not path.is_symlink())
    assert size < LIGHT_BYTES


def test_what_usual_questions_need_ships_and_counts(installed: Path, place: Path) -> None:
    asked = "from slipstick.common.prebuilt import made_here; print(made_here())"
    done = subprocess.run(
        [installed / "venv/bin/python", "-c", asked], cwd=place, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_verb_answers_or_says_what_is_missing(installed: Path, place: Path, command: str) -> None:
    code, words = COMMANDS[command]
    got, said = _said(installed, place, command)
    assert (got, words in said) == (code, True), said
    assert "a defect of slipstick" not in said and "Traceback" not in said


def test_with_the_extras_pages_are_drawn_and_studies_kept(installed: Path, place: Path) -> None:
    _install(installed, "[pages,parquet]")
    for command, (code, words) in WITH_EXTRAS.items():
        got, said = _said(installed, place, command)
        assert (got, words in said) == (code, True), said
    assert (place / "runs.png").stat().st_size > 10_000 and (place / "page.html").stat().st_size > 10_000
