"""Steps of recurrent layers on GPUs whose generation, or whose cell, no fit has seen (DeepBench, KernelBench).

Steps of recurrent layers on GPUs as rows of their law, and its fit (`slipstick validate --refit recurrences`).

DeepBench's forward times in FP32 and, with products on the matrix units, FP16: its layers skip the inputs' product.
P100's "pseudo FP16" is left out (stored in 16 bits, computed in 32). KernelBench's stacks of six layers run under
PyTorch; what their inputs' products take by the roofline is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.frames import csv_frame
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import LeftOutRows, calibrated, folds, left_out
from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS, KernelParameters
from slipstick.estimators.gpu.kernels.recurrent_law import (
    DEEPBENCH,
    NAME,
    PYTORCH,
    RECURRENT_LAW,
    columns_of,
    groups_of,
)
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.experiments.scoreboards.programs.program_data import machine_of, times
from slipstick.experiments.scoring.score import Board, Data, Scored, logarithmic
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.scored_cases import Input
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op

FILE, PROGRAMS = "gpu/deepbench/deepbench_long.csv", "programs/times.csv.gz"
MACHINES: Mapping[str, str] = {
    "DeepBench_AMD_VegaFE": "vega-fe",
    "DeepBench_AMD_MI25": "mi25",
    "DeepBench_NV_V100": "v100-sxm",
    "DeepBench_NV_P100": "p100-pcie",
    "DeepBench_NV_M40": "m40",
    "DeepBench_NV_1080Ti": "gtx-1080-ti",
    "DeepBench_NV_TitanX": "titan-x-maxwell",
    "DeepBench_NV_TitanX_Pascal": "titan-x-pascal",
    "DeepBench_NV_TitanXp": "titan-xp",
}
HIDDEN = "Hidden Units", "Hidden units"
"""By the spellings of the sheets."""
CELLS = {"GRU": ("gru", 3), "LSTM": ("lstm", 4), "LTSM": ("lstm", 4), "Vanilla": ("rnn", 1)}
NETWORK = re.compile(r"(?:3[5-9]|4[0-2])_(LSTM|LTSM|GRU)(\w*)")
"""KernelBench's problems of recurrent layers; its "vanilla" networks are one step each."""
STACK = {"batch": 10, "length": 512, "inputs": 128, "hidden": 256, "layers": 6}
"""Sizes of all of them (KernelBench, level 3, problems 35 to 42)."""


@dataclass(frozen=True, eq=False)
class RecurrentStep:
    """A step of a layer on a machine, and its measured seconds."""

    machine: Machine
    op: Op
    seconds: float
    stack: str

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rows one measurement."""
        return self.machine.name, self.op.identity, self.seconds, self.stack


def unknown_files(path: Path) -> list[str]:
    """Files of DeepBench's table whose machine is not known."""
    return sorted(set(csv_frame(path)["file"].astype(str)) - set(MACHINES))


def deepbench_steps(path: Path) -> list[RecurrentStep]:
    """Every layer of the machines that the catalogue has; a layer's time over its length is a step."""
    import pandas as pd

    frame = csv_frame(path).dropna(subset="value")
    frame = frame[
        (frame["mode"] == "train") & frame["file"].isin(MACHINES) & frame["section"].str.contains("Recurrent")
    ]
    frame = frame[~frame["sheet"].str.contains("Psuedo")]
    wide = frame.pivot_table(
        index=["file", "sheet", "section", "row"], columns="field", values="value", aggfunc="first"
    )
    wide = wide.apply(pd.to_numeric, errors="coerce")
    wide["hidden"] = wide.reindex(columns=list(HIDDEN)).bfill(axis=1).iloc[:, 0]
    columns = {"hidden": "width", "N": "batch", "Timesteps": "length", "Time Forward (msec)": "taken"}
    layers = wide[list(columns)].rename(columns=columns).dropna()
    steps: list[RecurrentStep] = []
    for row in layers[(layers > 0).all(axis=1)].reset_index().itertuples():
        function, gates = CELLS[str(row.section).rpartition("- ")[2]]
        dims = {"batch": int(row.batch), "hidden": int(row.width), "gates": gates, "outputs": int(row.width)}
        dtype = "float16" if "Mixed" in str(row.sheet) else "float32"
        op = operation(f"step.{len(steps)}", "recurrent", dims, dtype, {"function": function})
        steps.append(RecurrentStep(machine(MACHINES[str(row.file)]), op, 1e-3 * row.taken / row.length, DEEPBENCH))
    return steps


def pytorch_steps(folder: Path) -> Iterator[RecurrentStep]:
    """KernelBench's stacks of layers in eager mode, as steps."""
    for cohort in ("v0", "v0.1"):
        frame = times(folder, cohort)
        for row in frame[frame["mode"] == "eager"].itertuples() if len(frame) else ():
            network, name = NETWORK.match(str(row.problem)), machine_of(str(row.device))
            if network is None or not name:
                continue
            function, gates = CELLS[network[1]]
            directions, on = 2 if network[2].startswith("Bi") else 1, machine(name)
            before = sum(Roofline().times(_projections(gates, directions), on))
            done = STACK["layers"] * STACK["length"] * directions
            dims = {**STACK, "directions": directions, "gates": gates, "outputs": STACK["hidden"]}
            op = operation(f"{row.problem} {row.machine}", "recurrent", dims, "float32", {"function": function})
            yield RecurrentStep(on, op, (float(str(row.mean_s)) - before) / done, PYTORCH)


