"""Scoreboard: collectives between GPUs of machines left out, from links in data sheets and at most one transfer a link.

The public timings are of all-reduce and send/receive over sizes and numbers of devices. What a library reaches on each
kind of link is fitted to the other machines (`collective_fit`). Data sheets give NVLink and PCIe; what a rented network
or a path through the host's memory gives is in none: there one measured transfer each, which is not scored, is given to
the law as a row of one's own, and the same is shown without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.updated_model import with_known
from slipstick.estimators.interconnect.collective_law import CALL, LOOP, SYSTEM, UNSTATED
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.parallel.collective_fit import (
    GENERATIONS,
    family,
    fitted,
    kin,
    kinds,
    law_rows,
    predicted,
    without,
)
from slipstick.experiments.scoreboards.parallel.collective_systems import (
    FOLDER,
    NCCL_SYSTEMS,
    SYSTEMS,
    nccl_timings,
    system,
    timings,
)
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd

ANCHOR = 2**25
"""Bytes of the transfer that anchors a link."""
GOAL, LEVEL = 0.12, 0.8
LEFT = "machine left out, and NCCL's own timings of its generation"
SHARED = ("efficiency.network", SYSTEM)
"""What takes the error that all transfers of a system share."""


def _systems(data: Data) -> Iterator[ValidationRow]:
    """Each machine left out in turn, or, with `--data`, the machines below that folder."""
    training, own_timings = timings(data.folder), nccl_timings(data.folder)
    if training.empty:
        raise MissingError(f"no {FOLDER} here (set SLIPSTICK_DATA; `slipstick data list` says where)")
    if data.scored is None:
        turns = [(training[training["machine"] != name], part) for name, part in training.groupby("machine")]
        yield from _board(turns, LEFT, own_timings)
        for group in GENERATIONS:
            kept = own_timings[own_timings["machine"].isin(group)]
            yield from _own_scores(" + ".join(group), family(group[0]), training, own_timings, kept)
        return
    frame, others = timings(data.scored), nccl_timings(data.scored)
    if frame.empty and others.empty:
        raise MissingError(f"{FOLDER} is not in {data.scored}")
    unknown = sorted({*frame["machine"], *others["machine"]} - {*SYSTEMS, *NCCL_SYSTEMS})
    yield from (skipped("collectives", f"no description of {name}'s links") for name in unknown)
    frame, others = (part[~part["machine"].isin(unknown)] for part in (frame, others))
    files = set(zip(frame["machine"], frame["function"], strict=True))
    kept_rows = [pair not in files for pair in zip(training["machine"], training["function"], strict=True)]
    if turns := [(training[kept_rows], part) for _, part in frame.groupby("machine")]:
        yield from _board(turns, "scored files", own_timings)
    for name, part in others.groupby("machine"):
        yield from _own_scores("scored files", family(str(name)), training, own_timings, part)


def anchors(frame: pd.DataFrame) -> list[int]:
    """Labels of one transfer over each link that no data sheet states: the frame is of one machine."""
    used: list[int] = []
    for link in system(str(frame["machine"].iloc[0])).links if len(frame) else ():
        if link not in UNSTATED:
            continue
        inside = frame["workers"] <= frame["per_node"]
        rows_of = frame[inside if link == "host" else ~inside]
        if rows_of.empty:
            continue
        pair = rows_of[rows_of["workers"] == rows_of["workers"].min()]
        pair = pair[pair["function"] == "send_recv"] if (pair["function"] == "send_recv").any() else pair
        used.append(int((pair["bytes"] - ANCHOR).abs().idxmin()))
    return used


def anchored(fit: LawFit, rows: pd.DataFrame) -> LawFit:
    """The fit with a few rows of one machine."""
    law, known = law_rows(rows)
    return with_known(fit, law, known, SHARED).fit


def _own_scores(
    held_out: str, of: str, training: pd.DataFrame, own_timings: pd.DataFrame, measured: pd.DataFrame
) -> Iterator[ValidationRow]:
    """NCCL's own rows of some systems inside a node, fitted to all timings but those of their generation; no anchor."""
    rest = without(own_timings, of)
    made = fitted(without(training, of), rest)
    for name, part in measured.groupby("machine"):
        for label, rows in zip(("all-reduces", "other functions"), kinds(part.assign(timing=LOOP)), strict=True):
            if len(rows):
                ours = predicted(made, rows)
                yield _row(f"NCCL's own {label}, {name}", held_out, rows, ours, _baselines(rest, rows))


