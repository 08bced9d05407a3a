"""Collectives fitted to timings of several systems: shares of links, floors and launches of each way of timing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import machine_values
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.operation.links.collectives import Collectives
from slipstick.estimators.operation.links.libraries import LIBRARIES, NVLINK
from slipstick.experiments.evidence.validation.parallel.collective_systems import KEYS, system
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation

if TYPE_CHECKING:
    import pandas as pd

RINGS = 0.86
"""Of the bandwidth that NCCL counts for NVLink, what rings reach before any machine is fitted: between two devices (0.8
on A100, 0.86 on H100) and eight (0.93), at 512 MiB."""
COUNTED = {3: 240 / 300, 4: 371 / 450, 5: 722 / 900}
"""Of the nominal bandwidth of NVLink, what NCCL counts (src/graph/topo.h: 20, 20.6 and 40.1 GB/s a link)."""
START = Collectives(
    efficiency=Table(default=1.0, nvlink=0.95, nvswitch=0.95, pcie=0.75, host=0.4, network=0.4),
    floor=Table(default=1e-6, all_reduce=55e-6, send_recv=14e-6),
    launch=Table(default=0.0, all_reduce=25e-6),
    relayed=Table(
        default=1.0,
        network=0.75,
        **{f"{name}{number}": share * RINGS / 0.95 for number, share in COUNTED.items() for name in NVLINK},
    ),
    latency=Table(default=1.0, **{f"{name}{number}": 1.0 for number in COUNTED for name in NVLINK}),
    tree_share=0.92,
    # 16 channels of 20 GB/s at 5/6 (NCCL 2.22) over a ring's rate; Blackwell 0.74 where Hopper has 0.85 (NCCL 2.27)
    in_switch=Table(default=0.0, nvswitch4=0.77, nvswitch5=0.67, nvlink5=0.67),
    protocols=LIBRARIES,
    algorithms=("ring", "tree"),
)
OF_GENERATION = ("relayed", "latency")
"""Tables that go by the generation of NVLink, bridged or switched alike."""
SPREADS = {
    "efficiency.nvlink": 0.1,
    "efficiency.nvswitch": 0.1,
    "efficiency.pcie": 0.1,
    "efficiency.host": 0.5,
    "efficiency.network": 1.0,
    "launch.all_reduce": 0.5,
    "floor.all_reduce": 0.5,
    "floor.send_recv": 0.5,
    "relayed.nvlink3": 0.2,
    "relayed.nvswitch3": 0.1,
    "relayed.nvswitch4": 0.1,
    "relayed.network": 0.2,
    "latency.nvswitch3": 0.3,
    "latency.nvswitch4": 0.3,
}
"""What is fitted, with the spread of its logarithm before any machine was measured."""
OWN_LAUNCH, OWN_SPREAD = 5e-6, 0.5
"""Seconds of a call where a loop of calls is timed as NCCL's own test does, beyond the protocol's; no floor there."""
SOFT, PRIOR = 0.1, 1.0
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
        NCCL's own timings on other systems: they share links and protocols, not floors and launches. Only all-reduces
        are fitted; the other functions made machines left out worse (docs/notes/collectives.md).

    Returns
    -------
    The model, and the launch that NCCL's own timings show.
    """
    sample = one_an_octave(training)
    machines = [(system(str(name)), part) for name, part in sample.groupby("machine")]
    loops = sample.iloc[:0]
    if own_timings is not None:
        loops = one_an_octave(own_timings[own_timings["function"] == "all_reduce"])
    machines_looped = [(system(str(name)), part) for name, part in loops.groupby("machine")]
    names = list(SPREADS)
    known = parameters(START)
    begin = start = np.log([known[name][0] for name in names])
    low, high = (np.log([max(getattr(known[name][1], side), 1e-9) for name in names]) for side in ("low", "high"))
    spread = np.array([SPREADS[name] for name in names])
    seen = {
        f"{part}.{link}{of.generation}"
        for machine, _ in (*machines, *machines_looped)
        for link, of in machine.links.items()
        for part in OF_GENERATION
    }

    def put(point: FloatArray) -> Collectives:
        moves = dict(zip(names, (point - begin).tolist(), strict=True))
        fitted_model: Collectives = with_parameters(START, pooled(moves, seen))
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


def pooled(moves: Mapping[str, float], seen: Collection[str]) -> dict[str, float]:
    """Values of the fitted parameters and, where a generation of a link was not timed, what the others say of it.

    An untimed one moves (in log, from what is published) as the mean of the k timed ones does, times k / (k + 1).

    Parameters
    ----------
    moves
        Log of the fitted value over the start, by parameter.
    seen
        Parameters of generations that were timed.
    """
    known = {name: value for name, (value, _) in parameters(START).items()}
    values = {name: known[name] * float(np.exp(move)) for name, move in moves.items()}
    for part in OF_GENERATION:
        timed = [moves[name] for name in moves if name.startswith(part) and name in seen]
        common = sum(timed) / (len(timed) + 1)
        for number in COUNTED:
            for link in NVLINK:
                name = f"{part}.{link}{number}"
                twin = next((one for one in moves if one in seen and one.startswith(part) and one[-1] == name[-1]), "")
                if name not in seen or name not in moves:
                    values[name] = known[name] * float(np.exp(moves[twin] if twin else common))
    return values


def one_an_octave(frame: pd.DataFrame) -> pd.DataFrame:
    """One transfer of each function, place and octave of sizes: neighbours in size miss alike, so that counting every
    one would drown what is known before.
    """
    octave = frame["bytes"].astype(int).map(int.bit_length).rename("octave")
    return frame.sample(frac=1.0, random_state=SEED).groupby([*KEYS, octave]).head(1)
