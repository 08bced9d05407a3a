"""How long hosts take to issue an operation: KernelBench's whole networks, host by host (`validate --refit host`).

What a network takes is the longer of two sides, the host's and the device's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawRows, ParameterPrior
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.host_issue import NOT_ISSUED
from slipstick.experiments.scoreboards.programs.program_data import (
    Program,
    machine_of,
    programs,
    times,
)
from slipstick.experiments.scoring.score import Data
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

HOSTED = ("host",)
SHARPNESS = 6.0
"""Of the p-norm that stands for the longer of two, so that both sides have slopes: 12 % above where they are equal."""


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    device = parameters["device"] * columns["device"]
    host = parameters["issue"] * columns["operations"]
    return np.asarray((device**SHARPNESS + host**SHARPNESS) ** (1 / SHARPNESS), dtype=float)


ISSUE_LAW = FormulaLaw(
    "host-issue",
    (
        ParameterPrior("issue", "s", "of a host, for one operation", 15e-6, 0.8, 1e-6, 1e-3, "time", HOSTED),
        ParameterPrior("device", "1", "kernels over their roofline", 1.6, 0.4, 1.0, 20.0, "share", HOSTED),
    ),
    _seconds,
    (Grouping("host", 0.4),),
)
"""Seconds of an eager network: the longer of its kernels and of a host that issues them one by one.

Columns: `device`, seconds of its kernels by the roofline of the data sheet; `operations`, how many are issued."""


NAME, FILE, OPERATIONS = "host", "programs/times.csv.gz", "programs/operations.csv.gz"
COHORTS = ("v0", "v0.1")
NETWORKS, LEAST = 3, 20
"""KernelBench's level of whole networks, and how many operations one has at least."""
FIGURES = ("9_ResNet18", "10_ResNet101", "11_VGG16")
"""Networks of the public figures of `slipstick validate defaults`: left out."""


def rows(folder: Path) -> LawRows:
    """Every eager network on every host."""
    traced = programs(folder)
    device, operations, hosts, networks, seconds = [], [], [], [], []
    for cohort in COHORTS:
        frame = times(folder, cohort)
        frame = frame[(frame["mode"] == "eager") & (frame["level"] == NETWORKS)]
        for row in frame.itertuples():
            program, name = traced.get(str(row.source)), machine_of(str(row.device))
            if not name or program is None or str(row.problem).startswith(FIGURES):
                continue
            needs = _needs(program, machine(name))
            if needs is None or needs[1] < LEAST:
                continue
            device.append(needs[0])
            operations.append(needs[1])
            hosts.append(f"{cohort} {row.machine}")
            networks.append(f"{cohort} {row.problem}")
            seconds.append(float(str(row.mean_s)))
    columns = {"device": np.array(device), "operations": np.array(operations)}
    return LawRows(columns, {"host": hosts}, networks, np.array(seconds), ["KernelBench"] * len(seconds))


def _needs(program: Program, on: Machine) -> tuple[float, float] | None:
    """Seconds of a program's kernels by the roofline, and how many operations are issued; None where it steps through a
    sequence in one call, or computes in a type that the machine lacks."""
    issued = [op for op in program.operations if op.kind not in on.runtime.free_kinds]
    if any(op.kind == "recurrent" for op in issued):
        return None
    try:
        seconds = Roofline().times(issued, on)
    except InputError:
        return None
    counts = np.array([float(op.times) for op in issued])
    kept = np.array([op.kind not in NOT_ISSUED for op in issued], dtype=bool)
    return float(seconds @ counts), float(counts[kept].sum())


def refit() -> FittedFile:
    """The law fitted to all hosts; outer folds leave a host out.

    Raises InputError where the public rows are missing.
    """
    paths = {name: Data().known(name) for name in (FILE, OPERATIONS)}
    law, known = ISSUE_LAW, rows(Data().folder)
    hosts = list(known.groups["host"])
    made = left_out(law, known, folds(hosts), hosts)
    groups = len(set(hosts))
    score = OuterScore.of("host unseen", "whole networks", groups, made.seconds, known.seconds, made.half, made.inner)
    files = {name: digest(path) for name, path in paths.items()}
    note = "Eager networks of ScalingIntelligence/KernelBench (MIT), v0 and v0.1; those of the public figures left out."
    return FittedFile(NAME, files, len(known), {law.name: calibrated(law, known, hosts)}, (score,), note)
