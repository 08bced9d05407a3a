"""One collective operation by itself, for questions about links: how long eight devices take to sum 64 MiB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.kinds import SIZE_BYTES, operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK

FUNCTIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
DTYPE = "float16"
DEFAULTS = {"bytes": 64 * 2**20, "devices": 8, "stride": 1}


def collective(function: str) -> Workload:
    """Symbols: `bytes` (the whole buffer of a device), `devices`, and `stride` (1: neighbours, 8: one of eight)."""
    elements = symbol("bytes") / sp.Integer(SIZE_BYTES[DTYPE])
    dims = {"elements": elements, "participants": symbol("devices"), "stride": symbol("stride")}
    name = function.replace("_", "-")
    op = operation(name, "collective", dims, DTYPE, {"function": function})
    defaults = FrozenDict({key: float(value) for key, value in DEFAULTS.items()})
    return Workload(name, (op,), (), defaults, FrozenDict({WORK: "collective"}))


def builders() -> dict[str, Callable[[], Workload]]:
    """One workload a function, by its name with hyphens."""
    return {function.replace("_", "-"): partial(collective, function) for function in FUNCTIONS}
