"""Image networks of timm on GPUs and CPUs, eager and compiled: families of networks left out, and devices.

What is scored is the default answer to a question about the network as it was run (under autocast in 16 bits on GPUs,
channels together where they lay so), from fits that never saw its family, or neither family nor device. Baselines: the
rule of thumb of each operation, and two numbers a device and mode (multiply-adds and activations, a rate each).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.records import Same
from slipstick.estimators.cpu.cpu_library_law import CPU_LIBRARY_LAW
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.prediction_bands import Fold, folds
from slipstick.experiments.scoreboards.programs import vision_memory
from slipstick.experiments.scoreboards.programs.cpu_library_fit import cpu_rows, on_cpu
from slipstick.experiments.scoreboards.programs.image_networks import image_network, names
from slipstick.experiments.scoreboards.programs.program_data import programs, runs_of
from slipstick.experiments.scoreboards.programs.program_refit import ProgramTimes, some_networks
from slipstick.experiments.scoreboards.programs.timed_networks import catalogued
from slipstick.experiments.scoreboards.programs.vision_law import as_run
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, KEY, read_rows, setting_of, two_numbers
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import GIVEN, LOGARITHMIC, Board, Data, Rows, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import Answers, Fits, answers_left_out, unseen
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

DATASET = "image networks"
DEVICES, MEMORY = f"{DATASET}, device unseen", f"{DATASET}, memory"
FOLDS, PARTS = 5, 2
"""Folds of families, and of those that are left out beside a device."""
ASKED = 300
"""Networks of a device, task and mode that are asked, spread evenly over its rows."""
GOALS = {
    "rtx-3090, inference, eager": (0.09, 0.28),
    "rtx-4090, inference, eager": (0.18, 0.50),
    "rtx-4090, inference, compiled": (0.09, 0.37),
}
NOISE = 0.015
"""Half-spread of repeated rows (the same but for the release of torch): median; 90th percentile 0.115."""


def _networks(data: Data) -> Iterator[Scored | ValidationRow]:
    """Families left out, then families and devices; of rows that are given those alone."""
    public, given = read_rows(data.known(FILE)), read_rows(data.judged(FILE))
    for device in sorted({str(name) for name in given["device"] if not catalogued(str(name))}):
        yield skipped(DATASET, f"{device}: the catalogue lacks this device (--machines DIR adds it)")
    rows = data.rows(_traced(public), _traced(given), lambda row: tuple(str(row[name]) for name in KEY))
    if unread := len(given) - len(rows.scored):
        yield skipped(DATASET, f"{unread} rows of no machine or of a network that was not traced")
    families, devices, cases = zip(
        *((str(row["family"]), str(row["device"]), _case(row)) for row in rows.rows), strict=True
    )
    part_of = {family: str(at % PARTS) for at, family in enumerate(sorted(set(families)))}
    parts = [part_of[family] for family in families]
    turns = _some(rows.turns(families, at_most=FOLDS), cases)
    made = answers_left_out(rows.rows, turns, _ask, partial(_fits, data))
    yield from _scores(DATASET, GIVEN if rows.first else "family", rows, cases, made)
    if not rows.first:
        made = answers_left_out(rows.rows, _some(rows.folds(devices, parts), cases), _ask, partial(_fits, data))
        yield from _scores(DEVICES, "device and family", rows, cases, made)


def _traced(frame: pd.DataFrame) -> list[pd.Series]:
    """Rows on machines of the catalogue, of networks whose operations are kept."""
    made = [row for _, row in frame.iterrows() if (row["model"], row["image"]) in names()]
    return [row for row in made if catalogued(str(row["device"]))]


def _case(row: pd.Series) -> str:
    return f"{row['device']}, {row['task']}, {row['mode']}"


def _some(turns: Sequence[Fold], cases: Sequence[str]) -> list[Fold]:
    """The folds with `ASKED` rows of each case to score, spread evenly."""
    scored = np.array(sorted(place for fold in turns for place in fold.scored))
    mine = [[place for place in scored if cases[place] == case] for case in sorted({cases[at] for at in scored})]
    some = {place for each in mine for place in each[:: -(-len(each) // ASKED)]}
    kept = [replace(fold, scored=np.array([at for at in fold.scored if at in some], dtype=np.intp)) for fold in turns]
    return [fold for fold in kept if len(fold.scored)]


def _ask(row: pd.Series) -> tuple[Workload, Machine]:
    network = image_network(str(row["model"]), int(row["image"]), int(row["batch"]))
    mode = {"runtime.mode": str(row["mode"])}
    return as_run(network, setting_of(row)), machine(catalogued(str(row["device"]))).using(mode)


def _fits(data: Data, seen: Sequence[pd.Series], wanted: Sequence[Machine]) -> Fits:
    """From rows of image networks that are known, and from all other programs."""
    import pandas as pd

    known, traced = pd.DataFrame(list(seen)), programs(data.folder)
    cpus = known[[on_cpu(str(device)) for device in known["device"]]]
    runs = [run for run in runs_of(data.folder) if run.source in traced and run.machine]
    there = {run.machine for run in runs} | {catalogued(str(device)) for device in known["device"]}
    gpus = unseen(wanted, map(machine, there))
    if any(machine_kind(one) == "gpu" for one in wanted):
        gpus = replace(gpus, programs=Same(ProgramTimes(runs, traced, some_networks(known)).fit()))
    return Fits(gpus, fit(CPU_LIBRARY_LAW, cpu_rows(cpus)) if len(cpus) else None)


def _scores(dataset: str, held: str, rows: Rows[pd.Series], cases: Sequence[str], made: Answers) -> Iterator[Scored]:
    """Case by case; the two numbers are fitted to other families on the device, or on the other devices."""
    import pandas as pd

    every = pd.DataFrame(list(rows.rows)).assign(case=cases)
    for case in sorted(set(cases)):
        device, _, use = case.partition(",")
        at = np.flatnonzero((every["case"] == case) & np.isfinite(made.seconds))
        if not len(at):
            continue
        wanted, alike = every.iloc[at], every["case"].str.endswith(f",{use}")
        frame = every[alike & ((every["device"] == device) != (dataset == DEVICES))]
        plain = np.full(len(at), np.nan)
        for fold in folds(wanted["family"].astype(str).tolist(), at_most=FOLDS):
            others = frame[~frame["family"].isin(set(wanted["family"].iloc[fold.scored]))]
            plain[fold.scored] = two_numbers(others, wanted.iloc[fold.scored])
        yield Scored(
            f"{device} unseen,{use}" if dataset == DEVICES else case, held,
            wanted["step_s"].to_numpy(dtype=float), made.seconds[at], LOGARITHMIC,
            GOALS.get(case, ()) if dataset == DATASET else (),
            {RULE: made.rule[at], "MACs and activations": plain}, low=made.low[at],
            high=made.high[at], noise=NOISE, groups=wanted["family"].astype(str).tolist(), dataset=dataset,
        )  # fmt: skip


def _batches(data: Data) -> Iterator[ValidationRow]:
    """The largest batch of a training step that fits, families left out of the fit of what an allocator takes."""
    judged = vision_memory.trained(
        data.judged(FILE)
    )  # first: what cannot be read is skipped before anything is counted
    yield from vision_memory.rows(MEMORY, vision_memory.trained(data.known(FILE)), judged)


BOARD = Board(
    "How long does an image network take on my GPU or CPU, eager or compiled, that nobody timed?",
    {DATASET: _networks, MEMORY: _batches},
)
