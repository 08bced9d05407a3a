"""Scoreboard: collectives between GPUs of machines left out, from links in data sheets and at most one transfer a link.

The public timings are of all-reduce and send/receive over sizes and numbers of devices. What a library reaches on each
kind of link is fitted to the other machines. Data sheets give NVLink and PCIe; what a rented network or a path through
the host's memory gives is in none, so those links are anchored by one measured transfer each, which is not scored, and
the same is shown without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters
from slipstick.estimators.operation.links.collectives import Collectives
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import Board, Data, Front, MissingError
from slipstick.experiments.evidence.validation.parallel.collective_fit import fitted, looped, predicted
from slipstick.experiments.evidence.validation.parallel.collective_systems import (
    FOLDER,
    NCCL_SYSTEMS,
    SYSTEMS,
    nccl_timings,
    system,
    timings,
)
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

ANCHOR = 2**25
"""Bytes of the transfer that anchors a link."""
GOAL, LEVEL = 0.12, 0.8
NO_DATA_SHEET = ("host", "network")
"""Links that are anchored."""
LEFT = "machine left out, and NCCL's own timings of its generation"
GENERATIONS = (("a100_sxm",), ("h100_sxm", "h200_sxm"))
"""Of NCCL's own timings, left out together."""


def _systems(data: Data) -> Iterator[ValidationRow]:
    """Each machine left out in turn, or, with `--data`, the machines below that folder."""
    training, own_timings = timings(data.folder), nccl_timings(data.folder)
    if training.empty:
        raise MissingError(f"no {FOLDER} here (set SLIPSTICK_DATA; `slipstick data list` says where)")
    if data.scored is None:
        turns = [(training[training["machine"] != name], part) for name, part in training.groupby("machine")]
        yield from _board(turns, LEFT, own_timings)
        yield from _generations(training, own_timings)
        return
    frame, others = timings(data.scored), nccl_timings(data.scored)
    if frame.empty and others.empty:
        raise MissingError(f"{FOLDER} is not in {data.scored}")
    unknown = sorted({*frame["machine"], *others["machine"]} - {*SYSTEMS, *NCCL_SYSTEMS})
    yield from (skipped("collectives", f"no description of {name}'s links") for name in unknown)
    frame, others = (part[~part["machine"].isin(unknown)] for part in (frame, others))
    files = set(zip(frame["machine"], frame["function"], strict=True))
    kept = [pair not in files for pair in zip(training["machine"], training["function"], strict=True)]
    if turns := [(training[kept], part) for _, part in frame.groupby("machine")]:
        yield from _board(turns, "scored files", own_timings)
    for name, part in others.groupby("machine"):
        kin = machine_by_name(NCCL_SYSTEMS[str(name)][0]).family
        yield from _own_scores([str(name)], "scored files", kin, training, own_timings, part)


def anchored(model: Collectives, machine: Machine, frame: pd.DataFrame) -> tuple[Machine, list[Any]]:
    """The machine with the links that no data sheet states set by one transfer each, and those rows' labels."""
    used = []
    for link in machine.links:
        if link not in NO_DATA_SHEET:
            continue
        inside = frame["workers"] <= frame["per_node"]
        rows_of = frame[inside if link == "host" else ~inside]
        if rows_of.empty:
            continue
        pair = rows_of[rows_of["workers"] == rows_of["workers"].min()]
        pair = pair[pair["function"] == "send_recv"] if (pair["function"] == "send_recv").any() else pair
        label = (pair["bytes"] - ANCHOR).abs().idxmin()
        row = frame.loc[[label]]
        bandwidth = machine.links[link].bandwidth
        for _ in range(20):
            there = machine.using({f"links.{link}.bandwidth": bandwidth})
            bandwidth *= float(predicted(model, there, row)[0] / row["time"].iloc[0])
        machine = machine.using({f"links.{link}.bandwidth": bandwidth})
        used.append(label)
    return machine, used


def _generations(training: pd.DataFrame, own_timings: pd.DataFrame) -> list[ValidationRow]:
    """NCCL's own all-reduces inside a node, a generation of devices left out of both collections; no anchors."""
    scores = []
    for group in GENERATIONS:
        family = machine_by_name(NCCL_SYSTEMS[group[0]][0]).family
        scores += _own_scores(group, " + ".join(group), family, training, own_timings, own_timings)
    return scores


