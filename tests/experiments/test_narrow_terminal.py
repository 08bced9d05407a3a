"""Tables on a terminal of 80 columns: every number stays whole, what has no place is named."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

import pytest

from slipstick.common.columns import in_seconds
from slipstick.experiments.report import output

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 80)


def _lines(capsys: Captured) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def test_headers_fold_and_constants_stand_above(capsys: Captured) -> None:
    rows = [
        {"matrix": "own", "output_tokens_per_s": 1234.5 * i, "prompt_tokens_per_s": 0.5 * i, "energy_J": None}
        | {f"another_long_name_{j}_s": 1.2345e-5 * i * j for j in (1, 2, 3)}
        for i in (1, 2)
    ]
    output.emit(rows, columns=in_seconds(f"another_long_name_{j}" for j in (1, 2, 3)))
    lines = _lines(capsys)
    assert lines[0] == "in all rows: matrix own"
    assert "energy" not in "".join(lines)
    assert lines[-1].split() == ["2,470", "1", "24.7", "µs", "49.4", "µs", "74.1", "µs"]


def test_one_row_stands_upright(capsys: Captured) -> None:
    output.emit([{f"a_column_of_the_answer_{j}": 1.2345e-5 * j for j in range(1, 12)}])
    lines = _lines(capsys)
    assert lines[0].split() == ["a_column_of_the_answer_1", "1.23e-05"] and len(lines) == 11


def test_a_band_is_one_cell_and_a_number_stays_with_its_unit(capsys: Captured) -> None:
    row = {
        "workers": 8,
        "time_s": 0.0525,
        "low_s": 0.0451,
        "high_s": 0.0713,
        "interval_level": 0.9,
        "images_per_s": 12345.0,
    }
    output.emit([row], notes=["a line that is as long as it has to be for its last number to stand at 79: 12.34 ms"])
    lines = _lines(capsys)
    assert lines[:2] == ["a line that is as long as it has to be for its last number to stand at 79:", "  12.34 ms"]
    assert lines[2].split() == ["workers", "time", "90", "%", "images/s"]
    assert lines[3].split() == ["8", "52.5", "ms", "45.1", "..", "71.3", "ms", "12,300"]


def test_a_reason_wraps_between_words(capsys: Captured) -> None:
    reason = "points left out in this direction were missed by four percent, and what fits agrees"
    output.emit([{"threads": i, "time_s": 1.5 * i, "verdict": f"v{i}", "reason": f"{i} {reason}"} for i in range(9)])
    text = " ".join(" ".join(_lines(capsys)).split())
    assert "direction" in text and "percent" in text


def test_columns_without_room_are_named(capsys: Captured) -> None:
    output.emit([{f"c{j}": f"{i}-{j}-word" for j in range(12)} for i in range(9)])
    lines = _lines(capsys)
    assert lines[-1].startswith("no room for: c8, c9, c10, c11 (")
    assert lines[1].split() == [f"0-{j}-word" for j in range(8)]


def test_brackets_of_values_are_shown(capsys: Captured) -> None:
    output.emit([{"name": "[red]x", "thing": f"{i}" * 90} for i in range(2)], notes=["mine:boom: no answer"])
    text = capsys.readouterr().out
    assert "in all rows: name [red]x" in text
    assert "mine:boom: no answer" in text  # and no picture of a fire


@pytest.mark.skipif(os.name != "posix", reason="a terminal is made of a pair of pseudo-terminals")
def test_a_terminal_sees_verdicts_coloured_and_errors_wrapped() -> None:
    """The word for how sure is styled; no line of an error is longer than the terminal."""
    import pty

    def seen(*words: str) -> str:
        leader, follower = pty.openpty()
        environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"}
        done = subprocess.Popen(
            [sys.executable, "-c", "import slipstick, sys; sys.exit(slipstick.main(sys.argv[1:]))", *words],
            stdout=follower, stderr=follower, env=environment,
        )  # fmt: skip
        os.close(follower)
        text = b""
        with contextlib.suppress(OSError):  # the leader's end, where the last follower is closed
            while part := os.read(leader, 65536):
                text += part
        done.wait()
        os.close(leader)
        return text.decode()

    shown = seen("estimate", "gpt2", "--on", "H100", "--verbose")
    assert re.search(r"\x1b\[[\d;]*3[123]m(trust|wide|do not trust)\x1b", shown)
    refused = seen("estimate", "gpt2", "--on", "H1009")
    lines = refused.replace("\r", "").strip().split("\n")
    assert len(lines) > 1 and max(map(len, lines)) <= 80 and lines[1].startswith("  ")
