"""Steps of recurrent layers on GPUs whose family no fit has seen (DeepBench, FP32 training, forward)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.kernel_classes import KERNELS, KernelParameters
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.roofline import Roofline
from slipstick.experiments.evidence.cases import Input
from slipstick.experiments.evidence.score import Board, Data, Scored, logarithmic
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.frames import csv_frame
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op

FILE = "gpu/deepbench/deepbench_long.csv"
PRODUCTS = "gpu/deepbench/gemm_train_wide.csv"
METRICS = (logarithmic(0.5, "median |log ratio|"),)
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
CELLS = {"GRU": ("gru", 3), "LSTM": ("lstm", 4), "Vanilla": ("rnn", 1)}
FREE = {
    "overhead": (1.5e-5, 0.0, 1e-3),
    "compute_efficiency": (0.6, 0.05, 1.0),
    "memory_efficiency": (0.7, 0.05, 1.0),
    "tile_cycles": (3000.0, 0.0, 2e4),
    "small_tile": (0.1, 0.0, 3.0),
    "overlap": (0.3, 0.0, 1.0),
}
"""Parameters that are fitted: start, least, most."""


@dataclass(frozen=True, eq=False)
class Steps:
    """One machine's layers: an operation for a step of each, and its measured seconds."""

    machine: str
    operations: tuple[Op, ...]
    seconds: FloatArray


def read_steps(path: Path) -> list[Steps]:
    """Every machine that the catalogue has; a layer's time over its length is a step."""
    import pandas as pd

    frame = csv_frame(path).dropna(subset="value")
    frame = frame[
        (frame["mode"] == "train") & frame["file"].isin(MACHINES) & frame["section"].str.contains("Recurrent")
    ]
    frame = frame[frame["sheet"].str.contains("FP32") & ~frame["sheet"].str.contains("FP16")]
    wide = frame.pivot_table(index=["file", "section", "row"], columns="field", values="value", aggfunc="first")
    wide = wide.apply(pd.to_numeric, errors="coerce")
    wide["hidden"] = wide["Hidden Units"].fillna(wide["Hidden units"])
    columns = {"hidden": "width", "N": "batch", "Timesteps": "length", "Time Forward (msec)": "taken"}
    layers = wide[list(columns)].rename(columns=columns).dropna()
    steps = []
    for file, rows in layers[(layers > 0).all(axis=1)].reset_index().groupby("file"):
        operations: list[Op] = []
        for place, row in enumerate(rows.itertuples()):
            function, gates = CELLS[str(row.section).rpartition("- ")[2]]
            dims = {"batch": int(row.batch), "hidden": int(row.width), "gates": gates, "outputs": int(row.width)}
            operations.append(operation(f"step.{place}", "recurrent", dims, "float32", {"function": function}))
        seconds = (rows["taken"] / rows["length"]).to_numpy(dtype=float) * 1e-3
        steps.append(Steps(MACHINES[str(file)], tuple(operations), seconds))
    return steps


def read_products(path: Path, file: str) -> Steps:
    """One machine's matrix products in FP32."""
    frame = csv_frame(path)
    rows = frame[(frame["file"] == file) & frame["sheet"].str.contains("FP32")].dropna(subset="Time (msec)")
    sizes = zip(rows["M"], rows["N"], rows["K"], strict=True)
    operations = tuple(
        operation(f"product.{place}", "gemm", {"batch": 1, "m": int(m), "n": int(n), "k": int(k)}, "float32")
        for place, (m, n, k) in enumerate(sizes)
    )
    return Steps(MACHINES[file], operations, rows["Time (msec)"].to_numpy(dtype=float) * 1e-3)


def model(values: Mapping[str, float], kind: str = "recurrent") -> TiledRoofline:
    """The tiled roofline with these parameters of one kind of operations, each in its unit."""
    return TiledRoofline(KERNELS.using(**{kind: KernelParameters(**values)}))


def log_errors(model: TiledRoofline | Roofline, steps: Sequence[Steps]) -> FloatArray:
    """log(predicted / measured) of every step."""
    return np.asarray(np.log(seconds(model, steps) / np.concatenate([one.seconds for one in steps])))


def seconds(model: TiledRoofline | Roofline, steps: Sequence[Steps]) -> FloatArray:
    """Predicted seconds of every step, shape (steps,)."""
    return np.concatenate([model.times(one.operations, machine(one.machine)) for one in steps])


def fitted(steps: Sequence[Steps], kind: str = "recurrent") -> dict[str, float]:
    """Parameters of one kind by least squares of log errors, those beyond 0.2 counted linearly."""
    from scipy.optimize import least_squares

    start, low, high = (np.array(column) for column in zip(*FREE.values(), strict=True))

    def residuals(point: FloatArray) -> FloatArray:
        return log_errors(model(dict(zip(FREE, map(float, point), strict=True)), kind), steps)

    solution = least_squares(
        residuals, start, bounds=(low, high), x_scale=start + 1e-6, loss="soft_l1", f_scale=0.2, max_nfev=40
    )
    return dict(zip(FREE, map(float, solution.x), strict=True))


def families(steps: Sequence[Steps]) -> dict[str, list[Steps]]:
    """Machines by the chip's generation (the first two words of the family)."""
    result: dict[str, list[Steps]] = {}
    for one in steps:
        result.setdefault("-".join(machine(one.machine).family.split("-")[:2]), []).append(one)
    return result


def _families(data: Data) -> Iterator[Scored]:
    """Each family left out of the fit; with `--data`, its rows from a fit to the machines that it has not."""
    known = read_steps(data.known(FILE))
    for family, members in families(read_steps(data.judged(FILE))).items():
        names = {one.machine for one in members}
        others = [one for one in known if one.machine not in names and one.machine not in _kin(known, names)]
        if not others:
            continue
        values = fitted(others)
        measured = np.concatenate([one.seconds for one in members])
        ours, plain, unfitted = (seconds(by, members) for by in (model(values), Roofline(), model({})))
        errors = np.abs(log_errors(model(values), members))
        reason = f"{', '.join(sorted(names))}; 90th percentile {np.quantile(errors, 0.9):.2f}; fit to the others: "
        reason += ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        baselines = {"roofline and launches": plain, "products of unfitted tiles": unfitted}
        inputs: list[dict[str, Input]] = [
            {"machine": one.machine, **{name: float(size) for name, size in op.dims.items()}}
            for one in members
            for op in one.operations
        ]
        yield Scored(
            "a step, forward", family, measured, ours, METRICS, (), baselines, reason=reason,
            inputs=inputs,
        )  # fmt: skip


def _kin(known: Sequence[Steps], names: set[str]) -> set[str]:
    """Machines of the families that some names belong to."""
    return {one.machine for group in families(known).values() if {o.machine for o in group} & names for one in group}


BOARD = Board(
    "How long does a step of a recurrent layer take on a GPU whose family was never measured?",
    {"deepbench recurrent layers": _families},
)
