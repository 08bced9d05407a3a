"""The scoreboard of energy: training under power limits, and power while serving.

Scoreboard: power and step time of metered vLLM runs, a family of models or a GPU left out of both fits.

A run's power follows from its predicted step, never from the measured one. Models of equal shapes (tunings, precisions)
are one family and are left out together.

Metered serving runs as rows of the laws of their step, of its power and of an energy's factors; and their fits.

Epochs of training without a limit (Zeus) as rows of the factors of an energy, at their measured times.

Only ResNet-50 on ImageNet stands here (1,281,167 images of 224 pixels, float32): what the other networks compute in an
epoch is not published, and BERT-base on SQuAD would pass the peak of a V100 with the 384 tokens of the usual example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
from slipstick.estimators.fitting.scores import weighted_quantile
from slipstick.estimators.power.energy import MATRIX_ENERGY, PowerModel
from slipstick.estimators.power.serving_power import ServingWork
from slipstick.estimators.power.serving_power_law import COLUMNS, FACTORS_LAW, POWER_LAW, power_groups
from slipstick.estimators.power.voltage import knee, squared_voltage
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.scoreboards.energy.metered_runs import FILES, metered_machine, metered_runs
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE, RUN, board_of, limit_scores, rated_power
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Part, Scored, labelled, of_errors
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
"""Least factor on bands: a model's sizes and its runs on another GPU are alike, which say little of other models."""
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
    read, flop = (np.minimum(one / seconds, 1.0) for one in (runs.read_s, runs.flop_s))
    work = ServingWork(read, flop, ranks, runs.decodes, runs.narrow, runs.grouped)
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


def law_values(made: LawFit, law: TimeLaw, rows: LawRows) -> FloatArray:
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


FAMILY_ROWS = 8
"""Rows of one family of models count at most as so many."""
KEY = ["model", "gpu", "task", "gpus", "tensor_parallel", "max_num_seqs", "older"]
GOALS = {"power": (0.09, 0.20), "step": (0.18, 0.45)}
POWER, FACTORS = "power of a device", "power of a device by idle, flop and bytes, engines of 2025 (estimate's energy)"


@dataclass(frozen=True)
class Predicted:
    """Log ratios of predicted and measured of the same runs: ours and what trivial rules give."""

    power: FloatArray
    factors: FloatArray
    step: FloatArray
    joules: FloatArray
    cap_share: FloatArray
    nearest: FloatArray
    roofline: FloatArray
    power_half: FloatArray
    factors_half: FloatArray
    step_half: FloatArray


def serving_power(data: Data) -> Iterator[Scored]:
    """Power, step time and energy of a token; median and 90th percentile."""
    runs, _, note = _read(data)
    for held, column in (("model", "family_name"), ("GPU", "gpu")):
        order, parts = [], []
        for name in sorted(runs[column].unique()):
            mine = runs[runs[column] == name]
            order.append(mine)
            parts.append(predicted(runs[runs[column] != name], mine))
        joined = Predicted(*(np.concatenate(each) for each in zip(*(vars(p).values() for p in parts), strict=True)))
        yield from _both(_stacked(order), joined, held, note)


def given_power(data: Data) -> Iterator[Scored]:
    """The same of rows that are given."""
    runs, known, note = _read(data)
    yield from _both(runs, predicted(known, runs), "rows given", note)


