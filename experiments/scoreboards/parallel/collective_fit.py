"""Timings of collectives as rows of their law, and its fit (`slipstick validate --refit collectives`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.group_effects_model import FloatArray, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, mean_inner
from slipstick.estimators.interconnect.collective_law import CALL, LOOP, NAME, CollectiveCase, CollectiveLaw
from slipstick.experiments.calibrate.public_data import data_folder, why_missing
from slipstick.experiments.scoreboards.parallel.collective_systems import (
    FOLDER,
    KEYS,
    NCCL_FILES,
    NCCL_SYSTEMS,
    SYSTEMS,
    nccl_timings,
    system,
    timings,
)
from slipstick.hwmodels.catalog import machine as machine_by_name

if TYPE_CHECKING:
    import pandas as pd

SEED = 1
GENERATIONS = (("a100_sxm",), ("h100_sxm", "h200_sxm"), ("b200_sxm", "b300_sxm", "gb200", "gb300"))
"""Of NCCL's own timings, left out together."""


def family(name: str) -> str:
    """Of a system's device."""
    return machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family


def kin(name: str, of: str) -> bool:
    """Whether a system's device is of a family's generation."""
    return shared_words(family(name), of) >= 2


def together(calls: pd.DataFrame, loops: pd.DataFrame) -> pd.DataFrame:
    """What is fitted of calls by themselves and of NCCL's own timings, one transfer an octave of each series.

    Of the own timings only all-reduces are fitted: the other functions made machines left out worse
    (docs/notes/collectives.md).
    """
    import pandas as pd

    parts = [calls.assign(timing=CALL), loops[loops["function"] == "all_reduce"].assign(timing=LOOP)]
    return one_an_octave(pd.concat(parts, ignore_index=True))


def law_rows(frame: pd.DataFrame) -> tuple[CollectiveLaw, LawRows]:
    """The law of the systems and functions of a frame with a column `timing`, and its rows."""
    numbers: dict[tuple[str, str, str], int] = {}
    of_row = zip(frame["machine"], frame["function"], frame["timing"], strict=True)
    case = np.array([numbers.setdefault(one, len(numbers)) for one in of_row], dtype=float)
    law = CollectiveLaw([CollectiveCase(system(name), function, timing) for name, function, timing in numbers])
    # Devices that are spread over nodes stand as far apart as it takes to have `per_node` of them on each.
    apart = np.where(frame["workers"] <= frame["per_node"], 1.0, frame["width"] / frame["per_node"])
    columns = {
        "case": case,
        "bytes": frame["bytes"].to_numpy(float),
        "participants": frame["workers"].to_numpy(float),
        "stride": np.asarray(apart, dtype=float),
    }
    series = [" ".join(map(str, one)) for one in zip(*(frame[key] for key in KEYS), strict=True)]
    return law, LawRows(columns, law.groups(case), series, frame["time"].to_numpy(float), list(frame["timing"]))


def fitted(calls: pd.DataFrame, loops: pd.DataFrame) -> LawFit:
    """The law fitted to timings, its bands stretched by generations of devices left out."""
    sample = together(calls, loops)
    law, rows = law_rows(sample)
    return calibrated(law, rows, [family(str(name)) for name in sample["machine"]])


def predicted(fit: LawFit, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Seconds of each row, and half of the 80 % band of log time."""
    law, rows = law_rows(frame)
    return fit.seconds(law, rows.columns, rows.groups), fit.half_width(law, rows.columns, rows.groups)


def one_an_octave(frame: pd.DataFrame) -> pd.DataFrame:
    """One transfer of each function, place and octave of sizes: neighbours in size miss alike."""
    octave = frame["bytes"].astype(int).map(int.bit_length).rename("octave")
    return frame.sample(frac=1.0, random_state=SEED).groupby([*KEYS, "timing", octave]).head(1).sort_index()


def refit() -> FittedFile:
    """The law fitted to all timings; outer folds leave out a machine, or a generation of devices.

    Raises InputError where the public rows are missing.
    """
    folder = data_folder()
    files = [] if folder is None else [*folder.glob(f"{FOLDER}/*/*.csv.gz"), *folder.glob(NCCL_FILES)]
    if folder is None or not files:
        raise InputError(why_missing(FOLDER))
    calls, loops = timings(folder), nccl_timings(folder)
    made = fitted(calls, loops)
    scores = [*_machines_left_out(calls, loops), *_generations_left_out(calls, loops)]
    rows = {str(path.relative_to(folder)): digest(path) for path in sorted(files)}
    note = "microsoft/vidur (calls from Python) and ai-dynamo/aiconfigurator (NCCL's own all-reduces), above 64 KB."
    return FittedFile(NAME, rows, len(together(calls, loops)), {NAME: made}, tuple(scores), note)


def _machines_left_out(calls: pd.DataFrame, loops: pd.DataFrame) -> list[OuterScore]:
    import pandas as pd

    parts, seconds, half, promised = [], [], [], []
    for name, part in calls.groupby("machine"):
        strange = [not kin(str(other), family(str(name))) for other in loops["machine"]]
        made = fitted(calls[calls["machine"] != name], loops[strange])
        ours, wide = predicted(made, part.assign(timing=CALL))
        promised.append((made.inner, len(part)))
        parts.append(part)
        seconds.append(ours)
        half.append(wide)
    measured = pd.concat(parts)["time"].to_numpy(float)
    inner = mean_inner(promised)
    return [_score("machine", "calls", len(parts), np.concatenate(seconds), measured, np.concatenate(half), inner)]


def _generations_left_out(calls: pd.DataFrame, loops: pd.DataFrame) -> list[OuterScore]:

    held: dict[str, list[tuple[FloatArray, FloatArray, FloatArray]]] = {"all-reduces": [], "other functions": []}
    promised = []
    for group in GENERATIONS:
        of = family(group[0])
        made = fitted(without(calls, of), without(loops, of))
        scored = loops[loops["machine"].isin(group)].assign(timing=LOOP)
        promised.append((made.inner, len(scored)))
        for kind, part in zip(held, kinds(scored), strict=True):
            held[kind].append((*predicted(made, part), part["time"].to_numpy(float)))
    inner, made_scores = mean_inner(promised), []
    for kind, each in held.items():
        seconds, half, measured = (np.concatenate([one[at] for one in each]) for at in range(3))
        made_scores.append(_score("generation", kind, len(GENERATIONS), seconds, measured, half, inner))
    return made_scores


def without(frame: pd.DataFrame, of: str) -> pd.DataFrame:
    """The rows of other generations than a family's."""
    return frame[[not kin(str(name), of) for name in frame["machine"]]]


def kinds(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All-reduces, and the other functions, of which none is fitted."""
    summed = frame["function"] == "all_reduce"
    return frame[summed], frame[~summed]


def _score(
    held: str,
    kind: str,
    groups: int,
    seconds: FloatArray,
    measured: FloatArray,
    half: FloatArray,
    inner: float | None,
) -> OuterScore:
    return OuterScore.of(f"{held} unseen", kind, groups, seconds, measured, half, inner)
