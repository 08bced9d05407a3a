"""Every mistake of a user's is exit code 2 and one line; what nobody foresaw is exit code 3 and one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from slipstick.experiments.cli import cli
from slipstick.experiments.cli.cli import run

DATA = Path(__file__).parents[1] / "data"
LOG = "iteration,seq_len,time_s\n" + "".join(f"{i},{20 + i % 7},{t}\n" for i, t in enumerate(["1e15", "1e300"] * 20))
EDGES = "".join(f"{i} {i * 7 % 11}\n" for i in range(300))


def _shipped(name: str) -> Any:
    import slipstick

    rooms = [room.resolve() for room in Path(slipstick.__file__).parent.iterdir()]
    return json.loads(next(found for room in rooms for found in room.rglob(name)).read_text())


def _without_a_parameter() -> str:
    document = _shipped("gpus.json")
    fits = next(iter(document["classes"].values()))
    del fits[0]["parameters"][next(iter(fits[0]["parameters"]))]
    return json.dumps(document)


def _wide_spread() -> str:
    return json.dumps({**_shipped("spmv-devices-csr.json"), "matrix_spread": 1e5})


CASES: dict[str, tuple[list[str], str]] = {
    "a power in apples": (["spmv", "predict", "a.edges", "--power", "5 apples"], "--power: unknown unit 'apples'"),
    "an error in words": (["seqpoint", "good.csv", "--error", "one"], "--error: 'one' is no quantity"),
    "a limit of nothing": (["bricks", "advise", "mlp", "--limit", "="], "--limit: '=' is no quantity"),
    "an unknown benchmark": (
        ["machines", "import", "kerncraft_cod.yml", "--benchmark", "nope"],
        "unknown benchmark of kerncraft_cod 'nope'",
    ),
    "NUL in a name": (
        ["whatif", "gemm", "--on", "h100-sxm", "--vary", "machine.cores=1,2", "--save", "a\0b.toml"],
        "a NUL byte stands among the arguments",
    ),
    "a calibration without a parameter": (
        ["estimate", "gemm", "--on", "h100-sxm", "--calibration", "lacking.json"],
        "is missing",
    ),
    "times beyond a run": (
        ["seqpoint", "log.csv", "--method", "k-means", "--representatives", "2"],
        "time = 1e+15 s: want 1e-09 to 1e+09 s",
    ),
    "a spread of e^100000": (["spmv", "predict", "a.edges", "--calibration", "wide.json"], "matrix_spread = 100000"),
    "an integer of 5,000 digits": (["machines", "import", "digits.json"], "an integer beyond 1e40"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_mistakes_are_one_line_and_exit_code_2(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG)
    Path("good.csv").write_text(LOG.replace("1e15", "0.1").replace("1e300", "0.2"))
    Path("a.edges").write_text(EDGES)
    Path("lacking.json").write_text(_without_a_parameter())
    Path("wide.json").write_text(_wide_spread())
    Path("digits.json").write_text('{"lscpu": [{"field": "Socket(s):", "data": ' + "9" * 5000 + "}]}")
    shutil.copy(DATA / "kerncraft_cod.yml", ".")
    words, said = CASES[case]
    assert run(words) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and errors[0].startswith("slipstick: ") and said in errors[0], errors


def test_what_nobody_foresaw_is_one_line_with_verb_file_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        params = ()

        def main(self, **given: object) -> None:
            from slipstick.common.records import FrozenDict

            FrozenDict({})["nothing"]

    monkeypatch.setattr(cli.typer.main, "get_command", lambda _: Broken())
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    words = ["estimate", "gemm", "--on", str(path)]
    assert run(words) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"slipstick: estimate {path}: a defect of slipstick, not of your input: KeyError: 'nothing'")
    assert "slipstick/common/records.py:" in line and "--traceback" in line
    with pytest.raises(KeyError):
        run([*words, "--traceback"])


@pytest.mark.parametrize("folder", [True, False])
def test_a_place_that_cannot_be_written_is_named(folder: bool, capsys: pytest.CaptureFixture[str]) -> None:
    place = "/proc/none/a.toml" if folder else "/dev/full/a.toml"
    words = ["whatif", "gemm", "--on", "h100-sxm", "--vary", "machine.cores=1,2", "--save", place]
    assert run(words) == 2
    assert f"{place!r}: cannot be written" in capsys.readouterr().err


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    from slipstick.common.errors import InputError
    from slipstick.common.writer import atomic_write

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(InputError, match=r"a\.json': cannot be written \(No space left"),
        atomic_write(tmp_path / "a.json") as stream,
    ):
        stream.write("x")
    assert not list(tmp_path.iterdir())


def test_cells_that_a_spreadsheet_would_run_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    from slipstick.experiments.report.output import emit

    emit([{"=name": "=1+1", "b": "@SUM(A1)", "c": "-2+3", "d": "+x", "e": "fine", "f": -2.5}], "csv")
    assert capsys.readouterr().out == "'=name,b,c,d,e,f\n'=1+1,'@SUM(A1),'-2+3,'+x,fine,-2.5\n"
