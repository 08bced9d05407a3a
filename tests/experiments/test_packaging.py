"""What ships, what shadows, what start-up imports."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from slipstick.common.optional_packages import EXTRAS
from slipstick.experiments.cli.cli import run

ROOT = Path(__file__).parents[2]
PACKAGES = ("hwmodels", "workloads", "estimators", "experiments")


def python(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)


WHEEL_BYTES = 5_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling")
    folder = tmp_path_factory.mktemp("dist")
    done = python("-m", "hatchling", "build", "-d", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_the_wheel_holds_one_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"slipstick"}
    names = set(wheel.namelist())
    assert {"slipstick/py.typed", "slipstick/hwmodels/catalog/xeon-phi-7120p.yaml"} <= names
    assert {f"slipstick/{package}/__init__.py" for package in PACKAGES} <= names
    assert not any("test" in name.split("/")[0] or name.endswith(".pyc") for name in names)


def test_the_wheel_is_small_and_holds_the_papers_and_no_measurements_to_learn_from(
    built: Path, wheel: zipfile.ZipFile
) -> None:
    assert next(built.glob("*.whl")).stat().st_size < WHEEL_BYTES
    inside = [name.removeprefix("slipstick/experiments/") for name in wheel.namelist()]
    assert [name for name in inside if name.startswith(("scoreboards/", "measure/spmv/data/"))] == []
    assert {"papers/xeon_phi/xeon_phi_rows.py", "papers/dlbricks/dlbricks_data.py"} <= set(inside)


def test_what_the_wheel_leaves_out_is_imported_by_nothing_that_it_holds(wheel: zipfile.ZipFile) -> None:
    left_out = re.compile(
        r"experiments\.(scoreboards|scoring\.(case_sets|fitted_files|prediction_files|predictor_\w+|refits))\b"
    )
    users = {
        name for name in wheel.namelist() if name.endswith(".py") and _imports(wheel.read(name).decode(), left_out)
    }
    assert users == {
        "slipstick/experiments/cli/validate.py",  # says what to do
    }


def _imports(text: str, pattern: re.Pattern[str]) -> bool:
    return any("import" in line and pattern.search(line) for line in text.splitlines())


def test_the_source_distribution_is_the_checkout(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        held = {one.name.partition("/")[2]: one for one in archive.getmembers()}
    assert {name: one.linkname for name, one in held.items() if one.issym()} == {
        f"slipstick/{package}": f"../{package}" for package in PACKAGES
    }
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("no checkout of git to compare with")
    apart = [name for name in tracked.stdout.splitlines() if not name.startswith(".github/")]
    assert set(apart) - set(held) == set()


@pytest.mark.parametrize(
    ("package", "words", "says"),
    [
        (
            "matplotlib",
            ["whatif", "gemm", "--on", "H100", "--vary", "machine.clock=1GHz", "--report", "a.html"],
            "pages",
        ),
        ("matplotlib", ["demo"], "pages"),
        ("pyarrow", ["study", "run", "xeon-phi"], "parquet"),
        ("pyarrow", ["spmv", "train", "a.spmv.json"], "parquet"),
    ],
)
def test_a_package_that_the_light_install_lacks_is_named_with_its_extra(
    package: str,
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said == f"slipstick: this needs {package}, which is not installed: pip install 'slipstick[{says}]'\n"
    assert list(tmp_path.iterdir()) == []


def test_extras_bring_the_packages_that_are_asked_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {"PIL": "pillow"}
    for package, extra in EXTRAS.items():
        assert any(text.startswith(named.get(package, package)) for text in extras[extra]), package


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


HEAVY = ("torch", "pandas", "sympy", "numba", "sklearn", "scipy", "matplotlib")


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
table = ss.whatif(training, phi, {"machine.clock": np.linspace(1e9, 2e9, 5)}, settings={"run.threads": np.int64(240)})
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


@pytest.mark.slow
def test_the_face_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    script = tmp_path / "mine.py"
    script.write_text(TYPED)
    done = python("-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(script))
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines() if "Revealed" in line]
    assert len(revealed) == 8, done.stdout
    assert not [text for text in revealed if "Any" in text]
    assert done.returncode == 0, done.stdout
