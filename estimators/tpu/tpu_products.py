"""Matrix work of operations on a systolic array: the products that each one is, padded to the array's sides.

A grouped convolution is either one product a group or one of all channels with zeros between the groups, whichever the
array does faster: XLA's ConvolutionGroupConverter does the latter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import AXES
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class MatrixProduct:
    """`count` products (m, k) x (k, n): m along the array's columns, n and k along its rows."""

    count: sp.Expr
    m: sp.Expr
    n: sp.Expr
    k: sp.Expr


def shape_of(op: Op) -> Hashable:
    """Operations of equal shape are the same products, with other sizes."""
    facts = op.attributes
    return facts.get("pass", "forward"), bool(facts.get("transposed")), bool(facts.get("projection"))


def padded_flop(op: Op, machine: Machine) -> sp.Expr:
    """The flop that the array does for an operation: every side is filled up to a multiple of the array's.

    Symbols: operation.DIM, machine.engines.matrix.rows and .columns.
    Raises InputError where the machine's matrix engine is no systolic array.
    """
    if "matrix" not in machine.engines or not machine.engines["matrix"].rows:
        rows = machine.engines["matrix"].rows if "matrix" in machine.engines else "no matrix engine"
        raise InputError(f"machine {machine.name!r}: engines.matrix.rows is {rows}; want a systolic array")
    if op.kind == "convolution":
        return sp.Min(*(_filled(each) for each in _convolutions(op)))
    return sp.Add(*(_filled(each) for each in _products(op)))


def _filled(product: MatrixProduct) -> sp.Expr:
    rows, columns = symbol("machine.engines.matrix.rows"), symbol("machine.engines.matrix.columns")
    sides = ((product.m, columns), (product.n, rows), (product.k, rows))
    return 2 * product.count * sp.Mul(*(side * sp.ceiling(size / side) for size, side in sides))


def _products(op: Op) -> Iterator[MatrixProduct]:
    """Of one execution of an operation that is no convolution."""
    dim = {name: symbol(f"operation.{name}") for name in op.dims}
    back = op.attributes.get("pass") == "backward"
    if op.kind == "gemm":
        yield MatrixProduct(dim["batch"], dim["m"], dim["n"], dim["k"])
    elif op.kind == "attention":
        count = dim["batch"] * dim["heads"] * (2 if back else 1)
        yield MatrixProduct(count, dim["keys"], dim["queries"], dim["head_dim"])
        yield MatrixProduct(count, dim["value_dim"], dim["queries"], dim["keys"])
    else:
        yield MatrixProduct(sp.Integer(1), dim["gates"] * dim["hidden"], dim["batch"], dim["outputs"])
        if op.attributes.get("projection"):
            yield MatrixProduct(sp.Integer(1), dim["outputs"], dim["batch"], dim["hidden"])


def _convolutions(op: Op) -> Iterator[MatrixProduct]:
    """The products of the windows: a group at a time, and all channels at once."""
    dim = {name: symbol(f"operation.{name}") for name in op.dims}
    window = sp.Mul(*(dim[f"kernel_{axis}"] for axis in AXES))
    places = sp.Mul(*(dim[f"{'in' if op.attributes.get('transposed') else 'out'}_{axis}"] for axis in AXES))
    positions = dim["batch"] * places
    for groups, apart in ((dim["groups"], dim["groups"]), (sp.Integer(1), sp.Integer(1))):
        inputs, outputs = dim["channels_in"] / apart, dim["channels_out"] / apart
        match op.attributes.get("pass", "forward"):
            case "backward_data":
                yield MatrixProduct(groups, inputs, positions, outputs * window)
            case "backward_weight":
                yield MatrixProduct(groups, outputs, inputs * window, positions)
            case _:
                yield MatrixProduct(groups, outputs, positions, inputs * window)
