"""Chakra execution traces with durations as dependency graphs (the JSON form of the public schema).

Source: github.com/mlcommons/chakra, schema/protobuf/et_def.proto: a node has an id, a name, a type (COMP_NODE,
COMM_COLL_NODE, COMM_SEND_NODE, COMM_RECV_NODE, MEM_LOAD_NODE, MEM_STORE_NODE), control and data dependencies, a start,
a duration in microseconds, and attributes such as `is_cpu_op`. Both spellings of its fields are read (ctrl_deps,
ctrlDeps). A delay that no dependency explains is kept, so that a replay gives the trace back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import number_of, require_mapping, whole_of
from slipstick.workloads.importers.traces.trace_graph import Kind, TraceGraph, TraceNode

LIMIT_BYTES = 1024 * MEGABYTE
LARGEST_ID = 10**18
LONGEST = 1e12
"""Microseconds that a time in a trace may be."""


def has_durations(document: Mapping[str, Any]) -> bool:
    """Whether a Chakra document says how long its nodes took."""
    nodes = document.get("nodes")
    return isinstance(nodes, list) and any(
        isinstance(node, Mapping) and _field(node, "duration_micros", "durationMicros") not in (None, 0, "0")
        for node in nodes
    )


def chakra_graph(document: Mapping[str, Any], where: str) -> TraceGraph:
    """The graph of a Chakra document; `where` is the file, for messages.

    Raises InputError where it is no Chakra trace, holds no durations, or two nodes have one id.
    """
    entries = document.get("nodes")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{where}: no Chakra trace (want a list of 'nodes')")
    if not has_durations(document):
        raise InputError(f"{where}: no durations (duration_micros): say --recorded-on MACHINE, and they are estimated")
    nodes: dict[int, TraceNode] = {}
    before: dict[int, list[int]] = {}
    for entry in entries:
        entry = require_mapping(entry, where, "nodes")
        number = whole_of(entry.get("id"), f"{where}: id", -LARGEST_ID)
        at = f"{where}: node {number}"
        if number in nodes:
            raise InputError(f"{at}: two nodes have this id")
        name = str(entry.get("name", ""))[:200]
        kind, lane = _lane(entry, name)
        start, service = (
            1e-6 * number_of(_field(entry, f"{name}_micros", f"{other}Micros") or 0, f"{at}: {name}_micros", 0, LONGEST)
            for name, other in (("start_time", "startTime"), ("duration", "duration"))
        )
        nodes[number] = TraceNode(name, kind, lane, start, service)
        deps = [_field(entry, "ctrl_deps", "ctrlDeps"), _field(entry, "data_deps", "dataDeps")]
        listed = [d for some in deps for d in (some if isinstance(some, list) else [some] if some is not None else [])]
        before[number] = [whole_of(d, f"{at}: dependency", -LARGEST_ID) for d in listed]
    return _graph(nodes, before, where)


def _graph(nodes: dict[int, TraceNode], before: dict[int, list[int]], where: str) -> TraceGraph:
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((b, number) for number, some in before.items() for b in some if b in nodes and b != number)
    if not nx.is_directed_acyclic_graph(graph):
        raise InputError(f"{where}: node {nx.find_cycle(graph)[0][0]}: nodes wait for each other")
    timed = any(node.start > 0 for node in nodes.values())
    origin = min(node.start for node in nodes.values())
    order = list(nx.lexicographical_topological_sort(graph, key=lambda n: (nodes[n].start, n)))
    place = {number: i + 1 for i, number in enumerate(order)}
    made = [TraceNode("begin", "host", "host", 0.0, 0.0)]
    edges, lags = [], []
    for number in order:
        node = nodes[number]
        ends = {b: nodes[b].start + nodes[b].service - origin for b in graph.predecessors(number)}
        start = node.start - origin if timed else 0.0
        made.append(TraceNode(node.name, node.kind, node.lane, start, node.service))
        latest = max(ends.values(), default=0.0)
        # a child of a call starts inside it: its lag is negative, and is kept for the latest of all only
        delay = start - latest if timed else 0.0
        edges += [(place[b], place[number]) for b in ends] or [(0, place[number])]
        lags += [start - end if start < end else max(0.0, delay) for end in ends.values()] or [start]
    last = len(made)
    made.append(TraceNode("end", "host", "host", 0.0, 0.0))
    edges += [(i, last) for i in range(1, last)]
    lags += [0.0] * (last - 1)
    return TraceGraph(
        tuple(made),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
        np.array(lags),
        np.zeros(len(made)),
        ((0, last),),
        ("whole trace",),
        where,
    )


def _lane(entry: Mapping[str, Any], name: str) -> tuple[Kind, str]:
    kind = str(entry.get("type", "COMP_NODE"))
    facts = _attributes(entry)
    if kind.startswith("COMM"):
        return "collective", "network"
    if kind.startswith("MEM"):
        return "copy", "memory"
    on_host = str(facts.get("is_cpu_op", "false")).lower() in ("true", "1")
    return ("host", "host") if on_host else ("kernel", f"stream {facts.get('stream', 0)}")


def _attributes(entry: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {}
    listed = entry.get("attr", entry.get("attrs"))
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping):
            value = next((v for k, v in one.items() if k == "value" or k.lower().endswith(("val", "_val"))), None)
            attributes[str(one.get("name"))] = value
    return attributes


def _field(entry: Mapping[str, Any], *names: str) -> Any:
    return next((entry[name] for name in names if name in entry), None)
