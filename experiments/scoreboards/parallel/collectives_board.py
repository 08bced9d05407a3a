"""Scoreboard: collectives between GPUs of machines left out, from links in data sheets and at most one transfer a link.

The public timings are of all-reduce and send/receive over sizes and numbers of devices. What a library reaches on each
kind of link is fitted to the other machines (`collective_fit`). Data sheets give NVLink and PCIe; what a rented network
or a path through the host's memory gives is in none: there one measured transfer each, which is not scored, is given to
the law as a row of one's own, and the same is shown without it.

Timings of collectives as rows of their law, and its fit (`slipstick validate --refit collectives`).

The systems of the public collection of collectives: their links by data sheet, and what was timed on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame, parquet_frame
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, mean_inner
from slipstick.estimators.fitting.updated_model import with_known
from slipstick.estimators.interconnect.collective_law import (
    CALL,
    LOOP,
    NAME,
    SYSTEM,
    UNSTATED,
    CollectiveCase,
    CollectiveLaw,
)
from slipstick.experiments.calibrate.public_data import data_folder, why_missing
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Part
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd


FOLDER = "gpu/vidur/network"
NCCL_FILES = "gpu/aiconfigurator/*/comm/nccl/*/nccl_perf.parquet"
"""Beside these stand an engine's own all-reduces, which are numbers of the law of steps (4.4 to 7.4 us in recorded
graphs over NVLink, fitted 5.8; over PCIe `step_device.PCIE_RANK_LATENCY`), and exchanges of experts' ranks (DeepEP,
TensorRT-LLM) under a routing of their own: no question is of one by itself."""
CLUSTERS = "collectives/collectives.csv.gz"
ABOVE = 64 * 1024
"""Bytes from which a transfer is fitted; below, calls from Python scatter by several times: of NCCL they are scored."""
KEYS = ["machine", "function", "workers", "per_node"]
"""What makes transfers of different sizes one series."""
NETWORK = {"bandwidth": "12.5 GB/s", "latency": "9.6 us", "width": 4096, "shared_by": 2}
"""100 Gbit/s for two devices: a guess at a rented network."""
SWITCH = {"latency": "3.4 us", "width": 8}
THREE = {"nvswitch": {"bandwidth": "300 GB/s", "generation": 3, **SWITCH}}
FOUR = {"nvswitch": {"bandwidth": "450 GB/s", "generation": 4, **SWITCH}}
FIVE = {"nvswitch": {"bandwidth": "900 GB/s", "generation": 5, **SWITCH}}
RACK = {"nvlink": {"bandwidth": "900 GB/s", "generation": 5, **SWITCH, "width": 72}}
NCCL_SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_sxm": ("a100-sxm-80gb", THREE),
    "h100_sxm": ("h100-sxm", FOUR),
    "h200_sxm": ("h200-sxm", FOUR),
    "b200_sxm": ("b200-sxm", FIVE),
    "b300_sxm": ("b300-sxm", FIVE),
    "gb200": ("gb200", RACK),
    "gb300": ("gb300", RACK),
    "cluster01": ("h100-sxm", FOUR),
    "perlmutter": (
        "a100-sxm-40gb",
        {
            "nvlink": {**THREE["nvswitch"], "width": 4},
            "slingshot": {"bandwidth": "25 GB/s", "latency": "14 us", "width": 4096},
        },
    ),
}
"""Systems of the tables of NCCL's own timings; the generation of a link says what it reaches. Perlmutter: NERSC's
architecture page (four A100 joined by NVLink, a 200 Gbit/s card each), latency of a network's step as NCCL's."""
PCIE4 = {"bandwidth": "31.5 GB/s", "latency": "5.7 us", "width": 4, "shared_by": 2}
PAIR = {"bandwidth": "300 GB/s", "latency": "3.4 us", "width": 2, "generation": 3}
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_dgx": ("a100-sxm-80gb", {**THREE, "network": NETWORK}),
    "h100_dgx": ("h100-sxm", {**FOUR, "network": NETWORK}),
    "a100_pairwise_nvlink": ("a100-pcie-80gb", {"nvlink": PAIR, "pcie": PCIE4, "network": {**NETWORK, "shared_by": 4}}),
    "h100_pairwise_nvlink": (
        "h100-pcie",
        {
            "nvlink": {**PAIR, "generation": 4},
            "pcie": {**PCIE4, "bandwidth": "63 GB/s"},
            "network": {**NETWORK, "shared_by": 4},
        },
    ),
    "a40_pairwise_nvlink": (
        "a40",
        {"host": {**PCIE4, "bandwidth": "10 GB/s", "width": 8}, "network": {**NETWORK, "shared_by": 8}},
    ),
}
"""The collection's systems: a device of the catalogue and its links, nearest first. NVLink and PCIe by data sheet,
latencies by NCCL's tuning model; two A40 without a bridge talk through the host's memory at no stated rate."""


def timings(folder: Path) -> pd.DataFrame:
    """Columns machine, function, workers, per_node, width (devices of a node), bytes, time [s], noise (relative)."""
    import pandas as pd

    frames = [pd.DataFrame(columns=[*KEYS, "width", "bytes", "time", "noise"])]
    for path in sorted((folder / FOLDER).glob("*/*.csv.gz")):
        raw = csv_frame(path)
        stem = f"time_stats.{raw['collective'].iloc[0]}."
        frames.append(
            pd.DataFrame(
                {
                    "machine": path.parent.name,
                    "function": raw["collective"],
                    "workers": raw["num_workers"],
                    "per_node": raw["devices_per_node"],
                    "width": raw["max_devices_per_node"],
                    "bytes": raw["size"],
                    "time": raw[f"{stem}median"] * 1e-3,
                    "noise": raw[f"{stem}std"] / raw[f"{stem}median"],
                }
            )
        )
    frame = pd.concat(frames[1:] or frames, ignore_index=True)
    return frame[frame["bytes"] > ABOVE]


def nccl_timings(folder: Path) -> pd.DataFrame:
    """The same columns from NCCL's own timings inside a node; `machine` is the system's name, `noise` unknown.

    Sizes are of the whole buffer, of all devices' parts together: read as one part, eight devices would pass on more
    than their links do. All sizes, from 256 bytes on. Versions of the library are taken together, by the median.
    """
    import pandas as pd

    frames = [pd.DataFrame(columns=[*KEYS, "width", "bytes", "time", "noise"])]
    for path in sorted(folder.glob(NCCL_FILES)):
        raw = parquet_frame(path)
        raw = raw[(raw["nccl_dtype"] == "half") & raw["op_name"].isin(list(FUNCTIONS)) & (raw["latency"] > 0)]
        frame = pd.DataFrame(
            {
                "machine": path.parents[3].name,
                "function": raw["op_name"].map(FUNCTIONS),
                "workers": raw["num_gpus"],
                "per_node": raw["num_gpus"],
                "width": 8,
                "bytes": raw["message_size"] * 2,
                "time": raw["latency"] * 1e-3,
                "noise": 0.0,
            }
        )
        frames.append(frame)
    frame = pd.concat(frames[1:] or frames, ignore_index=True)
    return frame.groupby([*KEYS, "width", "bytes"], as_index=False).median()


def cluster_timings(path: Path) -> pd.DataFrame:
    """The same columns from what users of two clusters timed by NCCL, within nodes and over them.

    MPI is left out, which stages device buffers through the host; of pairs of H100 nodes nobody states the network.
    """
    raw = csv_frame(path)
    raw = raw[(raw["library"] == "NCCL") & raw["cluster"].isin([*NCCL_SYSTEMS])]
    names = {"cluster": "machine", "operation": "function", "ranks": "workers", "gpus_per_node": "per_node"}
    frame = raw.rename(columns=names | {"buffer_bytes": "bytes", "time_s": "time"})
    frame["function"] = frame["function"].replace(FUNCTIONS | {"sendrecv": "send_recv"})
    return frame.assign(width=frame["per_node"], noise=0.0)


def described(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of systems whose links are known: an L40S node's path through its host is in no data sheet."""
    return frame[frame["machine"].isin([*SYSTEMS, *NCCL_SYSTEMS])].reset_index(drop=True)


