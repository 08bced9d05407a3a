"""PyTorch programs (KernelBench v0.1) on GPUs: a program nobody timed, a device nobody timed, and compiled or eager.

A new program is predicted from its operations by `ProgramKernels` fitted without it (ten folds). A device that is
new is left out with its family where another family is there; what a program took on the others over what the model
says there goes with it, as far as such residuals repeat. Baselines: the plain roofline of each operation, and the time
on the nearest device scaled by bandwidth. Three machines of two generations: no more is known of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.tuned.tuned_defaults import PROGRAMS
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.models.programs.compile_scores import both, compile_rows, sealed_rows
from slipstick.experiments.evidence.validation.models.programs.program_data import Program, machine_of, programs, times
from slipstick.experiments.evidence.validation.models.programs.program_fit import classes, columns, fit, modelled
from slipstick.experiments.evidence.validation.models.programs.program_transfer import (
    GENERATION,
    Timed,
    bandwidth,
    kin,
    nearest,
    predicted_from_others,
    roofline,
)

if TYPE_CHECKING:
    import pandas as pd

DATASET = "PyTorch programs"
FOLDS = 10
GOALS = {"program unseen": (0.13, 0.40), "device unseen": (0.10, 0.30)}
NOISE = 0.010
"""Standard deviation of a program's trials over their mean in this cohort: median."""


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard; skipped where the tables are not here."""
    folder = data_folder()
    if folder is None:
        return [skipped(DATASET, "no public measurements here (set SLIPSTICK_DATA; docs/validation.md says where)")]
    known = programs(folder) | (programs(scored) if scored else {})
    training = times(folder)
    tested = training if scored is None else times(scored)
    if tested.empty or not known:
        return [skipped(DATASET, f"no times of programs in {scored or folder}")]
    strange = sorted(device for device in set(tested["device"]) if not machine_of(str(device)))
    scores = [skipped(DATASET, f"the catalogue lacks {device}") for device in strange]
    unread = sorted(set(tested["source"]) - set(known))
    if unread:
        scores.append(skipped(DATASET, f"{len(unread)} programs without a trace: not scored"))
    eager = tested[(tested["mode"] == "eager") & ~tested["device"].isin(strange) & tested["source"].isin(list(known))]
    learnt = training[(training["mode"] == "eager") & training["source"].isin(list(known))]
    if scored is not None:
        return scores + _sealed(eager, learnt, known) + _compiled(tested, training, known)
    sources, names = sorted(set(eager["source"])), classes(known)
    data = [_timed(part, sources, known, names) for _, part in eager.groupby("machine")]
    scores += _programs_left_out(data, len(sources), names) + _devices_left_out(data, names)
    return scores + compile_rows(both(training[training["source"].isin(sources)], known, sources, names), names)


def _timed(part: pd.DataFrame, sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str]) -> Timed:
    device = machine_of(str(part["device"].iloc[0]))
    index = np.array([sources.index(source) for source in part["source"]])
    logs = np.log(part["mean_s"].to_numpy())
    return Timed(str(part["machine"].iloc[0]), device, columns(sources, known, names, device), index, logs)


def _programs_left_out(data: Sequence[Timed], programs_there: int, names: Sequence[str]) -> list[ValidationRow]:
    fold = np.random.default_rng(0).integers(0, FOLDS, programs_there)
    errors: dict[str, list[FloatArray]] = {one.host: [] for one in data}
    for number in range(FOLDS):
        point = fit([one.only(fold != number) for one in data], names)
        for one in data:
            view, index, logs = one.only(fold == number)
            errors[one.host].append(np.log(modelled(point, view, len(names)))[index] - logs)
    case = "program unseen"
    whole = np.concatenate([np.concatenate(parts) for parts in errors.values()])
    plain = np.concatenate([_roofline(one) for one in data])
    rows = _scores(case, "program", whole, {"roofline": plain}, GOALS[case])
    for host, parts in errors.items():
        rows += _scores(f"{case}, {host}", "program", np.concatenate(parts), {}, None)
    return rows


def _devices_left_out(data: Sequence[Timed], names: Sequence[str]) -> list[ValidationRow]:
    rows, together, plain, copied = [], [], [], []
    for one in data:
        others = [o for o in data if o.device != one.device]
        strangers = [o for o in others if kin(o, one) < GENERATION]
        error, spread = _error(one, strangers or others, names)
        near = nearest(one, others)
        together.append(error)
        plain.append(_roofline(one))
        copied.append((_copied(one, near) - one.logs)[np.isfinite(_copied(one, near))])
        base = {"roofline": plain[-1], f"{near.host} by bandwidth": copied[-1]}
        held = one.device if not strangers else f"{one.device} and its generation"
        rows += _scores(f"device unseen, {one.host}", held, error, base, None, spread)
        if strangers and len(strangers) < len(others):
            twin, spread = _error(one, others, names)
            rows += _scores(f"device unseen, {one.host}, its relatives known", one.device, twin, base, None, spread)
    case = "device unseen"
    bases = {"roofline": np.concatenate(plain), "nearest device by bandwidth": np.concatenate(copied)}
    return _scores(case, "each in turn", np.concatenate(together), bases, GOALS[case]) + rows


def _error(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> tuple[FloatArray, float]:
    """Log errors of a device's programs, and the standard deviation that was announced."""
    predicted = predicted_from_others(one, others, names)
    return np.asarray(predicted.logs[one.index.astype(int)] - one.logs), predicted.mixed.spread or PROGRAMS


