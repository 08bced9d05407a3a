"""python -m tools.size: statements of the product and of the laboratory, a room a line.

A statement is a node `ast.stmt`; docstrings are left out. The laboratory is what scores and shows the product and is
no part of the wheel: scoreboards and their scoring.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tools.imports import FILES, ROOT, nodes

LABORATORY = ("experiments/scoreboards", "experiments/scoring")
FACE = sorted(path.relative_to(ROOT) for path in (ROOT / "slipstick").glob("*.py"))


def statements(path: Path) -> int:
    """The number of statements of a file."""
    found = [node for node in nodes(path) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in found)


def by_room() -> Counter[str]:
    """The number of statements of each room."""
    counts: Counter[str] = Counter()
    for path in [*FACE, *FILES]:
        counts["/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]] += statements(path)
    return counts


def main() -> None:
    """Print the rooms, then both sums."""
    counts = by_room()
    for room, count in sorted(counts.items()):
        print(f"{count:7,}  {room}")
    laboratory = sum(count for room, count in counts.items() if room in LABORATORY)
    print(f"{sum(counts.values()) - laboratory:7,}  product\n{laboratory:7,}  laboratory")


if __name__ == "__main__":
    main()
