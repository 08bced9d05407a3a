"""Metered serving runs as rows of the laws of their step, of its power and of an energy's factors; and their fits.

Epochs of training without a limit (Zeus) as rows of the factors of an energy, at their measured times.

Only ResNet-50 on ImageNet stands here (1,281,167 images of 224 pixels, float32): what the other networks compute in an
epoch is not published, and BERT-base on SQuAD would pass the peak of a V100 with the 384 tokens of the usual example.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.composition.energy_and_cost import energy, moved_bytes
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import (
    Columns,
    FormulaLaw,
    Grouping,
    LawFit,
    LawRows,
    ParameterPrior,
    TimeLaw,
)
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out
from slipstick.estimators.power.energy import MATRIX_ENERGY, PowerModel
from slipstick.estimators.power.serving_power import ServingWork
from slipstick.estimators.power.serving_power_law import COLUMNS, FACTORS_LAW, POWER_LAW, power_groups
from slipstick.estimators.power.voltage import knee, squared_voltage
from slipstick.experiments.scoreboards.energy.metered_runs import FILES, metered_machine, metered_runs
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE, RUN, board_of, rated_power
from slipstick.experiments.scoring.score import Data
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload

if TYPE_CHECKING:
    import pandas as pd


NETWORK, DATASET, IMAGES = "resnet50", "imagenet", 1_281_167


def metered_training(path: Path) -> pd.DataFrame:
    """Runs at the highest limit of each configuration: seconds, flop and bytes of a step, watts, cap."""
    import pandas as pd

    table = csv_frame(path)
    table = table[table.suspicious.isna() & (table.power_limit_w > 0)]
    free = table.loc[table.groupby(RUN).power_limit_w.idxmax()]
    free = free[(free.network == NETWORK) & (free.dataset == DATASET)]
    return pd.DataFrame([_step(row) for _, row in free.iterrows()])


def _step(row: pd.Series) -> dict[str, object]:
    batch = float(row.batch_size)
    consumed = energy(workload(NETWORK), _machine(row.gpu), {"batch": batch}, PowerModel())
    return {
        "gpu": str(row.gpu), "seconds": float(row.epoch_s) * batch / IMAGES,
        "flop": float(consumed.values({}, 1.0)["operation.float32_flop"]), "moved": float(moved_bytes(consumed, {})),
        "watts": float(row.mean_power_w), "cap": rated_power(str(row.gpu)),
    }  # fmt: skip


def training_rows(runs: pd.DataFrame) -> LawRows:
    """Shares of the cap, beside watts over the cap where each factor of `PowerModel` is 1."""
    drawn = np.empty((3, len(runs)))
    for gpu in runs.gpu.unique():
        mine = (runs.gpu == gpu).to_numpy()
        part = runs[mine]
        work = (part[name].to_numpy(dtype=float) for name in ("seconds", "flop", "moved"))
        drawn[:, mine] = unit_watts(_machine(gpu), *work) / part.cap.to_numpy()
    each = [power_groups(_machine(gpu), use="training") for gpu in runs.gpu]
    groups = {name: [one[name] for one in each] for name in each[0]}
    columns = dict(zip(("idle", "flop", "byte"), drawn, strict=True))
    shares = (runs.watts / runs.cap).to_numpy(dtype=float)
    return LawRows(columns, groups, list(runs.gpu), shares, ["zeus"] * len(runs))


def unit_watts(at: Machine, seconds: FloatArray, flop: FloatArray, moved: FloatArray) -> FloatArray:
    """Idle watts, and those of flop and of bytes by factors of one, shape (3, n)."""
    one = PowerModel(active=0.0)
    formula = one.uncapped(at, squared_voltage(knee(at)))
    nothing = np.zeros(len(seconds))
    idle, with_flop, with_bytes = (
        one.evaluated(formula, at, seconds, *work) for work in ((nothing, nothing), (flop, nothing), (nothing, moved))
    )
    return np.array([idle, with_flop - idle, with_bytes - idle])


def _machine(gpu: str) -> Machine:
    board = board_of(gpu)
    if board is None:
        raise InputError(f"device {gpu!r} of {FILE} stands in no machine file")
    return board


NAME = "serving-power"
STEP = {
    "kernels": (1.0, 0.3), "attention": (1.0, 0.5), "fixed": (1.0, 0.5), "sequence": (5e-5, 1.5), "step": (2e-3, 1.5),
    "ranks": (1e-3, 1.5), "sequence_ranks": (1e-5, 1.5), "prompts": (1.0, 0.7), "media": (20e-3, 1.5),
    "power": (1.0, 0.2),
}  # fmt: skip
"""What is expected of a step, with log standard deviations. Factors on the calibrated parts of a step; seconds of the
host for a step, a sequence (to a power), a further rank (engines of 2024), and a request with images."""
UNNARROWED = 1.0
"""Least factor on bands: a model's sizes and its runs on another GPU are twins, which say little of a stranger."""
OF_AN_ERA = ("kernels", "fixed", "sequence", "step")


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    p, c = parameters, columns
    older, ranks = c["older"], c["tensor"] * c["stages"]
    stages = 1 + older * (c["stages"] - 1)
    kernels = (c["kernels_s"] + p["attention"] * c["attention_s"]) * p["kernels"] + c["fixed_s"] * p["fixed"]
    host = p["sequence"] * c["decodes"] ** p["power"] / stages + p["step"]
    host = host + older * p["sequence_ranks"] * c["decodes"] * (c["tensor"] - 1) / stages
    host = host + older * p["ranks"] * (ranks - 1)
    return np.asarray(kernels + host + p["prompts"] * c["prompts_s"] + p["media"] * c["media"] * c["arrivals"])


