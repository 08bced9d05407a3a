"""python -m tools.peers.extra_p_series FOLDER OUT: series of Extra-P's files as measurements of the board `scaling`.

FOLDER holds files that `slipstick extrapolate` reads, as `tests/data` of https://github.com/extra-p/extrap does; what
cannot be read is named. Series over one parameter of at least five values are written to OUT/scaling, each once, for
`slipstick validate scaling --data OUT`.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.estimators.scaling.series import Series, kind_of
from slipstick.experiments.extrapolate.series_files import read

LEAST = 5


def every_series(folder: Path) -> dict[str, tuple[Series, list[tuple[float, float]]]]:
    """Series by file and region, each with its runs: value, seconds."""
    found: dict[str, tuple[Series, list[tuple[float, float]]]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".cubex"):
        try:
            readings = read(path)
            every = readings.series() if len(readings.varying()) == 1 else []
        except InputError as error:
            print(f"not read: {error}", file=sys.stderr)
            continue
        known = {(one.x, one.y) for one, _ in found.values()}
        for one in every:
            if len(one) >= LEAST and (one.x, one.y) not in known:
                found[f"{path.relative_to(folder)}/{one.name}"] = one, readings.runs(one)
    return found


def write(folder: Path, out: Path) -> int:
    """Write index.csv and series.csv; returns how many series there are."""
    found = every_series(folder)
    (out / "scaling").mkdir(parents=True, exist_ok=True)
    with (out / "scaling/index.csv").open("w", newline="") as index, (out / "scaling/series.csv").open("w") as table:
        names, rows = csv.writer(index), csv.writer(table)
        names.writerow(["series", "kind", "source"])
        rows.writerow(["series", "parameter", "value", "rep", "time_s"])
        for name, (one, runs) in found.items():
            names.writerow([name, kind_of(one)[0], "extra-p/extrap"])
            rows.writerows([name, one.parameter, value, rep, seconds] for rep, (value, seconds) in enumerate(runs))
    return len(found)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]), Path(sys.argv[2]))} series")
