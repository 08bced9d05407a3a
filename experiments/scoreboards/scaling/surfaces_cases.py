"""Points beyond a measured table of several parameters; the same cuts as the scoreboard `surfaces` scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.scaling.surfaces import extrapolate_surface
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import distances
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoreboards.scaling.surfaces_board import BINS, TABLES, TableCut, table_cuts
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: the parameters' names, the known points (row after row) with their times, and the point wanted (`to`).

    Cases are scored by table and by how far beyond the known box the point lies; those beyond no cell are left out.
    Raises InputError where the public data are missing.
    """
    cuts = []
    for file, name in TABLES.items():
        path = scored_file(file, scored)
        if path is None:
            raise InputError(why_missing(file, scored))
        cuts += [(name, place, cut) for place, cut in enumerate(table_cuts(path, name))]
    measured, places = [], []
    for name, place, cut in cuts:
        for row, case in _cases(name, place, cut):
            measured.append(case)
            places.append((name, place, row))

    def ours() -> list[StatedTime | None]:
        known = {(name, place): _answers(cut) for name, place, cut in cuts}
        return [known[name, place][row] for name, place, row in places]

    return CaseSet("surfaces", "table and machine", tuple(measured), {"ours": ours})


def _cases(source: str, place: int, cut: TableCut) -> Iterator[tuple[int, Measured]]:
    shared: dict[str, Input] = {
        "parameters": ",".join(cut.parameters),
        "known": tuple(map(float, cut.x.ravel())),
        "times_s": tuple(map(float, cut.y)),
    }
    for row, (ratio, seconds) in enumerate(zip(distances(cut.x, cut.to), cut.truth, strict=True)):
        kind = next((name for name, low, high in BINS if low <= ratio < high), None)
        if kind is None:
            continue
        to = tuple(map(float, cut.to[row]))
        name = f"{source}, cut {place + 1}, {' '.join(f'{value:g}' for value in to)}"
        yield row, Measured(Case(name, cut.group, {**shared, "to": to}, f"{source}, {kind}"), float(seconds))


def _answers(cut: TableCut) -> list[StatedTime | None]:
    answers = extrapolate_surface(cut.x, cut.y, cut.parameters, cut.to, level=LEVEL).answers
    return [
        StatedTime(one.time, one.low, one.high)
        if one.low is not None and one.high is not None and np.isfinite([one.low, one.high]).all() and one.low > 0
        else StatedTime(one.time)
        for one in answers
    ]
