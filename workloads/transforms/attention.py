"""Attention in one kernel, where a graph has it in parts: scores, scale and mask, softmax, weighted values.

Source: Dao et al., "FlashAttention", NeurIPS 2022: neither scores nor shares are written to memory; the backward pass
makes them again.
"""

from __future__ import annotations

from dataclasses import replace

from slipstick.hwmodels.files.records import Table
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload


def flash_attention(workload: Workload) -> Workload:
    """The workload with every such chain, and its backward pass, as one operation each.

    A chain's backward operations are those that are named after its parts (``NAME.backward...``), as networks of this
    project have them; a chain whose parts anything else reads stays as it is.
    """
    known = {op.name: op for op in workload}
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for first, second in workload.edges:
        after.setdefault(first, []).append(second)
        before.setdefault(second, []).append(first)
    place: dict[str, str] = {}
    made: dict[str, Op] = {}
    for op in workload:
        if op.kind != "gemm" or op.name in place or ".backward" in op.name:
            continue
        chain = _chain(op, known, after)
        if not chain:
            continue
        back = [name for name in known if any(name.startswith(f"{part}.backward") for part in chain)]
        whole = _attention(known[chain[0]], known[chain[-1]], causal=workload.metadata.get("network") == "gpt")
        made[chain[-1]] = whole
        place |= dict.fromkeys(chain, chain[-1])
        if back:
            kept: dict[str, Attribute] = {**whole.attributes, "pass": "backward", "phase": "backward"}
            name = f"{chain[-1]}.backward"
            made[back[0]] = operation(name, "attention", dict(whole.dims), whole.dtype, kept, times=whole.times)
            place |= dict.fromkeys(back, back[0])
    if not made:
        return workload
    names = {name: made[at].name for name, at in place.items()}
    operations = tuple(made.get(op.name, op) for op in workload if op.name in made or op.name not in place)
    edges = dict.fromkeys((names.get(a, a), names.get(b, b)) for a, b in workload.edges)
    facts = Table({**workload.metadata, "attention": "flash"})
    inside = tuple((a, b) for a, b in edges if a != b)
    return replace(workload, operations=operations, edges=inside, metadata=facts)


def _chain(scores: Op, known: dict[str, Op], after: dict[str, list[str]]) -> list[str]:
    """From the scores to the weighted values; empty where there is no such chain."""
    chain, name, softmax = [scores.name], scores.name, False
    while True:
        readers = [reader for reader in after.get(name, []) if ".backward" not in reader]
        if len(readers) != 1:
            return []
        op = known[readers[0]]
        chain.append(op.name)
        name = op.name
        if op.kind == "softmax" and not softmax:
            softmax = True
        elif op.kind == "gemm" and softmax and op.dims["batch"] == scores.dims["batch"]:
            return chain
        elif op.kind not in ("elementwise", "view"):
            return []


def _attention(scores: Op, values: Op, *, causal: bool) -> Op:
    dims = {"batch": scores.dims["batch"], "heads": 1, "kv_heads": 1, "queries": scores.dims["n"]}
    dims |= {"keys": scores.dims["m"], "head_dim": scores.dims["k"], "value_dim": values.dims["m"]}
    facts: dict[str, Attribute] = {"causal": True} if causal else {}
    return operation(values.name, "attention", dims, scores.dtype, facts, times=scores.times)