FUNCTIONS = {name: name for name in ("all_reduce", "all_gather", "reduce_scatter")} | {"alltoall": "all_to_all"}
"""Of NCCL's own timings."""


@cache
def system(name: str) -> Machine:
    """A system of the collections as a machine with links."""
    device, links = {**NCCL_SYSTEMS, **SYSTEMS}[name]
    bare = machine(device)
    kept = {path: source for path, source in bare.sources.items() if not path.startswith("links")}
    return Machine.model_validate(bare.model_dump() | {"name": name, "links": links, "sources": kept})


SEED = 1
GENERATIONS = (("a100_sxm",), ("h100_sxm", "h200_sxm"), ("b200_sxm", "b300_sxm", "gb200", "gb300"))
"""Of NCCL's own timings, left out together."""
SUMS, OTHERS = "all-reduces", "other functions"


def family(name: str) -> str:
    """Of a system's device."""
    return machine_by_name({**NCCL_SYSTEMS, **SYSTEMS}[name][0]).family


def same_generation(name: str, of: str) -> bool:
    """Whether a system's device is of a family's generation."""
    return shared_words(family(name), of) >= 2


def together(calls: pd.DataFrame, loops: pd.DataFrame) -> pd.DataFrame:
    """What is fitted of calls by themselves and of NCCL's own timings, one transfer an octave of each series.

    Of the own timings only all-reduces above 64 KB are fitted: the other functions and short messages made machines
    left out worse (docs/notes/collectives.md).
    """
    import pandas as pd

    parts = [calls.assign(timing=CALL), kinds(loops)[SUMS].assign(timing=LOOP)]
    return one_an_octave(pd.concat(parts, ignore_index=True))


