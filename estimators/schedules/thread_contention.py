"""What threads wait for each other at shared weights: measured, on a line beyond, by the weights elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from slipstick.common.expressions import sp, symbol
from slipstick.estimators.symbolic.formula import Parameter, check_parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest


@dataclass(frozen=True)
class Contention:
    """Seconds that one contended operation waits when p threads compete for memory.

    The measured value where there is one at that count; else the line intercept + slope p.

    Parameters
    ----------
    measured
        (threads, seconds), as measured.
    """

    intercept: Annotated[float, Parameter("s", "contention of no thread: the line's origin", -1.0, 1.0)]
    slope: Annotated[float, Parameter("s", "contention that each thread adds", 0.0, 1.0)]
    measured: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        check_parameters(self)

    def formula(self, prefix: str, threads: sp.Expr) -> sp.Expr:
        """Seconds at so many threads; parameters are named below `prefix`. Never below what fewest threads wait."""
        least = sp.Float(min(seconds for _, seconds in self.measured)) if self.measured else sp.Integer(0)
        # a maximum that stays: sympy takes the intercept for positive and would drop it
        line = Largest(least, symbol(f"{prefix}.intercept") + symbol(f"{prefix}.slope") * threads)
        pairs = [(sp.Float(seconds), sp.Eq(threads, count)) for count, seconds in self.measured]
        return sp.Piecewise(*pairs, (line, True)) if pairs else line


@dataclass(frozen=True)
class ContentionByWeights:
    """Contention of a network that was not measured, from others on the same machine: (fixed + by_weight W) p.

    Every thread adds a turn at the shared weights: a part for the turn itself, and a part for every weight.
    """

    fixed: Annotated[float, Parameter("s", "contention that a thread adds, whatever the network", 0.0, 1.0)]
    by_weight: Annotated[float, Parameter("s", "contention that a thread adds for every weight", 0.0, 1e-3)]

    def __post_init__(self) -> None:
        check_parameters(self)

    def formula(self, prefix: str, threads: sp.Expr, weights: float) -> sp.Expr:
        """Seconds at so many threads of a network of so many weights."""
        return (symbol(f"{prefix}.fixed") + symbol(f"{prefix}.by_weight") * sp.Float(weights)) * threads
