"""Epochs of training without a limit (Zeus) as rows of the factors of an energy, at their measured times.

Only ResNet-50 on ImageNet stands here (1,281,167 images of 224 pixels, float32): what the other networks compute in an
epoch is not published, and BERT-base on SQuAD would pass the peak of a V100 with the 384 tokens of the usual example.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.composition.energy_and_cost import energy, moved_bytes
from slipstick.estimators.fitting.group_effects_model import LawRows
from slipstick.estimators.power.energy import PowerModel
from slipstick.estimators.power.serving_power_law import power_groups
from slipstick.estimators.power.voltage import knee, squared_voltage
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.energy.power_limit_scores import RUN, rated_power
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload

if TYPE_CHECKING:
    import pandas as pd

FILE = "energy/zeus_power_limit.csv.gz"
NETWORK, DATASET, IMAGES = "resnet50", "imagenet", 1_281_167
BOARDS = {"p100": "p100-pcie", "v100": "v100-pcie", "rtx6000": "quadro-rtx-6000"}
"""Machines of the devices as Zeus names them; others are looked up in the catalogue."""


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
    board = machine(BOARDS[gpu]) if gpu in BOARDS else machine_of_device(gpu)
    if board is None:
        raise InputError(f"device {gpu!r} of {FILE} stands in no machine file")
    return board
