"""A sparse product on a whole device from statistics of its rows: five physical costs, pooled over measured relatives.

Where columns lie is not used, so this serves devices on which nobody measured blocks. Each measured device has costs
of its own; one that nobody measured gets the geometric mean of what the others would take, relatives counting more, and
of what their usual share of the data sheet's rates would. A few products measured there scale all others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import of_schema, read_json, unknown_name, whole_number
from slipstick.common.records import FrozenDict, of_kind
from slipstick.estimators.base.estimate import LARGEST_SPREAD
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.base.operation_model import FormulaModel, machine_values
from slipstick.estimators.fitting.scores import weighted_quantile
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.sparse.reuse_model import is_accelerator
from slipstick.estimators.symbolic.cache_residency import capacity_of_all, cost_by_level, missed, rated_caches
from slipstick.estimators.symbolic.formula import Formula, Parameter, check_parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

SCHEMA = "slipstick-spmv-devices-2"
SHIPPED = Path(__file__).parent / "trained"
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
    * stream: the matrix as it is stored, and the vectors, once each, at the main memory's bandwidth where the machine's
      last cache is the one stated; what another one holds of product after product comes at its own. ELL and SELL-P
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
    stated = machine.stated
    caches = [name for name, level in stated.memory.items() if level.capacity][:-1]
    if not caches:
        raise InputError(f"machine {machine.name!r} has no cache with a capacity before its main memory")
    rows, columns, nonzeros, longest, variation = (symbol(f"operation.{name}") for name in DIMS)
    bandwidth = sp.Mul(*(symbol(f"machine.{path}") for path in machine.bandwidth_factors(machine.main_memory)))
    cycles = symbol("machine.cores") * symbol("machine.clock")
    held = Largest(1, capacity_of_all(machine, caches[-1]))
    beyond = missed(ENTRY * columns, held)
    sliced, hybrid = symbol(f"operation.{SLICED}"), symbol(f"operation.{HYBRID}")
    read = {
        "csr": 12 * nonzeros + 12 * rows,
        "coo": 16 * nonzeros + ENTRY * rows,
        "ell": 12 * sliced + ENTRY * rows,
        "sellp": 12 * sliced + ENTRY * rows,
        "hybrid": hybrid + ENTRY * rows,
    }[stored]
    whole = read + ENTRY * columns
    if caches[-1] in rated_caches(stated):
        # costs were fitted to machines as stated: another cache moves them by what it holds of product after product
        near = sp.Mul(*(symbol(f"machine.{path}") for path in machine.bandwidth_factors(caches[-1])))
        kept = stated.memory[caches[-1]].capacity * stated.instances(caches[-1])
        far, close = (stated.bandwidth(name) for name in (stated.main_memory, caches[-1]))
        stream = whole * cost_by_level(whole, [held], [1 / Largest(bandwidth, near), 1 / bandwidth])
        stream /= cost_by_level(whole, [sp.Float(kept)], [sp.Float(far / max(far, close)), sp.Integer(1)])
    else:
        stream = whole / bandwidth
    walked = longest / symbol("machine.clock")
    waits = rows * sp.Min(longest * rows / nonzeros, LONGEST) / cycles
    return {
        "call": sp.Float(call),
        "stream": stream,
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


@dataclass(frozen=True)
class DeviceCosts:
    """What the terms cost on a measured device: multiples of `amounts`, by term."""

    machine: str
    family: str
    accelerator: bool
    cost: FrozenDict[float]

    def __post_init__(self) -> None:
        if set(self.cost) != set(TERMS) or not all(0 <= value < 1e6 for value in self.cost.values()):
            raise InputError(f"costs of {self.machine}: want numbers of 0 to 1e6 for {', '.join(TERMS)}")
        if not any(self.cost.values()):
            raise InputError(f"costs of {self.machine}: all are 0")


@dataclass(frozen=True)
class SpmvDevices(FormulaModel):
    """T = factor x product over laws of (sum over terms of cost x amount) ^ share, for operations of kind "spmv".

    Laws are the measured devices and, with the weight of a prior, the roofline at its usual share.

    `devices`: those measured; one of them, if it is the target, answers alone.
    `usual`: median over all products of measured seconds over the terms "call" and "stream" at a cost of one.
    `call`: seconds of a call under the wanted protocol: back to back, or each waited for.
    `stored`: the format of the matrix: one of `FORMATS`.
    `factor`: what measurements on the target machine showed (`anchors`).
    """

    devices: tuple[DeviceCosts, ...]
    usual: float
    call: float = CALL
    stored: str = "csr"
    factor: Annotated[float, Parameter("1", "of every time on the target machine, fitted to anchors", 1e-3, 1e3)] = 1.0

    def __post_init__(self) -> None:
        if not self.devices or not (self.call > 0 and self.usual > 0):
            raise InputError(
                f"{len(self.devices)} devices, call = {self.call:g} s, usual = {self.usual:g}: want at least one, and"
                " numbers above 0"
            )
        if self.stored not in FORMATS:
            raise unknown_name("format of a sparse matrix", self.stored, tuple(FORMATS))
        check_parameters(self)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all matrices."""
        return "spmv"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* (`FORMATS`), machine.cores, machine.clock, machine.memory.*, parameter.factor.

        Raises InputError where the operation is no product that says how its rows are spread.
        """
        dims = FORMATS[self.stored]
        missing = [name for name in dims if name not in op.dims]
        if op.kind != "spmv" or missing:
            raise InputError(
                f"operation {op.name!r} ({op.kind}) is no sparse product with {', '.join(missing or dims)} "
                "(other operations: --estimator roofline)"
            )
        parts = amounts(machine, self.call, self.stored)
        costs, shares = self.costs, self.shares(machine)
        factor = symbol("parameter.factor")
        whole = sp.Mul(*(_sum(cost, parts) ** share for cost, share in zip(costs, shares, strict=True) if share))
        terms = {
            term: factor * part * float(mean) for (term, part), mean in zip(parts.items(), shares @ costs, strict=True)
        }
        return Formula(factor * whole, "s", SOURCE, FrozenDict(terms))

    def caches(self, machine: Machine) -> str:
        """What the times take for granted of the caches."""
        return "the caches hold what product after product leaves there"

    def seconds(self, dims: Mapping[str, npt.ArrayLike], machine: Machine) -> FloatArray:
        """Of many products at once; `dims` as in `FORMATS`, shape (products,) each."""
        logs = np.log(amount_table(dims, machine, self.call, self.stored) @ self.costs.T)
        return np.asarray(self.factor * np.exp(logs @ self.shares(machine)))

    @property
    def costs(self) -> FloatArray:
        """Of every law, shape (devices + 1, terms); the last is the prior."""
        prior = [self.usual if term in ("call", "stream") else 0.0 for term in TERMS]
        return np.array([*([device.cost[term] for term in TERMS] for device in self.devices), prior])

    def shares(self, machine: Machine) -> FloatArray:
        """What each law counts for this machine, adding up to one; devices of its kind alone, where there are any."""
        same = np.array([device.machine == machine.name for device in self.devices], dtype=np.float64)
        if same.any():
            return np.append(same / same.sum(), 0.0)
        alike = np.array([device.accelerator == is_accelerator(machine) for device in self.devices])
        counts = fitted_similarity().weights
        weighed = np.array([counts[shared_words(device.family, machine.family)] for device in self.devices])
        weights = np.append(weighed * alike if alike.any() else weighed, 1.0)
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class TrainedDevices:
    """Measured devices, and how far one that was left out differed.

    `machine_spread`: standard deviation over left-out devices of the logarithm of measured / predicted, median of a
        device.
    `matrix_spread`: the same over the products of one device.
    `doubts`: by number of anchors, how much more than that a matrix may be off (`widenings` of the board).
    """

    model: SpmvDevices
    machine_spread: float
    matrix_spread: float
    source: str
    doubts: FrozenDict[float] = FrozenDict()

    def __post_init__(self) -> None:
        spreads = {"machine_spread": self.machine_spread, "matrix_spread": self.matrix_spread, **self.doubts}
        for name, value in spreads.items():
            if not 0 <= value <= LARGEST_SPREAD or (name in self.doubts and whole_number(name) is None):
                raise InputError(
                    f"{name} = {value:g}: want a number in [0, {LARGEST_SPREAD:g}], of doubts by the number of anchors"
                )

    def doubt(self, anchors: int) -> float:
        """The factor for so many anchors: that of the largest number tried below; 1 where none was."""
        tried = [int(count) for count in self.doubts if int(count) <= anchors]
        return self.doubts[str(max(tried))] if tried else 1.0


def shipped_devices(stored: str = "csr") -> TrainedDevices:
    """The devices that ship for a format of the matrix.

    Raises InputError where no format has this name.
    """
    if stored not in FORMATS:
        raise unknown_name("format of a sparse matrix", stored, tuple(FORMATS))
    return load_devices(SHIPPED / f"spmv-devices-{stored}.json")


def load_devices(path: str | Path) -> TrainedDevices:
    """Measured devices from a file.

    Raises InputError where the file holds no such thing.
    """
    return of_kind(TrainedDevices, of_schema(read_json(path), SCHEMA, path, "devices"), str(path))


def _sum(cost: FloatArray, parts: Mapping[str, sp.Expr]) -> sp.Expr:
    return sp.Add(*(float(one) * part for one, part in zip(cost, parts.values(), strict=True)))


@dataclass(frozen=True)
class Scale:
    """A factor on every predicted time of a machine, and what is left unknown of its logarithm."""

    factor: float = 1.0
    spread: float = 0.0


def anchored(ratios: npt.ArrayLike, machine_spread: float, matrix_spread: float, doubt: float = 1.0) -> Scale:
    """The scale of a machine from measured / predicted of some products there.

    The factor of least mean relative error on them (a weighted median), drawn towards one by how much machines differ
    against how much one machine's matrices scatter: the mean of a normal law that is known to that extent.

    `machine_spread`, `matrix_spread`: standard deviations of the logarithm, over machines and over the matrices of one
        machine.
    `doubt`: factor on the second (`widenings` of the board).
    Raises InputError where a ratio is not positive.
    """
    values = np.sort(np.asarray(ratios, dtype=np.float64))
    if not np.all((values > 0) & np.isfinite(values)):
        raise InputError("measured over predicted times: want numbers > 0")
    if not len(values):
        return Scale(1.0, machine_spread)
    best = weighted_quantile(values, 1 / values)
    between, within = machine_spread**2, (doubt * matrix_spread) ** 2 / len(values)
    weight = between / (between + within) if between else 0.0
    return Scale(best**weight, float(np.sqrt(between * (1 - weight))))
