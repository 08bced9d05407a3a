"""What is kept between runs is what was written, pages ask no network, and a killed program leaves no half files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.common.disk_cache import FORMAT, VARIABLE, cache_path, read_cached, write_cached
from slipstick.estimators.base.operation_model import grouped
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.symbolic.lambdified import formula_cache
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload


def numbers(value: object, place: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Where numbers stand in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [place] if isinstance(value, (int, float)) and not isinstance(value, bool) else []
    return [*found, *(one for key, each in inner for one in numbers(each, (*place, key)))]


def test_a_changed_number_in_a_kept_formula_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine answers of 25 changed in silence."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    one = grouped(Roofline(), workload("gemm").bind(m=8, n=8, k=8).operations, machine("h100-sxm"))[0][0].lowered
    first = formula_cache.Formulas("a model")
    first.get("key", lambda: one)
    first.keep()
    (path,) = (tmp_path / FORMAT / "formulas").glob("*.json")
    document = json.loads(path.read_text())
    assert formula_cache.Formulas("a model").get("key", lambda: pytest.fail("it is kept")) == one
    places = numbers(document["content"])
    assert places
    for place in places:
        changed = json.loads(path.read_text())
        part = changed["content"]
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] += 1
        whole = path.read_text()
        path.write_text(json.dumps(changed, separators=(",", ":")))
        built: list[int] = []
        formula_cache.Formulas("a model").get("key", lambda built=built: built.append(1) or one)  # type: ignore[misc]
        assert built, f"{place} was changed and taken"
        path.write_text(whole)
    for field, value in (("format", 1), ("digest", "0"), ("content", [])):
        path.write_text(json.dumps({**document, field: value}))
        built = []
        formula_cache.Formulas("a model").get("key", lambda built=built: built.append(1) or one)  # type: ignore[misc]
        assert built, f"another {field} was taken"


def test_a_changed_size_of_a_kept_network_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is kept goes through the same two functions."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    path = cache_path("workloads", "a network")
    assert path is not None and write_cached(path, {"place": [0, 1, 2]}) and read_cached(path) == {"place": [0, 1, 2]}
    whole = path.read_text()
    path.write_text(whole.replace("[0,1,2]", "[0,1,1]"))
    assert read_cached(path) is None
    path.write_text(whole)
    path.with_name("0.json").write_text(whole)
    assert read_cached(path.with_name("0.json")) is None, "of another name"
    path.unlink()
    path.symlink_to(path.with_name("0.json"))
    assert read_cached(path) is None


def test_a_file_of_another_model_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    one = grouped(Roofline(), workload("gemm").bind(m=8, n=8, k=8).operations, machine("h100-sxm"))[0][0].lowered
    for name in ("a", "b"):
        formulas = formula_cache.Formulas(name)
        formulas.get("key", lambda: one)
        formulas.keep()
    first, second = sorted((tmp_path / FORMAT / "formulas").glob("*.json"))
    first.write_bytes(second.read_bytes())
    second.unlink()
    built: list[int] = []
    for name in ("a", "b"):
        formula_cache.Formulas(name).get("key", lambda: built.append(1) or one)  # type: ignore[func-returns-value]
    assert len(built) == 2


STUDY = """schema = "slipstick-study-1"
name = "s"
workloads = ["gemm"]
machines = ["v100-sxm"]
estimator = "roofline"
chunk = 2
[vary]
"machine.clock" = ["1 GHz", "1.1 GHz", "1.2 GHz", "1.3 GHz"]
"""


def test_a_merge_that_lacks_a_part_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(STUDY)
    for part in ("1/2", "2/2"):
        assert run(["study", "run", "s.toml", "--share", part, "--folder", f"p{part[0]}"]) == 0
    assert run(["study", "merge", "s.toml", "p1", "--folder", "some"]) == 1
    assert run(["study", "merge", "s.toml", "p1", "p2", "--folder", "all"]) == 0


KILLED = """
import os, signal, sys
from slipstick.common.writer import atomic_write
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
with atomic_write(sys.argv[1]) as stream:
    stream.write("half")
    stream.flush()
    os.kill(os.getpid(), {0})
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("before", [None, "whole"])
def test_a_killed_program_leaves_no_temporary_file(number: int, before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    if before is not None:
        path.write_text(before)
    child = subprocess.run(
        [sys.executable, "-c", KILLED.format(int(number)), str(path)], capture_output=True, check=False
    )
    assert child.returncode != 0
    assert [one.name for one in tmp_path.iterdir()] == ([] if before is None else ["report.html"])
    assert before is None or path.read_text() == before


def test_where_files_need_names_they_are_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without nameless files: what is written is whole all the same."""
    from slipstick.common import writer

    monkeypatch.setattr(writer, "_nameless", lambda folder: None)
    with pytest.raises(KeyError), writer.atomic_write(tmp_path / "a") as stream:
        stream.write("half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with writer.atomic_write(tmp_path / "a") as stream:
        stream.write("whole")
    assert (tmp_path / "a").read_text() == "whole" and os.listdir(tmp_path) == ["a"]  # noqa: PTH208


POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "gemm", "--on", "v100-sxm", "--vary", "machine.clock=1GHz,2GHz", "--report", "page.html"],
        ["explain", "gemm", "--on", "v100-sxm", "--report", "page.html"],
        ["workloads", "draw", "mlp", "--out", "page.html"],
    ],
)
def test_pages_may_ask_no_network(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0
    text = Path("page.html").read_text()
    (policy,) = POLICY.findall(text)
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == ["'none'"] and "connect-src" not in rules
    allowed = {source for sources in rules.values() for source in sources}
    assert allowed <= {"'none'", "'unsafe-inline'", "data:", "blob:"}
    assert text.index("Content-Security-Policy") < text.index("<title>")
