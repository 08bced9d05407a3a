"""Scores of scoreboards before and after a change of code: every figure that differs, and how many are equal.

    slipstick validate NAME --format json > before/NAME.json     (at one commit, then at another into after/)
    python tools/compare_scores.py before after

Figures are equal where they agree within a relative 1e-9; texts where they are the same. Exit code 1 where any differs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WITHIN = 1e-9
KEYS = ("dataset", "case", "held_out", "metric", "unit")
FIGURES = ("n", "ours", "goal", "ok", "interval_level", "interval_coverage", "interval_width", "noise_floor", "groups")


def equal(one: Any, other: Any) -> bool:
    """Whether two figures agree to ten digits, or two other values are the same."""
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=WITHIN, abs_tol=1e-15) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def differences(before: Path, after: Path) -> Iterator[tuple[bool, str]]:
    """(equal, what) of every figure of one scoreboard; a row that is missing counts as one difference."""
    old, new = ({}, {})
    for path, rows in ((before, old), (after, new)):
        for row in json.loads(path.read_text()):
            place = tuple(row[key] for key in KEYS)
            rows[place, sum(each == place for each, _ in rows)] = row
    for place in [*old, *(place for place in new if place not in old)]:
        name = f"{before.stem}: {' | '.join(filter(None, place[0]))}"
        if place not in old or place not in new:
            yield False, f"{name}: only {'after' if place in new else 'before'}"
            continue
        one, other = old[place], new[place]
        pairs = [(key, one[key], other[key]) for key in (*FIGURES, "reason")]
        names = [*one["baselines"], *(key for key in other["baselines"] if key not in one["baselines"])]
        pairs += [(f"baseline {key}", one["baselines"].get(key), other["baselines"].get(key)) for key in names]
        for key, value, now in pairs:
            yield equal(value, now), f"{name}: {key} {value!r} -> {now!r}"


def main(before: str, after: str) -> int:
    """Compare the scoreboards that stand in both folders."""
    wrong = 0
    for path in sorted(Path(after).glob("*.json")):
        if not (Path(before) / path.name).exists() or not path.stat().st_size:
            continue
        found = list(differences(Path(before) / path.name, path))
        off = [text for same, text in found if not same]
        print(
            "\n".join(
                [f"{path.stem}: {len(found)} figures and reasons, {len(off)} differ", *(f"  {text}" for text in off)]
            )
        )
        wrong += len(off)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
