"""Image networks timed on CPUs as rows of the law of a CPU's library, and its fit (`validate --refit cpu-library`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.cpu.cpu_library_law import (
    CPU_LIBRARY_LAW,
    NAME,
    SPAN,
    STREAM,
    STREAMED,
    TYPICAL,
    chip_of,
    cpu_kernel,
)
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.experiments.scoreboards.programs.image_networks import image_network, names
from slipstick.experiments.scoreboards.programs.vision_law import Setting, lowered_graph
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, read_rows, setting_of
from slipstick.experiments.scoring.score import Data
from slipstick.hwmodels.catalog import aliases, machine
from slipstick.hwmodels.catalog.names import exact
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class CpuNetworks:
    """Timed networks on CPUs, with the family of each."""

    rows: LawRows
    families: Sequence[str]


def cpu_networks(path: Path) -> CpuNetworks:
    """Inference of every network whose operations are kept, on machines of the catalogue that are CPUs."""
    frame, traced = read_rows(path), names()
    frame = frame[frame["task"] == "inference"]
    kept = [
        (str(model), int(pixels)) in traced and on_cpu(str(device))
        for model, pixels, device in zip(frame["model"], frame["image"], frame["device"], strict=True)
    ]
    return CpuNetworks(cpu_rows(frame[kept]), frame["family"][kept].astype(str).tolist())


def on_cpu(device: str) -> bool:
    """Whether a device of the table is a CPU of the catalogue."""
    name = exact(device, aliases())
    return name is not None and machine_kind(machine(name)) == "cpu"


def cpu_rows(frame: pd.DataFrame) -> LawRows:
    """Rows on CPUs, of networks whose operations are kept, as rows of the law."""
    columns, chips, clusters = [], [], []
    for _, row in frame.iterrows():
        name = exact(str(row["device"]), aliases()) or ""
        columns.append(_columns(str(row["model"]), int(row["image"]), int(row["batch"]), setting_of(row), name))
        chips.append(chip_of(machine(name)))
        clusters.append(f"{row['family']} {row['device']}")
    joined = {name: np.array([one[name] for one in columns]) for name in columns[0]}
    return LawRows(joined, {"chip": chips}, clusters, frame["step_s"].to_numpy(dtype=float), chips)


@lru_cache(maxsize=2048)
def _columns(name: str, pixels: int, batch: int, setting: Setting, device: str) -> Mapping[str, float]:
    return library_columns(lowered_graph(image_network(name, pixels, batch), setting), machine(device))


def library_columns(workload: Workload, machine: Machine) -> dict[str, float]:
    """The columns of a workload without open sizes on a machine, as the runtime hands its operations over."""
    columns = dict.fromkeys(TYPICAL, 0.0)
    bandwidth = machine.bandwidth(machine.main_memory)
    for op in workload.merged:
        if op.kind in machine.runtime.free_kinds:
            continue
        kernel, times = cpu_kernel(op), float(op.times)
        columns["other_start" if kernel == "other" else "start"] += times * float(op.cost["launches"])
        place = f"{kernel}_traffic" if kernel in ("depthwise", "other") else "traffic"
        moved = float(op.cost.bytes_moved)
        columns[place] += times * min(moved, SPAN) / bandwidth
        columns[STREAMED] += times * max(moved - SPAN, 0.0) * STREAM / bandwidth
        if kernel == "other":
            continue
        for name, amount in op.cost.items():
            if name.startswith("flop.matrix."):
                _, unit, dtype = name.split(".")
                columns[kernel] += times * float(amount) / machine.peak(*serving_rate(machine, unit, dtype))
    return columns


def refit() -> FittedFile:
    """The law fitted to all of them; outer folds leave out a family of networks, and a chip.

    Raises InputError where the public rows are missing.
    """
    path = Data().known(FILE)
    timed, law, scores = cpu_networks(path), CPU_LIBRARY_LAW, []
    chips = list(timed.rows.groups["chip"])
    for held, key in (("family", timed.families), ("chip", chips)):
        made = left_out(law, timed.rows, folds(key), timed.families)
        scores.append(OuterScore.of(held, "networks", len(set(key)), made.seconds, timed.rows.seconds, made.half))
    note = "Compiled image networks of huggingface/pytorch-image-models' published benchmark, one image, float32."
    fits = {NAME: calibrated(law, timed.rows, timed.families)}
    return FittedFile(NAME, {FILE: digest(path)}, len(chips), fits, tuple(scores), note)
