"""PyTorch programs (KernelBench v0.1) on GPUs: a program nobody timed, a device nobody timed, and compiled or eager.

A new program is predicted from its operations by `ProgramLaw` fitted without it (ten folds). A device that is
new is left out with its family where another family is there; what a program took on the others over what the model
says there goes with it, as far as such residuals repeat. Baselines: the plain roofline of each operation, and the time
on the nearest device that is known as well, scaled by bandwidth. Four machines of two generations: no more is known of
devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs.compile_scores import both, compile_scores, sealed_scores
from slipstick.experiments.scoreboards.programs.program_data import Program, machine_of, programs, times
from slipstick.experiments.scoreboards.programs.program_rows import Timed, classes, fitted, timed
from slipstick.experiments.scoreboards.programs.program_transfer import (
    GENERATION,
    bandwidth,
    nearest,
    predicted_from_others,
    shared_traits,
)
from slipstick.experiments.scoring.score import LOGARITHMIC, Board, Data, Front, MissingError, Scored, of_errors
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd

DATASET = "PyTorch programs"
FOLDS = 10
GOALS = {"program unseen": (0.13, 0.40), "device unseen": (0.10, 0.30)}
RELATED = ", its relatives known"
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
        yield from _sealed(eager, _without(learnt, eager, ["machine", "source"]), known, names)
        return
    sources = sorted(set(eager["source"]))
    hosts = [timed(part, sources, known, names) for _, part in eager.groupby("machine")]
    yield from _programs_left_out(hosts, len(sources), names)
    yield from _devices_left_out(hosts, names)


def _tables(data: Data) -> tuple[dict[str, Program], pd.DataFrame, pd.DataFrame]:
    """Traced programs, times to learn from, and times to score."""
    known = programs(data.folder) | (programs(data.scored) if data.scored else {})
    training = times(data.folder)
    tested = training if data.scored is None else times(data.scored)
    if tested.empty or not known:
        raise MissingError(f"no times of programs (cohort v0.1) in {data.scored or data.folder}")
    return known, training, tested


def _compiled(data: Data) -> Iterator[Scored | ValidationRow]:
    """What torch.compile changes; compiled programs of another folder leave the training data."""
    known, training, tested = _tables(data)
    names = classes(known)
    if data.scored is None:
        sources = sorted(set(tested.loc[(tested["mode"] == "eager") & tested["source"].isin(list(known)), "source"]))
        yield from compile_scores(both(training[training["source"].isin(sources)], known, sources, names), names)
        return
    rest = _without(training, tested, ["machine", "mode", "source"])
    frames = [frame[frame["source"].isin(list(known))] for frame in (tested, rest)]
    sources = sorted(set(frames[0]["source"]) | set(frames[1]["source"]))
    scored_pairs, known_pairs = (both(frame, known, sources, names) for frame in frames)
    yield from sealed_scores(scored_pairs, known_pairs, names)


def _without(training: pd.DataFrame, tested: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Rows to learn from that stand in no scored row, whichever host is asked."""
    scored = set(map(tuple, tested[list(keys)].to_numpy().tolist()))
    return training[[key not in scored for key in map(tuple, training[list(keys)].to_numpy().tolist())]]


def _programs_left_out(data: Sequence[Timed], programs_there: int, names: Sequence[str]) -> Iterator[Scored]:
    fold = np.random.default_rng(0).integers(0, FOLDS, programs_there)
    errors: dict[str, list[FloatArray]] = {one.host: [] for one in data}
    names_of: dict[str, list[str]] = {one.host: [] for one in data}
    for number in range(FOLDS):
        law = fitted(data, np.asarray(fold != number), names)
        for one in data:
            index = one.index
            errors[one.host].append((law.logs(one)[index] - one.logs)[fold[index] == number])
            names_of[one.host] += index[fold[index] == number].astype(str).tolist()
    case = "program unseen"
    whole = np.concatenate([np.concatenate(parts) for parts in errors.values()])
    plain = np.concatenate([_roofline(one) for one in data])
    yield _scored(case, "program", whole, {"roofline": plain}, GOALS[case], [*chain(*names_of.values())])
    for host, parts in errors.items():
        yield _scored(f"{case}, {host}", "program", np.concatenate(parts), {}, (), names_of[host])


