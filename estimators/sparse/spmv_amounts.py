"""What a sparse product does on a whole device, by the format that the matrix is stored in: five amounts of seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.symbolic.cache_residency import share_beyond
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine

DIMS = ("rows", "columns", "nonzeros", "longest_row", "row_variation")
SLICED, HYBRID = "sliced_entries", "hybrid_bytes"
FORMATS = {"csr": DIMS, "coo": DIMS, "ell": (*DIMS, SLICED), "sellp": (*DIMS, SLICED), "hybrid": (*DIMS, HYBRID)}
"""Dims that each format's amounts read."""
TERMS = ("call", "stream", "row", "wait", "gather")
CALL = 4e-6
"""Seconds of a call among others back to back: what the cost "call" counts."""
SECTOR, ENTRY = 32, 8
"""Bytes that a gather brings in, and those that it wants."""
LONGEST = 100
"""A row more than so many times the mean is shared out by every kernel of compressed rows."""
SOURCE = "five costs of a product's rows, docs/notes/spmv.md"


def amounts(machine: Machine, call: float = CALL, stored: str = "csr") -> dict[str, sp.Expr]:
    """What a product does, by term, in seconds at the machine's data-sheet rates (a cycle of one core for each cycle).

    * call: a call.
    * stream: the matrix as it is stored, and the vectors, once each, at the main memory's bandwidth. ELL and SELL-P
      read what slices of 64 rows hold when filled up to their longest row: a thread of ELL stops at its row's end, and
      those beside it wait.
    * row: the partial sums of each row, added up in log2 of its length steps, on all cores.
    * wait: as many turns as the longest row is longer than the mean, for each row, on all cores; in ELL and SELL-P
      the longest row by itself, since one thread walks it.
    * gather: sectors of the dense vector from beyond the last cache, as far as rows differ (regular rows are those of
      grids and meshes, whose neighbours are near).

    `call`: seconds of a call under the wanted protocol.
    `stored`: one of `FORMATS`.
    Raises InputError where the machine has no cache before its main memory, or no format has this name.
    """
    if stored not in FORMATS:
        raise unknown_name("format of a sparse matrix", stored, tuple(FORMATS))
    caches = [name for name, level in machine.memory.items() if level.capacity][:-1]
    if not caches:
        raise InputError(f"machine {machine.name!r} has no cache with a capacity before its main memory")
    rows, columns, nonzeros, longest, variation = (symbol(f"operation.{name}") for name in DIMS)
    bandwidth = sp.Mul(*(symbol(f"machine.{path}") for path in machine.bandwidth_factors(machine.main_memory)))
    cycles = symbol("machine.cores") * symbol("machine.clock")
    beyond = share_beyond(ENTRY * columns, symbol(f"machine.memory.{caches[-1]}.capacity"))
    sliced, hybrid = symbol(f"operation.{SLICED}"), symbol(f"operation.{HYBRID}")
    read = {
        "csr": 12 * nonzeros + 12 * rows,
        "coo": 16 * nonzeros + ENTRY * rows,
        "ell": 12 * sliced + ENTRY * rows,
        "sellp": 12 * sliced + ENTRY * rows,
        "hybrid": hybrid + ENTRY * rows,
    }[stored]
    walked = longest / symbol("machine.clock")
    waits = rows * sp.Min(longest * rows / nonzeros, LONGEST) / cycles
    return {
        "call": sp.Float(call),
        "stream": (read + ENTRY * columns) / bandwidth,
        "row": rows * sp.log(1 + nonzeros / rows, 2) / cycles,
        "wait": walked if stored in ("ell", "sellp") else waits,
        "gather": nonzeros * sp.Min(variation, 1) * (SECTOR - ENTRY) * beyond / bandwidth,
    }


def amount_table(
    dims: Mapping[str, npt.ArrayLike], machine: Machine, call: float = CALL, stored: str = "csr"
) -> FloatArray:
    """The amounts of many products on a machine, shape (products, terms); `dims` as in `FORMATS`."""
    given: dict[str, Any] = {f"operation.{name}": np.asarray(dims[name], dtype=np.float64) for name in FORMATS[stored]}
    columns = []
    for expression in amounts(machine, call, stored).values():
        one = Formula(expression, "s", SOURCE)
        columns.append(
            np.broadcast_to(one.evaluate({**given, **machine_values(one, machine)}), len(given["operation.rows"]))
        )
    return np.stack(columns, axis=1)