def _compiled(tested: pd.DataFrame, training: pd.DataFrame, known: Mapping[str, Program]) -> list[ValidationRow]:
    """Compiled programs of another folder; their keys leave the training data."""
    keys = ["machine", "mode", "source"]
    scored = set(map(tuple, tested[keys].to_numpy().tolist()))
    rest = training[[key not in scored for key in map(tuple, training[keys].to_numpy().tolist())]]
    frames = [frame[frame["source"].isin(list(known))] for frame in (tested, rest)]
    sources, names = sorted(set(frames[0]["source"]) | set(frames[1]["source"])), classes(known)
    scored_pairs, known_pairs = (both(frame, known, sources, names) for frame in frames)
    return sealed_rows(scored_pairs, known_pairs, names)


def _sealed(eager: pd.DataFrame, learnt: pd.DataFrame, known: Mapping[str, Program]) -> list[ValidationRow]:
    """Rows of another folder: their keys leave the training data; devices and programs may both be new."""
    sources = sorted(set(eager["source"]) | set(learnt["source"]))
    names = classes(known)
    scores = []
    for host, part in eager.groupby("machine"):
        rest = learnt[~((learnt["machine"] == host) & learnt["source"].isin(set(part["source"])))]
        others = [_timed(group, sources, known, names) for _, group in rest.groupby("machine")]
        one = _timed(part, sources, known, names)
        error, spread = _error(one, others, names)
        near = _copied(one, nearest(one, others)) - one.logs
        base = {"roofline": _roofline(one), "nearest device by bandwidth": near[np.isfinite(near)]}
        scores += _scores(f"{host}", "scored rows", error, base, None, spread)
    return scores


def _copied(one: Timed, other: Timed) -> FloatArray:
    """Log seconds of another device's programs times the ratio of bandwidths; nan where it has none."""
    return np.asarray(other.every()[one.index.astype(int)] + np.log(bandwidth(other) / bandwidth(one)))


def _roofline(one: Timed) -> FloatArray:
    """Log error of the plain roofline."""
    return np.asarray(roofline(one.rows)[one.index.astype(int)] - one.logs)


def _scores(
    case: str,
    held_out: str,
    errors: FloatArray,
    bases: Mapping[str, FloatArray],
    goals: tuple[float, float] | None,
    spread: float | None = None,
) -> list[ValidationRow]:
    half = None if spread is None else quantile(DEFAULT_LEVEL, None) * spread
    inside = None if half is None else float(np.mean(np.abs(errors) <= half))
    rows = []
    for place, (share, metric) in enumerate(((0.5, "median |log ratio|"), (0.9, "90th percentile |log ratio|"))):
        ours = float(np.quantile(np.abs(errors), share))
        base = {name: float(np.quantile(np.abs(values), share)) for name, values in bases.items() if len(values)}
        goal = goals[place] if goals else None
        ok = None if goal is None else ours <= goal
        row = ValidationRow(DATASET, case, held_out, len(errors), metric, "1", ours, base, goal, ok, noise_floor=NOISE)
        if half is not None:
            width = float(np.exp(2 * half))
            row = replace(row, interval_level=DEFAULT_LEVEL, interval_coverage=inside, interval_width=width)
        rows.append(row)
    return rows