def _devices_left_out(data: Sequence[Timed], names: Sequence[str]) -> Iterator[Scored]:
    """Each device left out with its generation, and, where it has relatives, alone: who copies knows as much."""
    by_kinds: dict[bool, list[tuple[FloatArray, FloatArray, FloatArray]]] = {False: [], True: []}
    hosts: dict[bool, list[str]] = {False: [], True: []}
    for one in data:
        others = [o for o in data if o.device != one.device]
        unrelated = [o for o in others if shared_traits(o, one) < GENERATION]
        for known, related in ((unrelated or others, False), (others, True)):
            if related and not 0 < len(unrelated) < len(others):
                continue
            error, half = _error(one, known, names)
            near = nearest(one, known)
            plain, copied = _roofline(one), _copied(one, near) - one.logs
            by_kinds[related].append((error, plain, copied))
            hosts[related] += [one.host] * len(error)
            held = one.device if related or not unrelated else f"{one.device} and its generation"
            base = {"roofline": plain, f"{near.host} by bandwidth": copied}
            yield _scored(
                f"device unseen, {one.host}{RELATED if related else ''}", held, error, base, (), one.host, half
            )
    for related, parts in by_kinds.items():
        if parts:
            together, plain, copied = (np.concatenate(each) for each in zip(*parts, strict=True))
            bases = {"roofline": plain, "nearest device by bandwidth": copied}
            case = f"device unseen{RELATED if related else ''}"
            yield _scored(case, "each in turn", together, bases, GOALS["device unseen"], hosts[related])


def _error(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Log errors of a device's programs, and half-widths of the bands that were announced."""
    predicted = predicted_from_others(one, others, names)
    return np.asarray(predicted.logs[one.index] - one.logs), predicted.half[one.index]


def _sealed(
    eager: pd.DataFrame, learnt: pd.DataFrame, known: Mapping[str, Program], names: Sequence[str]
) -> Iterator[Scored]:
    """Rows of another folder: devices and programs may both be new; judged by the goal of what is new."""
    sources = sorted(set(eager["source"]) | set(learnt["source"]))
    for host, part in eager.groupby("machine"):
        others = [timed(group, sources, known, names) for _, group in learnt.groupby("machine")]
        one = timed(part, sources, known, names)
        error, half = _error(one, others, names)
        base = {
            "roofline": _roofline(one),
            "nearest device by bandwidth": _copied(one, nearest(one, others)) - one.logs,
        }
        new = "program unseen" if any(o.device == one.device for o in others) else "device unseen"
        yield _scored(f"{host}", "scored rows", error, base, GOALS[new], str(host), half)


def _copied(one: Timed, other: Timed) -> FloatArray:
    """Log seconds of another device's programs times the ratio of bandwidths; nan where it has none."""
    return np.asarray(other.every()[one.index] + np.log(bandwidth(other) / bandwidth(one)))


def _roofline(one: Timed) -> FloatArray:
    """Log error of the plain roofline."""
    return np.asarray(np.log(one.rows.roofline())[one.index] - one.logs)


def _scored(
    case: str,
    held_out: str,
    errors: FloatArray,
    bases: Mapping[str, FloatArray],
    goals: tuple[float, ...] = (),
    groups: Sequence[str] | str = "",
    half: FloatArray | None = None,
) -> Scored:
    made = of_errors(case, held_out, errors, bases)
    return replace(made, metrics=LOGARITHMIC, goals=goals, half=half, noise=NOISE, groups=groups)


BOARD = Board(
    "How long does a PyTorch program take that nobody timed, or on a GPU never seen, and does compiling help?",
    {DATASET: _eager, "compiled PyTorch programs": _compiled},
    (
        Front("A PyTorch program", "the program", "program unseen", "program"),
        Front("A PyTorch program", "the GPU", "device unseen", "each in turn", DATASET),
    ),
)
