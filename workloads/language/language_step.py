"""The workload of one step of serving a language model, as one device of a layout runs it.

One operation stands for all layers of its kind (`times`). Symbols: `decodes` sequences get one more token each after
`context` tokens in the cache; `prompt` tokens of prompts are read, `chunk` of one prompt at once after `past` tokens of
it; `finished` prompts are scored; `tensor`, `pipeline`, `data` and `expert` are the degrees of the layout
(`layout.Layout`). A prompt's causal mask is counted: its token i attends to i keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import ROLE, WORK, role_of
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import WeightType, stored_name, weight_type, weights_by_group
from slipstick.workloads.transforms.dtype import in_dtype

DEGREES = ("tensor", "pipeline", "data", "expert")
OF_CHECKPOINT = ("cache", "quantiser")
"""What a step says of its model's checkpoint beside its weights (`LanguageModel.cache`)."""


Purpose = Literal["mixed", "decode", "prompt"]
_FIXED: Mapping[Purpose, Mapping[str, Amount]] = {
    "mixed": {},
    "decode": {"prompt": 0, "past": 0, "chunk": 1, "finished": 0},
    "prompt": {"decodes": 0, "context": 1, "past": 0, "finished": 1},
}
_DEFAULTS: Mapping[str, float] = {"decodes": 1, "context": 1024, "prompt": 1024, "chunk": 1024, "finished": 1}


def language_step(model: LanguageModel, stored: str | None = None, purpose: Purpose = "mixed") -> Workload:
    """One step of serving `model` on one device; keys and values are cached in 16 bits (else `cached_in`).

    Parameters
    ----------
    stored
        How weights are stored (`weight_types.WEIGHT_TYPES`); None: as the model's file says.
    purpose
        decode: new tokens alone (`decodes`, `context`); prompt: prompts alone, nothing before them (`prompt`, `chunk`);
        mixed: both, every symbol open.

    Examples
    --------
    >>> from slipstick.workloads.language_catalog import language_model
    >>> step = language_step(language_model("llama-3.1-8b"), purpose="decode")
    >>> step.bind(context=1000).bound().cost["flop.matrix.bfloat16"]
    15533604864
    """
    writer = _Step(model, weight_type(stored or model.weights))
    writer.write()
    absent = {"decode": ".prompt", "prompt": ".decode"}.get(purpose, "(none)")
    operations = tuple(op for op in writer.operations if not op.name.endswith(absent))
    names = [op.name for op in operations]
    edges = tuple(pairwise(names))
    linear, routed = weights_by_group(model)
    known: dict[str, Attribute] = {"parameters": model.parameters, "linear_weights": linear, "routed_weights": routed}
    if model.stands_for:
        known["stands_for"] = model.stands_for
    if model.omitted:
        known |= {"omitted": "; ".join(words for words, _ in model.omitted), "off_by": math.exp(model.unmeasured)}
    if model.cache and writer.kind.name == model.weights:
        known |= {"cache": model.cache, "quantiser": model.quantiser}
    metadata = _stored(FrozenDict(known), writer.kind)
    open_ = Workload(f"{model.name}-{purpose}", operations, edges, metadata=metadata)
    bound = open_.bind_known(_FIXED[purpose])
    defaults = {**_DEFAULTS, **dict.fromkeys(DEGREES, 1)}
    return replace(
        bound, defaults=FrozenDict({name: value for name, value in defaults.items() if name in bound.symbols})
    )


def omitted_of(step: Workload) -> tuple[tuple[str, float], ...]:
    """What a step does not count of its model, and by which factor its time may be off for it, either way."""
    words = str(step.metadata.get("omitted", ""))
    return ((words, float(str(step.metadata["off_by"]))),) if words else ()


def on_one_device(step: Workload) -> Workload:
    """A step with all degrees one: no messages, so that a machine needs no links."""
    bound = step.bind_known(dict.fromkeys(DEGREES, 1))
    kept = tuple(op for op in bound if op.kind != "collective")
    return replace(bound, operations=kept, edges=tuple(pairwise(op.name for op in kept)))


def in_stored_type(step: Workload, dtype: str) -> Workload | None:
    """A step of serving with its weights stored in another type, by the words of `stored_name` ("fp8", "q4_k_m").

    None where the graph is no step that `language_step` wrote down, or nothing stores weights in that type.
    """
    if "weights" not in step.metadata:
        return None
    before = weight_type(str(step.metadata["weights"]))
    try:
        after = weight_type(stored_name(dtype, before.name, any(role_of(op) == "experts" for op in step)))
    except InputError:  # a type of products that no checkpoint is stored in
        return None
    operations = tuple(_stored_in(op, before, after) if op.kind == "gemm" else op for op in step)
    other = OF_CHECKPOINT if after != before else ()  # other weights are another checkpoint
    kept = FrozenDict({name: fact for name, fact in step.metadata.items() if name not in other})
    stored = replace(step, operations=operations, metadata=_stored(kept, after))
    if after.compute != "float16":
        return stored
    # all of it in float16: GPUs before compute capability 8.0 have no products in bfloat16 (CUDA Programming Guide)
    halves = in_dtype(stored, "float16").operations
    both = (half if op.dtype == "bfloat16" else op for op, half in zip(operations, halves, strict=True))
    return replace(stored, operations=tuple(both))


