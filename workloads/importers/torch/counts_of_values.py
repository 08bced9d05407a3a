"""Sizes that hang on values: how many tokens an expert gets, how many places a mask picks.

A trace without values gives each such size a symbol of its own (``u0``). Here each is the share of the mask that an
equal choice gives: what ``n`` masks of one size pick (one for each expert) is 1/n of it, times a load that stays open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.workloads.graph.assembly import Tensor
from slipstick.workloads.graph.work import product
from slipstick.workloads.importers.torch.recorder import RecordedNode

LOAD, SHARE = "expert_load", "selected_share"
"""Tokens of each expert over an equal share of them; places that a single mask picks over all of them."""
NOTES = {
    LOAD: "experts take equal shares of the tokens (expert_load = 1; the busiest: --expert-load 1.5)",
    SHARE: "masks pick every place (selected_share = 1; half of them: --selected-share 0.5)",
}
_OPEN = re.compile(r"u\d+$")


def counts(nodes: Sequence[RecordedNode]) -> dict[str, sp.Expr]:
    """What stands for each size that hangs on values, in the sizes of the trace and `LOAD` or `SHARE`."""
    picked: dict[str, Any] = {}
    for node in nodes:
        if node.call is None:
            continue
        for result in _tensors(node.call.results):
            for name in {str(size) for size in result.shape if _OPEN.match(str(size))} - set(picked):
                picked[name] = _places(node.call.arguments)
    known = {name: places for name, places in picked.items() if places is not None and not _is_open(places)}
    alike = Counter(known.values())
    return {
        name: sp.ceiling(symbol(LOAD if alike[places] > 1 else SHARE) * places / alike[places])
        for name, places in known.items()
    }


def open_loads(sizes: Mapping[str, sp.Expr]) -> tuple[str, ...]:
    """Which of `LOAD` and `SHARE` stand in the sizes."""
    names = {str(one) for size in sizes.values() for one in size.free_symbols}
    return tuple(name for name in (LOAD, SHARE) if name in names)


def _places(arguments: Any) -> Any:
    """Elements of the mask among the arguments, else of the first tensor; None where there is no tensor."""
    tensors = _tensors(arguments)
    masks = [one for one in tensors if one.dtype == "bool"] or tensors
    return sp.sympify(product(masks[0].shape), strict=True) if masks else None


def _is_open(places: Any) -> bool:
    return any(_OPEN.match(str(one)) for one in places.free_symbols)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [one for part in value for one in _tensors(part)] if isinstance(value, (tuple, list)) else []