METERED_STEP_LAW = FormulaLaw(
    "metered-step",
    tuple(
        ParameterPrior(
            name,
            "1",
            name,
            value,
            width,
            value * 1e-3,
            value * 1e3,
            f"{width:g}",
            ("era",) if name in OF_AN_ERA else (),
        )
        for name, (value, width) in STEP.items()
    ),
    _seconds,
    (Grouping("era", 1.0),),
)
"""Seconds of a further token of a metered run, from the parts of a calibrated step and what the host adds."""


STEP_COLUMNS = (
    "older", "tensor", "stages", "kernels_s", "attention_s", "fixed_s", "decodes", "prompts_s", "media", "arrivals",
)  # fmt: skip


def kinds(runs: pd.DataFrame) -> list[str]:
    """The era of each run's engine (2024: version 2 of the leaderboard), and whether requests hold images."""
    eras, media = np.where(runs.older > 0, "2024", "2025"), np.where(runs.media > 0, "images", "text")
    return [f"{era} {what}" for era, what in zip(eras, media, strict=True)]


def groups_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """The groups of runs."""
    at = {gpu: metered_machine(str(gpu)) for gpu in runs.gpu.unique()}
    each = [power_groups(at[gpu], kind) for gpu, kind in zip(runs.gpu, kinds(runs), strict=True)]
    return {name: [one[name] for one in each] for name in each[0]}


def step_rows(runs: pd.DataFrame) -> LawRows:
    """Further tokens of runs."""
    return _rows(runs, {name: runs[name].to_numpy(dtype=float) for name in STEP_COLUMNS}, runs.step_s.to_numpy())


def power_rows(runs: pd.DataFrame, seconds: FloatArray) -> LawRows:
    """Shares of the cap in steps of so many seconds."""
    ranks = runs.tensor * runs.stages
    work = ServingWork(runs.read_s / seconds, runs.flop_s / seconds, ranks, runs.decodes, runs.narrow, runs.grouped)
    return _rows(runs, dict(zip(COLUMNS, work.columns(), strict=True)), shares(runs))


