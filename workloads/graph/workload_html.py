"""A workload as a notebook shows it: its kinds of operations, and not each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstick.common.formatting import count_shown, share_shown, shown
from slipstick.common.html_tables import html_table

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Workload


def workload_html(workload: Workload) -> str:
    """Count, flop and bytes of each kind, most flop first, at the defaults of the workload's symbols.

    Where a symbol has no default only the counts are known, and the caption names it.
    """
    head = f"{workload.name}: {len(workload):,} operations"
    free = sorted(workload.symbols - set(workload.defaults))
    if free:
        counts: dict[str, int] = {}
        for operation in workload.operations:
            counts[operation.kind] = counts.get(operation.kind, 0) + 1
        counted = [(kind, f"{count:,}") for kind, count in sorted(counts.items(), key=lambda one: -one[1])]
        return html_table(("kind", "count"), counted, f"{head}; free: {', '.join(free)}")
    sums: dict[str, list[float]] = {}
    for operation in workload.bound().operations:
        times = float(operation.times)
        amounts = (times, times * float(operation.cost.flop), times * float(operation.cost.bytes_moved))
        sums[operation.kind] = [a + b for a, b in zip(sums.get(operation.kind, (0.0, 0.0, 0.0)), amounts, strict=True)]
    whole = sum(flop for _, flop, _ in sums.values()) or 1.0
    rows = [
        (kind, count_shown(count), shown(flop, "flop"), share_shown(flop / whole), shown(moved, "byte"))
        for kind, (count, flop, moved) in sorted(sums.items(), key=lambda one: -one[1][1])
    ]
    at = ", ".join(f"{name} = {value:g}" for name, value in workload.defaults.items())
    return html_table(("kind", "count", "flop", "of them", "bytes moved"), rows, f"{head}; {at}" if at else head)
