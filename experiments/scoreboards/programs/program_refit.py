"""The kernels of PyTorch programs that ship, fitted anew (`slipstick validate --refit programs`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.folds import folds
from slipstick.estimators.fitting.prediction_bands import left_out
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.gpu.programs.program_law import NAME, PROGRAMS_FILE, SPREAD
from slipstick.experiments.calibrate.public_data import data_folder, why_missing
from slipstick.experiments.scoreboards.programs import vision_law, vision_rows
from slipstick.experiments.scoreboards.programs.compile_scores import both
from slipstick.experiments.scoreboards.programs.image_networks import names
from slipstick.experiments.scoreboards.programs.program_data import programs, times
from slipstick.experiments.scoreboards.programs.program_rows import (
    COHORT,
    classes,
    fitted_change,
    law_rows,
    timed,
)
from slipstick.experiments.scoreboards.programs.timed_networks import TimedNetworks, networks_of

FILES = ("programs/times.csv.gz", "programs/operations.csv.gz", vision_rows.FILE)
FOLDS = 5
IN_FLOAT32 = "programs in float32"
ROWS = 240
"""Image networks of each mode, spread evenly over the table: as many as make a fit of minutes one of seconds."""


def refit() -> FittedFile:
    """Programs in float32, eager and compiled, and image networks in 16 bits in one law over generations and chips.

    Outer folds leave out programs, generations of GPUs, whose errors are the spread of answers, and families of image
    networks; all rows of the other kind that are of no generation left out stay known.
    Raises InputError where the public rows are missing.
    """
    folder = data_folder()
    if folder is None:
        raise InputError(why_missing(FILES[0]))
    for name in FILES:
        if not (folder / name).exists():
            raise InputError(why_missing(name))
    known, frame = programs(folder), times(folder)
    frame = frame[frame["source"].isin(list(known))]
    eager, networks = frame[frame["mode"] == "eager"], image_networks(folder / vision_rows.FILE)
    there = [network for network in networks.networks if network is not None]
    every_class = sorted({*classes(known), *(name for one in there for name in one.names)})
    sources = sorted(set(eager["source"]))
    data = [timed(part, sources, known, every_class) for _, part in eager.groupby("machine")]
    every = np.ones(len(sources), dtype=bool)
    families = networks.frame["family"].astype(str).tolist()
    beside = vision_law.law_rows(there, networks.seconds, families, every_class)
    law, rows = law_rows(data, every, every_class, beside)
    changed = both(frame[frame["source"].isin(sources)], known, sources, every_class)
    plain = fitted_change(data, [one.compiled for one in changed], every, every_class, beside)
    of_programs, generations = [one == COHORT for one in rows.source], list(rows.groups["generation"])
    scores, spread = [], 0.0
    for held, key, chosen, at_most in (
        ("program unseen", rows.cluster, True, FOLDS),
        ("GPU's generation unseen", generations, True, 0),
        ("family unseen", rows.cluster, False, FOLDS),
    ):
        places = np.flatnonzero(np.array(of_programs) == chosen)
        made = left_out(law, rows, folds(key, scored=places.tolist(), at_most=at_most), rows.cluster)
        taken = rows.seconds[places], made.seconds[places]
        count = len({key[place] for place in places.tolist()})
        kind = IN_FLOAT32 if chosen else "image networks in 16 bits"
        scores.append(OuterScore.of(held, kind, count, taken[1], taken[0], made.half[places], made.inner))
        spread = normal_spread(np.log(taken[1] / taken[0])) if key is generations else spread
    note = "ScalingIntelligence/KernelBench v0.1 (MIT); huggingface/pytorch-image-models' published benchmark."
    digests = {name: digest(folder / name) for name in FILES}
    facts = {SPREAD: float(f"{spread:.5g}")}
    return FittedFile(PROGRAMS_FILE, digests, len(rows), {NAME: plain.fit.values_alone()}, tuple(scores), note, facts)


def image_networks(path: Path) -> TimedNetworks:
    """Inference in 16 bits on GPUs, of networks whose operations are kept: `ROWS` of each mode."""
    every = vision_rows.read_rows(path).sort_values("device", kind="stable")
    frame = every[(every["task"] == "inference") & (every["dtype"] == "float16-amp")]
    frame = frame[[key in names() for key in zip(frame["model"], frame["image"], strict=True)]]
    some = [mine.iloc[:: max(1, -(-len(mine) // ROWS))].index for _, mine in frame.groupby("mode")]
    return networks_of(frame.loc[[place for places in some for place in places]])
