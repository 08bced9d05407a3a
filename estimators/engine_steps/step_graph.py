"""A step of serving that is written down as a graph, as the numbers that the law of a step reads.

Products with weights, routed experts, the output layer, and what reads a cache are told apart by kind and by the role
that `language_step` declares; a test holds the sums equal to `Shares.amounts`. Of other decoders the output layer is
found by its place (`with_output`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.engine_steps.smooth_max import largest
from slipstick.estimators.engine_steps.step_amounts import SHORT_CONTEXT, Amounts
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_time import VISITS, LayerCounts
from slipstick.estimators.symbolic.formula import Formula
from slipstick.workloads.graph.cost import RATED_AS, SIZE_BYTES, Amount, symbols_of
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import ROLE, role_of, workload_kind
from slipstick.workloads.language.weight_types import SPELLINGS, weight_type
from slipstick.workloads.transforms.dtype import STORED
from slipstick.workloads.transforms.narrow import WEIGHTS

WIDE_BYTES = 2.0
"""Of a number that moves between products."""


def is_step(workload: Workload) -> bool:
    """Whether a graph is a step of serving a language model (`workload_kind`)."""
    return workload_kind(workload) == "step"


def with_output(workload: Workload) -> Workload:
    """The step with its output layer marked, where no operation declares that role.

    Of the products for which no other product waits it is the one of the most columns: those are the vocabulary.
    """
    products = {name for name, kind in zip(workload.names, workload.kinds, strict=True) if kind == "gemm"}
    if not products or any(role_of(op) == "output" for op in workload.distinct.operations):
        return workload
    before: dict[str, list[str]] = {}
    for first, second in workload.edges:
        before.setdefault(second, []).append(first)
    waited, left = set[str](), [name for product in products for name in before.get(product, ())]
    while left:
        name = left.pop()
        if name not in waited:
            waited.add(name)
            left += before.get(name, ())
    last = [op for op in workload if op.name in products - waited]
    output = max(last, key=lambda op: 0.0 if symbols_of(op.dims["m"]) else float(op.dims["m"]))
    marked = replace(output, attributes=FrozenDict({**output.attributes, ROLE: "output"}))
    return replace(workload, operations=tuple(marked if op is output else op for op in workload))


def group_of(op: Op) -> str:
    """Which part of a step an operation is of: weights, experts, output, cache; "" where its bytes hardly matter."""
    role = role_of(op)
    if op.kind == "gemm":
        return role if role in ("experts", "output") else "weights"
    return "cache" if op.kind == "attention" or role == "state" else ""


@dataclass(frozen=True)
class GraphStep:
    """A step whose sizes are given.

    `sequences`: that get one more token.
    `visits`: layers with experts times the experts that a token visits, over 8.
    `long_bytes`: of the cache beyond its first 1,024 tokens (`SHORT_CONTEXT`).
    `multiplied`: weights that a token meets, the output layer's included.
    """

    amounts: Amounts
    sequences: float
    layers: float
    expert_layers: float
    visits: float
    stored: str
    compute: str
    long_bytes: float
    multiplied: float

    def counts(self, device: Device) -> LayerCounts:
        """Layers by what their fixed times depend on."""
        return LayerCounts(
            self.layers,
            self.visits,
            device.widened * (self.expert_layers or self.layers),
            self.layers if self.stored == "fp8_block" else 0,
            self.layers if self.stored.startswith("nvfp4") else 0,
        )


def graph_step(workload: Workload, sizes: Mapping[str, float]) -> GraphStep:
    """The numbers of a step at given sizes (decodes, context, ... or batch, seq_len).

    Raises InputError where a size has no value.
    """
    return _step(workload, {name: float(one.evaluate(sizes)) for name, one in _formulas(Same(workload)).items()})


def open_step(workload: Workload) -> GraphStep:
    """The same as expressions of sympy in the sizes that are open, as run.NAME."""
    return _open(workload, {name: symbol(f"run.{name}") for name in workload.symbols})


def step_in_sizes(workload: Workload) -> GraphStep:
    """The same in the workload's own symbols: numbers where none is open."""
    return _open(workload, {}) if workload.symbols else graph_step(workload, {})


def _open(workload: Workload, named: Mapping[str, Any]) -> GraphStep:
    return _step(workload, {name: one.substitute(named).expression for name, one in _formulas(Same(workload)).items()})


