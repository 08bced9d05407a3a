"""python -m tools.mutants [--count 60] [--seed 1] [--only TEXT]: small changes to the product that tests should notice.

Each change is one operator, number or condition of one file, drawn at random. It is made in a copy of the tree; there
the test files that reach the changed module by the fewest imports run, nearest first, until one fails. What no test
noticed is a line of the table: code that needs a test, or a change that changes nothing. Words of errors, annotations
and docstrings are left alone. Ends with 1 where fewer than nine of ten are noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from slipstick.experiments.calibrate.public_data import data_folder
from tools.imports import FILES, MODULES, ROOT, imports

GOAL = 0.9
FILES_AT_MOST, SECONDS, LATE = 14, 400, "took too long"
"""Test files that a change is held against, and how long they may take."""
SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One change: the file, its line, characters from start to end of the text, and what stands there instead."""

    file: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def made(self, text: str) -> str:
        """The changed text."""
        return text[: self.start] + self.after + text[self.end :]


class _Sites(ast.NodeVisitor):
    """Every change that one file allows."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text, self.found = file, text, list[Change]()
        self.lines = [0]
        for line in text.split("\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                self.visit(node.value)
            return
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in SWAPS:
                self._between(left, right, *SWAPS[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPS and not _text(left) and not _text(right):
                self._between(left, right, *SWAPS[type(op)])
            case ast.BoolOp(op=op, values=[first, second, *_]):
                self._between(first, second, *SWAPS[type(op)])
            case ast.If(test=test) | ast.IfExp(test=test):
                self._instead(test, f"not ({self.text[self._at(test) : self._at(test, end=True)]})")
            case ast.Constant(value=bool(value)):
                self._instead(node, str(not value))
            case ast.Constant(value=int(value)):
                self._instead(node, str(value + 1))
            case ast.Constant(value=float(value)) if value:
                self._instead(node, repr(2 * value))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
                self.visit(part)
            return
        self.generic_visit(node)

    def _at(self, node: ast.AST, *, end: bool = False) -> int:
        line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)  # type: ignore[attr-defined]
        start = self.lines[line - 1]
        row = self.text[start : self.lines[line]]
        return start + len(row.encode()[:column].decode())

    def _instead(self, node: ast.expr, after: str) -> None:
        start, end = self._at(node), self._at(node, end=True)
        self.found.append(Change(self.file, node.lineno, start, end, self.text[start:end], after))

    def _between(self, left: ast.expr, right: ast.expr, before: str, after: str) -> None:
        start, end = self._at(left, end=True), self._at(right)
        place = re.search(rf"(?<![<>=!*/]){re.escape(before)}(?![=*/])", self.text[start:end])
        if place:
            first = start + place.start()
            self.found.append(Change(self.file, left.lineno, first, first + len(before), before, after))


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def sites(file: Path) -> list[Change]:
    """All changes of a file; a docstring is a constant text and no site."""
    text = (ROOT / file).read_text()
    visitor = _Sites(file, text)
    visitor.visit(ast.parse(text))
    return visitor.found


def tests_of(files: list[Path], tests: list[Path]) -> dict[Path, list[Path]]:
    """The test files that reach each file by the fewest imports, nearest first, those that name it before all."""
    users: dict[Path, set[Path]] = {}
    for file in [*files, *tests]:
        for name in imports(file):
            users.setdefault(MODULES[name], set()).add(file)
    words = {test: Counter(re.findall(r"[a-z]+", (ROOT / test).read_text().lower().replace("_", ""))) for test in tests}
    asked, result = set(tests), {}
    for file in files:
        order, users_of_it, queue = list[Path](), [file], deque([file])
        while queue and len(order) < FILES_AT_MOST:
            for user in sorted(users.get(queue.popleft(), set()) - {*order, *users_of_it}):
                (order if user in asked else users_of_it).append(user)
                if user not in asked:
                    queue.append(user)
        named = dict.fromkeys(one.stem.replace("_", "") for one in users_of_it[:4] if one.stem != "__init__")
        mentions = {test: sum(words[test][word] for word in named) for test in tests}
        naming = sorted((test for test in tests if mentions[test]), key=lambda test: -mentions[test])
        result[file] = list(dict.fromkeys([*naming[: max(4, FILES_AT_MOST - len(order))], *order]))[:FILES_AT_MOST]
    return result


def noticed(change: Change, tests: list[Path], tree: Path) -> str:
    """The first test that fails on a change made in a copy of the tree; "" where none does."""
    file = tree / change.file
    text = file.read_text()
    names = [str(test) for test in tests]
    if not names:
        return ""
    data = data_folder()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CI": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"SLIPSTICK_DATA": str(data)} if data else {}
    words = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-m", "not slow and not timed", *names]
    file.write_text(change.made(text))
    try:
        done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return LATE
    finally:
        file.write_text(text)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed[1] if failed else "" if done.returncode == 0 else f"pytest ends with {done.returncode}"


def main() -> int:
    """Print a line a change, then those that lived."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="files whose path holds this text")
    given = parser.parse_args()
    tests = sorted(test.relative_to(ROOT) for test in (ROOT / "tests").rglob("test_*.py"))
    reached = tests_of(FILES, tests)
    every = [change for file in FILES if given.only in str(file) for change in sites(file)]
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        trees = SimpleQueue[Path]()
        for number in range(given.jobs):
            trees.put(Path(folder) / str(number))
            skipped = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "slipstick-out")
            shutil.copytree(ROOT, Path(folder) / str(number), symlinks=True, ignore=skipped)

        def judged(change: Change) -> tuple[Change, str]:
            tree = trees.get()
            by = noticed(change, reached[change.file], tree)
            trees.put(tree)
            print(f"{_line(change)}: {by or 'LIVED'}", flush=True)
            return change, by

        results = list(pool.map(judged, chosen))
    lived = [(change, by) for change, by in results if by in ("", LATE)]
    print(f"\n{len(results) - len(lived)} of {len(results)} changes of seed {given.seed} noticed; not noticed:")
    for change, by in lived:
        print(f"  {_line(change)}{by and f' ({by}: the tests, or the change)'}")
    return int(len(lived) > (1 - GOAL) * len(results))


def _line(change: Change) -> str:
    return f"{change.file}:{change.line}  {change.before!r} -> {change.after!r}"


if __name__ == "__main__":
    sys.exit(main())