def _projections(gates: int, directions: int) -> list[Op]:
    """Products of a stack's inputs, one a layer and direction."""
    hidden, tokens = STACK["hidden"], STACK["batch"] * STACK["length"]
    widths = [STACK["inputs"], *[hidden * directions] * (STACK["layers"] - 1)]
    shape = {"batch": 1, "m": gates * hidden, "n": tokens}
    return [
        operation(f"inputs.{place}", "gemm", {**shape, "k": width}, "float32")
        for place, width in enumerate(widths * directions)
    ]


def rows_of(steps: Sequence[RecurrentStep]) -> LawRows:
    """Rows of the law."""
    groups = [groups_of(step.machine, step.stack) for step in steps]
    return LawRows(
        columns_of([(step.machine, step.op) for step in steps]),
        {level: [group[level] for group in groups] for level in groups[0]},
        [f"{step.machine.name} {step.op.dtype} {dict(step.op.dims)}" for step in steps],
        np.array([step.seconds for step in steps]),
        [step.stack for step in steps],
    )


def cells_of(steps: Sequence[RecurrentStep]) -> list[str]:
    """The function of each step's cell."""
    return [str(step.op.attributes["function"]) for step in steps]


def unseen(rows: LawRows, key: Sequence[str]) -> LeftOutRows:
    """Each group of a key left out in turn; bands by the generations left out within."""
    return left_out(RECURRENT_LAW, rows, folds(key), rows.groups["generation"])


def refit() -> FittedFile:
    """The law fitted to all steps; outer folds leave out a generation or a cell.

    Raises InputError where the public rows are missing.
    """
    paths = {name: Data().known(name) for name in (FILE, PROGRAMS)}
    steps = [*deepbench_steps(paths[FILE]), *pytorch_steps(Data().folder)]
    rows = rows_of(steps)
    scores = []
    for held_out, key in (("generation unseen", list(rows.groups["generation"])), ("cell unseen", cells_of(steps))):
        made = unseen(rows, key)
        for stack in (DEEPBENCH, PYTORCH):
            at = np.array([step.stack == stack for step in steps])
            count = len({group for group, here in zip(key, at, strict=True) if here})
            scores.append(
                OuterScore.of(held_out, stack, count, made.seconds[at], rows.seconds[at], made.half[at], made.inner)
            )
    fitted = calibrated(RECURRENT_LAW, rows, list(rows.groups["generation"]))
    files = {name: digest(path) for name, path in paths.items()}
    note = "baidu-research/DeepBench (Apache-2.0), forward; ScalingIntelligence/KernelBench (MIT), stacks of layers."
    return FittedFile(NAME, files, len(rows), {NAME: fitted}, tuple(scores), note)


METRICS = (logarithmic(0.5, "median |log ratio|"), logarithmic(0.9, "90th percentile"))


def _scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each generation and each cell left out; with `--data`, its layers of DeepBench from fits to the others' rows."""
    known = [*deepbench_steps(data.known(FILE)), *pytorch_steps(data.known(PROGRAMS).parent.parent)]
    for name in unknown_files(data.judged(FILE)):
        yield skipped("recurrent layers", f"{name}: no machine of the catalogue is named for it")
    every = data.rows(known, deepbench_steps(data.judged(FILE)), lambda step: step.key)
    steps, rows, places = every.rows, rows_of(every.rows), range(every.first, len(every.rows))
    for held_out, key in (("generation", list(rows.groups["generation"])), ("cell", cells_of(steps))):
        made = left_out(RECURRENT_LAW, rows, every.folds(key), rows.groups["generation"])
        for stack, group in sorted({(steps[i].stack, key[i]) for i in places if np.isfinite(made.seconds[i])}):
            at = np.array([i for i in places if (steps[i].stack, key[i]) == (stack, group)])
            members = [steps[i] for i in at]
            baselines = {
                "roofline and launches": _times(Roofline(), members),
                "products of unfitted tiles": _times(
                    TiledRoofline(KERNELS.using(recurrent=KernelParameters())), members
                ),
            }
            yield Scored(
                f"a step under {stack}, {held_out} unseen", group, rows.seconds[at], made.seconds[at], METRICS, (),
                baselines, made.half[at], groups=group, inputs=[_inputs(step) for step in members],
            )  # fmt: skip


def _times(model: Roofline | TiledRoofline, steps: Sequence[RecurrentStep]) -> FloatArray:
    return np.array([float(model.times([step.op], step.machine)[0]) for step in steps])


def _inputs(step: RecurrentStep) -> dict[str, Input]:
    dims = {name: float(step.op.dims[name]) for name in ("batch", "hidden", "gates", "outputs")}
    return {"machine": step.machine.name, "dtype": step.op.dtype, **dims}


BOARD = Board(
    "How long does a step of a recurrent layer take on a GPU whose generation, or in a cell that, was never measured?",
    {"recurrent layers": _scores},
)
