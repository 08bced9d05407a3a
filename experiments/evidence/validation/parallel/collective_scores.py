"""Scoreboard: collectives between GPUs of machines left out, from links in data sheets and at most one transfer a link.

The public timings are of all-reduce and send/receive over sizes and numbers of devices. What a library reaches on each
kind of link is fitted to the other machines. Data sheets give NVLink and PCIe; what a rented network or a path through
the host's memory gives is in none, so those links are anchored by one measured transfer each, which is not scored, and
the same is shown without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import machine_values
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.operation.collectives import NCCL, Collectives
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.parallel.collective_systems import (
    FOLDER,
    KEYS,
    NCCL_SYSTEMS,
    QUICKER,
    SYSTEMS,
    nccl_timings,
    system,
    timings,
)
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation

if TYPE_CHECKING:
    import pandas as pd

ANCHOR = 2**25
"""Bytes of the transfer that anchors a link."""
GOAL, LEVEL = 0.12, 0.8
NO_DATA_SHEET = ("host", "network")
"""Links that are anchored."""
START = Collectives(
    efficiency=Table(
        default=1.0, nvlink=0.9, nvswitch=0.9, nvswitch4=0.9, nvswitch5=0.9, pcie=0.75, host=0.4, network=0.4
    ),
    floor=Table(default=1e-6, all_reduce=55e-6, send_recv=14e-6),
    launch=Table(default=0.0, all_reduce=20e-6),
    reducing=Table(default=1.0, nvlink=0.7, nvswitch=0.7, nvswitch4=0.75, nvswitch5=0.75, network=0.75),
    in_switch=Table(default=0.0, nvswitch4=0.85, nvswitch5=0.85),
    protocols=NCCL,
    algorithms=("ring", "tree"),
)
SPREADS = {
    "efficiency.nvlink": 0.1,
    "efficiency.nvswitch": 0.1,
    "efficiency.nvswitch4": 0.1,
    "efficiency.pcie": 0.1,
    "efficiency.host": 0.5,
    "efficiency.network": 1.0,
    "launch.all_reduce": 0.5,
    "floor.all_reduce": 0.5,
    "floor.send_recv": 0.5,
    "reducing.nvlink": 0.2,
    "reducing.nvswitch": 0.2,
    "reducing.nvswitch4": 0.2,
    "reducing.network": 0.2,
}
"""What is fitted, with the spread of its logarithm before any machine was measured."""
ALIKE = {
    "nvlink": ("nvswitch", "nvswitch4"),
    "nvswitch": ("nvlink", "nvswitch4"),
    "nvswitch4": ("nvswitch", "nvlink"),
    "nvswitch5": ("nvswitch4", "nvswitch", "nvlink"),
}
"""A kind of link that no training machine has takes the numbers of the first of these that one has."""
OWN_LAUNCH, OWN_SPREAD = 5e-6, 0.5
"""Seconds of a call where a loop of calls is timed as NCCL's own test does, beyond the protocol's; no floor there."""
LEFT = "machine left out, and NCCL's own timings of its generation"
GENERATIONS = (("a100_sxm",), ("h100_sxm", "h200_sxm"))
"""Of NCCL's own timings, left out together."""
SOFT, PRIOR = 0.1, 3.0
SEED = 1


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """Each machine left out in turn, or, with `scored`, the machines below that folder."""
    folder = data_folder()
    training = timings(folder) if folder else None
    own_timings = nccl_timings(folder) if folder else None
    if training is None or own_timings is None or training.empty:
        return [skipped("collectives", f"no {FOLDER} here (set SLIPSTICK_DATA; docs/validation.md says where)")]
    if scored is None:
        turns = [(training[training["machine"] != name], own) for name, own in training.groupby("machine")]
        return _board(turns, LEFT, own_timings) + _generations(training, own_timings)
    frame = timings(scored)
    if frame.empty:
        return [skipped("collectives", f"{FOLDER} is not in {scored}")]
    unknown = sorted(set(frame["machine"]) - set(SYSTEMS))
    found = [skipped("collectives", f"no description of {name}'s links") for name in unknown]
    frame = frame[frame["machine"].isin(list(SYSTEMS))]
    files = set(zip(frame["machine"], frame["function"], strict=True))
    kept = [pair not in files for pair in zip(training["machine"], training["function"], strict=True)]
    turns = [(training[kept], own) for _, own in frame.groupby("machine")]
    return found + (_board(turns, "scored files", own_timings) if turns else [])


def predicted(model: Collectives, on: Machine, frame: pd.DataFrame) -> FloatArray:
    """Seconds of each row."""
    values = {f"parameter.{name}": value for name, (value, _) in parameters(model).items()}
    times = np.empty(len(frame))
    for function in frame["function"].unique():
        chosen = (frame["function"] == function).to_numpy()
        part = frame[chosen]
        formula = _formula(model, on, str(function))
        # Devices that are spread over nodes stand as far apart as it takes to have `per_node` of them on each.
        apart = np.where(part["workers"] <= part["per_node"], 1.0, part["width"] / part["per_node"])
        sizes = {
            "operation.elements": part["bytes"].to_numpy(float) / 2,
            "operation.participants": part["workers"].to_numpy(float),
            "operation.stride": apart,
        }
        times[chosen] = formula.evaluate({**values, **machine_values(formula, on), **sizes})
    return times


