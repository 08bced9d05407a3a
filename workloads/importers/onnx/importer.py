"""ONNX files as workloads: forward passes, named axes as symbols; weights are not read, other files not opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.records import Table
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.graph.assembly import ImportedNode, Tensor, assemble
from slipstick.workloads.graph.kinds import product
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.onnx.operations import read_node
from slipstick.workloads.importers.onnx.shapes import DTYPES, Shape, result_shapes, stated_shape

LIMIT_BYTES = 512 * MEGABYTE
MAX_NODES = 200_000


@checked
def import_onnx(path: str | os.PathLike[str], defaults: Mapping[str, float] | None = None) -> Workload:
    """The forward pass of an ONNX model (.onnx, or .onnx.gz).

    Axes with names (``batch``, ``seq_len``) become symbols. Shapes come from the file, from ONNX's own inference, and
    where that gives up (a convolution over a named axis) from the rules of `onnx.shapes`.

    Raises
    ------
    InputError
        Where onnx is not installed, or the file is truncated, hostile, cyclic or contradicts itself.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from onnx import shape_inference
    except ImportError:
        raise InputError("reading ONNX needs onnx: pip install 'slipstick[onnx]'") from None
    try:
        model = onnx.load_model_from_string(read_bytes(path, LIMIT_BYTES))
    except DecodeError:
        raise InputError(f"{path}: no ONNX model, or truncated") from None
    if not model.graph.node:
        raise InputError(f"{path}: no ONNX model (its graph has no nodes)")
    if len(model.graph.node) > MAX_NODES:
        raise InputError(f"{path}: {len(model.graph.node)} nodes, more than {MAX_NODES}")
    try:
        model = shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # onnx raises several kinds, RuntimeError among them
        raise InputError(f"{path}: shapes contradict each other: {' '.join(str(error).split())[:200]}") from None
    try:
        return _Reader(model.graph, str(path)).workload(dict(defaults or {}))
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        # A damaged file may hold any field of the format, empty or of another type.
        raise InputError(f"{path}: contradicts the format ({type(error).__name__}: {str(error)[:120]})") from None


class _Reader:
    """Walks the nodes of one graph in order."""

    def __init__(self, graph: Any, path: str) -> None:
        self.graph, self.path = graph, path
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.made_by: dict[str, int | None] = {}
        self.nodes: list[ImportedNode] = []

    def workload(self, defaults: dict[str, float]) -> Workload:
        graph = self.graph
        for value in (*graph.value_info, *graph.input, *graph.output):
            stated = stated_shape(value, f"{self.path}: tensor {value.name!r}")
            if stated is not None:
                self.shapes[value.name] = stated
            self.dtypes[value.name] = DTYPES.get(value.type.tensor_type.elem_type, "float32")
        for constant in graph.initializer:
            self.shapes[constant.name] = tuple(int(size) for size in constant.dims)
            self.dtypes[constant.name] = DTYPES.get(constant.data_type, "float32")
            self._constant(constant.name, constant)
        for value in graph.input:
            if value.name not in self.constants:
                self.made_by[value.name] = None
        for node in graph.node:
            self._node(node)
        built = assemble(self.nodes)
        parameters = sum(self.parameters.values())
        metadata = {"parameters": parameters, "purpose": "inference", "source": "onnx", "assumptions": ()}
        open_names = sorted(frozenset().union(*(op.symbols for op in built.operations)))
        known = Table({name: defaults.get(name, 1.0) for name in open_names})
        return Workload(
            str(graph.name or "onnx"), built.operations, built.edges, known, Table(metadata), built.uncounted
        )

    def _constant(self, name: str, tensor: Any) -> None:
        from onnx import numpy_helper

        # Values are wanted only of small integers (shapes, axes); weights stay where they are.
        small = product(int(size) for size in tensor.dims) <= 64 and tensor.data_type in (6, 7)
        try:
            readable = small and not tensor.external_data
            self.constants[name] = numpy_helper.to_array(tensor).tolist() if readable else None
        except Exception:  # data shorter than its shape
            raise InputError(f"{self.path}: constant {name!r}: its data do not fill its shape") from None

    def _node(self, node: Any) -> None:
        from onnx import helper

        if not all(isinstance(text, str) for text in (node.name, node.op_type, *node.input, *node.output)):
            raise InputError(f"{self.path}: a node has names that are not UTF-8 text")
        where = f"{self.path}: node {node.name or node.op_type!r}"
        inputs = [name for name in node.input if name]
        for name in inputs:
            if name not in self.made_by and name not in self.constants:
                raise InputError(f"{where}: reads {name!r}, which no earlier node makes (cyclic or out of order)")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        shapes = [self.shapes.get(name) if name else None for name in node.input]
        values = [self.constants.get(name) for name in node.input]
        if node.op_type == "Constant" or (inputs and all(name in self.constants for name in inputs)):
            self._fold(node, attributes, values)
            return
        results = result_shapes(
            node.op_type, attributes, shapes, values, [self.shapes.get(n) for n in node.output], where
        )
        for name, shape in zip(node.output, results, strict=False):
            if name and shape is not None:
                self.shapes[name] = shape
        self._learned(node, inputs)
        index = len(self.nodes)
        before: set[tuple[int, int | None]] = {
            (made, None) for name in inputs if (made := self.made_by.get(name)) is not None
        }
        reads, writes = self._tensors(node.input), self._tensors(node.output)
        known = all(self.shapes.get(name) is not None for name in (*inputs, *node.output[:1]))
        pieces = read_node(node.op_type, attributes, reads, writes, where) if known else None
        self.nodes.append(
            ImportedNode(node.op_type, "forward", node.name, _known(reads), _known(writes), pieces, before)
        )
        for name in node.output:
            if name in self.made_by:
                raise InputError(f"{where}: makes {name!r}, which an earlier node has made")
            self.made_by[name] = index

    def _fold(self, node: Any, attributes: Mapping[str, Any], values: list[Any]) -> None:
        """What is made of constants alone is a constant: the light models make their weights so."""
        for name in node.output:
            self.constants[name] = None
        if node.op_type == "Constant" and "value" in attributes:
            tensor = attributes["value"]
            self.shapes[node.output[0]] = tuple(int(size) for size in tensor.dims)
            self._constant(node.output[0], tensor)
        elif node.op_type == "ConstantOfShape" and values[0] is not None:
            self.shapes[node.output[0]] = tuple(int(size) for size in values[0])

    def _learned(self, node: Any, inputs: list[str]) -> None:
        # Statistics of a batch norm are data, not parameters; integers are shapes and axes.
        kept = inputs[:3] if node.op_type == "BatchNormalization" else inputs
        for name in kept:
            shape = self.shapes.get(name)
            if name in self.constants and shape and "float" in self.dtypes.get(name, "float32"):
                self.parameters[name] = product(shape)

    def _tensors(self, names: Any) -> list[Tensor | None]:
        return [
            Tensor(shape, self.dtypes.get(name, "float32"))
            if name and (shape := self.shapes.get(name)) is not None
            else None
            for name in names
        ]


def _known(tensors: list[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in tensors if tensor is not None)
