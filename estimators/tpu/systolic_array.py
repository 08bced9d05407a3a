"""Systolic arrays in closed form: cycles of a matrix product by dataflow and by convention.

A product (m, k) x (k, n) is cut into folds that fit the array. What stays in the cells spans its rows and columns,
what moves through them is streamed:

=================  ======  =========  ========
dataflow           rows    columns    streamed
=================  ======  =========  ========
output_stationary  m       n          k
weight_stationary  k       n          m
input_stationary   k       m          n
=================  ======  =========  ========

Three conventions count the cycles of the folds, by name:

* ``textbook``: every fold takes 2 R + C + T - 2 cycles: R to load what stays or to drain the outputs, R + C - 2 of
  skew, T streamed. Source: Samajdar et al., "A systematic methodology for characterizing scalability of DNN
  accelerators using SCALE-Sim", ISPASS 2020 (tau = 2 S_R + S_C + T - 2, a fold each).
* ``scalesim``: what the simulator SCALE-Sim 3.0.0 reports as compute cycles. As the textbook, but outputs that stay
  are not drained (R + C + T - 2 a fold), and the number is that of the last cycle, counted from 0.
* ``double_buffered``: the next fold's operand is loaded, or the last fold's outputs are drained, behind the current
  fold's stream: max(T, R) cycles a fold; skew, the first load and the last drain are paid once. Real TPUs hide the
  load like that. With one fold it is the textbook's.

All charge a whole array for folds at the edge. Several arrays share the folds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.roofline.roofline import (
    Roofline,
    product_of_fields,
    serving_engine,
    serving_rate,
    traffic_time,
)
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

Convention = Literal["scalesim", "textbook", "double_buffered"]

DATAFLOWS: dict[str, tuple[str, str, str]] = {
    "output_stationary": ("m", "n", "k"),
    "weight_stationary": ("k", "n", "m"),
    "input_stationary": ("k", "m", "n"),
}
"""Dataflow -> the dims that lie along the rows, along the columns, and in time."""

AXES = ("depth", "height", "width")
SHORT_NAMES = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}
SOURCES = {
    "textbook": "Samajdar et al., ISPASS 2020",
    "scalesim": "compute cycles of SCALE-Sim 3.0.0, checked row by row",
    "double_buffered": "folds back to back: max(T, R) each, one load, one drain",
}


def cycles(
    m: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    rows: npt.ArrayLike,
    columns: npt.ArrayLike,
    dataflow: str = "weight_stationary",
    convention: str = "scalesim",
    arrays: npt.ArrayLike = 1,
    products: npt.ArrayLike = 1,
) -> npt.NDArray[np.int64]:
    """Cycles of products (m, k) x (k, n) on an array of rows x columns cells; arguments broadcast.

    The product is input (m, k) times weights (k, n): m rows of input, n filters, k multiply-adds for each output.

    `dataflow`: a name of `DATAFLOWS`, or os, ws, is.
    `convention`: scalesim, textbook or double_buffered.
    `arrays`: how many such arrays share the folds.
    `products`: how many products of this size are done (a batch).
    Raises InputError where a size is below 1 or a name is unknown.

    Examples
    --------
    >>> int(cycles(256, 128, 256, 32, 32, "os"))
    10175
    """
    given = {"m": m, "n": n, "k": k, "rows": rows, "columns": columns}
    given |= {"arrays": arrays, "products": products}
    for name, value in given.items():
        if np.any(np.asarray(value) < 1):
            raise InputError(f"systolic array: {name} = {np.min(np.asarray(value))}: want 1 or more")
    values = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
    return cycles_formula(SHORT_NAMES.get(dataflow, dataflow), convention).evaluate(values).astype(np.int64)


def accesses(
    m: float, n: float, k: float, rows: float, columns: float, dataflow: str, buffer: float = math.inf
) -> dict[str, float]:
    """Elements that a product (m, k) x (k, n) reads and writes: ``sram.input``, ``dram.weights``, ``dram.outputs`` ...

    An array reads an operand once a fold that it lies beside, and writes an output for every fold along k. A buffer
    runs over its operand in the order of the folds: what comes again is there where all that lies between fits, and
    is read anew where not, since a cycle through more than a buffer holds finds nothing of the last one.

    `dataflow`: a name of `DATAFLOWS`, or os, ws, is.
    `buffer`: elements of an operand that are held while the next ones load: the active part of a double buffer.
    Sizes are as `cycles` has them. Inputs are those of the product: elements that windows of a convolution share are
    counted for each. Equal to the SRAM counts of SCALE-Sim 3.0.0, within 1 % of its DRAM counts of products
    (`slipstick validate systolic`).
    Raises InputError where the dataflow is unknown.

    Examples
    --------
    >>> accesses(256, 128, 256, 32, 32, "ws", 32768)["dram.input"]
    262144
    """
    name = SHORT_NAMES.get(dataflow, dataflow)
    if name not in DATAFLOWS:
        raise unknown_name("dataflow", dataflow, [*DATAFLOWS, *SHORT_NAMES])
    sizes = {"m": m, "n": n, "k": k}
    along_rows, along_columns, _ = DATAFLOWS[name]
    folds = {along_rows: math.ceil(sizes[along_rows] / rows), along_columns: math.ceil(sizes[along_columns] / columns)}
    inputs, weights, outputs = m * k, k * n, m * n
    sram = {"input": inputs * folds.get("n", 1), "weights": weights * folds.get("m", 1)}
    sram["outputs"] = outputs * folds["k"] if "k" in folds else outputs + math.prod(folds.values()) * (rows + columns)
    dram = sram | {what: count for what, count in (("input", inputs), ("weights", weights)) if count < buffer}
    if name == "output_stationary":  # weights stay for all folds of the inputs beside them, outputs for all of k
        dram["outputs"] = outputs
        beside = k * min(columns, n)
        if weights >= buffer > beside and folds["n"] > 1 and folds["m"] > 1:  # at the start, and each fold as a whole
            dram["weights"] = buffer + max(1, math.ceil((weights - buffer) / beside)) * beside
    return {
        f"{where}.{what}": count for where, some in (("sram", sram), ("dram", dram)) for what, count in some.items()
    }


@cache
def cycles_formula(dataflow: str, convention: str) -> Formula:
    """Cycles as a formula of m, n, k, rows, columns, arrays and products (see `cycles`).

    Raises InputError where the dataflow or the convention is unknown.
    """
    if dataflow not in DATAFLOWS:
        raise unknown_name("dataflow", dataflow, [*DATAFLOWS, *SHORT_NAMES])
    if convention not in get_args(Convention):
        raise unknown_name("convention", convention, list(get_args(Convention)))
    along_rows, along_columns, streamed = (symbol(name) for name in DATAFLOWS[dataflow])
    rows, columns, arrays, products = (symbol(name) for name in ("rows", "columns", "arrays", "products"))
    folds = sp.ceiling(products * sp.ceiling(along_rows / rows) * sp.ceiling(along_columns / columns) / arrays)
    skew = rows + columns - 2
    if convention == "textbook":
        total = folds * (rows + skew + streamed)
    elif convention == "scalesim":
        loaded = 0 if dataflow == "output_stationary" else rows
        total = folds * (loaded + skew + streamed) - 1
    else:
        total = (folds - 1) * sp.Max(streamed, rows) + streamed + rows + skew
    return Formula(total, "cycle", SOURCES[convention])


@dataclass(frozen=True)
class SystolicArray(FormulaModel):
    """Matrix products and convolutions on the machine's matrix engine, everything else by `others`.

    t = max(cycles / (clock x rate), bytes moved / bandwidth of what holds them, other work / its engine's rate) +
    launches x launch overhead. The dataflow is the engine's; all arrays of all cores share the folds. A convolution is
    the product that `product_of` says. The rate is what `flop_per_cycle` says of the data type over the two flop a
    cycle of every cell: cells that take a type at half rate need twice the cycles. Work that joined the product, as in
    a compiled program, runs beside the array on the engines that have it. A group of a convolution is a product of few
    rows and columns: convolutions of many groups run on the vector engine where that is faster.
    """

    convention: Convention = "double_buffered"
    others: Roofline = Roofline()

    def __post_init__(self) -> None:
        if self.convention not in get_args(Convention):
            raise unknown_name("convention", self.convention, list(get_args(Convention)))

    def caches(self, machine: Machine) -> str:
        """As the roofline has them."""
        return self.others.caches(machine)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Products by dataflow, convolutions also by their pass, the others as the roofline has them."""
        if not _on_array(op, machine):
            return "others", self.others.key(op, machine)
        way = (op.attributes.get("pass"), op.attributes.get("transposed"), op.dims.get("groups", 1) != 1)
        shape = (op.kind, *way, tuple(sorted(op.dims)))
        work = tuple(sorted(name for name in op.cost if name.startswith("flop.")))
        return shape, work, machine.engines["matrix"].dataflow, op.cost.moves

    def form(self, machine: Machine) -> Hashable:
        """That of the machine, and the convention: its numbers and the parameters are symbols."""
        return self.convention, machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* (dims, bytes_moved, launches), machine.engines.matrix.*, machine.clock and cores ..."""
        if not _on_array(op, machine):
            names = parameters(self.others)
            return self.others.formula(op, machine).substitute(
                {f"parameter.{name}": symbol(f"parameter.others.{name}") for name in names}
            )
        array = {
            "rows": symbol("machine.engines.matrix.rows"),
            "columns": symbol("machine.engines.matrix.columns"),
            "arrays": symbol("machine.engines.matrix.arrays") * symbol("machine.cores"),
        }
        counted = cycles_formula(machine.engines["matrix"].dataflow, self.convention)
        cycles_of_cells = counted.substitute({**product_of(op), **array}).expression
        on_array = cycles_of_cells * _cycles_a_cell(op, machine) / symbol("machine.clock")
        if op.kind == "convolution" and op.dims["groups"] != 1 and (vector := _on_vector_engine(op, machine)) != 0:
            on_array = sp.Min(on_array, vector)
        beside = [_seconds(name, machine) for name in op.cost if name.startswith("flop.") and not _product(name)]
        terms = {"compute": sp.Max(on_array, sp.Add(*beside)) if beside else on_array}
        if op.cost.moves:
            terms["memory"] = traffic_time(machine)
        launch = symbol("operation.launches") * symbol("machine.runtime.launch_overhead")
        return Formula(sp.Max(*terms.values()) + launch, "s", SOURCES[self.convention], FrozenDict(terms))


def _on_array(op: Op, machine: Machine) -> bool:
    engine = machine.engines.get("matrix")
    has_array = engine is not None and engine.rows > 0 and engine.columns > 0
    multiplies = op.kind in ("gemm", "convolution") and op.kind not in machine.runtime.free_kinds
    return has_array and multiplies and _all_served(op, machine)


def runs_on_array(workload: Iterable[Op], machine: Machine) -> bool:
    """Whether any product of a workload finds an array of rows and columns that computes its data type."""
    return any(_on_array(op, machine) for op in workload)


def _all_served(op: Op, machine: Machine) -> bool:
    products = [name for name in op.cost if _product(name)]
    try:
        return bool(products) and all(serving_engine(machine, *name.split(".")[1:]) == "matrix" for name in products)
    except InputError:
        return False


def _product(name: str) -> bool:
    return name.startswith("flop.matrix.")


def _cycles_a_cell(op: Op, machine: Machine) -> sp.Expr:
    """Cycles in which a cell does one multiply-add of the operation's type: 1 at the full rate, 2 at half of it."""
    names = [name for name in op.cost if _product(name)]
    matrix = "machine.engines.matrix"
    cells = symbol(f"{matrix}.rows") * symbol(f"{matrix}.columns") * symbol(f"{matrix}.arrays")
    cycles = [2 * cells / symbol(f"{matrix}.flop_per_cycle.{_rated(name, machine)}") for name in names]
    if len(names) == 1:
        return cycles[0]
    amounts = [symbol(f"operation.{name}") for name in names]
    return sp.Add(*(amount * each for amount, each in zip(amounts, cycles, strict=True))) / sp.Add(*amounts)


def _on_vector_engine(op: Op, machine: Machine) -> sp.Expr:
    """Seconds of an operation's products on the vector engine, in float32 where it has no rate of their type; 0 where
    it has neither."""
    names = [name for name in op.cost if _product(name)]
    try:
        rates = [product_of_fields(machine.peak_factors(*_on_vector(name, machine))) for name in names]
    except InputError:
        return sp.Integer(0)
    return sp.Add(*(symbol(f"operation.{name}") / rate for name, rate in zip(names, rates, strict=True)))


def _on_vector(name: str, machine: Machine) -> tuple[str, str]:
    """The engine and type that compute products on the vector engine: every narrower type is exact in float32."""
    try:
        return serving_rate(machine, "vector", name.rpartition(".")[2])
    except InputError:
        return serving_rate(machine, "vector", "float32")


def _rated(name: str, machine: Machine) -> str:
    return serving_rate(machine, *name.split(".")[1:])[1]


def _seconds(name: str, machine: Machine) -> sp.Expr:
    """Seconds of one unit's work at its engine's rate."""
    return symbol(f"operation.{name}") / product_of_fields(
        machine.peak_factors(*serving_rate(machine, *name.split(".")[1:]))
    )


def product_of(op: Op) -> dict[str, sp.Expr]:
    """Sizes of the product input (m, k) x weights (k, n) behind an operation, and how many there are.

    A gemm's weights are (m, k) and its input has n rows (see `graph.kinds`), so m and n change places. A
    convolution is one product for each group over gathered windows; its backward passes are the transposed products
    with as many multiply-adds.
    """

    def dim(name: str) -> sp.Expr:
        return symbol(f"operation.{name}") if name in op.dims else sp.Integer(1)

    if op.kind == "gemm":
        return {"m": dim("n"), "n": dim("m"), "k": dim("k"), "products": dim("batch")}
    side = "in" if op.attributes.get("transposed") else "out"
    pixels = dim("batch") * sp.Mul(*(dim(f"{side}_{axis}") for axis in AXES))
    window = dim("channels_in") / dim("groups") * sp.Mul(*(dim(f"kernel_{axis}") for axis in AXES))
    filters = dim("channels_out") / dim("groups")
    sizes = {
        "forward": (pixels, filters, window),
        "backward_data": (pixels, window, filters),
        "backward_weight": (window, filters, pixels),
    }
    m, n, k = sizes[str(op.attributes.get("pass") or "forward")]
    return {"m": m, "n": n, "k": k, "products": dim("groups")}
