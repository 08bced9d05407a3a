"""Image networks of timm on GPUs and CPUs, eager and compiled: families of networks left out, and devices.

A network is predicted from its operations by the law of PyTorch's kernels (`vision_law`), fitted to the other
families' networks on the device; a device that is not among the public ones by the law of the others of its kind.
Baselines: the roofline of each operation, and two numbers a device and mode (multiply-adds and activations, a rate
each). A network without a trace is predicted by those two numbers, and counted in the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.cpu.cpu_library_law import CpuLibraryLaw
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.folds import folds
from slipstick.estimators.fitting.prediction_bands import stretch
from slipstick.estimators.gpu.programs.program_law import ProgramLaw
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs import vision_memory
from slipstick.experiments.scoreboards.programs.cpu_library_fit import cpu_rows, on_cpu
from slipstick.experiments.scoreboards.programs.timed_networks import (
    ENOUGH,
    TimedNetworks,
    catalogued,
    networks_of,
    timed_networks,
)
from slipstick.experiments.scoreboards.programs.vision_law import law_rows
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, KEY, read_rows, two_numbers
from slipstick.experiments.scoring.score import Board, Data, Scored, logarithmic, progress
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd

DATASET = "image networks"
DEVICES, MEMORY = f"{DATASET}, device unseen", f"{DATASET}, memory"
FOLDS = 5
METRICS = (logarithmic(0.5, "median |log ratio|"), logarithmic(0.9, "90th percentile |log ratio|"))
GOALS = {
    ("rtx-3090", "inference", "eager"): (0.09, 0.28),
    ("rtx-4090", "inference", "eager"): (0.18, 0.50),
    ("rtx-4090", "inference", "compiled"): (0.09, 0.37),
}
NOISE = 0.015
"""Half-spread of repeated rows (the same but for the release of torch): median; 90th percentile 0.115."""


def _predicted(known: TimedNetworks, wanted: TimedNetworks) -> tuple[FloatArray, FloatArray]:
    """Seconds, by the law where there is a network and a law, else by two numbers; and half of the band of their log.

    On CPUs the law is that of their library, which answers there by default. Its band knows whether it was fitted to
    rows of the device; rows without a law have the widest of the others (not a number where none has one).
    """
    ours, half = two_numbers(known.frame, wanted.frame), np.full(len(wanted.networks), np.nan)
    if all(on_cpu(str(device)) for device in {*known.frame["device"], *wanted.frame["device"]}):
        rows, law = cpu_rows(wanted.frame[wanted.traced]), CpuLibraryLaw()
        made = fit(law, cpu_rows(known.frame[known.traced]))
        ours[wanted.traced] = made.seconds(law, rows.columns, rows.groups)
        half[wanted.traced] = made.half_width(law, rows.columns, rows.groups)
    else:
        kernels = known.law()
        there = [network for network in wanted.networks if network is not None]
        if kernels is not None and there:
            (classes, trained), seconds = kernels, wanted.seconds[wanted.traced]
            table, rows = law_rows(there, seconds, [""] * len(there), classes)
            ours[wanted.traced] = trained.seconds(ProgramLaw(classes, table), rows.columns, rows.groups)
            half[wanted.traced] = trained.half_width(ProgramLaw(classes, table), rows.columns, rows.groups)
    return ours, np.where(np.isfinite(half), half, np.nanmax(half, initial=-np.inf) if wanted.traced.any() else np.nan)


def _parts(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    for key, part in frame.groupby(["device", "task", "mode"], sort=True):
        yield (str(key[0]), str(key[1]), str(key[2])), part


def _reason(rows: TimedNetworks) -> str:
    missing = int((~rows.traced).sum())
    return f"{missing} rows without a trace of their network: by two numbers" if missing else ""


def _scored(case: str, held: str, rows: TimedNetworks, ours: FloatArray, plain: FloatArray, half: FloatArray) -> Scored:
    there = np.isfinite(ours)
    bases = {"roofline": rows.roofline()[there], "MACs and activations": plain[there]}
    families = rows.frame["family"].astype(str)[there].tolist()
    return Scored(
        case, held, rows.seconds[there], ours[there], METRICS, (), bases, half[there], noise=NOISE,
        reason=_reason(rows), groups=families,
    )  # fmt: skip


def _families(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each family left out in one of five folds."""
    if data.scored is not None:
        yield from _sealed(data)
        return
    for (device, task, mode), part in _parts(read_rows(data.known(FILE))):
        case = f"{device}, {task}, {mode}"
        if not catalogued(device):
            yield skipped(DATASET, f"{case}: the catalogue lacks this device")
            continue
        progress(f"vision: {case}, {len(part)} rows")
        rows = timed_networks(part)
        ours, plain, half, _ = _left_out(rows)
        goals = GOALS.get((device, task, mode), ())
        yield replace(_scored(case, "family", rows, ours, plain, half), goals=goals, enough=ENOUGH)


