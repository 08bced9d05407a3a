"""python -m tools.baselines: our errors over the best simple method's, a line a family, and all boards together.

How they are compared stands in `slipstick.experiments.scoring.score_summary`. `--rows` prints the rows too.
`--bands` prints
instead how every class of answers of five groups or more keeps its 80 % bands: those first that hold another share
beyond chance, with their width and the least that would have held 80 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from slipstick.experiments.scoring.score_summary import GOAL, Summary

ROWS = Path(__file__).parents[1] / "docs" / "validation" / "rows"


def main() -> int:
    """Print the tables; 1 where the geometric mean is above the goal, or a class keeps its bands badly."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", action="store_true", help="print the rows of each family too")
    arguments.add_argument("--bands", action="store_true", help="print the classes of answers whose bands are judged")
    asked = arguments.parse_args()
    shown, made = asked.rows, Summary.of(ROWS)
    if asked.bands:
        print("\n".join(made.bands()))
        return int(any(one.verdict for one in made.coverages))
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