def cached_in(step: Workload, cache: str) -> Workload:
    """A step with its keys and values, which it reads in the data type of its attention, cached in another ("fp8")."""

    kind = {"fp8": "float8"}.get(cache, cache)

    def cached(op: Op) -> Op:
        cost = Cost({**op.cost, "read": op.cost["read"] * SIZE_BYTES[kind] / SIZE_BYTES[op.dtype]})
        return replace(op, cost=cost, attributes=FrozenDict({**op.attributes, "kv_dtype": kind}))

    return replace(step, operations=tuple(cached(op) if op.kind == "attention" else op for op in step))


def _stored(metadata: Mapping[str, Attribute], kind: WeightType) -> FrozenDict[Attribute]:
    """What a graph says of its weights: how they are stored, and bytes of all of them."""
    parameters, linear, routed = (
        float(str(metadata[name])) for name in ("parameters", "linear_weights", "routed_weights")
    )
    held = linear * kind.linear + routed * kind.experts + (parameters - linear - routed) * kind.rest
    return FrozenDict({**metadata, WORK: "step", "weights": kind.name, "weight_bytes": held / 8})


def _stored_in(op: Op, before: WeightType, after: WeightType) -> Op:
    role = role_of(op)
    ends = role in ("output", "router")
    old, new = (one.rest if ends else one.experts if role == "experts" else one.linear for one in (before, after))
    weights = op.dims["batch"] * op.dims["m"] * op.dims["k"]
    computed = op.dtype if ends else after.compute
    made = operation(op.name, "gemm", dict(op.dims), computed, dict(op.attributes), times=op.times)
    amounts = {name: amount for name, amount in made.cost.items() if name.startswith(("flop", "launch"))}
    amounts |= {"read": op.cost["read"] + weights * (new - old) / 8, "written": op.cost["written"]}
    return replace(made, cost=Cost(amounts))


