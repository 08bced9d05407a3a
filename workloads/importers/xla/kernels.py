"""The kernels that XLA makes of a program's operations, so that what lies between their parts is not moved.

Arithmetic, conversions, broadcasts and slices go into whatever reads them, a reduction takes what is before it, and
kernels over the same elements that read the same arrays become one with several results. What products and
convolutions read, and what reductions and the program give, lies in memory. An array with several readers is made once
or by each of them, whichever moves fewer bytes.

Source: openxla/xla, xla/service/gpu/transforms (instruction, priority and multi-output fusion).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from slipstick.workloads.graph.assembly import ImportedNode, Piece, Tensor
from slipstick.workloads.graph.cost import SIZE_BYTES, result_bytes
from slipstick.workloads.graph.work import elementwise_work

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
