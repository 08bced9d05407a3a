"""Layers of image networks on a four-core cloud CPU, models held out: the default answer to each.

The DLBricks authors' times of single layers on an EC2 c5.2xlarge (mean of their repeats). Models are cut into five
folds; three numbers a kind are fitted to the other folds and answer in place of those that ship. Baselines: the rule of
thumb, and a roofline times one factor a kind, of the other folds as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.fitting.fitted_model import FormulaLaw, ParameterPrior
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.scores import log_quantile
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.dlbricks.layer_tables import CONVOLUTION, FILE, FOLDS, KINDS, layer_frame
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import GIVEN, MAPE, Board, Data, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import Fits, answers_left_out
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload

if TYPE_CHECKING:
    import pandas as pd

DATASET, HOST = "layers on c5.2xlarge", "ec2-c5-2xlarge"
LANES = 0.01, 0.5
"""Shares of the peak rate from which the fit starts: a library's loops may take a lane of the vector unit or all."""


@dataclass(frozen=True)
class TimedLayer:
    """A layer of a model, and its measured seconds; equal layers of several models share a `topology`."""

    model: str
    topology: str
    op: Op
    seconds: float


def _kinds(data: Data) -> Iterator[Scored | ValidationRow]:
    """Five folds by model; models of another file by those here that are not in it."""
    known, judged = layer_frame(data.known(FILE)), layer_frame(data.judged(FILE))
    for kind, name in KINDS.items():
        learned, given = (
            _layers(kind, frame[(frame["kind"] == name) & frame["function"].fillna("").isin(["", "Ramp"])])
            for frame in (known, judged)
        )
        rows = data.rows(learned, given, lambda layer: layer.model)
        if not rows.scored:
            yield skipped(DATASET, f"no layers of kind {kind}")
            continue
        turns = rows.turns([layer.model for layer in rows.rows], at_most=FOLDS)
        made = answers_left_out(rows.rows, turns, _ask, _fits)
        at, seconds = slice(rows.first, None), np.array([layer.seconds for layer in rows.rows])
        over, factor = seconds / made.rule, np.full(len(seconds), np.nan)
        for fold in rows.folds([layer.model for layer in rows.rows], at_most=FOLDS):
            others = over[fold.known][np.isfinite(over[fold.known])]
            factor[fold.scored] = np.exp(np.median(np.log(others))) if len(others) else np.nan
        note = f"median |log ratio| {log_quantile(0.5, made.seconds[at], seconds[at]):.3f}, "
        note += f"90th percentile {log_quantile(0.9, made.seconds[at], seconds[at]):.3f}"
        baselines = {
            RULE: made.rule[at],
            "roofline times one factor": (made.rule * factor)[at],
        }
        yield Scored(
            kind, GIVEN if rows.first else "models, five folds", seconds[at], made.seconds[at], (MAPE,), (), baselines,
            low=made.low[at], high=made.high[at], noise=_floor(rows.scored), reason=note,
            groups=[layer.model for layer in rows.scored],
        )  # fmt: skip


def _layers(kind: str, frame: pd.DataFrame) -> list[TimedLayer]:
    """Rows of a kind as operations of one image."""
    made = []
    for _, row in frame.iterrows():
        ones = {f"{part}_depth": 1.0 for part in ("in", "out", "kernel")} | {"batch": 1.0}
        dims, facts = {"elements": float(row["outputs"])}, dict[str, Attribute]()
        if kind == "convolution":
            dims = ones | {ours: float(row[theirs]) for ours, theirs in CONVOLUTION.items()}
            facts["stride"] = (int(row["stride_1"]),) * 2
        elif kind == "norm":
            dims |= {"groups": float(row["output_channel"])}
        else:
            dims |= {"reads": float(row["outputs"]), "writes": float(row["outputs"])}
        op = operation("layer", kind, dims, "float32", facts)
        made.append(TimedLayer(str(row["model_name"]), str(row["topology_hash"]), op, float(row["mean_time"])))
    return made


def _ask(layer: TimedLayer) -> tuple[Workload, Machine]:
    return Workload("layer", (layer.op,)), machine(HOST)


def _fits(seen: Sequence[TimedLayer], _: Sequence[Machine]) -> Fits:
    """Three numbers of the kind, as `cpu_step` has them; a convolution has the cost of lowering it as well."""
    return Fits(gpu_kernels(), layers=FrozenDict({seen[0].op.kind: fitted(seen)}))


def fitted(seen: Sequence[TimedLayer]) -> CpuRoofline:
    """The numbers of one kind that layers show."""
    forms = list(_forms(seen))
    formula, measured = RowFormula.of(CpuRoofline(), forms), joined_times(forms)
    stated = {f"parameter.{name}": value for name, value in asdict(CpuRoofline()).items()}

    def of(numbers: Mapping[str, FloatArray] | Mapping[str, float], _: object = None) -> FloatArray:
        return formula.evaluate({**stated, **{f"parameter.{k}": float(np.ravel(v)[0]) for k, v in numbers.items()}})

    fits = [plain_fit(FormulaLaw("CPU roofline", _expected(lanes), of), measured) for lanes in LANES]
    return CpuRoofline(**min(fits, key=lambda one: log_quantile(0.5, of(one), measured)))


def _expected(lanes: float) -> tuple[ParameterPrior, ...]:
    return (
        expected("compute_efficiency", lanes, 1.5, high=1.0),
        expected("memory_efficiency", 0.7, 1.5, high=1.0),
        expected("overhead", 1e-5, 2.0, "s", high=1e-2),
        expected("lowering", 1.0, 2.0, "cycle", high=100.0),
    )


def _forms(layers: Sequence[TimedLayer]) -> Iterator[OperationTimes]:
    """Layers whose formula is one, together."""
    alike: dict[tuple[object, ...], list[TimedLayer]] = {}
    for layer in layers:
        op = layer.op
        form = [op.dims[name] for name in ("kernel_height", "kernel_width", "groups") if op.kind == "convolution"]
        alike.setdefault((op.attributes, *form), []).append(layer)
    for group in alike.values():
        op = group[0].op
        dims = {name: np.array([float(layer.op.dims[name]) for layer in group]) for name in op.dims}
        times = [layer.seconds for layer in group]
        yield OperationTimes.of(machine(HOST), op.kind, "float32", dims, times, dict(op.attributes), FILE)


def _floor(layers: Sequence[TimedLayer]) -> float | None:
    """Mean relative deviation of equal layers of several models from their mean."""
    alike: dict[str, list[float]] = {}
    for layer in layers:
        alike.setdefault(layer.topology, []).append(layer.seconds)
    apart = [abs(one / np.mean(each) - 1) for each in alike.values() if len(each) > 1 for one in each]
    return float(np.mean(apart)) if apart else None


BOARD = Board("How long do layers of an image network take on a CPU?", {DATASET: _kinds})
