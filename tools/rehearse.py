"""python -m tools.rehearse [NAME ...] --out FOLDER: every scoreboard on rows given from outside, as a stranger does.

NAME is a scoreboard or one of its rehearsals (`--list`); without names all are run, those of minutes last. For each,
rows of some groups (generations, systems, models, matrices, codes) are taken out of the public tables by a digest of
the groups' names and written below FOLDER/NAME/given. `slipstick validate BOARD --data` scores them twice, each time in
a process of its own: with all public rows known, and with a public folder that never held them. Both must agree, for
what is scored has to leave the fit. What is there already is not run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slipstick.experiments.calibrate.public_data import needed_folder
from tools.rehearsal.attacked import attacked
from tools.rehearsal.compared import page
from tools.rehearsal.runs import Outcome, rehearsed
from tools.rehearsal.tables import Take
from tools.rehearsal.takes import TAKES


def main() -> int:
    """Run what is named and print the table; 1 where a run ended as none should, or what was scored was known."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", help="scoreboards or rehearsals; all where none is named")
    arguments.add_argument("--out", type=Path, help="the folder of what is given and of what came of it")
    arguments.add_argument("--list", action="store_true", help="print the rehearsals, and run none")
    arguments.add_argument("--strangers", action="store_true", help="spoilt, renamed and broken tables instead")
    arguments.add_argument("--once", action="store_true", help="with all public rows known alone: half the time")
    given = arguments.parse_args()
    takes = named(given.names)
    if given.list:
        print("\n".join(f"{take.name}: {', '.join(table.pattern for table in take.tables)}" for take in takes))
        return 0
    if given.out is None:
        arguments.error("--out FOLDER: where to write")
    if given.strangers:
        wrong = [take.name for take in takes if _attacks(take, given.out)]
        return int(bool(wrong))
    outcomes: list[Outcome] = []
    for at, take in enumerate(takes, 1):
        print(f"rehearse: {take.name} ({at} of {len(takes)})", file=sys.stderr, flush=True)
        outcomes.append(rehearsed(take, needed_folder(), given.out, once=given.once))
    print(page(outcomes))
    return int(any(one.wrong for one in outcomes))


def _attacks(take: Take, out: Path) -> bool:
    """Whether some stranger's folder does what none should; a line each."""
    wrong = False
    for attack in attacked(take, needed_folder(), out):
        print(attack.line(), flush=True)
        wrong |= bool(attack.faults)
    return wrong


def named(names: list[str]) -> list[Take]:
    """Rehearsals by their names, or all of a scoreboard.

    Raises SystemExit where a name is neither.
    """
    found = [take for take in TAKES if not names or {take.name, take.board} & set(names)]
    strange = set(names) - {name for take in found for name in (take.name, take.board)}
    if strange:
        raise SystemExit(f"no rehearsal {', '.join(sorted(strange))}; known: {', '.join(t.name for t in TAKES)}")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
