"""How far two kernel libraries differ on one device (`slipstick validate --refit libraries`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from slipstick.estimators.fitting.fitted_file import load_fitted

NAME = "libraries"


@cache
def library_spreads() -> Mapping[str, float]:
    """Standard deviation of log time between two libraries where none is named, by kind of operation; kinds that are
    not in it differ as products do."""
    return {kind: float(spread) for kind, spread in load_fitted(NAME).facts.items()}


def between_libraries(spreads: Mapping[str, float], name: str) -> float:
    """Standard deviation of log time (of no unit) of a class, such as "attention.bfloat16": what libraries of its kind
    differ by, else those of products."""
    return spreads.get(name.partition(".")[0], spreads.get("gemm", 0.0))
