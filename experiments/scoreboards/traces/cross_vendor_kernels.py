"""Kernels moved between vendors: public timings of one operation on both machines, beside no change at all.

What a trace's kernels are moved by (`estimators.operation.gpu.kernels`) is scored on operations that AMD's and NVIDIA's
machines both ran. How far small changes are doubted is chosen again for each pair, from pairs without its machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, between_vendors, doubted
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation

if TYPE_CHECKING:
    import pandas as pd

DOUBTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
LEAST, SAMPLE, FEWEST = 20e-6, 40, 20
"""Seconds from which a kernel counts; kernels of a pair of machines; fewer are no pair."""
NOISE = 0.01
"""Log error by which a pair must be worse than by no change to count as worse."""
NEAR = 0.4
"""Log of the factor of all kernels together up to which two machines count as near each other."""


def moved_kernels(folder: Path) -> list[ValidationRow]:
    """Rows over pairs of machines of two vendors, both machines left out of the choice; none without the timings."""
    table = _moves(folder)
    if not len(table):
        return []
    pairs = _errors(table)
    chosen = np.array([_choice(pairs, one, other) for _, one, other in pairs.index])
    ours = np.array([row[doubt] for (_, row), doubt in zip(pairs.iterrows(), chosen, strict=True)])
    none, whole, set_ = (pairs[name].to_numpy() for name in ("none", 0.0, KernelScaling().vendor_doubt))
    steps, near = _steps(table)
    choices = f"chosen on the others: {', '.join(f'{doubt:g} x {int((chosen == doubt).sum())}' for doubt in DOUBTS)}"
    return [
        _row("mean |log error| of a kernel", len(pairs), float(ours.mean()), none.mean(), whole.mean(), choices),
        _row(
            "pairs worse than by no change",
            len(pairs),
            float(np.sum(ours > none + NOISE)),
            0.0,
            float(np.sum(whole > none + NOISE)),
            f"with the shipped {KernelScaling().vendor_doubt:g}: {int(np.sum(set_ > none + NOISE))}, "
            f"the worst by {float(np.max(set_ - none)):+.3f}",
        ),
        _row(
            f"mean |log error| of all kernels together, machines within {np.exp(NEAR):.1f} x",
            near,
            steps["ours"],
            steps["none"],
            steps["whole"],
            "with the shipped value",
        ),
    ]


def _row(metric: str, n: int, ours: float, none: float, whole: float, reason: str) -> ValidationRow:
    return ValidationRow(
        dataset="traces",
        case="kernels moved between vendors",
        held_out="both machines of a pair",
        n=n,
        metric=metric,
        unit="1",
        ours=ours,
        baselines={"no change": float(none), "whole factor": float(whole)},
        goal=float(none),
        ok=bool(ours <= float(none)) if "pairs" not in metric else None,
        reason=reason,
    )


def _moves(folder: Path) -> pd.DataFrame:
    """Columns kind, here, there, time [s], measured and moved (logs of the factor, whole)."""
    import pandas as pd

    parts = []
    for kind, dims, name, frame in _timings(folder):
        if frame.empty:
            continue
        facts = [fact for fact in ("OPName", "layout") if fact in frame]
        wide = frame.pivot_table(index=[*dims, *facts], columns="machine", values="time", aggfunc="median")
        for here, there in permutations([one for one in wide.columns if one], 2):
            today, other = machine(here), machine(there)
            if not between_vendors(today, other) or "xeon" in here + there:
                continue
            both = wide[[here, there]].dropna()
            both = both[both[here] > LEAST]
            if len(both) < FEWEST:
                continue
            both = both.sample(min(len(both), SAMPLE), random_state=0)
            sizes = [dict(zip(dims, map(float, row), strict=False)) for row in both.index]
            ops = [operation("kernel", kind, size, "float32") for size in sizes]
            scaling = KernelScaling(fixed=0.0, vendor_doubt=0.0)
            factors = scaling.ratios([name] * len(ops), both[here].to_numpy(), today, other, ops)
            columns = {"kind": name, "here": here, "there": there, "time": both[here].to_numpy()}
            measured = np.log(both[there].to_numpy() / both[here].to_numpy())
            parts.append(pd.DataFrame({**columns, "measured": measured, "moved": np.log(factors)}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _timings(folder: Path) -> Iterator[tuple[str, tuple[str, ...], str, pd.DataFrame]]:
    """Kind of operation, its sizes, a kernel's name, and timings in float32."""
    for name in ("linear", "bmm"):
        yield "gemm", gpu_data.GEMM_DIMS, f"sgemm_{name}", gpu_data.neusight_products(folder, name)
    yield "gemm", gpu_data.GEMM_DIMS, "sgemm_deepbench", gpu_data.deepbench_products(folder)
    yield "norm", ("elements", "groups"), "layer_norm", gpu_data.neusight_rows(folder, "ln")


def _errors(table: pd.DataFrame) -> pd.DataFrame:
    """Mean |log error| by kind and pair of machines (both ways together), a column for each doubt and for no change."""
    import pandas as pd

    measured, moved = table["measured"].to_numpy(float), table["moved"].to_numpy(float)
    misses: dict[float | str, FloatArray] = {"none": np.abs(measured)}
    misses |= {doubt: np.abs(doubted(moved, doubt) - measured) for doubt in DOUBTS}
    ends = [sorted(pair) for pair in zip(table["here"], table["there"], strict=True)]
    frame = pd.DataFrame(misses).assign(
        kind=table["kind"].to_numpy(), one=[end[0] for end in ends], other=[end[1] for end in ends]
    )
    return frame.groupby(["kind", "one", "other"]).mean()


def _choice(pairs: pd.DataFrame, one: str, other: str) -> float:
    """The least doubt by which no pair without these machines is worse than by no change; the largest where none is."""
    members = [{first, second} & {one, other} for _, first, second in pairs.index]
    rest = pairs[[not shared for shared in members]]
    return next((doubt for doubt in DOUBTS if (rest[doubt] - rest["none"]).max() <= NOISE), DOUBTS[-1])


def _steps(table: pd.DataFrame) -> tuple[dict[str, float], int]:
    """Mean |log error| of all kernels of a pair of machines near each other together, and the number of such pairs."""
    doubt = KernelScaling().vendor_doubt
    measured, moved, time = (table[name].to_numpy(float) for name in ("measured", "moved", "time"))
    factors = {"measured": measured, "whole": moved, "ours": doubted(moved, doubt), "none": np.zeros(len(table))}
    seconds = {name: time * np.exp(log) for name, log in factors.items()}
    sums = table[["here", "there"]].assign(**seconds).groupby(["here", "there"]).sum().apply(np.log)
    near = sums[(sums["none"] - sums["measured"]).abs() < NEAR]
    return {name: float((near[name] - near["measured"]).abs().mean()) for name in ("ours", "none", "whole")}, len(near)
