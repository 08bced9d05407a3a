"""Layers of image networks on a four-core cloud CPU, by the CPU roofline: three numbers a kind, models held out.

The DLBricks authors' times of single layers on an EC2 c5.2xlarge (mean of their repeats). Models are cut into five
folds; the efficiencies and the overhead of a kind are fitted to the other folds. Beside it: the data sheet's roofline,
and that roofline times one factor a kind, fitted to the same models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.fitting.formula_model import FormulaLaw, expected, plain_fit
from slipstick.estimators.fitting.group_effects_model import ParameterPrior
from slipstick.estimators.fitting.scores import log_quantile
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.calibrate.leave_one_device_out_report import roofline
from slipstick.experiments.scoreboards.dlbricks.layer_tables import CONVOLUTION, FILE, FOLDS, KINDS, layer_frame
from slipstick.experiments.scoring.score import MAPE, Board, Data, Scored
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Attribute

if TYPE_CHECKING:
    import pandas as pd

DATASET = "layers on c5.2xlarge"
LANES = 0.01, 0.5
"""Shares of the peak rate from which the fit starts: a library's loops may take a lane of the vector unit or all."""


def _kinds(data: Data) -> Iterator[Scored]:
    """Five folds by model; models of another file by those here that are not in it."""
    known, judged = layer_frame(data.known(FILE)), layer_frame(data.judged(FILE))
    folds = range(FOLDS) if data.scored is None else (None,)
    for kind, name in KINDS.items():
        learned, scored = (
            part[(part["kind"] == name) & part["function"].fillna("").isin(["", "Ramp"])] for part in (known, judged)
        )
        pieces = [_held_out(kind, *_split(learned, scored, fold)) for fold in folds]
        time, measured, plain, factor = (np.concatenate([piece[i] for piece in pieces]) for i in range(4))
        note = f"median |log ratio| {log_quantile(0.5, time, measured):.3f}, "
        note += f"90th percentile {log_quantile(0.9, time, measured):.3f}"
        held = "models, five folds" if data.scored is None else "models"
        baselines = {"roofline": plain, "roofline times one factor": factor}
        yield Scored(kind, held, measured, time, (MAPE,), (), baselines, noise=_floor(scored), reason=note)


def _split(known: pd.DataFrame, judged: pd.DataFrame, fold: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Layers to learn from and layers to score: of one fold, or (None) of files with models apart."""
    if fold is None:
        return known[~known["model_name"].isin(judged["model_name"])], judged
    return known[known["fold"] != fold], judged[judged["fold"] == fold]


def _held_out(
    kind: str, learned: pd.DataFrame, judged: pd.DataFrame
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of layers that no fit saw: fitted to the others, measured, data sheet, data sheet times one factor."""
    known, new = list(_forms(kind, learned)), list(_forms(kind, judged))
    formula, measured, times = RowFormula.of(CpuRoofline(), known), joined_times(known), joined_times(new)
    stated = {f"parameter.{name}": value for name, value in asdict(CpuRoofline()).items()}

    def of(numbers: Mapping[str, FloatArray] | Mapping[str, float], rows: RowFormula) -> FloatArray:
        return rows.evaluate({**stated, **{f"parameter.{k}": float(np.ravel(v)[0]) for k, v in numbers.items()}})

    fits = [
        plain_fit(FormulaLaw("CPU roofline", _expected(one), lambda n, _: of(n, formula)), measured) for one in LANES
    ]
    best = min(fits, key=lambda fitted: log_quantile(0.5, of(fitted, formula), measured))
    plain = roofline(new)
    factor = float(np.exp(np.median(np.log(measured / roofline(known)))))
    return of(best, RowFormula.of(CpuRoofline(), new)), times, plain, plain * factor


def _expected(lanes: float) -> tuple[ParameterPrior, ...]:
    return (
        expected("compute_efficiency", lanes, 1.5, high=1.0),
        expected("memory_efficiency", 0.7, 1.5, high=1.0),
        expected("overhead", 1e-5, 2.0, "s", high=1e-2),
        expected("lowering", 1.0, 2.0, "cycle", high=100.0),
    )


def _forms(kind: str, frame: pd.DataFrame) -> Iterator[OperationTimes]:
    target = machine("ec2-c5-2xlarge")
    if kind != "convolution":
        yield _form(kind, frame, {"elements": frame["outputs"], "reads": frame["outputs"], "writes": frame["outputs"]})
        return
    for _, part in frame.groupby(["kernel_1", "kernel_2", "groups", "stride_1"]):
        ones = np.ones(len(part))
        dims: dict[str, FloatArray] = {f"{p}_depth": ones for p in ("in", "out", "kernel")}
        dims |= {ours: part[theirs].to_numpy(float) for ours, theirs in CONVOLUTION.items()}
        stride = int(part["stride_1"].iloc[0])
        facts: dict[str, Attribute] = {"stride": (stride, stride)}
        times = part["mean_time"].to_numpy(float)
        yield OperationTimes.of(target, kind, "float32", {**dims, "batch": ones}, times, facts, FILE)


def _form(kind: str, frame: pd.DataFrame, dims: dict[str, pd.Series[float]]) -> OperationTimes:
    if kind == "norm":
        dims = {"elements": frame["outputs"], "groups": frame["output_channel"]}
    return OperationTimes.of(machine("ec2-c5-2xlarge"), kind, "float32", dims, frame["mean_time"], source=FILE)


def _floor(frame: pd.DataFrame) -> float | None:
    """Mean relative deviation of equal layers of several models from their mean."""
    groups = frame.groupby("topology_hash")["mean_time"]
    repeated = frame[groups.transform("size") > 1]
    if repeated.empty:
        return None
    means = groups.transform("mean")[repeated.index]
    return float(np.mean(np.abs(repeated["mean_time"] / means - 1)))


BOARD = Board("How long do layers of an image network take on a CPU?", {DATASET: _kinds})