def _board(
    turns: Sequence[tuple[pd.DataFrame, pd.DataFrame]], held_out: str, own_timings: pd.DataFrame
) -> list[ValidationRow]:
    import pandas as pd

    scores, pooled = [], []
    for training, every in turns:
        name = str(every["machine"].iloc[0])
        strange = [not kin(str(other), family(name)) or held_out != LEFT for other in own_timings["machine"]]
        made = fitted(training, own_timings[strange])
        # A transfer of the same machine that is in the training data anchors before one of those that are scored.
        before = training[training["machine"] == name]
        used = anchors(before)
        mine = [] if used else anchors(every)
        known = before.loc[used] if used else every.loc[mine]
        rows = every.drop(index=mine).assign(timing=CALL)
        with_anchors = anchored(made, known.assign(timing=CALL)) if len(known) else made
        answers = {"": predicted(with_anchors, rows), ", without anchor": predicted(made, rows)}
        lines = _baselines(training[training["machine"] != name], rows)
        scores += [
            _shown(_row(f"{name}{label}", held_out, rows, ours, lines), label) for label, ours in answers.items()
        ]
        pooled.append((rows, answers, lines))
    if len(pooled) > 1:
        frame = pd.concat([part[0] for part in pooled])
        lines = {name: np.concatenate([part[2][name] for part in pooled]) for name in pooled[0][2]}
        for label in ("", ", without anchor"):
            seconds, half = (np.concatenate([part[1][label][at] for part in pooled]) for at in (0, 1))
            scores.append(_shown(_row(f"all machines{label}", held_out, frame, (seconds, half), lines), label))
    return scores


def _row(
    case: str,
    held_out: str,
    rows: pd.DataFrame,
    answer: tuple[FloatArray, FloatArray],
    lines: Mapping[str, FloatArray],
) -> ValidationRow:
    (ours, half), measured = answer, rows["time"].to_numpy()
    error = _median(ours, measured)
    away = np.abs(np.log(ours / measured)) / half
    inside = away <= 1
    names = [
        f"{function} {workers} on {workers // min(workers, each)}"
        for function, workers, each in zip(rows["function"], rows["workers"], rows["per_node"], strict=True)
    ]
    groups = [
        f"{name}: {_median(ours[place], measured[place]):.2f}"
        for name in dict.fromkeys(names)
        for place in [np.flatnonzero(np.asarray(names) == name)]
    ]
    return ValidationRow(
        "collectives",
        case,
        held_out,
        len(rows),
        "median |relative error| above 64 KB",
        "1",
        error,
        {name: _median(times, measured) for name, times in lines.items()},
        GOAL,
        error <= GOAL,
        LEVEL,
        float(np.mean(inside)),
        float(np.exp(2 * np.median(half))),
        float(rows["noise"].median()),
        "by function, devices and nodes: " + ", ".join(groups),
    ).over(list(rows["machine"]), inside, away)


def _shown(row: ValidationRow, label: str) -> ValidationRow:
    """The row; without a goal where it is shown beside that with anchors."""
    return replace(row, goal=None, ok=None) if label else row


def _median(ours: FloatArray, measured: FloatArray) -> float:
    return float(np.median(np.abs(ours / measured - 1)))


def _baselines(others: pd.DataFrame, rows: pd.DataFrame) -> dict[str, FloatArray]:
    """A line in the bytes and the median time of the others, for transfers inside a node and between nodes apart."""
    baselines: dict[str, Callable[[pd.DataFrame], tuple[float, float]]] = {
        "linear alpha-beta": _line,
        "constant": lambda part: (float(part["time"].median()), 0.0),
    }
    times = {name: np.full(len(rows), np.nan) for name in baselines}
    inside = (rows["workers"] <= rows["per_node"]).to_numpy()
    for place in (True, False):
        alike = others[(others["workers"] <= others["per_node"]) == place]
        for name, fit in baselines.items():
            alpha, beta = fit(alike if len(alike) else others)
            chosen = inside == place
            times[name][chosen] = alpha + beta * rows["bytes"].to_numpy(float)[chosen]
    return times


def _line(part: pd.DataFrame) -> tuple[float, float]:
    """Latency and seconds a byte, least squares of relative errors."""
    bytes_, measured = part["bytes"].to_numpy(float), part["time"].to_numpy()
    design = np.stack([1 / measured, bytes_ / measured], axis=1)
    alpha, beta = np.linalg.lstsq(design, np.ones(len(part)), rcond=None)[0]
    return max(float(alpha), 1e-6), max(float(beta), 0.0)


BOARD = Board(
    "How long does a collective take between GPUs of a machine never measured?",
    {"collectives": _systems},
    (Front("Collectives between GPUs", "the machine", "all machines", LEFT),),
)