def law_rows(frame: pd.DataFrame) -> tuple[CollectiveLaw, LawRows]:
    """The law of the systems and functions of a frame with a column `timing`, and its rows."""
    numbers: dict[tuple[str, str, str], int] = {}
    of_row = zip(frame["machine"], frame["function"], frame["timing"], strict=True)
    case = np.array([numbers.setdefault(one, len(numbers)) for one in of_row], dtype=float)
    law = CollectiveLaw([CollectiveCase(system(name), function, timing) for name, function, timing in numbers])
    # Devices that are spread over nodes stand as far apart as it takes to have `per_node` of them on each.
    apart = np.where(frame["workers"] <= frame["per_node"], 1.0, frame["width"] / frame["per_node"])
    columns = {
        "case": case,
        "bytes": frame["bytes"].to_numpy(float),
        "participants": frame["workers"].to_numpy(float),
        "stride": np.asarray(apart, dtype=float),
    }
    series = [" ".join(map(str, one)) for one in zip(*(frame[key] for key in KEYS), strict=True)]
    return law, LawRows(columns, law.groups(case), series, frame["time"].to_numpy(float), list(frame["timing"]))


def fitted(calls: pd.DataFrame, loops: pd.DataFrame) -> LawFit:
    """The law fitted to timings, its bands stretched by generations of devices left out."""
    sample = together(calls, loops)
    law, rows = law_rows(sample)
    return calibrated(law, rows, [family(str(name)) for name in sample["machine"]])