def _read(data: Data) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Runs to score, runs to learn from, and what was left out of the former."""
    known_paths = [path for path in map(training_file, FILES) if path]
    scored_paths = [path for name in FILES if (path := scored_file(name, data.scored))]
    if not known_paths or not scored_paths:
        raise MissingError(why_missing(FILES[0], data.scored if known_paths else None))
    known, _ = metered_runs(known_paths)
    runs, refused = metered_runs(scored_paths)
    note = "; ".join(f"{reason}: {count} rows left out" for reason, count in refused.items())
    if runs.empty:
        raise MissingError(note or "no rows")
    return runs, data.table(known, runs, KEY), note


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(tables, ignore_index=True)


def predicted(known: pd.DataFrame, runs: pd.DataFrame) -> Predicted:
    """Errors on runs of fits to the known ones."""
    steps, seconds, families = fitted_step(known), runs.step_s.to_numpy(), list(known.family_name)
    guess = law_values(steps, METERED_STEP_LAW, step_rows(runs))
    power = calibrated(POWER_LAW, power_rows(known, known.step_s.to_numpy()), families, least=UNNARROWED)
    late = newer(known)
    factors = calibrated(
        FACTORS_LAW, factor_rows(late, late.step_s.to_numpy()), list(late.family_name), least=UNNARROWED
    )
    rows, plain_rows = power_rows(runs, guess), factor_rows(runs, guess)
    share, plain = (
        law_values(power, POWER_LAW, rows),
        law_values(factors, FACTORS_LAW, plain_rows),
    )
    measured = shares(runs)
    constant = _by_board(known.mean_power_w / known.gpus / known.cap, known, runs)
    floor = _by_board(known.step_s / known.roofline_s, known, runs)
    return Predicted(
        np.log(share / measured),
        np.log(plain / measured),
        np.log(guess / seconds),
        np.asarray(np.log(guess * share) - np.log(seconds * measured)),
        np.log(constant / measured),
        np.log(_nearest(known, runs) / measured),
        np.log(floor * runs.roofline_s.to_numpy() / seconds),
        half_width(power, POWER_LAW, rows),
        half_width(factors, FACTORS_LAW, plain_rows),
        half_width(steps, METERED_STEP_LAW, step_rows(runs)),
    )


def _by_board(values: pd.Series, known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """The median of the known runs of each run's leaderboard."""
    boards = {}
    for older in set(runs.older):
        same = known[known.older == older]
        same = known if same.empty else same
        boards[older] = weighted_quantile(values.loc[same.index], row_weights(same))
    return np.array([boards[older] for older in runs.older])


def row_weights(runs: pd.DataFrame) -> FloatArray:
    """Weights of rows for the baselines: those of a large family count less."""
    counts = runs.family_name.map(runs.family_name.value_counts()).to_numpy()
    return np.asarray(np.minimum(1.0, FAMILY_ROWS / counts))


def _nearest(known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """Share of the cap of the run that is nearest in parameters a device and sequences, of the same leaderboard."""

    def place(table: pd.DataFrame) -> FloatArray:
        far = 100.0 * table.older.to_numpy() + 10.0 * table.media.to_numpy()
        return np.stack([np.log(table.parameters / table.gpus), np.log(table.decodes), far], axis=1)

    there, here = place(known), place(runs)
    index = np.argmin(np.square(there[None, :, :] - here[:, None, :]).sum(axis=2), axis=1)
    return np.asarray((known.mean_power_w / known.gpus / known.cap).to_numpy()[index])


def _both(runs: pd.DataFrame, made: Predicted, held: str, note: str) -> Iterator[Scored]:
    """Power, step time and energy of a token; bands from families left out of what each fit saw."""
    trivial = {"share of the cap": made.cap_share, "nearest": made.nearest}
    late = (runs.older == 0).to_numpy()
    late = late if late.any() else ~late
    plain = {name: values[late] for name, values in trivial.items()}
    both = {"both": made.cap_share + made.roofline}
    joules_half = np.hypot(made.power_half, made.step_half)
    names = runs["gpu" if held == "GPU" else "family_name"].to_numpy()
    token, energy = "time of a further token", "energy of a token at this pace"
    for case, error, goals, others, half, of in (
        (POWER, made.power, GOALS["power"], trivial, made.power_half, names),
        (FACTORS, made.factors[late], (), plain, made.factors_half[late], names[late]),
        (token, made.step, GOALS["step"], {"fitted roofline": made.roofline}, made.step_half, names),
        (energy, made.joules, (), both, joules_half, names),
    ):
        scored = of_errors(case, held, error, others)
        yield replace(scored, metrics=labelled(), goals=goals, half=half, reason=note, groups=list(map(str, of)))


BOARD = Board(
    "What do training under a power limit and serving a language model draw, on a device or model never measured?",
    {
        "energy: training under power limits (Zeus)": limit_scores,
        "energy: serving (ML.ENERGY)": Part(serving_power, given_power),
    },
    (Front("Power while serving", "the model", "power of a device", "model"),),
)
