"""Public series of run times: what was measured, in no order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.scaling.series import KINDS
from slipstick.experiments.scoring.score import Data, MissingError

MORE = (("scaling/index.csv", "scaling/series.csv"), ("scaling/index_more.csv", "scaling/series_more.csv"))


@dataclass(frozen=True)
class ScalingSeries:
    """All measurements of one series, in no order."""

    name: str
    parameter: str
    kind: str
    source: str
    values: FloatArray
    times: FloatArray


def read_collection(index: Path, series: Path) -> list[ScalingSeries]:
    """The series of an index (series, kind, source) and a table of measurements (series, parameter, value, time_s).

    Raises InputError where a series of the table is not listed in the index.
    """
    known = csv_frame(index).set_index("series")
    collected = []
    for key, group in csv_frame(series).groupby("series", sort=False):
        name, parameter = str(key), str(group["parameter"].iloc[0])
        if name not in known.index:
            raise InputError(f"{index}: series {name!r} of {series} is not listed")
        values, times = (group[column].to_numpy(dtype=np.float64) for column in ("value", "time_s"))
        source, written = str(known.loc[name, "source"]).split(":")[0], str(known.loc[name, "kind"])[:4].lower()
        kind = next((kind for kind in KINDS if kind.startswith(written)), "problem_size")  # an unknown one is a size
        collected.append(ScalingSeries(name, parameter, kind, source, values, times))
    return collected


def every_series(data: Data) -> list[ScalingSeries]:
    """The series of all collections to score; the first one must be there.

    Raises
    ------
    MissingError
        Where it is not.
    """
    collected = read_collection(data.judged(MORE[0][0]), data.judged(MORE[0][1]))
    for index, series in MORE[1:]:
        try:
            collected += read_collection(data.judged(index), data.judged(series))
        except MissingError:
            continue
    return collected