def _step(workload: Workload, values: Mapping[str, Any]) -> GraphStep:
    amounts = {name: values.get(name, 0) for name in Amounts._fields}
    layers = values["decode_layers"] if values["sequences"] != 0 else values["prompt_layers"]
    visits = values["visited"] / values["tokens"] / VISITS
    return GraphStep(
        Amounts(**amounts), values["sequences"], layers, values["expert_layers"], visits,
        *stored_and_multiplied(workload), values["long_bytes"],
        values["weights"] + values["expert_flop"] / (2 * values["tokens"]),
    )  # fmt: skip


def stored_and_multiplied(workload: Workload) -> tuple[str, str]:
    """How weights are stored, and the data type that they are to be multiplied in where a machine can."""
    if "weights" in workload.metadata:
        kind = weight_type(str(workload.metadata["weights"]))
        return kind.name, kind.compute
    narrow = str(workload.metadata.get(STORED, ""))
    plain = next((op.dtype for op in workload if group_of(op) == "weights"), "bfloat16")
    alone = narrow == "int4" or str(workload.metadata.get("dtype", "")).endswith(WEIGHTS)
    stored = narrow or plain
    return SPELLINGS.get(stored, stored), "bfloat16" if alone else RATED_AS.get(narrow, narrow) or plain


@lru_cache(maxsize=8)
def _formulas(workload: Same[Workload]) -> dict[str, Formula]:
    sums: dict[str, Any] = dict.fromkeys(
        (
            "weight_bytes", "expert_bytes", "cache_bytes", "linear_flop", "expert_flop", "head_flop", "score_flop",
            "tokens", "sequences", "decode_layers", "prompt_layers", "expert_layers", "visited", "long_bytes",
            "weights",
        ),
        0,
    )  # fmt: skip

    def add(name: str, amount: Amount) -> None:
        sums[name] = sums[name] + amount

    exact = "weights" in workload.it.metadata
    sums["sequences"] = next((op.dims["batch"] for op in workload.it if attends_to_cache(op)), 0)
    for op in workload.it:
        group = group_of(op)
        flop: Any = sum(amount for name, amount in op.cost.items() if name.startswith("flop.matrix."))
        if group in ("weights", "output"):
            add("weight_bytes", op.times * _weight_bytes(op, exact=exact))
            add("weights", op.times * op.dims["batch"] * op.dims["m"] * op.dims["k"])
            add("head_flop" if group == "output" else "linear_flop", op.times * flop)
        elif group == "experts":
            add("expert_bytes", op.times * _weight_bytes(op, exact=exact))
            add("expert_flop", op.times * flop)
        elif group == "cache":
            add("cache_bytes", op.times * (op.cost["read"] if op.kind == "attention" else op.cost.bytes_moved))
            add("score_flop", op.times * flop)
            add("long_bytes", op.times * _long_bytes(op))
        _count(op, add)
    return {name: Formula(_as_expression(amount), "1", "sum over a graph") for name, amount in sums.items()}


def _count(op: Op, add: Any) -> None:
    role = str(op.attributes.get(ROLE, ""))
    if op.kind == "attention":
        add("decode_layers" if attends_to_cache(op) else "prompt_layers", op.times)
    elif role == "state":
        add("decode_layers", op.times)
        add("prompt_layers", op.times)
    elif op.kind == "gather":
        add("tokens", op.dims["rows"])
    elif role == "router":
        add("expert_layers", op.times)
    elif role == "experts.up":
        add("visited", op.times * op.dims["batch"] * op.dims["n"])


def _weight_bytes(op: Op, *, exact: bool) -> Any:
    """Of one execution: what is read less the inputs."""
    size = WIDE_BYTES if exact else SIZE_BYTES[op.dtype]
    return op.cost["read"] - size * op.dims["batch"] * op.dims["k"] * op.dims["n"]


def _long_bytes(op: Op) -> Any:
    """Of one execution: what it reads of the cache beyond the first tokens; its own token is read too."""
    if not attends_to_cache(op):
        return 0
    keys: Any = _as_expression(op.dims["keys"])
    return op.cost["read"] * largest(keys - SHORT_CONTEXT, _as_expression(0)) / (keys + 1)


def _as_expression(amount: Any) -> Any:
    import sympy as sp

    return sp.sympify(amount, strict=True)
