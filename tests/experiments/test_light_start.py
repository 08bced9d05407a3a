"""What a command does not need it does not import: no clock is noisy here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.common.disk_cache import VARIABLE

HEAVY = frozenset("sympy networkx scipy pint pandas simpy torch sklearn xarray matplotlib numba".split())  # noqa: SIM905
CHILD = """
import sys, contextlib, io
from slipstick.experiments.cli.cli import run
for words in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(words.split())
    print(code, *sorted(name for name in sys.modules if "." not in name))
"""


def imported(*commands: str) -> list[frozenset[str]]:
    """Packages that a process has imported at the end of each command, one after the other."""
    child = subprocess.run([sys.executable, "-c", CHILD, *commands], capture_output=True, text=True, check=True)
    names = [line.split() for line in child.stdout.splitlines()]
    assert [code for code, *_ in names] == ["0"] * len(commands), child.stderr
    return [frozenset(some) for _, *some in names]


def test_lists_read_their_indices() -> None:
    for names in imported("workloads list", "estimators list", "machines list"):
        assert not names & (HEAVY | {"numpy", "yaml"})


def test_help_imports_no_library_but_that_of_commands() -> None:
    assert not imported("--help")[0] & (HEAVY | {"numpy", "yaml", "pydantic"})


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize("target", ["demo", "install", "test", "bench"])
def test_a_checkout_has_what_first_questions_keep(target: str) -> None:
    """A fresh checkout made its formulas itself: explain took 5.9 imports of the libraries in place of 2.3."""
    asked = ["make", "--dry-run", "--directory", str(Path(__file__).parents[2]), target]
    assert "-m tools.prebuilt" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("whatif gpt2 --on h100 --dtype fp16 --vary machine.clock=1GHz,2GHz", {"sympy"}),
        ("explain bert-base-inference --on L4 --batch 8 --rows 3", {"sympy", "networkx"}),  # tries torch.compile, too
        ("extrapolate docs/tutorial/runs.csv --to 64", {"sympy", "scipy"}),
    ],
)
def test_commands_import_what_they_need(command: str, needed: set[str]) -> None:
    assert imported(command)[0] & HEAVY <= needed


@pytest.mark.slow
def test_what_was_asked_before_is_answered_without_sympy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks (in other data types or fused, too), kernels, schedules, energies, watts, functions: kept as steps."""
    commands = {
        "estimate gpt2 --on h100": " --batch 32 --seq-len 512",
        "estimate megatron-22b --on a100-80-dgx": " --batch 16",
        "estimate gpt2 --on h100 --dtype fp16": "",
        "estimate resnet50-inference --on a100": " --batch 4",
        "plan training llama-3-8b --on h100-dgx --devices 64 --batch 256": "",
        "whatif gpt2 --on h100 --vary machine.clock=1GHz,2GHz": ",1.5GHz",
        "whatif resnet50 --on a100 --estimator roofline --vary run.batch=8,16": ",32",
        "explain gpt2 --on h100": "",
    }
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    imported(*commands)
    again = [command + sizes for command, sizes in commands.items()]
    assert {command: names & HEAVY for command, names in zip(again, imported(*again), strict=True)} == dict.fromkeys(
        again, frozenset()
    )


RECORDS = """
import copy, pickle, sys, types
from slipstick.common.lazy_methods import compile_methods_late

compile_methods_late()
made = types.ModuleType("slipstick.made")
sys.modules["slipstick.made"] = made
exec('''
from dataclasses import FrozenInstanceError, dataclass, field, replace
@dataclass(frozen=True, order=True)
class Point:
    "A point."
    x: float
    y: float = 1.0
    names: list = field(default_factory=list, compare=False)
@dataclass
class Named(Point.__base__):
    "A thing of which the name is set."
    name: str
    def __post_init__(self):
        self.name = self.name.upper()
''', made.__dict__)
one, same = made.Point(1.0), made.Point(x=1.0, y=1.0)
assert one == same and hash(one) == hash(same) and one != made.Point(2.0) and one < made.Point(2.0)
assert repr(one) == "Point(x=1.0, y=1.0, names=[])" and repr(one) == repr(same), repr(one)
assert one.names is not same.names and made.replace(one, y=3.0) == made.Point(1.0, 3.0)
assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
assert made.Named("a").name == "A" and made.Named("a") != one
for change in (lambda: setattr(one, "x", 2.0), lambda: delattr(one, "x"), lambda: setattr(one, "new", 2.0)):
    try:
        change()
    except made.FrozenInstanceError:
        continue
    raise AssertionError("a frozen record was changed")
print("late" if made.Point.__init__.__code__.co_varnames[0] == "self" else "")
"""


def test_methods_that_are_made_late_are_those_that_are_made_at_once() -> None:
    """As the command makes them: a record is built, compared, printed, copied and frozen as by `dataclasses` alone."""
    child = subprocess.run([sys.executable, "-c", RECORDS], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout == "late\n"
