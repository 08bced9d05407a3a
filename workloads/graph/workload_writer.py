"""A workload written as a file (read by `workload_file`): node-link JSON, formulas as text."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any

from slipstick.common.expressions import expression_text, is_symbolic
from slipstick.common.writer import atomic_write
from slipstick.workloads.graph.cost import Amount

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Op, Workload

SCHEMA = "slipstick-workload-1"


def write(workload: Workload, path: str | os.PathLike[str]) -> None:
    """See `Workload.save`."""
    content = json.dumps(to_json(workload), indent=None, separators=(",", ":")).encode()
    with atomic_write(path, "wb") as stream:
        stream.write(gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content)


def to_json(workload: Workload) -> dict[str, Any]:
    """A workload as plain data (node-link form); expressions are text."""
    return {
        "schema": SCHEMA,
        "name": workload.name,
        "defaults": dict(workload.defaults),
        "metadata": dict(workload.metadata),
        "uncounted": list(workload.uncounted),
        "nodes": [_op_to_json(op) for op in workload.operations],
        "links": [{"source": before, "target": after} for before, after in workload.edges],
    }


def _op_to_json(op: Op) -> dict[str, Any]:
    node: dict[str, Any] = {"id": op.name, "kind": op.kind, "dtype": op.dtype}
    node["dims"] = {name: _amount_to_json(amount) for name, amount in op.dims.items()}
    node["cost"] = {name: _amount_to_json(amount) for name, amount in op.cost.items()}
    if op.times != 1:
        node["times"] = _amount_to_json(op.times)
    if op.attributes:
        node["attributes"] = dict(op.attributes)
    if op.payload:
        node["payload"] = op.payload
    if op.body:
        node["body"] = to_json(op.body)
    return node


def _amount_to_json(amount: Amount) -> float | int | str:
    return expression_text(amount) if is_symbolic(amount) else amount
