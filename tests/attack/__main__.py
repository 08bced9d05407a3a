"""python -m tests.attack [--cases N] [--seed S] [--reader NAME] [--replay CASE]"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.attack import cases, edits, seeds
from tests.attack.forked import attack
from tests.attack.lines import LineCase, line_case, line_cases
from tests.attack.readers import READERS

SHARE_OF_LINES = 0.02
"""A command line takes twenty times as long as a reader."""


def main() -> int:
    """Attack, and print what was found; exit code 1 where anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reader", action="append", help="readers whose name holds this; without command lines")
    parser.add_argument("--replay", help="a case as the report prints it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "seeds"
        seeds.write(folder)
        if given.replay:
            case = _parsed(given.replay)
            place = Path(home) / "case"
            place.mkdir()
            os.chdir(place)
            replayed: Any = line_case if isinstance(case, LineCase) else cases.read_case
            print(replayed(case, place, folder))
            return 0
        names = [name for name in READERS if not given.reader or any(word in name for word in given.reader)]
        lines = 0 if given.reader else int(given.cases * SHARE_OF_LINES)
        files = cases.file_cases(names)
        one = partial(cases.read_case, seeds=folder)
        found = [attack(files, one, given.cases - lines, given.seed, given.workers)]
        print(f"files: {found[0]}", flush=True)
        if lines:
            found.append(attack(line_cases(), partial(line_case, seeds=folder), lines, given.seed, given.workers))
            print(f"command lines: {found[1]}")
    return 1 if any(report.failures for report in found) else 0


def _parsed(text: str) -> Any:
    """A printed case, built again from its literals."""

    def built(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            kind = {"Edit": edits.Edit, "FileCase": cases.FileCase, "LineCase": LineCase}[node.func.id]
            return kind(**{word.arg: built(word.value) for word in node.keywords if word.arg})
        if isinstance(node, ast.Tuple):
            return tuple(built(entry) for entry in node.elts)
        return ast.literal_eval(node)

    return built(ast.parse(text, mode="eval").body)


if __name__ == "__main__":
    sys.exit(main())
