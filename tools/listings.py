"""python -m tools.listings PAGE.md ...: runs a page's listings in an empty folder and writes what they print now.

A page is followed as a reader would follow it. Files that it links (``[times.csv](tutorial/times.csv)``) are
downloaded, a fence with a title (``python title="my_model.py"``) is saved under that name, and then the fences run in
their order:

- ``console``: lines that begin with ``$`` are commands, the lines below them what they print at 80 columns;
- ``bash``: commands whose output the page does not show;
- ``python``: an interactive session (``>>>``), or statements.

Words in comments above a fence: ``<!-- slow -->`` where it takes more than ten seconds, ``<!-- not run: reason -->``
where no test can run it. ``--check`` changes nothing and exits with 1 where something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?:<!-- (?P<word>slow|not run)(?:: [^\n]*)? -->\n\n?)?"
    r"```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<body>.*?)^```$",
    re.M | re.S,
)
TITLE = re.compile(r'title="([^"]+)"')
LINKED = re.compile(r"\]\(([\w./-]+\.(?!md\b|png\b|html\b)[\w.]+)\)")
TERMINAL = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1", "SLIPSTICK_CACHE": "off", "OMP_NUM_THREADS": "1"}
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Fence:
    """A listing of a page and where its body stands in the text."""

    word: str
    language: str
    title: str
    body: str
    span: tuple[int, int]

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Each command with the output below it; a backslash at a line's end continues the command."""
        found: list[tuple[list[str], list[str]]] = []
        for line in self.body.splitlines():
            continued = bool(found) and found[-1][0][-1].endswith("\\") and not found[-1][1]
            if continued:
                found[-1][0].append(line)
            elif self.language == "bash":
                if line.strip() and not line.startswith("#"):
                    found.append(([line], []))
            elif line.startswith("$ "):
                found.append(([line.removeprefix("$ ")], []))
            elif found:
                found[-1][1].append(line)
        return [("\n".join(words), "".join(f"{line}\n" for line in output)) for words, output in found]


@dataclass
class Trial:
    """A page tried: its text with the outputs of now, and what went wrong or differs from what it shows."""

    text: str
    problems: list[str] = field(default_factory=list)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fences(text: str) -> list[Fence]:
    """The listings of a page in their order."""
    return [
        Fence(found["word"] or "", found["language"], "".join(TITLE.findall(found["options"])), found["body"], span)
        for found in FENCE.finditer(text)
        if (span := (found.start("body"), found.end("body")))
    ]


def printed(command: str) -> tuple[int, str, str]:
    """Exit code, what a command prints on a terminal of 80 columns, and what it says on standard error."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] != "slipstick":
        words = [sys.executable, *words[1:]] if words[0] == "python" else words
        environment = {**os.environ, **TERMINAL, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        return done.returncode, done.stdout, done.stderr
    from slipstick.experiments.cli.cli import run

    terminal, errors = _Terminal(), io.StringIO()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(errors):
        code = run(words[1:])
    output = "".join(f"{line.rstrip()}\n" for line in terminal.getvalue().splitlines())
    return code, output, errors.getvalue()


@contextlib.contextmanager
def empty_folder(page: Path) -> Iterator[Path]:
    """An empty folder as the current one, with the files that a page links and shows; modules of it are forgotten."""
    text, here, kept, path = page.read_text(), Path.cwd(), dict(os.environ), list(sys.path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for link in LINKED.findall(text):
            if (page.parent / link).is_file():
                shutil.copy(page.parent / link, folder)
        for fence in fences(text):
            if fence.title:
                (folder / fence.title).write_text(fence.body)
        os.environ.update(TERMINAL)
        sys.path.insert(0, str(folder))
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(kept)
            sys.path[:] = path
            for module in [key for key, value in sys.modules.items() if _lies_in(value, folder)]:
                del sys.modules[module]


def _lies_in(module: Any, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


def tried(page: Path, *, slow: bool) -> Trial:
    """A page's listings, run from an empty folder; those marked ``slow`` only if ``slow``."""
    text = page.read_text()
    trial, pieces, end = Trial(text), [], 0
    names: dict[str, Any] = {}
    with empty_folder(page):
        for fence in fences(text):
            if fence.title or fence.word == "not run" or (fence.word == "slow" and not slow):
                continue
            pieces.append(text[end : fence.span[0]])
            end = fence.span[1]
            if fence.language == "python":
                pieces.append(_python(fence.body, page.name, names, trial.problems))
            elif fence.language in ("console", "bash"):
                pieces.append("".join(_commands(fence, trial.problems)))
            else:
                pieces.append(fence.body)
    trial.text = "".join(pieces) + text[end:]
    return trial


class _Recorder(doctest.DocTestRunner):
    """A runner that keeps what failed examples printed."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS)
        self.printed: list[tuple[doctest.Example, str]] = []

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        """Keep it, and report it as usual."""
        self.printed.append((example, got))
        super().report_failure(out, test, example, got)


def _python(body: str, name: str, names: dict[str, Any], problems: list[str]) -> str:
    """Run a listing of ours; its text with what it prints now."""
    if ">>> " not in body:
        exec(compile(body, name, "exec"), names)
        return body
    test = doctest.DocTestParser().get_doctest(body, names, name, name, 0)
    report, runner = io.StringIO(), _Recorder()
    if runner.run(test, out=report.write, clear_globs=False).failed:
        problems.append(report.getvalue())
    names.update(test.globs)
    lines = body.splitlines(keepends=True)
    for example, got in reversed(runner.printed):
        start = example.lineno + len(example.source.splitlines())
        indent = " " * example.indent
        anew = [f"{indent}{line}" for line in got.splitlines(keepends=True)]
        lines[start : start + len(example.want.splitlines())] = anew
    return "".join(lines)


def _cut_as(shown: str, output: str) -> str:
    """What a command prints now, cut where the page cuts it: as many first and last lines around the ``...`` line."""
    before, lines = shown.splitlines(keepends=True), output.splitlines(keepends=True)
    if "...\n" not in before:
        return output
    first, last = before.index("...\n"), before[::-1].index("...\n")
    return output if first + last >= len(lines) else "".join([*lines[:first], "...\n", *lines[len(lines) - last :]])


def _commands(fence: Fence, problems: list[str]) -> Iterator[str]:
    for command, shown in fence.steps:
        code, output, errors = printed(command)
        refused = fence.language == "console" and bool(shown) and code == 2
        checked = fence.language == "console" and code == 1  # a check that failed is an answer
        if code and not refused and not checked:
            problems.append(f"$ {command}\nexit {code}\n{output}{errors}")
        if fence.language == "bash":
            continue
        output = errors if refused else output
        same = doctest.OutputChecker().check_output(shown, output, SAME)
        if not same:
            lines = difflib.unified_diff(shown.splitlines(), output.splitlines(), "on the page", "printed", lineterm="")
            problems.append("\n".join([f"$ {command}", *lines]))
        yield f"$ {command}\n{shown if same else _cut_as(shown, output)}"
    if fence.language == "bash":
        yield fence.body


def main() -> int:
    """Run the pages named on the command line; write their outputs, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where something differs")
    parser.add_argument("--fast", action="store_true", help="leave out listings marked slow")
    options = parser.parse_args()
    wrong = 0
    for page in options.pages:
        trial = tried(page.resolve(), slow=not options.fast)
        wrong += len(trial.problems)
        print(*trial.problems, sep="\n\n", end="\n" if trial.problems else "")
        if not options.check and trial.text != page.read_text():
            page.write_text(trial.text)
            print(f"{page}: written anew")
    return min(wrong, 1) if options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