def _formula(model: Collectives, on: Machine, function: str) -> Formula:
    dims = {"elements": 1, "participants": 2, "stride": 1}
    return model.formula(operation("row", "collective", dims, "float16", {"function": function}), on)


def looped(model: Collectives, launch: float) -> Collectives:
    """The same library in a loop of calls: no floor, and one launch for every function."""
    return replace(model, floor=Table(default=1e-9), launch=Table(default=launch))


def fitted(training: pd.DataFrame, own_timings: pd.DataFrame | None = None) -> tuple[Collectives, float]:
    """The model with its parameters fitted to machines in log time, outliers held down, priors kept.

    Parameters
    ----------
    own_timings
        NCCL's own timings on other systems: they share links and protocols, not floors and launches.

    Returns
    -------
    The model, and the launch that NCCL's own timings show.
    """
    sample = one_an_octave(training)
    machines = [(system(str(name)), part) for name, part in sample.groupby("machine")]
    loops = one_an_octave(own_timings) if own_timings is not None else sample.iloc[:0]
    machines_looped = [(system(str(name)), part) for name, part in loops.groupby("machine")]
    seen = {link for on, _ in (*machines, *machines_looped) for link in on.links}
    names = list(SPREADS)
    known = parameters(START)
    start = np.log([known[name][0] for name in names])
    low, high = (np.log([max(getattr(known[name][1], side), 1e-9) for name in names]) for side in ("low", "high"))
    spread = np.array([SPREADS[name] for name in names])

    def put(point: FloatArray) -> Collectives:
        values = dict(zip(names, map(float, np.exp(point)), strict=True))
        for link, others in ALIKE.items():
            other = next((name for name in others if name in seen), None)
            if link not in seen and other:
                values |= {f"{part}.{link}": values[f"{part}.{other}"] for part in ("efficiency", "reducing")}
        fitted_model: Collectives = with_parameters(START, values)
        return fitted_model

    def residuals(point: FloatArray) -> FloatArray:
        model = put(point[:-1])
        own = looped(model, float(np.exp(point[-1])))
        asked = [*((model, *one) for one in machines), *((own, *one) for one in machines_looped)]
        misses = [np.log(predicted(each, on, part) / part["time"].to_numpy()) for each, on, part in asked]
        return np.concatenate([*misses, PRIOR * (point - start) / spread])

    start = np.append(start, np.log(OWN_LAUNCH))
    spread = np.append(spread, OWN_SPREAD)
    limits = np.append(low, np.log(1e-7)), np.append(high, np.log(1e-3))
    found = least_squares(residuals, start, bounds=limits, loss="soft_l1", f_scale=SOFT, diff_step=1e-3)
    return put(found.x[:-1]), float(np.exp(found.x[-1]))


def one_an_octave(frame: pd.DataFrame) -> pd.DataFrame:
    """One transfer of each function, place and octave of sizes: neighbours in size miss alike, so that counting every
    one would drown what is known before.
    """
    octave = frame["bytes"].astype(int).map(int.bit_length).rename("octave")
    return frame.sample(frac=1.0, random_state=SEED).groupby([*KEYS, octave]).head(1)


def anchored(model: Collectives, on: Machine, frame: pd.DataFrame) -> tuple[Machine, list[Any]]:
    """The machine with the links that no data sheet states set by one transfer each, and those rows' labels."""
    used = []
    for link in on.links:
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
        bandwidth = on.links[link].bandwidth
        for _ in range(20):
            there = on.using({f"links.{link}.bandwidth": bandwidth})
            bandwidth *= float(predicted(model, there, row)[0] / row["time"].iloc[0])
        on = on.using({f"links.{link}.bandwidth": bandwidth})
        used.append(label)
    return on, used


def _generations(training: pd.DataFrame, own_timings: pd.DataFrame) -> list[ValidationRow]:
    """NCCL's own all-reduces inside a node, a generation of devices left out of both collections; no anchors."""
    found = []
    for group in GENERATIONS:
        family = machine_by_name(NCCL_SYSTEMS[group[0]][0]).family
        others = training[[not _kin(str(name), family) for name in training["machine"]]]
        rest = own_timings[~own_timings["machine"].isin(group)]
        model, launch = fitted(others, rest)
        half = _band(looped(model, launch), rest)
        for name in group:
            own = own_timings[own_timings["machine"] == name]
            ours = predicted(looped(model, launch), system(name), own)
            row = _row(f"NCCL's own all-reduces, {name}", " + ".join(group), own, ours, _baselines(rest, own), half)
            found.append(row)
    return found


