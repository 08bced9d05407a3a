"""Which operations to measure first on a machine: those after which all others are known best.

Every candidate's log time is linear in the unknown parameters near what is believed; measuring one narrows them as
Bayes' rule says for normal laws, whatever it shows (`learning.known_rows.chosen`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.user_rows import chosen
from slipstick.estimators.gpu.kernels.kernel_classes import apart, class_of
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.parameter_priors import ParameterPosterior
from slipstick.estimators.gpu.transfer.posterior_weight import LinearisedRows
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Attribute, Workload

STATED = ("causal", "bias", "transposed", "stride", "pass", "function", "kv_dtype")
"""Attributes of an operation that a file of measured times states."""
SIZES = (16, 256, 4096)
GRIDS: dict[str, list[dict[str, float]]] = {
    "gemm": [{"batch": 1, "m": m, "n": n, "k": k} for m in (1024, 8192) for n in SIZES for k in (1024, 8192)],
    "gemm.float32.batched": [
        {"batch": b, "m": m, "n": m, "k": k} for b in (12, 192) for m in SIZES[1:] for k in (64, 1024)
    ],
    "elementwise": [{"elements": 2.0**e, "reads": 2.0 ** (e + 1), "writes": 2.0**e} for e in (12, 18, 22, 26, 28)],
    "softmax": [{"rows": r, "columns": c} for r in (64, 4096, 65536) for c in (256, 4096)],
    "norm": [{"elements": r * c, "groups": r} for r in (64.0, 4096.0, 65536.0) for c in (256.0, 4096.0)],
    "attention": [
        {"batch": b, "heads": 32, "kv_heads": 8, "queries": q, "keys": k, "head_dim": 128, "value_dim": 128}
        for b, q, k in ((1, 512, 512), (1, 4096, 4096), (8, 2048, 2048), (1, 1, 4096), (64, 1, 4096), (256, 1, 16384))
    ],
}
"""Sizes between which nearly all operations of networks lie, by kind or class."""


@dataclass(frozen=True)
class NextRow:
    """An operation worth measuring.

    `name`: its class ("gemm.bfloat16").
    `attributes`: what else its kernel depends on ("causal", "stride").
    `time`: seconds predicted before it is measured.
    `spread`: standard deviation of its log time as it is known now.
    `left`: mean standard deviation of the log times of all candidates once this one and those before it are measured.
    """

    name: str
    dims: tuple[tuple[str, float], ...]
    time: float
    spread: float
    left: float
    attributes: tuple[tuple[str, Attribute], ...] = ()


def candidates(names: Sequence[str], machine: Machine) -> list[OperationTimes]:
    """Operations of some classes at usual sizes; their times are not looked at."""
    rows = []
    for name in names:
        kind, dtype = name.split(".")[:2]
        for dims in GRIDS.get(name, GRIDS.get(kind, ())):
            if (one := apart(name)) and (dims[one.dim] == 1) != (name == one.plain):
                continue
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


@dataclass(frozen=True, eq=False)
class ProgramOperations:
    """The operations of a workload as candidates.

    `offered`: one row for each distinct operation of classes that are known.
    `times`: how often each of them runs.
    `unknown`: classes of the others.
    """

    offered: list[OperationTimes]
    times: FloatArray
    unknown: tuple[str, ...] = ()


def program(workload: Workload, machine: Machine, known: Collection[str]) -> ProgramOperations:
    """The distinct operations of a workload whose sizes are bound, as a machine runs them; their times are not read."""
    forms: dict[tuple[object, ...], OperationTimes] = {}
    times: dict[tuple[object, ...], float] = {}
    unknown: dict[str, None] = {}
    for op in workload:
        if op.kind in machine.runtime.free_kinds:
            continue
        if class_of(op) not in known:
            unknown[class_of(op)] = None
            continue
        sizes = {dim: float(op.dims[dim]) for dim in KINDS[op.kind].dims}
        facts = {name: op.attributes[name] for name in STATED if name in op.attributes}
        key = (op.kind, op.dtype, tuple(sizes.items()), tuple(facts.items()))
        if key not in forms:
            columns = {dim: [size] for dim, size in sizes.items()}
            forms[key] = OperationTimes.of(machine, op.kind, op.dtype, columns, [1.0], facts)
        times[key] = times.get(key, 0.0) + float(op.times)
    return ProgramOperations(list(forms.values()), np.array(list(times.values())), tuple(unknown))


def next_rows(
    belief: ParameterPosterior, offered: Sequence[OperationTimes], count: int, times: FloatArray | None = None
) -> list[NextRow]:
    """The rows to measure, the most informative first.

    `offered`: one row each, of classes that the belief knows.
    `times`: how often each of them runs in the workload whose time is wanted, shape (offered,); where None all classes
        count alike, and so do the rows of each.
    """
    model = LinearisedRows.of(belief, offered, np.zeros(len(offered))).on_another_stack()
    logs, slope = model.linear(np.zeros(model.size))
    kinds = np.array([form.name for form in offered])
    weight: FloatArray | None = 1 / np.array([np.sum(kinds == name) for name in kinds])
    targets = None
    if times is not None:  # one target: the time of the whole, whose log changes by each part's share of it
        share = times * np.exp(logs)
        targets, weight = (share / share.sum() @ slope)[None], None
    rows = []
    for one in chosen(slope, model.noise, count, targets, weight):
        form = offered[one.place]
        facts = tuple((name, form.op.attributes[name]) for name in STATED if name in form.op.attributes)
        dims = tuple((dim, float(form.column(dim)[0])) for dim in form.op.dims)
        rows.append(NextRow(form.name, dims, float(np.exp(logs[one.place])), one.spread, one.left, facts))
    return rows
