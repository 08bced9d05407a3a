"""StableHLO or HLO text as a workload: `jax.jit(f).lower(...).as_text()`, `jax.export`, PyTorch/XLA, TensorFlow.

Calls are followed, and loops whose counter runs from one constant to another, as often as they are run; other loops
are listed as unknown. XLA's own text (HloModule) is read as well, by the same words. The program is one that is
compiled: what XLA makes one kernel of is one operation (`kernels`); a text that holds fusions is compiled already. The
older dialect mhlo has the same operations and is read as well.

Source: https://github.com/openxla/stablehlo/blob/main/docs/spec.md

What each operation of StableHLO amounts to: kinds and dims from its types and attributes.

The kernels that XLA makes of a program's operations, so that what lies between their parts is not moved.

Arithmetic, conversions, broadcasts and slices go into whatever reads them, a reduction takes what is before it, and
kernels over the same elements that read the same arrays become one with several results. What products and
convolutions read, and what reductions and the program give, lies in memory. An array with several readers is made once
or by each of them, whichever moves fewer bytes.

Source: openxla/xla, xla/service/gpu/transforms (instruction, priority and multi-output fusion).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.assembly import ImportedNode, Piece, Tensor, assemble
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, result_bytes
from slipstick.workloads.graph.kinds import AXES, convolution_dims, product
from slipstick.workloads.graph.work import elementwise_work
from slipstick.workloads.graph.workload import Attribute, Workload
from slipstick.workloads.graph.workload_kind import WORK, program_kind
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.importers.xla.hlo_text import read_hlo, turns
from slipstick.workloads.importers.xla.mlir_text import (
    Function,
    Statement,
    read_functions,
    regions,
    whole_constant,
)

Role: TypeAlias = Literal["free", "loop", "reduce", "alone", "dead"]
Read: TypeAlias = tuple[Collection[int], Tensor]
"""An operand: the nodes that may have made it, or an argument of the program (below 0), and its type."""
LOOPS = ("transpose", "slice", "dynamic_slice", "real_dynamic_slice", "concatenate", "pad", "dynamic_pad", "reverse",
         "copy")  # fmt: skip
"""Moves that are index arithmetic inside a kernel."""
PARTS = ("slice", "dynamic_slice", "real_dynamic_slice")
COSTLY = ("exp", "exponential_minus_one", "log", "log_plus_one", "pow", "tanh", "sigmoid", "sine", "cosine", "tan",
          "erf", "erf_inv", "atan2", "cbrt", "rng", "rng_bit_generator", "rng_uniform")  # fmt: skip
"""Functions that XLA computes once, however many read them."""
PRODUCTS = ("gemm", "convolution")


@dataclass
class _Kernel:
    """Members by number, what they read (source: bytes), and the arithmetic of all that went into them."""

    members: list[int]
    level: int
    reads: dict[int, float] = field(default_factory=dict)
    vector: float = 0.0


def compiled(
    nodes: Sequence[ImportedNode], reads: Sequence[Sequence[Read]], kept: Collection[int]
) -> list[ImportedNode]:
    """The nodes as kernels, in an order that their arrays allow.

    `reads`: of each node its operands.
    `kept`: nodes whose results the program or a turn of a loop gives.
    """
    plan = _Plan(nodes, reads, kept)
    for number in range(len(nodes)):
        plan.place(number)
    return plan.kernels()


class _Plan:
    def __init__(self, nodes: Sequence[ImportedNode], reads: Sequence[Sequence[Read]], kept: Collection[int]) -> None:
        self.nodes, self.given, self.kept = nodes, reads, {*kept}
        self.roles = [_role(node) for node in nodes]
        self.users: list[list[int]] = [[] for _ in nodes]
        for number in reversed(range(len(nodes))):
            if self.users[number] or number in self.kept or not kept or self.roles[number] == "alone":
                for source in {source for sources, _ in reads[number] for source in sources if source >= 0}:
                    self.users[source].append(number)
            else:
                self.roles[number] = "dead"
        self.held: list[dict[int, float]] = []
        self.inside = [False] * len(nodes)
        self.made: list[_Kernel] = []
        self.of: dict[int, _Kernel] = {}
        self.shared: dict[tuple[int, float, object, int], _Kernel] = {}

    def place(self, number: int) -> None:
        """Put a node into what reads it, or into a kernel."""
        node, role = self.nodes[number], self.roles[number]
        written = sum(map(nbytes, node.writes))
        held: dict[int, float] = {}
        for sources, tensor in self.given[number]:
            size = min(nbytes(tensor), written) if node.name in PARTS else nbytes(tensor)
            for source in sources:
                inner = self.held[source] if source >= 0 and self.inside[source] else {source: size}
                for one, least in inner.items():
                    held[one] = max(held.get(one, 0.0), min(least, size) if node.name in PARTS else least)
        self.held.append(held)
        self.inside[number] = role in ("free", "loop") and self._joins(number, sum(held.values()), written)
        if self.inside[number] or role == "dead":
            return
        times, domain = _times(node), _domain(node, role)
        last = max((self.of[one].level for one in held if one >= 0), default=0)
        top = [one for one in held if one >= 0 and self.of[one].level == last]
        beside = self.of[top[0]] if top and role in ("loop", "reduce") else None
        if beside is None or not all(
            self.of[one] is beside and self.roles[one] == "loop" and _domain(self.nodes[one], "loop") == domain
            and _times(self.nodes[one]) == times for one in top
        ):  # fmt: skip
            beside = None
            last += 1
            large = [one for one, size in held.items() if size >= domain] if role in ("loop", "reduce") else []
            keys = [(last, domain, times, one) for one in large]
            beside = next((self.shared[key] for key in keys if key in self.shared), None)
        if beside is None:
            beside = _Kernel([], last)
            self.made.append(beside)
        if role in ("loop", "reduce"):
            self.shared |= {(beside.level, domain, times, one): beside for one in held if held[one] >= domain}
        beside.members.append(number)
        self.of[number] = beside
        for one, size in held.items():
            if one not in beside.members:
                beside.reads[one] = max(beside.reads.get(one, 0.0), size)

    def _joins(self, number: int, read: float, written: float) -> bool:
        """Whether every reader makes the array itself, so that it is in no memory."""
        node, users = self.nodes[number], self.users[number]
        if not users or (number in self.kept and not (self.roles[number] == "free" and read >= written)):
            return False
        roles = [self.roles[user] for user in users]
        if self.roles[number] == "free" and read >= written:
            return True  # the same bytes under another shape
        if node.name == "transpose" and all(_kind(self.nodes[user]) in PRODUCTS for user in users):
            return True  # a product reads it in any order
        if any(role == "alone" for role in roles) or any(_times(self.nodes[user]) != _times(node) for user in users):
            return False
        readers = {
            self.nodes[u].reads[0].elements if role == "reduce" else -1 - u
            for u, role in zip(users, roles, strict=True)
        }
        costly = any(piece.attributes.get("function") in COSTLY for piece in node.pieces or ())
        return len(readers) == 1 or (not costly and (len(readers) - 1) * read <= (len(readers) + 1) * written)

    def kernels(self) -> list[ImportedNode]:
        """The kernels as nodes."""
        for number in reversed(range(len(self.nodes))):
            if self.inside[number]:
                self.of[number] = self.of[self.users[number][0]]
            if self.roles[number] in ("loop", "reduce") and (pieces := self.nodes[number].pieces):
                kernel, piece = self.of[number], pieces[0]
                if piece.kind == "elementwise":
                    work = elementwise_work({**piece.dims, "reads": 0, "writes": 0}, piece.attributes)
                    kernel.vector += float(work.vector + work.special)
                elif piece.kind == "reduction":
                    kernel.vector += float(piece.dims["elements"])
        order = sorted(self.made, key=lambda one: (one.level, one.members[0]))
        place = {id(kernel): i for i, kernel in enumerate(order)}
        return [self._node(kernel, {place[id(self.of[one])] for one in kernel.reads if one >= 0}) for kernel in order]

    def _node(self, kernel: _Kernel, before: set[int]) -> ImportedNode:
        members = [self.nodes[one] for one in kernel.members]
        waits: set[tuple[int, int | None]] = {(index, None) for index in before}
        if self.roles[kernel.members[0]] not in ("loop", "reduce"):
            return replace(members[0], before=waits)
        writes = tuple(tensor for member in members for tensor in member.writes)
        widest = max(
            writes, key=lambda tensor: ("float" in tensor.dtype, SIZE_BYTES.get(tensor.dtype, 4), tensor.elements)
        )
        size, result = SIZE_BYTES.get(widest.dtype, 4), result_bytes(widest.dtype)
        read, written = sum(kernel.reads.values()) / size, sum(map(nbytes, writes)) / result
        pieces = members[0].pieces
        if len(members) > 1 or not pieces or _kind(members[0]) != "move" or kernel.vector:
            dims = {"elements": round(kernel.vector), "reads": round(read), "writes": round(written)}
            pieces = [Piece("elementwise", dims, {"function": "fused"}, times=_times(members[0]))]
        name = members[0].name if len(members) == 1 else "fusion"
        return ImportedNode(name, "forward", "", (), (widest,), pieces, waits)


def nbytes(tensor: Tensor) -> float:
    """Bytes of a tensor."""
    return float(tensor.elements * SIZE_BYTES.get(tensor.dtype, 4))


def _kind(node: ImportedNode) -> str:
    return node.pieces[0].kind if node.pieces else ""


def _times(node: ImportedNode) -> int:
    return int(node.pieces[0].times) if node.pieces else 1


def _role(node: ImportedNode) -> Role:
    kind = _kind(node)
    if kind == "view" or (kind == "move" and "iota" in node.name):
        return "free"
    if kind == "elementwise" or (kind == "move" and node.name in LOOPS):
        return "loop"
    return "reduce" if kind == "reduction" and node.name in ("reduce", "argmax") else "alone"


def _domain(node: ImportedNode, role: Role) -> float:
    """Elements that a kernel goes over."""
    return float(node.reads[0].elements if role == "reduce" else sum(one.elements for one in node.writes[:1]))


NOTHING = frozenset(
    {
        "constant", "optimization_barrier", "tuple", "get_tuple_element", "create_token", "after_all", "partition_id",
        "replica_id", "bitcast_convert", "return", "func", "mesh", "sharding_constraint", "parameter", "add_dependency",
    }
)  # fmt: skip
"""Operations that take no time of their own."""
_VIEWS = frozenset(
    {"reshape", "broadcast_in_dim", "broadcast", "dynamic_reshape", "dynamic_broadcast_in_dim", "bitcast"}
)
_MOVES = frozenset(
    {
        "transpose", "slice", "dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "dynamic_pad", "reverse",
        "copy", "insert_slice", "extract_slice", "iota", "dynamic_iota", "real_dynamic_slice",
    }
)  # fmt: skip
_REDUCTIONS = frozenset({"reduce", "sort", "reduce_precision", "argmax"})
_COLLECTIVES = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all", "collective_broadcast": "broadcast", "collective_permute": "send_recv",
}  # fmt: skip
_ELEMENTWISE = frozenset(
    {
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "cosine",
        "count_leading_zeros", "divide", "exponential", "exponential_minus_one", "floor", "imag", "is_finite", "log",
        "log_plus_one", "logistic", "map", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
        "real", "remainder", "rng", "rng_bit_generator", "rng_uniform", "round_nearest_afz", "round_nearest_even",
        "rsqrt", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sine", "sqrt",
        "subtract", "tan", "tanh", "uniform_dequantize", "uniform_quantize", "xor", "erf", "erf_inv",
    }
)  # fmt: skip
_NAMES = {"exponential": "exp", "logistic": "sigmoid", "divide": "div", "power": "pow"}
_PRETTY = re.compile(r"(batching|contracting)_dims\s*=\s*\[([\d, ]*)\]\s*x\s*\[([\d, ]*)\]")
_GENERIC = re.compile(r"(lhs|rhs)_(batching|contracting)_dimensions\s*=\s*\[([\d, ]*)\]")
_CONVOLVED = re.compile(r"\[([bf\d, ]+)\]\s*x\s*\[([io\d, ]+)\]\s*->\s*\[([bf\d, ]+)\]")
_GROUPS = re.compile(r"feature_group_count\s*=\s*(\d{1,9})")
_DILATED = re.compile(r"lhs_dilat(?:e|ion)\s*=\s*(?:array<i64:|\[)\s*([\d, ]+)")
_WINDOW = re.compile(r"window_dimensions\s*=\s*(?:array<i64:|\[|dense<\[)\s*([\d, ]+)")
_PARTICIPANTS = re.compile(r"tensor<\d+x(\d{1,9})xi64>")


def pieces_of(kind: str, statement: Statement, where: str) -> list[Piece] | None:
    """Kinds and dims of a statement; None where its operation is not known.

    Raises InputError where its types or attributes contradict each other.
    """
    try:
        return _pieces(kind, statement)
    except (IndexError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"{where}: shapes and attributes contradict each other ({str(error)[:80]})") from None


def _pieces(kind: str, statement: Statement) -> list[Piece] | None:
    reads, writes = statement.reads, statement.writes
    if kind in ("dot_general", "dot"):
        return [_dot(kind, statement)]
    if kind == "convolution":
        return [_convolution(statement)]
    if not writes:
        return None
    read, written = sum(one.elements for one in reads), sum(one.elements for one in writes)
    if kind in _ELEMENTWISE:
        dims = {"elements": writes[0].elements, "reads": read, "writes": written}
        return [Piece("elementwise", dims, {"function": _NAMES.get(kind, kind)})]
    if kind == "fusion":
        return [Piece("elementwise", {"elements": written, "reads": read, "writes": written}, {"function": "fused"})]
    if kind in _VIEWS:
        return [Piece("view", {"elements": writes[0].elements}, {"function": kind})]
    if kind in _MOVES:
        sliced = written if kind in ("slice", "dynamic_slice", "real_dynamic_slice", "iota", "dynamic_iota") else read
        return [Piece("move", {"reads": 0 if "iota" in kind else sliced, "writes": written}, {"function": kind})]
    if kind in _REDUCTIONS:
        return [Piece("reduction", {"elements": reads[0].elements, "outputs": written}, {"function": kind})]
    if kind in ("reduce_window", "select_and_scatter"):
        match = _WINDOW.search(statement.text)
        window = product(_numbers(match.group(1))) if match else 1
        return [Piece("pool", {"inputs": reads[0].elements, "outputs": writes[0].elements, "window": window})]
    if kind in ("gather", "dynamic_gather", "scatter"):
        return [_gathered(kind, reads, writes)]
    if kind.startswith("batch_norm"):
        channels = reads[1].elements
        return [Piece("norm", {"elements": reads[0].elements, "groups": channels}, {"function": "batch_norm"})]
    if kind in _COLLECTIVES:
        listed = _PARTICIPANTS.search(statement.text)
        dims = {"elements": max(read, written), "participants": int(listed.group(1)) if listed else 1}
        return [Piece("collective", dims, {"function": _COLLECTIVES[kind]})] if dims["participants"] > 1 else []
    if kind == "custom_call" and re.search(
        r"@(Sharding|SPMD\w+|annotate_device_placement|xla\.sdy\.\w+)", statement.text
    ):
        return []
    return None


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word.strip()]


def _dot(kind: str, statement: Statement) -> Piece:
    left, right = statement.reads[0].shape, statement.reads[1].shape
    sides = {"lhs_batching": [], "rhs_batching": [], "lhs_contracting": [], "rhs_contracting": []}  # type: dict[str, list[int]]
    if kind == "dot":
        sides |= {"lhs_contracting": [len(left) - 1], "rhs_contracting": [0]}
    for what, one, other in _PRETTY.findall(statement.text):
        sides[f"lhs_{what}"], sides[f"rhs_{what}"] = _numbers(one), _numbers(other)
    for side, what, axes in _GENERIC.findall(statement.text):
        sides[f"{side}_{what}"] = _numbers(axes)
    depth = product(left[axis] for axis in sides["lhs_contracting"])
    if depth != product(right[axis] for axis in sides["rhs_contracting"]):
        raise ValueError(f"{left} and {right} do not contract")
    batch = product(left[axis] for axis in sides["lhs_batching"])
    rows = _free(left, sides["lhs_batching"] + sides["lhs_contracting"])
    features = _free(right, sides["rhs_batching"] + sides["rhs_contracting"])
    if batch * rows * features != statement.writes[0].elements:
        raise ValueError(f"{batch} x {rows} x {features} results, but {statement.writes[0].shape} are written")
    return Piece("gemm", {"batch": batch, "m": features, "n": rows, "k": depth})


def _free(shape: Sequence[int], taken: Sequence[int]) -> int:
    return int(product(size for axis, size in enumerate(shape) if axis not in taken))


def _convolution(statement: Statement) -> Piece:
    match = _CONVOLVED.search(statement.text)
    if not match:
        raise ValueError("no dim_numbers")
    given, weights, made = ([word.strip() for word in group.split(",")] for group in match.groups())
    inputs, kernel, outputs = statement.reads[0].shape, statement.reads[1].shape, statement.writes[0].shape
    spatial = [word for word in given if word.isdigit()]
    if len(spatial) > len(AXES) or not len(given) == len(inputs) == len(outputs) == len(kernel):
        raise ValueError(f"{len(spatial)} spatial axes of {inputs}")
    counted = _GROUPS.search(statement.text)
    groups = int(counted.group(1)) if counted else 1
    channels = inputs[given.index("f")]
    if groups < 1 or channels != kernel[weights.index("i")] * groups:
        raise ValueError(f"{channels} channels, feature_group_count = {groups} and weights {kernel}")
    dilated = _DILATED.search(statement.text)
    sides = ((inputs, given), (outputs, made), (kernel, weights))
    sizes = ([shape[names.index(axis)] for axis in spatial] for shape, names in sides)
    dims = convolution_dims(outputs[made.index("b")], channels, outputs[made.index("f")], groups, *sizes)
    if given.index("f") < given.index("b") and groups == 1 and "batch_group_count = 1" in statement.text:
        # the gradient of weights: what the forward pass read over what its results' gradient is, a window of them each
        return Piece("convolution", _turned(dims, "batch", "channels_in", "out", "kernel"), {"pass": "backward_weight"})
    transposed = bool(dilated and any(rate > 1 for rate in _numbers(dilated.group(1))))
    if weights.index("o") < weights.index("i") and spatial and groups == 1:  # the gradient of what the pass read
        return Piece(
            "convolution", _turned(dims, "channels_in", "channels_out", "in", "out"), {"pass": "backward_data"}
        )
    return Piece("convolution", dims, {"pass": "forward", "transposed": transposed})


def _turned(dims: Mapping[str, Amount], one: str, other: str, first: str, second: str) -> dict[str, Amount]:
    """Dims with two of them, and the axes of two shapes, in each other's place."""
    pairs = [(one, other), *((f"{first}_{axis}", f"{second}_{axis}") for axis in AXES)]
    return {**dims} | {a: dims[b] for a, b in pairs} | {b: dims[a] for a, b in pairs}


