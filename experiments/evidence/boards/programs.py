"""PyTorch programs (KernelBench v0.1) on GPUs: a program nobody timed, a device nobody timed, and compiled or eager.

A new program is predicted from its operations by `ProgramKernels` fitted without it (ten folds). A device that is
new is left out with its family where another family is there; what a program took on the others over what the model
says there goes with it, as far as such residuals repeat. Baselines: the plain roofline of each operation, and the time
on the nearest device scaled by bandwidth. Three machines of two generations: no more is known of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.tuned.tuned_defaults import PROGRAMS
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import LOGARITHMIC, Board, Data, Front, MissingError, Scored, of_errors
from slipstick.experiments.evidence.validation.models.programs.compile_scores import both, compile_scores, sealed_scores
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


def _eager(data: Data) -> Iterator[Scored | ValidationRow]:
    """Programs and devices left out; rows of another folder: their keys leave the training data."""
    known, training, tested = _tables(data)
    strange = sorted(device for device in set(tested["device"]) if not machine_of(str(device)))
    yield from (skipped(DATASET, f"the catalogue lacks {device}") for device in strange)
    if unread := sorted(set(tested["source"]) - set(known)):
        yield skipped(DATASET, f"{len(unread)} programs without a trace: not scored")
    eager = tested[(tested["mode"] == "eager") & ~tested["device"].isin(strange) & tested["source"].isin(list(known))]
    learnt = training[(training["mode"] == "eager") & training["source"].isin(list(known))]
    names = classes(known)
    if data.scored is not None:
        yield from _sealed(eager, learnt, known, names)
        return
    sources = sorted(set(eager["source"]))
    timed = [_timed(part, sources, known, names) for _, part in eager.groupby("machine")]
    yield from _programs_left_out(timed, len(sources), names)
    yield from _devices_left_out(timed, names)


def _tables(data: Data) -> tuple[dict[str, Program], pd.DataFrame, pd.DataFrame]:
    """Traced programs, times to learn from, and times to score."""
    known = programs(data.folder) | (programs(data.scored) if data.scored else {})
    training = times(data.folder)
    tested = training if data.scored is None else times(data.scored)
    if tested.empty or not known:
        raise MissingError(f"no times of programs in {data.scored or data.folder}")
    return known, training, tested


def _compiled(data: Data) -> Iterator[Scored | ValidationRow]:
    """What torch.compile changes; compiled programs of another folder leave the training data."""
    known, training, tested = _tables(data)
    names = classes(known)
    if data.scored is None:
        sources = sorted(set(tested.loc[(tested["mode"] == "eager") & tested["source"].isin(list(known)), "source"]))
        yield from compile_scores(both(training[training["source"].isin(sources)], known, sources, names), names)
        return
    keys = ["machine", "mode", "source"]
    scored = set(map(tuple, tested[keys].to_numpy().tolist()))
    rest = training[[key not in scored for key in map(tuple, training[keys].to_numpy().tolist())]]
    frames = [frame[frame["source"].isin(list(known))] for frame in (tested, rest)]
    sources = sorted(set(frames[0]["source"]) | set(frames[1]["source"]))
    scored_pairs, known_pairs = (both(frame, known, sources, names) for frame in frames)
    yield from sealed_scores(scored_pairs, known_pairs, names)


def _timed(part: pd.DataFrame, sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str]) -> Timed:
    device = machine_of(str(part["device"].iloc[0]))
    index = np.array([sources.index(source) for source in part["source"]])
    logs = np.log(part["mean_s"].to_numpy())
    return Timed(str(part["machine"].iloc[0]), device, columns(sources, known, names, device), index, logs)


def _programs_left_out(data: Sequence[Timed], programs_there: int, names: Sequence[str]) -> Iterator[Scored]:
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
    yield _scored(case, "program", whole, {"roofline": plain}, GOALS[case])
    for host, parts in errors.items():
        yield _scored(f"{case}, {host}", "program", np.concatenate(parts), {})


def _devices_left_out(data: Sequence[Timed], names: Sequence[str]) -> Iterator[Scored]:
    together, plain, copied = [], [], []
    for one in data:
        others = [o for o in data if o.device != one.device]
        strangers = [o for o in others if kin(o, one) < GENERATION]
        error, half = _error(one, strangers or others, names)
        near = nearest(one, others)
        together.append(error)
        plain.append(_roofline(one))
        copied.append(_copied(one, near) - one.logs)
        base = {"roofline": plain[-1], f"{near.host} by bandwidth": copied[-1]}
        held = one.device if not strangers else f"{one.device} and its generation"
        yield _scored(f"device unseen, {one.host}", held, error, base, half=half)
        if strangers and len(strangers) < len(others):
            twin, half = _error(one, others, names)
            yield _scored(f"device unseen, {one.host}, its relatives known", one.device, twin, base, half=half)
    case = "device unseen"
    bases = {"roofline": np.concatenate(plain), "nearest device by bandwidth": np.concatenate(copied)}
    yield _scored(case, "each in turn", np.concatenate(together), bases, GOALS[case])


def _error(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> tuple[FloatArray, float]:
    """Log errors of a device's programs, and the half-width of the band that was announced."""
    predicted = predicted_from_others(one, others, names)
    half = quantile(DEFAULT_LEVEL, None) * (predicted.mixed.spread or PROGRAMS)
    return np.asarray(predicted.logs[one.index.astype(int)] - one.logs), half


def _sealed(
    eager: pd.DataFrame, learnt: pd.DataFrame, known: Mapping[str, Program], names: Sequence[str]
) -> Iterator[Scored]:
    """Rows of another folder: devices and programs may both be new; judged by the goal of what is new."""
    sources = sorted(set(eager["source"]) | set(learnt["source"]))
    for host, part in eager.groupby("machine"):
        rest = learnt[~((learnt["machine"] == host) & learnt["source"].isin(set(part["source"])))]
        others = [_timed(group, sources, known, names) for _, group in rest.groupby("machine")]
        one = _timed(part, sources, known, names)
        error, half = _error(one, others, names)
        base = {
            "roofline": _roofline(one),
            "nearest device by bandwidth": _copied(one, nearest(one, others)) - one.logs,
        }
        new = "program unseen" if any(o.device == one.device for o in others) else "device unseen"
        yield _scored(f"{host}", "scored rows", error, base, GOALS[new], half)


def _copied(one: Timed, other: Timed) -> FloatArray:
    """Log seconds of another device's programs times the ratio of bandwidths; nan where it has none."""
    return np.asarray(other.every()[one.index.astype(int)] + np.log(bandwidth(other) / bandwidth(one)))


def _roofline(one: Timed) -> FloatArray:
    """Log error of the plain roofline."""
    return np.asarray(roofline(one.rows)[one.index.astype(int)] - one.logs)


def _scored(
    case: str,
    held_out: str,
    errors: FloatArray,
    bases: Mapping[str, FloatArray],
    goals: tuple[float, ...] = (),
    half: float | None = None,
) -> Scored:
    return replace(of_errors(case, held_out, errors, bases), metrics=LOGARITHMIC, goals=goals, half=half, noise=NOISE)


BOARD = Board(
    "How long does a PyTorch program take that nobody timed, or on a GPU never seen, and does compiling help?",
    {DATASET: _eager, "compiled PyTorch programs": _compiled},
    (
        Front("A PyTorch program", "the program", "program unseen", "program"),
        Front("A PyTorch program", "the GPU", "device unseen", "each in turn", DATASET),
    ),
)
