"""PyTorch programs (KernelBench v0.1) on GPUs: a program nobody timed, a device nobody timed, and compiled or eager.

A new program is predicted from its operations by `ProgramKernels` fitted without it (ten folds). A device that is
new is left out with its family where another family is there; what a program took on the others over what the model
says there goes with it, as far as such residuals repeat. Baselines: the plain roofline of each operation, and the time
on the nearest device scaled by bandwidth. Three machines of two generations: no more can be said of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.models.program_data import Program, machine_of, programs, times
from slipstick.experiments.evidence.validation.models.program_fit import Rows, classes, columns, fit, modelled
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "PyTorch programs"
FOLDS = 10
REPEATS = 0.8
"""Of a program's log residual on other devices, what is taken along to a new one."""
GOALS = {"program unseen": (0.13, 0.40), "device unseen": (0.10, 0.30)}
NOISE = 0.010
"""Standard deviation of a program's trials over their mean in this cohort: median."""
CHANGED = 0.05
"""Log ratio of compiled and eager times below which there is no direction to tell."""


@dataclass(frozen=True, eq=False)
class Timed:
    """Measured programs on one host in one mode."""

    host: str
    device: str
    rows: Rows
    index: FloatArray
    logs: FloatArray

    def only(self, keep: FloatArray) -> tuple[Rows, FloatArray, FloatArray]:
        """The fit's view of some of the measurements (booleans by program)."""
        chosen = keep[self.index.astype(int)]
        return self.rows, self.index[chosen].astype(int), self.logs[chosen]


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
    found = [skipped(DATASET, f"the catalogue lacks {device}") for device in strange]
    unread = sorted(set(tested["source"]) - set(known))
    if unread:
        found.append(skipped(DATASET, f"{len(unread)} programs without a trace: not scored"))
    eager = tested[(tested["mode"] == "eager") & ~tested["device"].isin(strange) & tested["source"].isin(list(known))]
    learnt = training[(training["mode"] == "eager") & training["source"].isin(list(known))]
    if scored is not None:
        return found + _sealed(eager, learnt, known)
    sources, names = sorted(set(eager["source"])), classes(known)
    data = [_timed(part, sources, known, names) for _, part in eager.groupby("machine")]
    return (
        found + _programs_left_out(data, len(sources), len(names)) + _devices_left_out(data, len(sources), len(names))
    )


def _timed(part: pd.DataFrame, sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str]) -> Timed:
    device = machine_of(str(part["device"].iloc[0]))
    index = np.array([sources.index(source) for source in part["source"]])
    logs = np.log(part["mean_s"].to_numpy())
    return Timed(str(part["machine"].iloc[0]), device, columns(sources, known, names, device), index, logs)


def _programs_left_out(data: Sequence[Timed], programs_there: int, count: int) -> list[ValidationRow]:
    fold = np.random.default_rng(0).integers(0, FOLDS, programs_there)
    errors: dict[str, list[FloatArray]] = {one.host: [] for one in data}
    for number in range(FOLDS):
        point = fit([one.only(fold != number) for one in data], count)
        for one in data:
            view, index, logs = one.only(fold == number)
            errors[one.host].append(np.log(modelled(point, view, count))[index] - logs)
    case = "program unseen"
    whole = np.concatenate([np.concatenate(parts) for parts in errors.values()])
    plain = np.concatenate([_roofline(one) for one in data])
    found = _scores(case, "program", whole, {"roofline": plain}, GOALS[case])
    for host, parts in errors.items():
        found += _scores(f"{case}, {host}", "program", np.concatenate(parts), {}, None)
    return found