def _gathered(kind: str, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> Piece:
    moved = reads[-1] if kind == "scatter" else writes[0]
    index = reads[1]
    rows = max(1, min(index.elements, moved.elements))
    return Piece("gather", {"rows": rows, "width": max(1, moved.elements // rows)}, {"function": kind})


MAX_NODES = 200_000
MAX_CALLS = 64
MAX_TRIPS = 10**9
_TRIPS = re.compile(r"trips = (\d{1,9}) @([\w.$\-]+)\(")
_CARRIED = re.compile(r"(%[\w$.\-]+)\s*=\s*(%[\w$.\-]+(?:#\d+)?)")
_COMPARED = re.compile(r"(?:compare\S*\s+|comparison_direction[< ])(LT|LE|GT|GE|NE)\b")


def _trips(blocks: Sequence[Function], carried: Mapping[str, str], known: Mapping[str, int]) -> int | None:
    """How often a loop is run: its condition compares a counter with a constant, its body adds another one."""
    condition, body = blocks
    by_argument = dict(zip(condition.arguments, carried.values(), strict=False)) or carried
    ends_at, steps_by = (
        {**known, **{one.results[0]: n for one in block.statements if (n := whole_constant(one)) is not None}}
        for block in blocks
    )
    compare = next((one for one in condition.statements if one.operation.endswith("compare")), None)
    direction = _COMPARED.search(compare.text) if compare else None
    ends = condition.statements[-1].operands if condition.statements else ()
    if compare is None or direction is None or ends != compare.results or len(compare.operands) != 2:
        return None
    (counter, last), way = compare.operands, direction[1]
    if counter not in by_argument:  # the end stands first
        counter, last, way = last, counter, way.translate(str.maketrans("LG", "GL"))
    limit = ends_at.get(last, known.get(by_argument.get(last, "")))
    first = known.get(by_argument.get(counter, ""))
    place = list(by_argument).index(counter) if counter in by_argument else -1
    returned = next((one.operands for one in body.statements if one.operation.endswith("return")), ())
    if limit is None or first is None or not 0 <= place < len(returned):
        return None
    inside = list(body.arguments or carried)[place]
    moved = next((one for one in body.statements if returned[place] in one.results), None)
    steps = [steps_by[name] for name in (moved.operands if moved else ()) if name != inside and name in steps_by]
    if moved is None or len(steps) != 1 or moved.operation.rpartition(".")[2] not in ("add", "subtract"):
        return None
    if inside not in moved.operands:
        return None
    return turns(way, first, limit, -steps[0] if moved.operation.endswith("subtract") else steps[0])


def import_stablehlo(path: str | os.PathLike[str]) -> Workload:
    """The function main (or the first one) of a StableHLO module, with what it calls.

    Raises InputError where the file holds no function, calls go in circles, shapes are open, or an operation
    contradicts its shapes.
    """
    path = Path(path)
    kind = identify(path)
    hlo = kind is not None and kind.key == "hlo"
    functions = read_hlo(path) if hlo else read_functions(path)
    first = functions.get("main") or next(iter(functions.values()))
    walk = _Walk(path, functions)
    walk.kept |= walk.function(first, {name: {-1 - i} for i, name in enumerate(first.arguments)}, 0)
    nodes = walk.nodes
    if not nodes:
        raise InputError(f"{path}: function {first.name} holds no operation that takes time")
    if not any(node.name == "fusion" for node in nodes):
        nodes = compiled(nodes, walk.reads, [one for one in walk.kept if one >= 0])
        walk.notes[f"compiled: {len(walk.nodes):,} operations are {len(nodes):,} kernels, as XLA fuses them"] = None
    built = assemble(nodes)
    metadata: dict[str, Attribute] = {WORK: program_kind(built.operations), "purpose": "run"}
    metadata |= {"source": "hlo" if hlo else "stablehlo", "assumptions": tuple(walk.notes), "execution": "compiled"}
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    return Workload(name, built.operations, built.edges, metadata=FrozenDict(metadata), uncounted=built.uncounted)


class _Walk:
    """Collects nodes of a function and of those it calls."""

    def __init__(self, path: Path, functions: Mapping[str, Function]) -> None:
        self.path, self.functions = path, functions
        self.nodes: list[ImportedNode] = []
        self.reads: list[list[Read]] = []
        self.kept: set[int] = set()
        self.notes: dict[str, None] = {}
        self.times = 1

    def function(
        self, function: Function, made: dict[str, set[int]], depth: int, known: Mapping[str, int] = MappingProxyType({})
    ) -> set[int]:
        """Walk a function whose arguments wait for the nodes in `made`; returns what its results wait for.

        `known`: whole numbers by their names, as far as a region sees them.
        """
        numbers = dict(known)
        if depth > MAX_CALLS:
            raise InputError(f"{self.path}: calls nest deeper than {MAX_CALLS}, or in a circle")
        last: set[int] = set()
        for statement in function.statements:
            before = (
                set().union(*(made.get(name, set()) for name in statement.operands)) if statement.operands else set()
            )
            kind = statement.operation.rpartition(".")[2]
            if kind == "return":
                last = before
                continue
            if kind == "constant" and (number := whole_constant(statement)) is not None:
                numbers[statement.results[0]] = number
            if kind == "call":
                after = self._call(statement, made, depth)
            elif kind == "while" and (looped := self._loop(statement, made, depth, numbers)) is not None:
                after = looped
            else:
                after = self._operation(statement, kind, before, made)
            for name in statement.results:
                made[name] = after
        return last

    def _call(self, statement: Statement, made: dict[str, set[int]], depth: int) -> set[int]:
        at = statement.text.find("@")
        name = statement.text[at + 1 :].partition("(")[0].strip().strip('"') if at >= 0 else ""
        called = self.functions.get(name)
        if called is None:
            raise InputError(f"{self.path}: line {statement.line}: calls @{name[:60]}, which is not in the file")
        given = zip(called.arguments, statement.operands, strict=False)
        return self.function(called, {argument: made.get(value, set()) for argument, value in given}, depth + 1)

    def _loop(
        self, statement: Statement, made: dict[str, set[int]], depth: int, known: Mapping[str, int]
    ) -> set[int] | None:
        """Walk the body of a loop, each operation as often as it is run; None where its trips are not in the text."""
        before = set().union(*(made.get(name, set()) for name in statement.operands)) if statement.operands else set()
        if stated := _TRIPS.match(statement.text):
            body, trips = self.functions.get(stated[2]), int(stated[1])
            inner = dict.fromkeys(body.arguments if body else (), before)
        else:
            blocks = regions(statement, self.path)
            carried = dict(_CARRIED.findall(statement.text.partition("while")[2].partition(":")[0]))
            body = blocks[1] if len(blocks) == 2 else None
            if body is not None and not carried:
                carried = dict(zip(body.arguments, statement.operands, strict=False))
            counted = _trips(blocks, carried, known) if body is not None else None
            if counted is None:
                return None
            trips, inner = counted, {name: made.get(value.partition("#")[0], before) for name, value in carried.items()}
            inner = {**made, **inner}  # a region sees what stands around it
        if body is None or trips > MAX_TRIPS:
            return None
        if trips == 0:
            return before
        self.times *= trips
        after = self.function(body, inner, depth + 1, known)
        self.kept |= after
        self.times //= trips
        return after or before

    def _operands(self, statement: Statement, before: set[int], made: Mapping[str, set[int]]) -> Iterator[Read]:
        """Each operand by what may have made it: of several results, those of its type."""
        each = len(statement.reads) == len(statement.operands)
        for place, tensor in enumerate(statement.reads):
            sources = made.get(statement.operands[place], set()) if each else before
            alike = {one for one in sources if one < 0 or any(
                made.elements == tensor.elements and made.dtype == tensor.dtype for made in self.nodes[one].writes
            )}  # fmt: skip
            yield alike or sources, tensor

    def _operation(self, statement: Statement, kind: str, before: set[int], made: Mapping[str, set[int]]) -> set[int]:
        if kind in NOTHING:
            return before
        if len(self.nodes) >= MAX_NODES:
            raise InputError(f"{self.path}: more than {MAX_NODES:,} operations")
        where = f"{self.path}: line {statement.line}: {kind}"
        if kind == "while":
            self.notes["loops whose trips are not in the text are counted as unknown operations"] = None
        pieces = pieces_of(kind, statement, where)
        if self.times > 1 and pieces:
            pieces = [replace(piece, times=piece.times * self.times) for piece in pieces]
        waits: set[tuple[int, int | None]] = {(index, None) for index in before if index >= 0}
        self.reads.append(list(self._operands(statement, before, made)))
        self.nodes.append(ImportedNode(kind, "forward", "", statement.reads, statement.writes, pieces, waits))
        return {len(self.nodes) - 1}
