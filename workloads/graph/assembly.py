"""What importers share: tensors, pieces of operations, and the graph put together from recorded nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text, is_symbolic, sp
from slipstick.workloads.graph.kinds import SIZE_BYTES, operation, product
from slipstick.workloads.graph.workload import Attribute, Op

Number: TypeAlias = Any  # int or sympy expression; torch's own expressions until a recording is finished
Value = TypeVar("Value")
DTYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8",
    "c10::Float8_e4m3fnuz": "float8",
    "c10::Float8_e5m2": "float8",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
"""The names of C++ that traces write for the types of tensors."""


@dataclass(frozen=True)
class Tensor:
    """Shape (numbers or sympy expressions), dtype name and strides of one tensor."""

    shape: tuple[Number, ...]
    dtype: str = "float32"
    strides: tuple[Number, ...] | None = None

    @property
    def elements(self) -> Number:
        """The product of the shape."""
        return product(self.shape)

    @property
    def stored(self) -> Number:
        """Elements that lie in memory: an expanded dimension (stride 0) counts once."""
        if self.strides is None:
            return self.elements
        return product(s for s, stride in zip(self.shape, self.strides, strict=True) if stride != 0)


def traced_shape(sizes: Any) -> tuple[int, ...]:
    """The shape of a tensor as a trace writes it.

    Raises InputError where it is no list of whole numbers in [0, 1e12].
    """
    if not isinstance(sizes, list):
        raise InputError(f"shape {str(sizes)[:40]!r}: want a list of whole numbers in [0, 1e12]")
    if wrong := [size for size in sizes if type(size) is not int or not 0 <= size <= 10**12]:
        raise InputError(f"size {str(wrong[0])[:40]!r}: want a whole number in [0, 1e12]")
    return tuple(sizes)


def words(text: str) -> frozenset[str]:
    """The words of a text, such as names of operators."""
    return frozenset(text.split())


def by_word(groups: Mapping[str, Value]) -> dict[str, Value]:
    """The value of each word of a key, as tables of many operators are written."""
    return {word: value for words, value in groups.items() for word in words.split()}


@dataclass(frozen=True)
class Piece:
    """What a call, or a part of it, amounts to.

    `attributes`: what belongs to its identity besides kind and dims.
    `suffix`: distinguishes the parts of one call.
    `after`: earlier pieces of the same call that it waits for.
    `makes`: position of the one result it makes; None: all of them.
    `times`: how often it is done (steps of a recurrence).
    """

    kind: str
    dims: Mapping[str, Number]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    suffix: str = ""
    after: tuple[int, ...] = ()
    makes: int | None = None
    times: Number = 1


@dataclass
class ImportedNode:
    """One operation as an importer met it.

    `layer`, `name`: where it stands and what it is called; together they make its name in the workload.
    `phase`: "forward", "backward" or "optimizer".
    `reads`, `writes`: tensors that it reads and makes, floating-point first: for its data type and memory order.
    `pieces`: what it amounts to; None where that is not known.
    `before`: what it waits for: (node, position of the result), position None for all of them.
    """

    name: str
    phase: str = "forward"
    layer: str = ""
    reads: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    pieces: list[Piece] | None = None
    before: set[tuple[int, int | None]] = field(default_factory=set)


@dataclass(frozen=True)
class Assembly:
    """Operations, edges between them, and what could not be counted."""

    operations: tuple[Op, ...]
    edges: tuple[tuple[str, str], ...]
    uncounted: tuple[str, ...]


def assemble(nodes: Sequence[ImportedNode]) -> Assembly:
    """Nodes as operations with unique names; a node waits for the pieces that make what it reads."""
    operations: list[Op] = []
    edges: dict[tuple[str, str], None] = {}
    uncounted: dict[str, int] = {}
    used: dict[str, int] = {}
    makers: list[Mapping[int | None, list[str]]] = []
    for node in nodes:
        before = [
            name for index, position in sorted(node.before, key=str) for name in _made_by(makers[index], position)
        ]
        pieces = node.pieces
        if pieces is None:
            pieces = [_not_known(node)]
            uncounted[node.name] = uncounted.get(node.name, 0) + 1
        if not pieces:
            # Nothing is done (an empty buffer): whoever waits for it waits for what it waited for.
            makers.append({None: before})
            continue
        made: list[str] = []
        for piece in pieces:
            name = _unique_name(node, piece, used)
            made.append(name)
            operations.append(_operation(name, node, piece))
            edges |= {(earlier, name): None for earlier in [made[i] for i in piece.after] or before}
        inner = {made[i] for piece in pieces for i in piece.after}
        ends: dict[int | None, list[str]] = {None: [name for name in made if name not in inner]}
        for name, piece in zip(made, pieces, strict=True):
            if piece.makes is not None:
                ends.setdefault(piece.makes, []).append(name)
        makers.append(ends)
    listed = tuple(f"{name} x {count}" if count > 1 else name for name, count in uncounted.items())
    return Assembly(tuple(operations), tuple(edges), listed)


def _made_by(ends: Mapping[int | None, list[str]], position: int | None) -> list[str]:
    return ends.get(position, ends[None])


def _not_known(node: ImportedNode) -> Piece:
    reads = sum(tensor.stored for tensor in node.reads)
    writes = sum(tensor.elements for tensor in node.writes)
    return Piece("uncounted", {"reads": reads, "writes": writes}, {"function": node.name})


def _unique_name(node: ImportedNode, piece: Piece, used: dict[str, int]) -> str:
    backward = "backward" if node.phase == "backward" and "backward" not in node.name else ""
    called = node.name.replace("_for_cpu", "")  # the host that traced it is not the machine evaluated
    name = ".".join(word for word in (node.layer, backward, called, piece.suffix) if word)
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}#{used[name]}"


def _operation(name: str, node: ImportedNode, piece: Piece) -> Op:
    attributes: dict[str, Attribute] = {k: _text(v) for k, v in piece.attributes.items() if v is not False}
    if node.phase != "forward":
        attributes["phase"] = node.phase
    order = memory_order(node.reads[0]) if node.reads else ""
    if order:
        attributes["order"] = order
    return operation(name, piece.kind, piece.dims, _dtype(node), attributes, times=piece.times)


def _text(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_text(part) for part in value)
    return expression_text(value) if is_symbolic(value) else value


def _dtype(node: ImportedNode) -> str:
    names = [tensor.dtype for tensor in (*node.reads, *node.writes)]
    floating = [name for name in names if "float" in name or "complex" in name]
    name = next(iter(floating or names), "float32")
    return name if name in SIZE_BYTES else "float8" if name.startswith("float8") else "float32"


def memory_order(tensor: Tensor) -> str:
    """Axes as they lie in memory, where that is not the usual order: part of an operation's identity."""
    if tensor.strides is None or len(tensor.shape) < 2:
        return ""
    # Which stride is larger does not depend on the sizes that are open, but for degenerate ones.
    strides = [
        float(s.xreplace(dict.fromkeys(s.free_symbols, sp.Integer(7)))) if is_symbolic(s) else s for s in tensor.strides
    ]
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    return "" if order == list(range(len(order))) else "".join(map(str, order))
