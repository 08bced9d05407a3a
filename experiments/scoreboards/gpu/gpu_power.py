"""Mean power of kernels (aiconfigurator, vllm 0.22.0) on a machine, or a kind of kernel, that was not fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_sympy import sp
from slipstick.estimators.fitting.formula_model import FormulaLaw, expected, plain_fit
from slipstick.estimators.fitting.group_effects_model import Columns
from slipstick.estimators.power.energy import MATRIX_ENERGY, NAMES, PowerModel
from slipstick.estimators.symbolic.lambdified import FloatArray, evaluate
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.scoreboards.gpu.gpu_data import aiconfigurator
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS, operation

if TYPE_CHECKING:
    import pandas as pd

GOAL = 0.20
KINDS_OF = {
    "gemm": ("gemm", {}),
    "context_attention": ("attention", {"causal": True}),
    "generation_attention": ("attention", {"causal": False}),
}
UNKNOWN_KIND = 0.5
"""Share of the cap that a kernel of a kind never measured is drawn to, halfway in the logarithm: what another kind
draws beside its flop and bytes says little about it."""
EXPECTED = {"active": 1.1, "flop": 1.0, "byte": 2.0, "settle": 5e-6}
"""Factors before any row, known to a factor of seven; seconds of a kernel that draws half."""
NEAR_CAP = 0.93
"""Share of the cap from which a chip is held back."""
SAME = 0.05
"""Octaves in time, flop and bytes within which two kernels are one to a power meter."""
LONGEST = 6000
"""Rows of a kind and machine that are looked at."""


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """Fitted to gemm alone, tested on attention; and with scored data, fitted here and tested there."""
    folder, title = data_folder(), "power, aiconfigurator"
    if folder is None:
        return [skipped(title, "no public measurements here (set SLIPSTICK_DATA)")]
    known = {name: _frame(folder, name) for name in KINDS_OF}
    if known["gemm"].empty:
        return [skipped(title, "no power in the training data")]
    scores = []
    scored_frames = known if scored is None else {name: _frame(scored, name) for name in KINDS_OF}
    for name, frame in scored_frames.items():
        if frame.empty or (scored is None and name == "gemm"):
            continue  # gemm is what the fit was made of
        for target, chosen in frame.groupby("machine"):
            if scored is None:
                fitted, held_out = _fit({"gemm": known["gemm"]}), "kind of kernel"
            else:
                elsewhere = {s: part[part["machine"] != target] for s, part in known.items()}
                fitted, held_out = _fit({s: part for s, part in elsewhere.items() if len(part)}), str(target)
            if not fitted:
                scores.append(skipped(title, f"no other machine with power than {target}"))
                continue
            scores.append(_row(title, name, str(target), chosen, fitted, held_out))
    return scores or [skipped(title, "no rows with power to score")]


@dataclass(frozen=True)
class FittedPower:
    """The model of one kind of kernel, a mean over machines, and the line in utilisation (share of the cap)."""

    model: PowerModel
    line: FloatArray


def _fit(parts: Mapping[str, pd.DataFrame]) -> dict[str, FittedPower]:
    """By kind of kernel."""
    fits = {}
    for name, frame in parts.items():
        models, counts, utilisation, share = [], [], [], []
        for target, chosen in frame.groupby("machine"):
            flop, moved = _work(name, chosen)
            m, time, watts = machine(str(target)), chosen["time"].to_numpy(), chosen["power"].to_numpy()
            models.append(fit_power(m, time, flop, moved, watts))
            counts.append(len(chosen))
            utilisation.append(_utilisation(str(target), time, flop, moved))
            share.append(watts / float(m.power.cap or 1))
        mean = [float(np.average([getattr(model, n) for model in models], weights=counts)) for n in NAMES]
        line = np.polyfit(np.concatenate(utilisation), np.concatenate(share), 1)
        fits[name] = FittedPower(PowerModel(*mean), np.asarray(line))
    return fits


def fit_power(
    machine: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray, watts: FloatArray
) -> PowerModel:
    """The factors of one machine's rows, as a law in log power; rows at the cap count, as rows that it puts there.

    `time`, `float32_flop`, `moved`, `watts`: seconds, flop at the energy of a float32 flop, bytes and measured power of
        each row, each of shape (n,).
    Raises InputError where the machine states no cap or energy, or fewer than three rows lie below the cap.
    """
    formula = PowerModel().formula(machine)
    below = watts < NEAR_CAP * float(machine.power.cap or 0)
    if below.sum() < 3:
        raise InputError(f"power of {machine.name}: {int(below.sum())} rows below the cap, want at least 3")

    def law(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        model = PowerModel(**{name: float(value[0]) for name, value in values.items()})
        return model.evaluated(formula, machine, time, float32_flop, moved)

    priors = tuple(expected(name, value, 2.0, "s" if name == "settle" else "1") for name, value in EXPECTED.items())
    return PowerModel(**plain_fit(FormulaLaw("power of kernels", priors, law), watts))


def _row(
    title: str, name: str, target: str, frame: pd.DataFrame, fitted: Mapping[str, FittedPower], held_out: str
) -> ValidationRow:
    m, time, watts = machine(target), frame["time"].to_numpy(), frame["power"].to_numpy()
    flop, moved = _work(name, frame)
    cap = float(m.power.cap or 1)
    known = fitted.get(name)
    used = known or next(iter(fitted.values()))
    predicted = used.model.watts(m, time, flop, moved)
    if known is None:
        predicted = np.sqrt(predicted * UNKNOWN_KIND * cap)
    straight = np.polyval(used.line, _utilisation(target, time, flop, moved)) * cap
    base = {
        "line in utilisation": float(np.mean(np.abs(straight / watts - 1))),
        "half the cap": float(np.mean(np.abs(0.5 * cap / watts - 1))),
    }
    ours = float(np.mean(np.abs(predicted / watts - 1)))
    floor = _floor(time, flop, moved, watts)
    case = f"{name}, {target}"
    return ValidationRow(
        title, case, held_out, len(frame), "MAPE", "1", ours, base, GOAL, ours <= GOAL, noise_floor=floor
    )


def _floor(time: FloatArray, flop: FloatArray, moved: FloatArray, watts: FloatArray) -> float | None:
    """How far readings of kernels of one time, work and traffic lie apart: what no model of the machine can know.

    Mean |log ratio| of each row and the nearest within `SAME` octaves, over the square root of two (each of the two
    errs); None where there are few.
    """
    from scipy.spatial import cKDTree

    places = np.log2(np.stack([time, flop, moved], axis=1))
    distance, index = cKDTree(places).query(places, k=2)
    same = distance[:, 1] < SAME
    if same.sum() < 50:
        return None
    return float(np.mean(np.abs(np.log(watts / watts[index[:, 1]])[same])) / np.sqrt(2))


def _frame(folder: Path, name: str) -> pd.DataFrame:
    frame = aiconfigurator(folder, name)
    if frame.empty or "power" not in frame:
        return frame.iloc[:0]
    kept = frame["power"].notna() & (frame["power"] > 0) & (frame["machine"] != "") & frame["dtype"].isin(MATRIX_ENERGY)
    if "window" in frame:
        kept &= frame["window"] == 0
    frame = frame[kept]
    return frame.sample(min(LONGEST, len(frame)), random_state=3) if len(frame) else frame


def _work(name: str, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Flop at the energy of a float32 flop, and bytes, of each row."""
    kind, facts = KINDS_OF[name]
    dims = {dim: sp.Symbol(dim, positive=True) for dim in KINDS[kind].dims}
    op = operation("row", kind, dims, "bfloat16", dict(facts))
    values = {dim: frame[dim].to_numpy(float) for dim in KINDS[kind].dims}
    flop = np.asarray(evaluate(sp.sympify(op.cost["flop.matrix.bfloat16"], strict=True), values))
    if facts.get("causal"):
        flop = flop / 2
    energy = frame["dtype"].map(MATRIX_ENERGY).to_numpy(float)
    size = np.where(frame["dtype"] == "float8", 0.5, 1.0)
    return flop * energy, np.asarray(evaluate(sp.sympify(op.cost.bytes_moved, strict=True), values)) * size


def _utilisation(target: str, time: FloatArray, flop: FloatArray, moved: FloatArray) -> FloatArray:
    m = machine(target)
    peak = m.peak("matrix", "bfloat16") * MATRIX_ENERGY["bfloat16"]
    return np.asarray(np.minimum(1.0, np.maximum(flop / peak, moved / m.bandwidth(m.main_memory)) / time))
