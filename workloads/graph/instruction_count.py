"""Instructions of one thread from flop, bytes and data type, for programs whose instructions nobody counted.

One instruction is one arithmetic operation on a 32-bit number (a multiply-add of a product is one), or one 32-bit word
read or written, whichever are more. 64-bit numbers count twice, since half as many fit a vector register; narrower ones
count as 32 bits. What the compiler makes of them is the business of a fitted operation factor.

Source: the counts of Viebke et al. 2019, Tables VII and VIII, are of this kind; by these rules a training run of their
three networks comes to 0.97, 0.93 and 0.89 of theirs (validation and testing included).
"""

from __future__ import annotations

from slipstick.common.expressions import is_symbolic, sp
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

WORD_BYTES = 4
FREE_KINDS = ("view",)


def counted_instructions(op: Op) -> Amount:
    """Instructions of one execution: those that the graph states, else by the rules above; a body's are its sum."""
    stated = op.cost["instructions"]
    if stated != 0:
        return stated
    if op.body is not None:
        return sum(counted_instructions(inner) * inner.times for inner in op.body)
    if op.kind in FREE_KINDS:
        return 0
    arithmetic: Amount = 0
    for name, amount in op.cost.items():
        if name.startswith("flop."):
            _, unit, dtype = name.split(".")
            wide = max(1.0, SIZE_BYTES.get(dtype, WORD_BYTES) / WORD_BYTES)
            arithmetic = arithmetic + amount * (wide / 2 if unit == "matrix" else wide)
    return _larger(arithmetic, op.cost.bytes_moved / WORD_BYTES)


def _larger(one: Amount, other: Amount) -> Amount:
    if is_symbolic(one) or is_symbolic(other):
        return sp.Max(one, other)
    return max(one, other)
