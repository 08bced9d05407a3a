"""python -m tools.baselines: our errors over the best simple method's, a line a family, and all boards together.

How they are compared stands in `slipstick.experiments.evidence.summary`. `--rows` prints the rows too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from slipstick.experiments.evidence.summary import GOAL, Summary

ROWS = Path(__file__).parents[1] / "docs" / "validation" / "rows"


def main() -> int:
    """Print the tables; 1 where the geometric mean is above the goal."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", action="store_true", help="print the rows of each family too")
    shown = arguments.parse_args().rows
    made = Summary.of(ROWS)
    print("ours / best simple method, geometric mean of a family's rows; rows; groups, ! where it loses beyond chance")
    for family in sorted(made.families, key=lambda one: -one.mean):
        groups = f"{len(family.apart.groups):3d}{' !'[family.apart.surely_worse]}"
        print(f"{family.mean:6.2f}  {len(family.ratios):3d} {groups}  {family.dataset}; unseen: {family.held_out}")
        if shown:
            for case, ratio in zip(family.cases, family.ratios, strict=True):
                print(f"        {ratio:6.2f}  {case}")
    print("\n".join(["", *made.lines()]))
    return int(made.mean > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
