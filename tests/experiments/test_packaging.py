"""What ships, what shadows, what start-up imports."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("hwmodels", "workloads", "estimators", "experiments")


def python(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling")
    folder = tmp_path_factory.mktemp("dist")
    done = python("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_one_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"slipstick"}
    names = set(wheel.namelist())
    assert {"slipstick/py.typed", "slipstick/hwmodels/catalog/xeon-phi-7120p.yaml"} <= names
    assert {f"slipstick/{package}/__init__.py" for package in PACKAGES} <= names
    assert not any("test" in name.split("/")[0] or name.endswith(".pyc") for name in names)


def test_the_command_is_named_slipstick(wheel: zipfile.ZipFile) -> None:
    entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "slipstick = slipstick:main" in wheel.read(entry).decode()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_bare_names_are_refused(package: str) -> None:
    done = python("-c", f"import {package}")
    assert done.returncode == 1
    assert f"ImportError: import slipstick.{package}" in done.stderr


def test_folders_of_a_user_with_the_same_names_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    for name in ("experiments/__init__.py", "workloads.py", "hwmodels.py"):
        (tmp_path / name).write_text("raise SystemExit('mine')")
    done = python("-c", "import slipstick as ss; print(ss.workload('gpt2').name)", cwd=tmp_path)
    assert done.stdout.strip() == "gpt2", done.stderr
    done = python("-m", "slipstick", "estimate", "gpt2", "--on", "v100-sxm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


HEAVY = ("torch", "pandas", "sympy", "numba", "sklearn", "scipy", "matplotlib", "plotly")


@pytest.mark.parametrize("arguments", [["--help"], ["estimate", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys, slipstick; sys.argv = ['slipstick', *{arguments!r}]\n"
    code += "try:\n slipstick.main()\nexcept SystemExit: pass\n"
    code += f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = python("-c", code)
    assert done.stderr.strip().splitlines()[-1] == "[]", done.stderr


def test_estimates_and_papers_need_no_torch_and_no_numba() -> None:
    code = "import sys, slipstick as ss\n"
    code += (
        "ss.estimator('phi-a').estimate(ss.workload('phi-cnn-small'), ss.machine('xeon-phi-7120p'), {'threads': 240})\n"
    )
    code += "print([name for name in ('torch', 'numba', 'sklearn') if name in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_the_facade_names_what_it_has() -> None:
    import slipstick as ss

    assert ss.machine("xeon-phi-7120p").cores == 61
    assert len(ss.__all__) > 80
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    with pytest.raises(AttributeError, match="module 'slipstick' has no attribute 'machin'; close names: machine"):
        _ = ss.machin


def test_the_version_is_that_of_the_project_file() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    done = python("-m", "slipstick", "--version")
    assert done.stdout.strip() in (f"slipstick {written}", "slipstick not installed")
    assert done.returncode == 0


TYPED = """
import numpy as np
import slipstick as ss

phi = ss.machine("xeon-phi-7120p")
training = ss.workload("phi-cnn-small")
model = ss.estimator("phi-a")
answer = model.estimate(training, phi, {"threads": 240})
table = ss.whatif(training, phi, {"machine.clock": np.linspace(1e9, 2e9, 5)}, run={"threads": np.int64(240)})
fitted = ss.calibrate(model, [ss.Measurement(training, phi, 500.0)], [])
reveal_type(phi)
reveal_type(training)
reveal_type(model)
reveal_type(answer)
reveal_type(answer.time)
reveal_type(table)
reveal_type(ss.extrapolate(ss.Series.of([1.0, 2.0, 4.0, 8.0], [8.0, 4.1, 2.2, 1.2]), [16.0]))
reveal_type(fitted)
"""


def test_the_face_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    script = tmp_path / "mine.py"
    script.write_text(TYPED)
    done = python("-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(script))
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines() if "Revealed" in line]
    assert len(revealed) == 8, done.stdout
    assert not [text for text in revealed if "Any" in text]
    assert done.returncode == 0, done.stdout
