"""A sparse product on a whole device from statistics of its rows: five physical costs, pooled over measured relatives.

Where columns lie is not used, so this serves devices on which nobody measured blocks. Each measured device has costs
of its own; one that nobody measured gets the geometric mean of what the others would take, relatives counting more, and
of what their usual share of the data sheet's rates would.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import FormulaModel, machine_values
from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.estimators.core.residency import share_beyond
from slipstick.estimators.operation.spmv.spmv_costs import is_accelerator
from slipstick.estimators.tuned.tuned_kinship import PRIOR_WEIGHT, RELATIVES
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError, read_json, require_mapping
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

SCHEMA = "slipstick-spmv-devices-1"
SHIPPED = Path(__file__).parent / "trained" / "spmv-devices.json"
DIMS = ("rows", "columns", "nonzeros", "longest_row", "row_variation")
TERMS = ("call", "stream", "row", "wait", "gather")
UNITS = {"call": "1", "stream": "1", "row": "cycle", "wait": "cycle", "gather": "1"}
CALL = 4e-6
"""Seconds of a call among others back to back: what the cost "call" counts."""
SECTOR, ENTRY = 32, 8
"""Bytes that a gather brings in, and those that it wants."""
LONGEST = 100
"""A row more than so many times the mean is shared out by every kernel."""
SMALLEST_ERROR = 0.02
"""Relative errors below this weigh alike in a fit."""
SOURCE = "five costs of a product's rows, docs/notes/spmv.md"


@dataclass(frozen=True)
class DeviceCosts:
    """What the terms cost on a measured device: multiples of `amounts`, by term."""

    machine: str
    family: str
    accelerator: bool
    cost: Table[float]

    def __post_init__(self) -> None:
        if set(self.cost) != set(TERMS) or not all(0 <= value < 1e6 for value in self.cost.values()):
            raise InputError(f"costs of {self.machine}: want numbers of 0 to 1e6 for {', '.join(TERMS)}")
        if not any(self.cost.values()):
            raise InputError(f"costs of {self.machine}: all are 0")


@dataclass(frozen=True)
class SpmvDevices(FormulaModel):
    """T = factor x product over laws of (sum over terms of cost x amount) ^ share, for operations of kind "spmv".

    Laws are the measured devices and, with the weight of a prior, the roofline at its usual share.

    Parameters
    ----------
    devices
        Those measured; one of them, if it is the target, answers alone.
    usual
        Median over all products of measured seconds over the terms "call" and "stream" at a cost of one.
    call
        Seconds of a call under the wanted protocol: back to back, or each waited for.
    factor
        What measurements on the target machine showed (`anchors`).
    """

    devices: tuple[DeviceCosts, ...]
    usual: float
    call: float = CALL
    factor: Annotated[float, Parameter("1", "of every time on the target machine, fitted to anchors", 1e-3, 1e3)] = 1.0

    def __post_init__(self) -> None:
        if not self.devices or not (self.call > 0 and self.usual > 0):
            raise InputError(
                f"{len(self.devices)} devices, call = {self.call:g} s, usual = {self.usual:g}: want at least one, and"
                " numbers above 0"
            )
        check_parameters(self)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all matrices."""
        return "spmv"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* (`DIMS`), machine.cores, machine.clock, machine.memory.*, parameter.factor.

        Raises
        ------
        InputError
            Where the operation is no product that says how its rows are spread.
        """
        missing = [name for name in DIMS if name not in op.dims]
        if op.kind != "spmv" or missing:
            raise InputError(
                f"operation {op.name!r} ({op.kind}) is no sparse product with {', '.join(missing or DIMS)}"
            )
        parts = amounts(machine, self.call)
        costs, shares = self.costs, self.shares(machine)
        factor = symbol("parameter.factor")
        whole = sp.Mul(*(_sum(cost, parts) ** share for cost, share in zip(costs, shares, strict=True) if share))
        terms = {
            term: factor * part * float(mean) for (term, part), mean in zip(parts.items(), shares @ costs, strict=True)
        }
        return Formula(factor * whole, "s", SOURCE, Table(terms))

    def caches(self, machine: Machine) -> str:
        """What the times take for granted of the caches."""
        return "the caches hold what product after product leaves there"

    def seconds(self, dims: Mapping[str, npt.ArrayLike], machine: Machine) -> FloatArray:
        """Of many products at once; `dims` as in `DIMS`, shape (products,) each."""
        logs = np.log(amount_table(dims, machine, self.call) @ self.costs.T)
        return np.asarray(self.factor * np.exp(logs @ self.shares(machine)))

    @property
    def costs(self) -> FloatArray:
        """Of every law, shape (devices + 1, terms); the last is the prior."""
        prior = [self.usual if term in ("call", "stream") else 0.0 for term in TERMS]
        return np.array([*([device.cost[term] for term in TERMS] for device in self.devices), prior])

    def knows(self, machine: Machine) -> bool:
        """Whether the machine is one of those measured."""
        return any(device.machine == machine.name for device in self.devices)

    def shares(self, machine: Machine) -> FloatArray:
        """What each law counts for this machine, adding up to one; devices of its kind alone, where there are any."""
        same = np.array([device.machine == machine.name for device in self.devices], dtype=np.float64)
        if same.any():
            return np.append(same / same.sum(), 0.0)
        alike = np.array([device.accelerator == is_accelerator(machine) for device in self.devices])
        kin = np.array([RELATIVES[shared_words(device.family, machine.family)] for device in self.devices])
        weights = np.append(kin * alike if alike.any() else kin, PRIOR_WEIGHT)
        return np.asarray(weights / weights.sum())


def amounts(machine: Machine, call: float = CALL) -> dict[str, sp.Expr]:
    """What a product does, by term, in seconds at the machine's data-sheet rates (a cycle of one core for each cycle).

    * call: a call.
    * stream: matrix and vectors in compressed-row form, once each, at the main memory's bandwidth.
    * row: the partial sums of each row, added up in log2 of its length steps, on all cores.
    * wait: as many turns as the longest row is longer than the mean, for each row, on all cores.
    * gather: sectors of the dense vector from beyond the last cache, as far as rows differ (regular rows are those of
      grids and meshes, whose neighbours are near).

    Raises
    ------
    InputError
        Where the machine has no cache before its main memory.
    """
    caches = [name for name, level in machine.memory.items() if level.capacity][:-1]
    if not caches:
        raise InputError(f"machine {machine.name!r} has no cache with a capacity before its main memory")
    rows, columns, nonzeros, longest, variation = (symbol(f"operation.{name}") for name in DIMS)
    bandwidth = sp.Mul(*(symbol(f"machine.{path}") for path in machine.bandwidth_factors(machine.main_memory)))
    cycles = symbol("machine.cores") * symbol("machine.clock")
    beyond = share_beyond(ENTRY * columns, symbol(f"machine.memory.{caches[-1]}.capacity"))
    return {
        "call": sp.Float(call),
        "stream": (12 * nonzeros + 12 * rows + ENTRY * columns) / bandwidth,
        "row": rows * sp.log(1 + nonzeros / rows, 2) / cycles,
        "wait": rows * sp.Min(longest * rows / nonzeros, LONGEST) / cycles,
        "gather": nonzeros * sp.Min(variation, 1) * (SECTOR - ENTRY) * beyond / bandwidth,
    }


def amount_table(dims: Mapping[str, npt.ArrayLike], machine: Machine, call: float = CALL) -> FloatArray:
    """The amounts of many products on a machine, shape (products, terms); `dims` as in `DIMS`."""
    given: dict[str, Any] = {f"operation.{name}": np.asarray(dims[name], dtype=np.float64) for name in DIMS}
    columns = []
    for expression in amounts(machine, call).values():
        one = Formula(expression, "s", SOURCE)
        columns.append(
            np.broadcast_to(one.evaluate({**given, **machine_values(one, machine)}), len(given["operation.rows"]))
        )
    return np.stack(columns, axis=1)


def fit_device(amount: FloatArray, seconds: npt.ArrayLike, machine: Machine) -> DeviceCosts:
    """Costs >= 0 of least mean relative error, by least squares weighed again and again.

    `amount` has shape (products, costs), seconds (products,).

    Raises
    ------
    InputError
        Where there are fewer products than costs, or a time is not positive.
    """
    from scipy.optimize import nnls

    measured = np.asarray(seconds, dtype=np.float64)
    if len(measured) < len(TERMS) or amount.shape != (len(measured), len(TERMS)) or not np.all(measured > 0):
        raise InputError(
            f"{machine.name}: {len(measured)} times for {len(TERMS)} costs: want at least as many, all > 0"
        )
    relative = amount / measured[:, None]
    weights = np.ones(len(measured))
    for _ in range(40):
        root = np.sqrt(weights)
        cost, _ = nnls(relative * root[:, None], root)
        weights = 1 / np.maximum(np.abs(relative @ cost - 1), SMALLEST_ERROR)
    return DeviceCosts(
        machine.name, machine.family, is_accelerator(machine), Table(dict(zip(TERMS, map(float, cost), strict=True)))
    )


@dataclass(frozen=True)
class TrainedDevices:
    """Measured devices, and how far one that was left out differed.

    Parameters
    ----------
    machine_spread
        Standard deviation over left-out devices of the logarithm of measured / predicted, median of a device.
    matrix_spread
        The same over the products of one device.
    """

    model: SpmvDevices
    machine_spread: float
    matrix_spread: float
    source: str

    def document(self) -> dict[str, Any]:
        """Costs and spreads as plain data for JSON, seconds by amount."""
        devices = [
            {"machine": one.machine, "family": one.family, "accelerator": one.accelerator, "cost": dict(one.cost)}
            for one in self.model.devices
        ]
        spreads = {"machine_spread": self.machine_spread, "matrix_spread": self.matrix_spread}
        return {"schema": SCHEMA, "source": self.source, "usual": self.model.usual, **spreads, "devices": devices}


LARGEST_SPREAD = 10.0
"""Of log time, in a file: a factor of e^10 up and down."""


def load_devices(path: str | Path = SHIPPED) -> TrainedDevices:
    """Measured devices from a file; those that ship if none is named.

    Raises
    ------
    InputError
        Where the file holds no such thing.
    """
    document = require_mapping(read_json(path), path, "file")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{path}: want devices of schema {SCHEMA!r}")
    try:
        devices = tuple(
            DeviceCosts(
                str(one["machine"]),
                str(one["family"]),
                bool(one["accelerator"]),
                Table({str(name): _bounded(str(name), value, 1e6) for name, value in one["cost"].items()}),
            )
            for one in document["devices"]
        )
        usual, between, within = (
            _bounded(name, document[name], high)
            for name, high in (("usual", 1e6), ("machine_spread", LARGEST_SPREAD), ("matrix_spread", LARGEST_SPREAD))
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: devices without a usable {error}") from None
    return TrainedDevices(SpmvDevices(devices, usual), between, within, str(document.get("source", "")))


def _bounded(name: str, value: Any, high: float) -> float:
    number = float(value)
    if not 0 <= number <= high:
        raise ValueError(f"{name} = {number:g}: want a number in [0, {high:g}]")
    return number


def _sum(cost: FloatArray, parts: Mapping[str, sp.Expr]) -> sp.Expr:
    return sp.Add(*(float(one) * part for one, part in zip(cost, parts.values(), strict=True)))


def spread_of(logs: Sequence[FloatArray]) -> tuple[float, float]:
    """Spreads over devices and over the products of one, from log(measured / predicted) of each left-out device.

    The second is the width of the middle 80 % over that of a normal law: tails are heavy.
    """
    middles = [float(np.median(one)) for one in logs]
    within = np.concatenate([np.abs(one - middle) for one, middle in zip(logs, middles, strict=True)])
    between = float(np.sqrt(np.mean(np.square(middles))))
    return between, float(np.quantile(within, 0.8) / 1.2816)
