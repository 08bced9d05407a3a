"""Collectives fitted to timings of several systems: shares of links, floors and launches of each way of timing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import machine_values
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.operation.collectives import NCCL, Collectives
from slipstick.experiments.evidence.validation.parallel.collective_systems import KEYS, system
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation

if TYPE_CHECKING:
    import pandas as pd

START = Collectives(
    efficiency=Table(
        default=1.0, nvlink=0.9, nvswitch=0.9, nvswitch4=0.9, nvswitch5=0.9, pcie=0.75, host=0.4, network=0.4
    ),
    floor=Table(default=1e-6, all_reduce=55e-6, send_recv=14e-6),
    launch=Table(default=0.0, all_reduce=20e-6),
    reducing=Table(default=1.0, nvlink=0.7, nvswitch=0.7, nvswitch4=0.75, nvswitch5=0.75, network=0.75),
    in_switch=Table(default=0.0, nvswitch4=0.85, nvswitch5=0.85),
    protocols=NCCL,
    algorithms=("ring", "tree"),
)
SPREADS = {
    "efficiency.nvlink": 0.1,
    "efficiency.nvswitch": 0.1,
    "efficiency.nvswitch4": 0.1,
    "efficiency.pcie": 0.1,
    "efficiency.host": 0.5,
    "efficiency.network": 1.0,
    "launch.all_reduce": 0.5,
    "floor.all_reduce": 0.5,
    "floor.send_recv": 0.5,
    "reducing.nvlink": 0.2,
    "reducing.nvswitch": 0.2,
    "reducing.nvswitch4": 0.2,
    "reducing.network": 0.2,
}
"""What is fitted, with the spread of its logarithm before any machine was measured."""
ALIKE = {
    "nvlink": ("nvswitch", "nvswitch4"),
    "nvswitch": ("nvlink", "nvswitch4"),
    "nvswitch4": ("nvswitch", "nvlink"),
    "nvswitch5": ("nvswitch4", "nvswitch", "nvlink"),
}
"""A kind of link that no training machine has takes the numbers of the first of these that one has."""
OWN_LAUNCH, OWN_SPREAD = 5e-6, 0.5
"""Seconds of a call where a loop of calls is timed as NCCL's own test does, beyond the protocol's; no floor there."""
SOFT, PRIOR = 0.1, 3.0
SEED = 1


def predicted(model: Collectives, machine: Machine, frame: pd.DataFrame) -> FloatArray:
    """Seconds of each row."""
    values = {f"parameter.{name}": value for name, (value, _) in parameters(model).items()}
    times = np.empty(len(frame))
    for function in frame["function"].unique():
        chosen = (frame["function"] == function).to_numpy()
        part = frame[chosen]
        formula = _formula(model, machine, str(function))
        # Devices that are spread over nodes stand as far apart as it takes to have `per_node` of them on each.
        apart = np.where(part["workers"] <= part["per_node"], 1.0, part["width"] / part["per_node"])
        sizes = {
            "operation.elements": part["bytes"].to_numpy(float) / 2,
            "operation.participants": part["workers"].to_numpy(float),
            "operation.stride": apart,
        }
        times[chosen] = formula.evaluate({**values, **machine_values(formula, machine), **sizes})
    return times


def _formula(model: Collectives, machine: Machine, function: str) -> Formula:
    dims = {"elements": 1, "participants": 2, "stride": 1}
    return model.formula(operation("row", "collective", dims, "float16", {"function": function}), machine)


def looped(model: Collectives, launch: float) -> Collectives:
    """The same library in a loop of calls: no floor, and one launch (seconds) for every function."""
    return replace(model, floor=Table(default=1e-9), launch=Table(default=launch))


def fitted(training: pd.DataFrame, own_timings: pd.DataFrame | None = None) -> tuple[Collectives, float]:
    """The model with its parameters fitted to machines in log time, outliers held down, priors kept.

    Parameters
    ----------
    own_timings
        NCCL's own timings on other systems: they share links and protocols, not floors and launches.

    Returns
    -------
    The model, and the launch that NCCL's own timings show.
    """
    sample = one_an_octave(training)
    machines = [(system(str(name)), part) for name, part in sample.groupby("machine")]
    loops = one_an_octave(own_timings) if own_timings is not None else sample.iloc[:0]
    machines_looped = [(system(str(name)), part) for name, part in loops.groupby("machine")]
    seen = {link for machine, _ in (*machines, *machines_looped) for link in machine.links}
    names = list(SPREADS)
    known = parameters(START)
    start = np.log([known[name][0] for name in names])
    low, high = (np.log([max(getattr(known[name][1], side), 1e-9) for name in names]) for side in ("low", "high"))
    spread = np.array([SPREADS[name] for name in names])

    def put(point: FloatArray) -> Collectives:
        values = dict(zip(names, map(float, np.exp(point)), strict=True))
        for link, others in ALIKE.items():
            other = next((name for name in others if name in seen), None)
            if link not in seen and other:
                values |= {f"{part}.{link}": values[f"{part}.{other}"] for part in ("efficiency", "reducing")}
        fitted_model: Collectives = with_parameters(START, values)
        return fitted_model

    def residuals(point: FloatArray) -> FloatArray:
        model = put(point[:-1])
        with_loops = looped(model, float(np.exp(point[-1])))
        cases = [*((model, *one) for one in machines), *((with_loops, *one) for one in machines_looped)]
        misses = [np.log(predicted(each, machine, part) / part["time"].to_numpy()) for each, machine, part in cases]
        return np.concatenate([*misses, PRIOR * (point - start) / spread])

    start = np.append(start, np.log(OWN_LAUNCH))
    spread = np.append(spread, OWN_SPREAD)
    limits = np.append(low, np.log(1e-7)), np.append(high, np.log(1e-3))
    solution = least_squares(residuals, start, bounds=limits, loss="soft_l1", f_scale=SOFT, diff_step=1e-3)
    return put(solution.x[:-1]), float(np.exp(solution.x[-1]))


def one_an_octave(frame: pd.DataFrame) -> pd.DataFrame:
    """One transfer of each function, place and octave of sizes: neighbours in size miss alike, so that counting every
    one would drown what is known before.
    """
    octave = frame["bytes"].astype(int).map(int.bit_length).rename("octave")
    return frame.sample(frac=1.0, random_state=SEED).groupby([*KEYS, octave]).head(1)