def _own_scores(
    group: Sequence[str],
    held_out: str,
    family: str,
    training: pd.DataFrame,
    own_timings: pd.DataFrame,
    measured: pd.DataFrame,
) -> list[ValidationRow]:
    """Rows of `measured` of some systems, fitted to all timings but those of their generation."""
    others = training[[not _kin(str(name), family) for name in training["machine"]]]
    rest = own_timings[[not _kin(str(name), family) for name in own_timings["machine"]]]
    model, launch = fitted(others, rest)
    half = _band(looped(model, launch), rest[rest["function"] == "all_reduce"])
    scores = []
    for name in group:
        for label, chosen in (("all-reduces", True), ("other functions", False)):
            members = measured[(measured["machine"] == name) & ((measured["function"] == "all_reduce") == chosen)]
            if members.empty:
                continue
            ours = predicted(looped(model, launch), system(name), members)
            row = _row(f"NCCL's own {label}, {name}", held_out, members, ours, _baselines(rest, members), half)
            scores.append(row)
    return scores


def _kin(name: str, family: str) -> bool:
    """Whether a system's device is of a family's generation."""
    vendor = machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family
    return shared_words(vendor, family) >= 2


def _quicker(model: Collectives, machine: Machine) -> float:
    """A floor over Ampere's, on whose links all floors were timed: as the latencies of the links' generations."""
    latency = {
        name.removeprefix("latency."): value for name, (value, _) in parameters(model).items() if "latency" in name
    }
    names = [f"{name}{link.generation}" for name, link in machine.links.items() if link.generation]
    return latency[names[0]] / latency["nvswitch3"] if names else 1.0


def _board(
    turns: Sequence[tuple[pd.DataFrame, pd.DataFrame]], held_out: str, own_timings: pd.DataFrame
) -> list[ValidationRow]:
    scores, pooled = [], []
    for training, measured in turns:
        name = str(measured["machine"].iloc[0])
        kin = machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family
        strange = [other for other in own_timings["machine"].unique() if not _kin(str(other), kin) or held_out != LEFT]
        model, _ = fitted(training, own_timings[own_timings["machine"].isin(strange)])
        model = replace(model, floor=Table({k: v * _quicker(model, system(name)) for k, v in model.floor.items()}))
        known = training[training["machine"] == name]
        # A transfer of the same machine that is in the training data anchors before one of those that are scored.
        before, _ = anchored(model, system(name), known)
        rest = [
            link for link in NO_DATA_SHEET if link in before.links and before.links[link] == system(name).links[link]
        ]
        after, used = anchored(model, before, measured) if rest else (before, [])
        measured = measured.drop(index=used)
        half = _band(model, training)
        answers = {"": predicted(model, after, measured), ", without anchor": predicted(model, system(name), measured)}
        lines = _baselines(training[training["machine"] != name], measured)
        for label, ours in answers.items():
            row = _row(f"{name}{label}", held_out, measured, ours, lines, half)
            scores.append(replace(row, goal=None, ok=None) if label else row)
        pooled.append((measured, answers, lines, half))
    if len(pooled) > 1:
        import pandas as pd

        frame = pd.concat([part[0] for part in pooled])
        lines = {name: np.concatenate([part[2][name] for part in pooled]) for name in pooled[0][2]}
        half = float(np.mean([part[3] for part in pooled]))
        for label in ("", ", without anchor"):
            ours = np.concatenate([part[1][label] for part in pooled])
            row = _row(f"all machines{label}", held_out, frame, ours, lines, half)
            scores.append(replace(row, goal=None, ok=None) if label else row)
    return scores


def _row(
    case: str, held_out: str, rows: pd.DataFrame, ours: FloatArray, lines: Mapping[str, FloatArray], half: float
) -> ValidationRow:
    measured = rows["time"].to_numpy()
    error = _median(ours, measured)
    inside = np.abs(np.log(ours / measured)) <= half
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
        float(np.exp(2 * half)),
        float(rows["noise"].median()),
        "by function, devices and nodes: " + ", ".join(groups),
    )


def _median(ours: FloatArray, measured: FloatArray) -> float:
    return float(np.median(np.abs(ours / measured - 1)))


def _band(model: Collectives, training: pd.DataFrame) -> float:
    """Half the width of the 80 % band in log time: what the training machines scatter around the model."""
    parts = [(predicted(model, system(str(name)), part), part) for name, part in training.groupby("machine")]
    return float(np.quantile(np.concatenate([np.abs(np.log(ours / part["time"])) for ours, part in parts]), LEVEL))


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