def _devices_left_out(data: Sequence[Timed], programs_there: int, count: int) -> list[ValidationRow]:
    found, together, plain, nearest = [], [], [], []
    for one in data:
        others = [o for o in data if o.device != one.device]
        strangers = [o for o in others if _kin(o, one) < 2]
        told = _told(one, strangers or others, programs_there, count)
        error = told - one.logs
        near = max(others, key=lambda o: _kin(o, one))
        copied = _copied(one, near, programs_there)
        together.append(error)
        plain.append(_roofline(one))
        nearest.append((copied - one.logs)[np.isfinite(copied)])
        base = {"roofline": plain[-1], f"{near.host} by bandwidth": nearest[-1]}
        held = one.device if not strangers else f"{one.device} and its generation"
        found += _scores(f"device unseen, {one.host}", held, error, base, None)
        if strangers and len(strangers) < len(others):
            twin = _told(one, others, programs_there, count) - one.logs
            found += _scores(f"device unseen, {one.host}, its relatives known", one.device, twin, {}, None)
    case = "device unseen"
    bases = {"roofline": np.concatenate(plain), "nearest device by bandwidth": np.concatenate(nearest)}
    return _scores(case, "each in turn", np.concatenate(together), bases, GOALS[case]) + found


def _told(one: Timed, others: Sequence[Timed], programs_there: int, count: int) -> FloatArray:
    """Log seconds of a device's programs by the other devices alone."""
    every = np.ones(programs_there, bool)
    point = fit([other.only(every) for other in others], count)
    left = np.full((len(others), programs_there), np.nan)
    for place, other in enumerate(others):
        index = other.index.astype(int)
        left[place, index] = other.logs - np.log(modelled(point, other.rows, count))[index]
    seen = np.isfinite(left).any(axis=0)
    repeated = np.where(seen, np.nansum(left, axis=0) / np.maximum(np.isfinite(left).sum(axis=0), 1), 0.0)
    told = np.log(modelled(point, one.rows, count)) + REPEATS * repeated
    return np.asarray(told[one.index.astype(int)])


def _sealed(eager: pd.DataFrame, learnt: pd.DataFrame, known: Mapping[str, Program]) -> list[ValidationRow]:
    """Rows of another folder: their keys leave the training data; devices and programs may both be new."""
    sources = sorted(set(eager["source"]) | set(learnt["source"]))
    names = classes(known)
    found = []
    for host, part in eager.groupby("machine"):
        rest = learnt[~((learnt["machine"] == host) & learnt["source"].isin(set(part["source"])))]
        others = [_timed(own, sources, known, names) for _, own in rest.groupby("machine")]
        one = _timed(part, sources, known, names)
        error = _told(one, others, len(sources), len(names)) - one.logs
        found += _scores(f"{host}", "scored rows", error, {"roofline": _roofline(one)}, None)
    return found


def _kin(one: Timed, other: Timed) -> int:
    return shared_words(machine(one.device).family, machine(other.device).family)


def _copied(one: Timed, other: Timed, programs_there: int) -> FloatArray:
    """Log seconds of another device's programs times the ratio of bandwidths; nan where it has none."""
    logs = np.full(programs_there, np.nan)
    logs[other.index.astype(int)] = other.logs
    here, there = (machine(name) for name in (one.device, other.device))
    ratio = there.bandwidth(there.main_memory) / here.bandwidth(here.main_memory)
    return np.asarray(logs[one.index.astype(int)] + np.log(ratio))


def _roofline(one: Timed) -> FloatArray:
    """Log error of the plain roofline, operation by operation."""
    times_there = np.maximum(one.rows.arithmetic, one.rows.traffic) * one.rows.count
    whole = np.bincount(one.rows.program.astype(int), times_there, one.rows.programs)
    return np.asarray(np.log(np.maximum(whole[one.index.astype(int)], 1e-9)) - one.logs)


def _scores(
    case: str, held_out: str, errors: FloatArray, bases: Mapping[str, FloatArray], goals: tuple[float, float] | None
) -> list[ValidationRow]:
    found = []
    for place, (share, metric) in enumerate(((0.5, "median |log ratio|"), (0.9, "90th percentile |log ratio|"))):
        ours = float(np.quantile(np.abs(errors), share))
        base = {name: float(np.quantile(np.abs(values), share)) for name, values in bases.items()}
        goal = goals[place] if goals else None
        ok = None if goal is None else ours <= goal
        found.append(
            ValidationRow(DATASET, case, held_out, len(errors), metric, "1", ours, base, goal, ok, noise_floor=NOISE)
        )
    return found
