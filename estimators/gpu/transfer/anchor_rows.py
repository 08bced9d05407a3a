"""Rows that stand for what one would measure first on a new machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes

MAX_DISTANCE = 3.0
"""How far (in doublings, over all dims) the row that stands for an anchor may lie from the requested one."""


@dataclass(frozen=True)
class Anchor:
    """A row to measure on a new machine: class of operations and dims; the nearest measured row stands for it."""

    name: str
    dims: Mapping[str, float]


def taken(
    forms: Sequence[OperationTimes], anchors: Sequence[Anchor]
) -> tuple[list[OperationTimes], list[OperationTimes]]:
    """The forms without the rows that stand for anchors, and those rows.

    Raises InputError where an anchor has a dim that its operation lacks.
    """
    left, measured = list(forms), []
    for anchor in anchors:
        best: tuple[float, int, int] | None = None
        for place, form in enumerate(left):
            if anchor.name not in (form.name, f"{form.op.kind}.{form.op.dtype}") or len(form) < 2:
                continue
            unknown = sorted(set(anchor.dims) - set(form.op.dims))
            if unknown:
                known = ", ".join(form.op.dims)
                raise InputError(f"anchor of {anchor.name}: unknown dim {unknown[0]!r} (known: {known})")
            steps = [np.abs(np.log2(form.column(dim) / size)) for dim, size in anchor.dims.items()]
            away = np.sum(steps, axis=0)
            row = int(np.argmin(away))
            if best is None or away[row] < best[0]:
                best = (float(away[row]), place, row)
        if best and best[0] <= MAX_DISTANCE:
            _, place, row = best
            form = left[place]
            measured.append(form.some(np.array([row])))
            left[place] = form.some(np.delete(np.arange(len(form)), row))
    return left, measured
