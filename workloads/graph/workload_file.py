"""A workload as a file: node-link JSON, amounts as numbers or as formulas in text."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, sp
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import of_schema, read_json, require_mapping, unknown_name
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.common.units import check_count
from slipstick.workloads.graph.cost import LARGEST, Amount, Cost
from slipstick.workloads.graph.workload import Attribute, Op, Workload
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
    operations = tuple(_op_from_json(node, where) for node in document["nodes"])
    edges = []
    for link in document["links"]:
        link = require_mapping(link, where, "links")
        edges.append((str(link.get("source")), str(link.get("target"))))
    metadata = _attributes(document.get("metadata", {}), f"{where}: metadata")
    uncounted = tuple(str(entry) for entry in document.get("uncounted", ()))
    defaults = require_mapping(document.get("defaults", {}), where, "defaults")
    for name, value in defaults.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InputError(f"{where}: defaults.{name} = {str(value)[:40]!r}: want a finite number > 0")
    return Workload(document["name"], operations, tuple(edges), FrozenDict(defaults), metadata, uncounted)


def _op_from_json(node: Any, where: str) -> Op:
    node = require_mapping(node, where, "nodes")
    if not isinstance(node.get("id"), str) or not isinstance(node.get("kind"), str):
        raise InputError(f"{where}: a node needs texts 'id' and 'kind', got {str(node)[:60]!r}")
    where = f"{where}: node {node['id']!r}"
    known = {"id", "kind", "dtype", "dims", "cost", "times", "attributes", "payload", "body"}
    for name in node:
        if name not in known:
            raise unknown_name(f"field in {where}:", name, sorted(known))
    try:
        return Op(
            name=node["id"],
            kind=node["kind"],
            dims=FrozenDict(_amounts(node, "dims", where)),
            dtype=str(node.get("dtype", "float32")),
            cost=Cost(_amounts(node, "cost", where)),
            times=_counted(_amount_from_json(node.get("times", 1), f"{where}: times"), f"{where}: times"),
            attributes=_attributes(node.get("attributes", {}), f"{where}: attributes"),
            body=from_json(node["body"], f"{where}: body") if "body" in node else None,
            payload=str(node["payload"]) if "payload" in node else None,
        )
    except InputError as error:
        text = str(error)
        raise (error if text.startswith(where) else InputError(f"{where}: {text}")) from None


def _amounts(node: Mapping[str, Any], part: str, where: str) -> dict[str, Any]:
    entries = require_mapping(node.get(part, {}), where, part)
    amounts = {name: _amount_from_json(value, f"{where}: {part}.{name}") for name, value in entries.items()}
    if "launches" in amounts:
        _counted(amounts["launches"], f"{where}: {part}.launches")
    return amounts


def _amount_from_json(value: Any, where: str) -> Amount:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{where} = {str(value)[:40]!r}: want a number or a formula")
    if isinstance(value, str):
        try:
            return _parsed(value)
        except InputError:
            return parse_expression(value, where=where)  # the same error, with its place
    if not 0 <= value <= LARGEST:
        raise InputError(f"{where} = {value!r}: want a finite amount >= 0, up to {LARGEST:g}")
    return value


def _counted(amount: Amount, where: str) -> Amount:
    """A count as it stands: a formula, or a whole number."""
    if isinstance(amount, (int, float)):
        check_count(where, amount, 0)
    return amount


@lru_cache(maxsize=1024)
def _parsed(text: str) -> sp.Expr:
    # A graph repeats a few expressions thousands of times.
    return parse_expression(text)


def _attributes(value: Any, where: str) -> FrozenDict[Attribute]:
    def freeze(entry: Any) -> Attribute:
        if isinstance(entry, list):
            return tuple(freeze(part) for part in entry)
        if entry is None or isinstance(entry, (str, int, float, bool)):
            return entry
        raise InputError(f"{where}: want plain values, got {str(entry)[:40]!r}")

    return FrozenDict({name: freeze(entry) for name, entry in require_mapping(value, where, "attributes").items()})