def predicted(fit: LawFit, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Seconds of each row, and half of the 80 % band of log time."""
    law, rows = law_rows(frame)
    return fit.seconds(law, rows.columns, rows.groups), fit.half_width(law, rows.columns, rows.groups)


def one_an_octave(frame: pd.DataFrame) -> pd.DataFrame:
    """One transfer of each function, place and octave of sizes: neighbours in size miss alike."""
    octave = frame["bytes"].astype(int).map(int.bit_length).rename("octave")
    return frame.sample(frac=1.0, random_state=SEED).groupby([*KEYS, "timing", octave]).head(1).sort_index()


def refit() -> FittedFile:
    """The law fitted to all timings; outer folds leave out a machine, or a generation of devices.

    Raises InputError where the public rows are missing.
    """
    folder = data_folder()
    files = [] if folder is None else [*folder.glob(f"{FOLDER}/*/*.csv.gz"), *folder.glob(NCCL_FILES)]
    if folder is None or not files:
        raise InputError(why_missing(FOLDER))
    calls, loops = timings(folder), described(nccl_timings(folder))
    made = fitted(calls, loops)
    scores = [*_machines_left_out(calls, loops), *_generations_left_out(calls, loops)]
    rows = {str(path.relative_to(folder)): digest(path) for path in sorted(files)}
    note = "microsoft/vidur (calls from Python) and ai-dynamo/aiconfigurator (NCCL's own all-reduces), above 64 KB."
    return FittedFile(NAME, rows, len(together(calls, loops)), {NAME: made}, tuple(scores), note)


def _machines_left_out(calls: pd.DataFrame, loops: pd.DataFrame) -> list[OuterScore]:
    import pandas as pd

    parts, seconds, half, promised = [], [], [], []
    for name, part in calls.groupby("machine"):
        strange = [not same_generation(str(other), family(str(name))) for other in loops["machine"]]
        made = fitted(calls[calls["machine"] != name], loops[strange])
        ours, wide = predicted(made, part.assign(timing=CALL))
        promised.append((made.inner, len(part)))
        parts.append(part)
        seconds.append(ours)
        half.append(wide)
    measured = pd.concat(parts)["time"].to_numpy(float)
    inner = mean_inner(promised)
    return [_score("machine", "calls", len(parts), np.concatenate(seconds), measured, np.concatenate(half), inner)]


def _generations_left_out(calls: pd.DataFrame, loops: pd.DataFrame) -> list[OuterScore]:
    held: dict[str, list[tuple[FloatArray, FloatArray, FloatArray]]] = {}
    promised = []
    for group in GENERATIONS:
        of = family(group[0])
        made = fitted(without(calls, of), without(loops, of))
        scored = loops[loops["machine"].isin(group)].assign(timing=LOOP)
        promised.append((made.inner, len(scored)))
        for kind, part in kinds(scored).items():
            held.setdefault(kind, []).append((*predicted(made, part), part["time"].to_numpy(float)))
    inner, made_scores = mean_inner(promised), []
    for kind, each in held.items():
        seconds, half, measured = (np.concatenate([one[at] for one in each]) for at in range(3))
        made_scores.append(_score("generation", kind, len(GENERATIONS), seconds, measured, half, inner))
    return made_scores


def without(frame: pd.DataFrame, of: str) -> pd.DataFrame:
    """The rows of other generations than a family's."""
    return frame[[not same_generation(str(name), of) for name in frame["machine"]]]


def kinds(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """All-reduces, and the other functions, of which none is fitted; short ones, which latency decides, apart."""
    summed, long = frame["function"] == "all_reduce", frame["bytes"] > ABOVE
    short = {f"{name} up to 64 KB": frame[of & ~long] for name, of in ((SUMS, summed), (OTHERS, ~summed))}
    return {SUMS: frame[summed & long], OTHERS: frame[~summed & long], **short}


def _score(
    held: str,
    kind: str,
    groups: int,
    seconds: FloatArray,
    measured: FloatArray,
    half: FloatArray,
    inner: float | None,
) -> OuterScore:
    return OuterScore.of(f"{held} unseen", kind, groups, seconds, measured, half, inner)


ANCHOR = 2**25
"""Bytes of the transfer that anchors a link."""
GOAL, LEVEL = 0.12, 0.8
LEFT = "machine left out, and NCCL's own timings of its generation"
SHARED = ("efficiency.network", SYSTEM)
"""What takes the error that all transfers of a system share."""


def _systems(data: Data) -> Iterator[ValidationRow]:
    """Each machine left out in turn."""
    training, own_timings = _public(data)
    yield from _unknown(training, own_timings)
    own_timings = described(own_timings)
    turns = [(training[training["machine"] != name], part) for name, part in training.groupby("machine")]
    yield from _board(turns, LEFT, own_timings)
    for group in GENERATIONS:
        kept = own_timings[own_timings["machine"].isin(group)]
        yield from _own_scores(" + ".join(group), training, own_timings, kept, family(group[0]))


def _clusters(data: Data) -> Iterator[ValidationRow]:
    """Another collection's, by the law fitted to the others."""
    training, own_timings = _public(data)
    yield from _own_scores("the collection", training, described(own_timings), cluster_timings(data.judged(CLUSTERS)))


def _given(data: Data) -> Iterator[ValidationRow]:
    """The machines below the folder that is given: a function's timings on one of them are not known."""
    training, own_timings = _public(data)
    frame, others = timings(data.judged_folder), nccl_timings(data.judged_folder)
    if frame.empty and others.empty:
        raise MissingError(f"{FOLDER} is not in {data.scored}")
    yield from _unknown(frame, others)
    own_timings, frame, others = (described(part) for part in (own_timings, frame, others))
    known = data.table(training, frame, ["machine", "function"])
    if turns := [(known, part) for _, part in frame.groupby("machine")]:
        yield from _board(turns, "scored files", own_timings)
    for name, part in others.groupby("machine"):
        yield from _own_scores("scored files", training, own_timings, part, family(str(name)))


def _public(data: Data) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Timings of systems to learn from, and NCCL's own."""
    training = timings(data.folder)
    if training.empty:
        raise MissingError(f"no {FOLDER} here (set SLIPSTICK_DATA; `slipstick data list` says where)")
    return training, nccl_timings(data.folder)


def _unknown(*frames: pd.DataFrame) -> Iterator[ValidationRow]:
    """A row for each system whose links nobody described."""
    unknown = sorted({name for frame in frames for name in frame["machine"]} - {*SYSTEMS, *NCCL_SYSTEMS})
    yield from (skipped("collectives", f"no description of {name}'s links") for name in unknown)


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
    held_out: str, training: pd.DataFrame, own_timings: pd.DataFrame, measured: pd.DataFrame, of: str | None = None
) -> Iterator[ValidationRow]:
    """NCCL's own rows of some systems, fitted to all timings but those of a family's generation, if any; no anchor."""
    known, rest = (frame if of is None else without(frame, of) for frame in (training, own_timings))
    made = fitted(known, rest)
    for name, part in measured.groupby("machine"):
        for label, rows in kinds(part.assign(timing=LOOP)).items():
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
        strange = [
            not same_generation(str(other), family(name)) or held_out != LEFT for other in own_timings["machine"]
        ]
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
        f"median |relative error| {'above' if rows['bytes'].min() > ABOVE else 'up to'} 64 KB",
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
    {"collectives": Part(_systems, _given), "collectives on clusters": _clusters},
    (Front("Collectives between GPUs", "the machine", "all machines", LEFT),),
)