class _Step:
    """A step being written down."""

    def __init__(self, model: LanguageModel, kind: WeightType) -> None:
        self.model, self.kind = model, kind
        self.decodes, self.context = symbol("decodes"), symbol("context")
        self.prompt, self.past, self.chunk = symbol("prompt"), symbol("past"), symbol("chunk")
        self.tokens = self.decodes + self.prompt
        self.scored = self.decodes + symbol("finished")
        self.tensor, self.data, self.expert = symbol("tensor"), symbol("data"), symbol("expert")
        self.stages = symbol("pipeline")
        self.cache_ranks: Amount = 1 if model.latent else sp.Min(self.tensor, model.kv_heads)
        self.operations: list[Op] = []

    def write(self) -> None:
        m = self.model
        layers, attention = m.layers / self.stages, m.attention_layers / self.stages
        self.add("embedding", "gather", {"rows": self.tokens, "width": m.width}, 1)
        self.norm("norms", m.norms * layers)
        if m.attention_layers:
            self.products(attention)
        for name, times, window in self.spans():
            self.attend(f"attention{name}", times / self.stages, window)
        if m.linear:
            a = m.linear
            times = a.layers / self.stages
            self.product("linear.in", times, a.inputs / self.tensor, m.width)
            if a.between:
                self.product("linear.between", times, a.between / a.outputs / self.tensor, a.outputs)
            self.product("linear.out", times, m.width, a.outputs / self.tensor)
            state = a.state_numbers / self.tensor * (self.decodes + self.prompt / self.chunk)
            self.add("linear.state", "move", {"reads": state, "writes": state}, times, role="state")
        self.reduce("attention.all_reduce", layers)
        self.feed_forward()
        self.norm("head.norm", 1)
        rows = m.vocabulary / self.tensor
        self.product("head", 1, rows, m.width, self.kind.rest, tokens=self.scored, dtype="bfloat16", role="output")

    def products(self, times: Amount) -> None:
        """Projections of attention: queries and output shared out, keys and values repeated beyond kv_heads."""
        m = self.model
        if m.latent:
            a = m.latent
            queries = m.heads * (a.plain + a.rotary) / self.tensor
            self.product("attention.down", times, a.query_rank + a.rank + a.rotary, m.width)
            self.product("attention.query", times, queries, a.query_rank or m.width)
            self.product("attention.expand", times, m.heads * (a.plain + a.value) / self.tensor, a.rank)
            self.product("attention.output", times, m.width, m.heads * a.value / self.tensor)
            return
        inner = m.heads * m.head_dim
        self.product("attention.query", times, inner * (1 + m.output_gate) / self.tensor, m.width)
        self.product("attention.key_value", times, 2 * m.kv_heads * m.head_dim / self.cache_ranks, m.width)
        self.product("attention.output", times, m.width, inner / self.tensor)

    def spans(self) -> list[tuple[str, int, int | None]]:
        """Layers that attend to all tokens, and those with a window."""
        m = self.model
        both = [("", m.attention_layers - m.window_layers, None), (".window", m.window_layers, m.window)]
        return [span for span in both if span[1]]

    def attend(self, name: str, times: Amount, window: int | None) -> None:
        """Scores and weighted values of new tokens and of prompts, and what is added to the cache."""
        m = self.model
        heads, size = m.heads / self.tensor, m.cache_numbers / self.cache_ranks

        def within(keys: Amount) -> Amount:
            return keys if window is None else sp.Min(keys, window)

        one, value = (m.latent.rank + m.latent.rotary, m.latent.rank) if m.latent else (m.head_dim, m.head_dim)
        keys = within(self.context)
        shared: Amount = 1 if m.latent else m.kv_heads / self.cache_ranks
        dims = {"batch": self.decodes, "heads": heads, "kv_heads": shared, "queries": 1, "keys": keys}
        dims |= {"head_dim": one, "value_dim": value}
        self.read_cache(f"{name}.decode", dims, times, self.decodes * (keys + 1) * size)
        if m.latent:
            one, value, dims["kv_heads"] = m.latent.plain + m.latent.rotary, m.latent.value, heads
        chunks = self.prompt / self.chunk
        keys = within(self.past + (self.chunk + 1) / 2)
        dims = {**dims, "batch": chunks, "queries": self.chunk, "keys": keys, "head_dim": one, "value_dim": value}
        again = sp.Piecewise((chunks * within(self.past + self.chunk), self.past > 0), (0, True))
        self.read_cache(f"{name}.prompt", dims, times, (again + self.prompt) * size)

    def read_cache(self, name: str, dims: dict[str, Any], times: Amount, numbers: Amount) -> None:
        """Attention whose keys and values lie in the cache: their bytes are the cache's, not the data type's."""
        facts = {ROLE: "latent"} if self.model.latent else {}
        made = operation(name, "attention", dims, "bfloat16", facts, times=times)
        amounts = {key: amount for key, amount in made.cost.items() if key != "read"}
        self.operations.append(replace(made, cost=Cost({**amounts, "read": numbers * SIZE_BYTES[made.dtype]})))

    def feed_forward(self) -> None:
        m = self.model
        if m.plain_layers:
            times, inner = m.plain_layers / self.stages, m.feed_forward / self.tensor
            self.product("feed_forward.up", times, (m.matrices - 1) * inner, m.width)
            self.product("feed_forward.down", times, m.width, inner)
            self.reduce("feed_forward.all_reduce", times)
        if m.experts is None:
            return
        e, times = m.experts, m.expert_layers / self.stages
        tokens = self.tokens * self.data
        self.product("router", times, e.count, m.width, self.kind.rest, dtype="bfloat16", role="router")
        distinct = e.count * (1 - sp.Rational(e.count - e.per_token, e.count) ** tokens) / self.expert
        share = self.tensor * self.data / self.expert
        each = tokens * e.per_token / self.expert / distinct
        for name, rows, columns in (
            ("experts.up", (m.matrices - 1) * e.feed_forward / share, m.width),
            ("experts.down", m.width, e.feed_forward / share),
        ):
            self.product(name, times, rows, columns, self.kind.experts, tokens=each, batch=distinct, role=name)
        if e.shared_feed_forward:
            inner = e.shared_feed_forward / self.tensor
            self.product("shared.up", times, (m.matrices - 1) * inner, m.width)
            self.product("shared.down", times, m.width, inner)
        self.reduce("experts.all_reduce", times)

    def add(
        self, name: str, kind: str, dims: dict[str, Any], times: Amount, dtype: str = "bfloat16", **facts: Any
    ) -> None:
        self.operations.append(operation(name, kind, dims, dtype, facts, times=times))

    def product(
        self,
        name: str,
        times: Amount,
        rows: Amount,
        columns: Amount,
        bits: float | None = None,
        *,
        tokens: Amount | None = None,
        batch: Amount = 1,
        dtype: str | None = None,
        role: str = "",
    ) -> None:
        """A product with weights (rows, columns) stored in `bits` each; activations move in bfloat16."""
        tokens = self.tokens if tokens is None else tokens
        dims = {"batch": batch, "m": rows, "n": tokens, "k": columns}
        facts = {ROLE: role} if role else {}
        made = operation(name, "gemm", dims, dtype or self.kind.compute, facts, times=times)
        weights = batch * rows * columns * (self.kind.linear if bits is None else bits) / 8
        amounts: dict[str, Amount] = {
            key: amount for key, amount in made.cost.items() if key.startswith(("flop", "launch"))
        }
        amounts |= {"read": weights + 2 * batch * tokens * columns, "written": 2 * batch * tokens * rows}
        self.operations.append(replace(made, cost=Cost(amounts)))

    def norm(self, name: str, times: Amount) -> None:
        dims = {"elements": self.tokens * self.model.width, "groups": self.tokens}
        self.add(name, "norm", dims, times, function="rms")

    def reduce(self, name: str, times: Amount) -> None:
        dims = {"elements": self.tokens * self.model.width, "participants": self.tensor}
        self.add(name, "collective", dims, times, function="all_reduce")
