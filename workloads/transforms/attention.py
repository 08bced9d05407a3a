"""Attention in one kernel, where a graph has it in parts: scores, scale and mask, softmax, weighted values.

Source: Dao et al., "FlashAttention", NeurIPS 2022: neither scores nor shares are written to memory; the backward pass
makes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.order import Neighbours
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WHOLE, workload_kind

Beside: TypeAlias = Mapping[str, Mapping[str, None]]
"""Of each operation those that read it, or those that it reads."""


def flash_attention(workload: Workload) -> Workload:
    """The workload with every such chain, and its backward pass, as one operation each.

    A chain's backward operations are those that are named after its parts (``NAME.backward...``), as networks of this
    project have them, else those around the softmax's backward pass (imported graphs). A chain whose parts anything
    else reads stays as it is.
    """
    known = {op.name: op for op in workload}
    graph = Neighbours.of(known, workload.edges)
    after, before = graph.after, graph.before
    place: dict[str, str] = {}
    made: dict[str, Op] = {}
    causal: dict[str, Attribute] = {"causal": True} if workload.metadata.get("network") == "gpt" else {}
    for op in workload:
        if op.kind != "gemm" or op.name in place or _is_backward(op):
            continue
        chain = _chain(op, known, after)
        if not chain:
            continue
        back = [name for name in known if any(name.startswith(f"{part}.backward") for part in chain)]
        back = back or _around_softmax(chain, known, after, before)
        scores, values = known[chain[0]], known[chain[-1]]
        whole = attention_of(values.name, scores, values, causal)
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
    facts = FrozenDict({**workload.metadata, "attention": "flash"})
    inside = tuple((a, b) for a, b in edges if a != b)
    return replace(workload, operations=operations, edges=inside, metadata=facts)


def in_one_kernel(workload: Workload, attention: str) -> Workload:
    """The workload with its attention in one kernel, where ``flash`` is requested; as it is where ``parts`` are.

    Raises InputError where another word is given, the workload has no such attention, or a law answers it whole.
    """
    if attention not in ("flash", "parts"):
        raise unknown_name("attention", attention, ["flash", "parts"])
    if workload_kind(workload) in WHOLE:
        raise InputError(
            f"--attention {attention}: {workload.name} is answered by the law of whole measured steps, which does not "
            "read how attention is computed"
        )
    in_one, made = any(op.kind == "attention" for op in workload), flash_attention(workload)
    if made is workload and not in_one:
        raise InputError(f"--attention {attention}: {workload.name} has no attention in parts that is known")
    if attention == "parts" and in_one:
        raise InputError(f"--attention parts: the attention of {workload.name} is one kernel; want flash")
    return made if attention == "flash" else workload


def _chain(scores: Op, known: dict[str, Op], after: Beside) -> list[str]:
    """From the scores to the weighted values, what drops shares at random included; empty where there is none."""
    chain, name, softmax = [scores.name], scores.name, False
    while True:
        readers = [reader for reader in after[name] if not _is_backward(known[reader])]
        row = readers if len(readers) == 1 else _dropped(readers, known, after)
        if not row:
            return []
        op = known[row[-1]]
        chain += row
        name = op.name
        if op.kind == "softmax" and not softmax:
            softmax = True
        elif op.kind == "gemm" and softmax and op.dims["batch"] == scores.dims["batch"]:
            return chain
        elif op.kind not in ("elementwise", "view"):
            return []


def _dropped(readers: list[str], known: dict[str, Op], after: Beside) -> list[str]:
    """A mask drawn for the shares, and the product with it that also reads them; empty where two readers are not so."""
    if len(readers) != 2:
        return []
    for first, last in (readers, readers[::-1]):
        row = [first]
        while known[row[-1]].kind in ("elementwise", "view"):
            ahead = [reader for reader in after[row[-1]] if not _is_backward(known[reader])]
            if ahead == [last]:
                return [*row, last]
            if len(ahead) != 1:
                break
            row += ahead
    return []


def _is_backward(op: Op) -> bool:
    return ".backward" in op.name or op.attributes.get("phase") == "backward"


def _around_softmax(chain: list[str], known: dict[str, Op], after: Beside, before: Beside) -> list[str]:
    """The four products of the backward pass, the softmax's between them, and what is elementwise on the way."""
    at = next(index for index, name in enumerate(chain) if known[name].kind == "softmax")
    starts = [reader for reader in after[chain[at]] if known[reader].kind == "softmax" and _is_backward(known[reader])]
    if len(starts) != 1:
        return []
    parts = {*starts, *_to_products(starts[0], known, after), *_to_products(starts[0], known, before)}
    for name in chain[at:-1]:  # the values' gradient reads the shares
        parts |= _to_products(name, known, after)
    products = [known[name] for name in parts if known[name].kind == "gemm"]
    alike = all(op.dims["batch"] == known[chain[0]].dims["batch"] for op in products)
    return [name for name in known if name in parts] if alike and len(products) == GRADIENTS else []


def _to_products(start: str, known: dict[str, Op], beside: Beside) -> set[str]:
    """Operations of the backward pass from a place to the next products, where only elementwise ones lie between."""
    parts: set[str] = set()
    rows = [[start]]
    while rows:
        row = rows.pop()
        for name in beside[row[-1]]:
            op = known[name]
            if not _is_backward(op) or name in row:
                continue
            if op.kind == "gemm":
                parts |= {*row[1:], name}
            elif op.kind in ("elementwise", "view", "move"):
                rows.append([*row, name])
    return parts


GRADIENTS = 4
"""Of scores' two operands, of the shares, of the values."""


def attention_of(name: str, scores: Op, values: Op, facts: dict[str, Attribute]) -> Op:
    """One operation in place of the product of scores, their softmax, and the product with the values."""
    dims = {"batch": scores.dims["batch"], "heads": 1, "kv_heads": 1, "queries": scores.dims["n"]}
    dims |= {"keys": scores.dims["m"], "head_dim": scores.dims["k"], "value_dim": values.dims["m"]}
    return operation(name, "attention", dims, scores.dtype, facts, times=scores.times)
