"""Which operations to measure first on a machine: those after which all others are known best.

Every candidate's log time is linear in the unknown parameters near what is believed; measuring one narrows them as
Bayes' rule says for normal laws, whatever it shows (`learning.known_rows.chosen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.across_devices.acceptance import other_stack
from slipstick.estimators.across_devices.beliefs import Belief
from slipstick.estimators.across_devices.conditioning import AnchorModel
from slipstick.estimators.across_devices.operation_times import OperationTimes
from slipstick.estimators.learning.known_rows import chosen
from slipstick.hwmodels.machine import Machine

SIZES = (16, 256, 4096)
GRIDS: dict[str, list[dict[str, float]]] = {
    "gemm": [{"batch": 1, "m": m, "n": n, "k": k} for m in (1024, 8192) for n in SIZES for k in (1024, 8192)],
    "elementwise": [{"elements": 2.0**e, "reads": 2.0 ** (e + 1), "writes": 2.0**e} for e in (12, 18, 22, 26, 28)],
    "softmax": [{"rows": r, "columns": c} for r in (64, 4096, 65536) for c in (256, 4096)],
    "norm": [{"elements": r * c, "groups": r} for r in (64.0, 4096.0, 65536.0) for c in (256.0, 4096.0)],
    "attention": [
        {"batch": b, "heads": 32, "kv_heads": 8, "queries": q, "keys": k, "head_dim": 128, "value_dim": 128}
        for b, q, k in ((1, 512, 512), (1, 4096, 4096), (8, 2048, 2048), (1, 1, 4096), (64, 1, 4096), (256, 1, 16384))
    ],
}
"""Sizes between which nearly all operations of networks lie, by kind."""


@dataclass(frozen=True)
class NextRow:
    """An operation worth measuring.

    Parameters
    ----------
    name
        Its class ("gemm.bfloat16").
    time
        Seconds predicted before it is measured.
    spread
        Standard deviation of its log time as it is known now.
    left
        Mean standard deviation of the log times of all candidates once this one and those before it are measured.
    """

    name: str
    dims: tuple[tuple[str, float], ...]
    time: float
    spread: float
    left: float


def candidates(names: Sequence[str], machine: Machine) -> list[OperationTimes]:
    """Operations of some classes at usual sizes; their times are not looked at."""
    rows = []
    for name in names:
        kind, _, dtype = name.partition(".")
        for dims in GRIDS.get(kind, ()):
            facts = (
                {"causal": dims["queries"] > 1}
                if kind == "attention"
                else {"function": "add"}
                if kind == "elementwise"
                else {}
            )
            columns = {dim: [size] for dim, size in dims.items()}
            rows.append(OperationTimes.of(machine, kind, dtype, columns, [1.0], facts))
    return rows


def next_rows(belief: Belief, offered: Sequence[OperationTimes], count: int) -> list[NextRow]:
    """The rows to measure, the most informative first.

    Parameters
    ----------
    offered
        One row each, of classes that the belief knows.
    """
    model = AnchorModel.of(belief.names, belief.mean, belief.roots, belief.noise, offered, np.zeros(len(offered)))
    model = replace(model, roots=np.concatenate([belief.roots, other_stack(belief)], axis=1))
    logs, slope = model.linear(np.zeros(model.roots.shape[1]))
    kinds = np.array([form.name for form in offered])
    weight = 1 / np.array([np.sum(kinds == name) for name in kinds])
    rows = []
    for one in chosen(slope, model.noise, count, weight=weight):
        form = offered[one.place]
        dims = tuple((dim, float(form.column(dim)[0])) for dim in form.op.dims)
        rows.append(NextRow(form.name, dims, float(np.exp(logs[one.place])), one.spread, one.left))
    return rows