def factor_rows(runs: pd.DataFrame, seconds: FloatArray) -> LawRows:
    """The same by idle, flop and bytes: watts over the cap where each factor of `PowerModel` is 1."""
    drawn = np.empty((3, len(runs)))
    for gpu in runs.gpu.unique():
        mine = (runs.gpu == gpu).to_numpy()
        at, part = metered_machine(str(gpu)), runs[mine]
        eight = (part.weight_precision == "fp8").to_numpy()
        energy = np.where(eight, MATRIX_ENERGY["float8"], MATRIX_ENERGY["bfloat16"])
        flop = part.flop_s.to_numpy() * np.where(eight, 2.0, 1.0) * at.peak("matrix", "bfloat16") * energy
        moved = part.read_s.to_numpy() * at.bandwidth(at.main_memory)
        drawn[:, mine] = unit_watts(at, seconds[mine], flop, moved) / part.cap.to_numpy()
    return _rows(runs, dict(zip(("idle", "flop", "byte"), drawn, strict=True)), shares(runs))


def shares(runs: pd.DataFrame) -> FloatArray:
    """Measured power of a device over its cap, shape (runs,)."""
    return np.asarray((runs.mean_power_w / runs.gpus / runs.cap).to_numpy(), dtype=float)


def _rows(runs: pd.DataFrame, columns: Columns, measured: FloatArray) -> LawRows:
    clusters = zip(runs.family_name, runs.gpu, runs.task, strict=True)
    names = [" ".join(map(str, one)) for one in clusters]
    return LawRows(columns, groups_of(runs), names, measured, ["leaderboard"] * len(runs))


def predicted(made: LawFit, law: TimeLaw, rows: LawRows) -> FloatArray:
    """What a fit says of rows."""
    return made.seconds(law, rows.columns, {level.name: rows.groups[level.name] for level in law.levels})


def half_width(made: LawFit, law: TimeLaw, rows: LawRows) -> FloatArray:
    """Half of its 80 % bands."""
    return made.half_width(law, rows.columns, {level.name: rows.groups[level.name] for level in law.levels})


def newer(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of the newer leaderboard, where GPUs seldom wait for their host; all where it has none."""
    return runs[runs.older == 0] if (runs.older == 0).any() else runs


def refit() -> FittedFile:
    """Both laws of power fitted to all metered runs, at their measured step times.

    Raises InputError where the public rows are missing.
    """
    paths = {name: Data().known(name) for name in (*FILES, FILE)}
    runs, _ = metered_runs([paths[name] for name in FILES])
    late, trained = newer(runs), metered_training(paths[FILE])
    serving = factor_rows(late, late.step_s.to_numpy()), list(late.family_name), list(late.gpu)
    training = training_rows(trained), ["resnet50"] * len(trained), list(trained.gpu)
    factors = serving[0] + training[0], serving[1] + training[1], serving[2] + training[2]
    powers = power_rows(runs, runs.step_s.to_numpy()), list(runs.family_name), list(runs.gpu)
    fits, scores = {}, []
    for law, (rows, families, gpus) in ((POWER_LAW, powers), (FACTORS_LAW, factors)):
        for held, key in (("model", families), ("GPU", gpus)):
            made = left_out(law, rows, folds(key), key if held == "GPU" else families, least=UNNARROWED)
            result = made.seconds, rows.seconds, made.half, made.inner
            scores.append(OuterScore.of(held, law.name, len(set(key)), *result))
        fits[law.name] = calibrated(law, rows, families, least=UNNARROWED)
    note = "ml-energy/leaderboard (0cd52da), leaderboard-v2 (c3af7f3) and zeus (75a8b93); at measured steps."
    return FittedFile(NAME, {name: digest(path) for name, path in paths.items()}, len(runs), fits, tuple(scores), note)


def fitted_step(runs: pd.DataFrame) -> LawFit:
    """The law of a metered step fitted to runs."""
    return fit(METERED_STEP_LAW, step_rows(runs))