def _left_out(rows: TimedNetworks) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Predictions by law and by two numbers with families left out, and half-widths of bands from the other folds; and
    the stretch with which the law's own bands would have held 80 % of the families (`bands.stretch`)."""
    ours, plain, half, wide = (np.full(len(rows.networks), np.nan) for _ in range(4))
    families = rows.frame["family"].astype(str).tolist()
    parts = folds(families, at_most=FOLDS)
    for fold in parts:
        known, wanted = (np.isin(np.arange(len(half)), places) for places in (fold.known, fold.scored))
        ours[wanted], wide[wanted] = _predicted(rows.only(known), rows.only(wanted))
        plain[wanted] = two_numbers(rows.frame[known], rows.frame[wanted])
    errors = np.abs(np.log(ours / rows.seconds))
    for fold in parts:
        others = np.delete(errors, fold.scored)
        half[fold.scored] = np.nanquantile(others, 0.8)
    return ours, plain, half, stretch(np.where(np.isfinite(wide), ours, np.nan), wide, rows.seconds, families)


def _devices(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each public device by the law of the others in its mode and data type, families left out as well."""
    frame = read_rows(data.known(FILE))
    frame = frame[[bool(catalogued(str(device))) for device in frame["device"]]]
    for key, part in frame.groupby(["task", "mode", "dtype"], sort=True):
        if part["device"].nunique() < 2:
            continue
        for device in sorted(set(part["device"])):
            wanted, known = timed_networks(part[part["device"] == device]), networks_of(part[part["device"] != device])
            yield _by_others(f"{device} unseen, {key[0]}, {key[1]}", wanted, known)


def _by_others(case: str, wanted: TimedNetworks, known: TimedNetworks) -> Scored:
    """Families in five folds as well: neither the device nor the family of a row is known."""
    ours, plain, half = (np.full(len(wanted.networks), np.nan) for _ in range(3))
    for fold in folds(wanted.frame["family"].astype(str).tolist(), at_most=FOLDS):
        held = set(wanted.frame["family"][fold.scored])
        rest = known.only(~known.frame["family"].isin(held).to_numpy())
        place = np.isin(np.arange(len(ours)), fold.scored)
        ours[place], half[place] = _predicted(rest, wanted.only(place))
        plain[place] = two_numbers(rest.frame, wanted.frame[place])
    return _scored(case, "device and family", wanted, ours, plain, half * _left_out(known)[3])


def _sealed(data: Data) -> Iterator[Scored | ValidationRow]:
    """Rows of another folder from the public ones; what is scored leaves them, by device, family and setting."""
    wanted, known = read_rows(data.judged(FILE)), read_rows(data.known(FILE))
    scored_keys = set(map(tuple, wanted[KEY].astype(str).to_numpy().tolist()))
    known = known[[key not in scored_keys for key in map(tuple, known[KEY].astype(str).to_numpy().tolist())]]
    known = known[[bool(catalogued(str(device))) for device in known["device"]]]
    for (device, task, mode), part in _parts(wanted):
        case = f"{device}, {task}, {mode}"
        if not catalogued(device):
            yield skipped(DATASET, f"{case}: the catalogue lacks this device (--machines DIR adds it)")
            continue
        alike = known[(known["task"] == task) & (known["mode"] == mode) & known["dtype"].isin(set(part["dtype"]))]
        same_device = alike[alike["device"] == device]
        rest = same_device if len(same_device) >= ENOUGH else alike
        if rest.empty:
            yield skipped(DATASET, f"{case}: no public rows of this task, mode and data type")
            continue
        progress(f"vision: {case}, {len(part)} rows")
        rows, learnt = timed_networks(part), networks_of(rest)
        (ours, half), plain = _predicted(learnt, rows), two_numbers(learnt.frame, rows.frame)
        within = _left_out(learnt)
        if rest is same_device:  # one width for all: what the families of the device ask for
            half = np.full(len(ours), float(np.nanquantile(np.abs(np.log(within[0] / learnt.seconds)), 0.8)))
        yield _scored(case, "scored rows", rows, ours, plain, half * (1.0 if rest is same_device else within[3]))


def _batches(data: Data) -> Iterator[ValidationRow]:
    """The largest batch of a training step that fits, families left out of the fit of what an allocator takes."""
    judged = vision_memory.trained(
        data.judged(FILE)
    )  # first: what cannot be read is skipped before anything is counted
    known = judged if data.scored is None else vision_memory.trained(data.known(FILE))
    yield from vision_memory.rows(MEMORY, known, judged)


BOARD = Board(
    "How long does an image network take on my GPU or CPU, eager or compiled, that nobody timed?",
    {DATASET: _families, DEVICES: _devices, MEMORY: _batches},
    closed={DEVICES: "rows of a folder are scored as image networks, their devices known or not"},
)
