"""A workload as a file: node-link JSON, amounts as numbers or as formulas in text."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import of_schema, read_json, require_mapping, unknown_name
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.common.units import check_count
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.digraph import read_amount, read_amounts, read_cost, read_facts, read_mapping
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_writer import SCHEMA

LARGEST_FILE = 512 * MEGABYTE
"""Unpacked; an operation takes about 250 bytes, and a document of more than two million lists is refused."""


@checked
def load_workload(path: str | os.PathLike[str]) -> Workload:
    """A workload from node-link JSON (.json or .json.gz), as `Workload.save` writes it.

    Raises
    ------
    InputError
        Names the file, the node and the field.

    Examples
    --------
    >>> import slipstick as ss
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ss.workload("gpt2").save(f"{folder}/gpt2.json.gz")
    ...     ss.load_workload(f"{folder}/gpt2.json.gz") == ss.workload("gpt2")
    True
    """
    return from_json(read_json(path, LARGEST_FILE), str(path))


def from_json(document: Any, where: str) -> Workload:
    """A workload from plain data; `where` is the file, for messages.

    Raises InputError where a field is missing, of another type or out of range.
    """
    document = of_schema(document, SCHEMA, where)
    for name, wanted in (("name", str), ("nodes", list), ("links", list), ("uncounted", list)):
        if not isinstance(document.get(name, [] if name == "uncounted" else None), wanted):
            raise InputError(f"{where}: field {name!r}: want a {wanted.__name__}")
    if not document["nodes"]:
        raise InputError(f"{where}: field 'nodes': want at least one operation")
    problems = Problems(where)
    operations = [_op_from_json(require_mapping(node, where, "nodes"), where, problems) for node in document["nodes"]]
    links = [require_mapping(link, where, "links") for link in document["links"]]
    metadata = read_facts(document.get("metadata", {}), "metadata", problems)
    defaults = read_mapping(document.get("defaults", {}), "defaults", problems)
    for name, value in defaults.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            problems.append(f"defaults.{name} = {str(value)[:40]!r}: want a finite number > 0")
    problems.refuse()
    edges = tuple((str(link.get("source")), str(link.get("target"))) for link in links)
    uncounted = tuple(map(str, document.get("uncounted", ())))
    made = tuple(op for op in operations if op is not None)
    return Workload(document["name"], made, edges, FrozenDict(defaults), metadata, uncounted)


def _op_from_json(node: Mapping[str, Any], file: str, problems: Problems) -> Op | None:
    """The operation of a node; None where something is wrong, which is added to `problems`."""
    if not isinstance(node.get("id"), str) or not isinstance(node.get("kind"), str):
        raise InputError(f"{file}: a node needs texts 'id' and 'kind', got {str(node)[:60]!r}")
    where = f"node {node['id']!r}"
    known = ("id", "kind", "dtype", "dims", "cost", "times", "attributes", "payload", "body")
    problems += [str(unknown_name(f"field in {where}:", name, sorted(known))) for name in node if name not in known]
    dims = read_amounts(node.get("dims", {}), f"{where}: dims", problems)
    cost = read_cost(node.get("cost", {}), f"{where}: cost", problems)
    times = read_amount(node.get("times", 1), f"{where}: times", problems)
    attributes = read_facts(node.get("attributes", {}), f"{where}: attributes", problems)
    with problems, errors_at(where):
        for field, count in (("times", times), ("cost.launches", cost.get("launches"))):
            if isinstance(count, (int, float)):
                check_count(field, count, 0)
        return Op(
            name=node["id"],
            kind=node["kind"],
            dims=dims,
            dtype=str(node.get("dtype", "float32")),
            cost=Cost(cost),
            times=1 if times is None else times,
            attributes=attributes,
            body=from_json(node["body"], "body") if "body" in node else None,
            payload=str(node["payload"]) if "payload" in node else None,
        )
    return None