def _kin(name: str, family: str) -> bool:
    """Whether a system's device is of a family's generation."""
    own = machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family
    return shared_words(own, family) >= 2


def _quicker(on: Machine) -> float:
    """What is left of a floor that was measured on Ampere's links."""
    return QUICKER if {"nvswitch4", "nvswitch5"} & set(on.links) else 1.0


def _board(
    turns: Sequence[tuple[pd.DataFrame, pd.DataFrame]], held_out: str, own_timings: pd.DataFrame
) -> list[ValidationRow]:
    found, pooled = [], []
    for training, own in turns:
        name = str(own["machine"].iloc[0])
        kin = machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family
        strange = [other for other in own_timings["machine"].unique() if not _kin(str(other), kin) or held_out != LEFT]
        model, _ = fitted(training, own_timings[own_timings["machine"].isin(strange)])
        model = replace(model, floor=Table({k: v * _quicker(system(name)) for k, v in model.floor.items()}))
        known = training[training["machine"] == name]
        # A transfer of the same machine that is in the training data anchors before one of those that are scored.
        before, _ = anchored(model, system(name), known)
        rest = [
            link for link in NO_DATA_SHEET if link in before.links and before.links[link] == system(name).links[link]
        ]
        after, used = anchored(model, before, own) if rest else (before, [])
        own = own.drop(index=used)
        half = _band(model, training)
        answers = {"": predicted(model, after, own), ", without anchor": predicted(model, system(name), own)}
        lines = _baselines(training[training["machine"] != name], own)
        for label, ours in answers.items():
            row = _row(f"{name}{label}", held_out, own, ours, lines, half)
            found.append(replace(row, goal=None, ok=None) if label else row)
        pooled.append((own, answers, lines, half))
    if len(pooled) > 1:
        import pandas as pd

        frame = pd.concat([part[0] for part in pooled])
        lines = {name: np.concatenate([part[2][name] for part in pooled]) for name in pooled[0][2]}
        half = float(np.mean([part[3] for part in pooled]))
        for label in ("", ", without anchor"):
            ours = np.concatenate([part[1][label] for part in pooled])
            row = _row(f"all machines{label}", held_out, frame, ours, lines, half)
            found.append(replace(row, goal=None, ok=None) if label else row)
    return found


def _row(
    case: str, held_out: str, own: pd.DataFrame, ours: FloatArray, lines: Mapping[str, FloatArray], half: float
) -> ValidationRow:
    measured = own["time"].to_numpy()
    error = _median(ours, measured)
    inside = np.abs(np.log(ours / measured)) <= half
    names = [
        f"{function} {workers} on {workers // min(workers, each)}"
        for function, workers, each in zip(own["function"], own["workers"], own["per_node"], strict=True)
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
        len(own),
        "median |relative error| above 64 KB",
        "1",
        error,
        {name: _median(times, measured) for name, times in lines.items()},
        GOAL,
        error <= GOAL,
        LEVEL,
        float(np.mean(inside)),
        float(np.exp(2 * half)),
        float(own["noise"].median()),
        "by function, devices and nodes: " + ", ".join(groups),
    )


def _median(ours: FloatArray, measured: FloatArray) -> float:
    return float(np.median(np.abs(ours / measured - 1)))


def _band(model: Collectives, training: pd.DataFrame) -> float:
    """Half the width of the 80 % band in log time: what the training machines scatter around the model."""
    parts = [(predicted(model, system(str(name)), part), part) for name, part in training.groupby("machine")]
    return float(np.quantile(np.concatenate([np.abs(np.log(ours / part["time"])) for ours, part in parts]), LEVEL))


def _baselines(others: pd.DataFrame, own: pd.DataFrame) -> dict[str, FloatArray]:
    """A line in the bytes and the median time of the others, for transfers inside a node and between nodes apart."""
    found: dict[str, Callable[[pd.DataFrame], tuple[float, float]]] = {
        "linear alpha-beta": _line,
        "constant": lambda part: (float(part["time"].median()), 0.0),
    }
    times = {name: np.full(len(own), np.nan) for name in found}
    inside = (own["workers"] <= own["per_node"]).to_numpy()
    for place in (True, False):
        alike = others[(others["workers"] <= others["per_node"]) == place]
        for name, fit in found.items():
            alpha, beta = fit(alike if len(alike) else others)
            chosen = inside == place
            times[name][chosen] = alpha + beta * own["bytes"].to_numpy(float)[chosen]
    return times


def _line(part: pd.DataFrame) -> tuple[float, float]:
    """Latency and seconds a byte, least squares of relative errors."""
    bytes_, measured = part["bytes"].to_numpy(float), part["time"].to_numpy()
    design = np.stack([1 / measured, bytes_ / measured], axis=1)
    alpha, beta = np.linalg.lstsq(design, np.ones(len(part)), rcond=None)[0]
    return max(float(alpha), 1e-6), max(float(beta), 0.0)
