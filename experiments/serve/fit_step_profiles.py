"""A step's time as tables of operators, in the columns that two public simulators read.

Vidur (microsoft/vidur, 7d47513): `mlp.csv` and `attention.csv` under data/profiling/compute/DEVICE/MODEL, milliseconds
in columns `time_stats.OPERATOR.median` (profiling/mlp, profiling/attention; read by
`SklearnExecutionTimePredictor._load_compute_df`), and `all_reduce.csv` of the network's folder.
LLMServingSim (casys-kaist/LLMServingSim, 5daddb2; docs/docs/profiler/output-bundle.md): `dense.csv`,
`per_sequence.csv`, `attention.csv` and `moe.csv` under perf/HARDWARE/MODEL/VARIANT/tpN, microseconds in `time_us`.

The law knows groups of operators and not each of them. Products share their group's time by weights, small kernels
share the times that no bytes explain evenly; the sum over a step is the law's, but for the vocabulary's product, whose
time a step takes together with the others'.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import atomic_write
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_time import StepParts, step_parts
from slipstick.estimators.engine_steps.step_time_predictor import StepTimePredictor

TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384)
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CACHE = (0, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHUNKS = (0, 16, 32, 64, 128, 256, 512, 1024, 2048)
VIDUR_SMALL, SIMULATOR_SMALL = ("input_layernorm", "attn_rope", "mlp_act", "add"), ("rotary_emb", "act_fn")
BLOCK = 16
"""Tokens of a block of the cache (vLLM's usual)."""


@dataclass(frozen=True, eq=False)
class StepOperators:
    """Seconds of a layer's operators, read off the law of a step.

    Raises
    ------
    InputError
        Where the layout has stages or groups of its own caches: a profile is of one stage of one group.
    """

    oracle: StepTimePredictor

    def __post_init__(self) -> None:
        layout = self.oracle.step.shares.layout
        if layout.pipeline > 1 or layout.data > 1:
            raise InputError(
                f"profile of {layout.text()}: want tensor ranks alone; the simulator adds stages and groups"
            )

    @property
    def model_name(self) -> str:
        """As the question says it."""
        return self.oracle.facts["model"]

    @cached_property
    def products(self) -> Mapping[str, float]:
        """Shares of a layer's weights: queries, keys and values; their output; gate and up; down."""
        m = self.oracle.step.shares.model
        inner = m.heads * m.head_dim
        output = float(m.width * inner) if not m.latent else float(m.heads * m.latent.value * m.width)
        dense = float(m.dense_weights if m.plain_layers else 0) + m.shared_weights * bool(m.expert_layers)
        weights = {
            "query": m.attention_weights - output, "output": output,
            "up": dense * (m.matrices - 1) / m.matrices, "down": dense / m.matrices,
        }  # fmt: skip
        return {name: value / sum(weights.values()) for name, value in weights.items()}

    def parts(self, batch: Batch, **amounts: float) -> StepParts:
        """Seconds by group, amounts set aside for what a table lists elsewhere."""
        step = self.oracle.step
        made = step.shares.amounts(batch)._replace(**amounts)
        return step_parts(made, batch.decodes, step.device, step.layers, step.parameters)

    @cached_property
    def _none(self) -> StepParts:
        """A step of nothing: its fixed times."""
        return self.parts(Batch(), expert_flop=0.0, expert_bytes=0.0)

    @cached_property
    def host(self) -> float:
        """Seconds of the host's part of a step."""
        q = self.oracle.step.parameters
        return q.step * q.fixed * q.factor

    @cached_property
    def sequence(self) -> float:
        """Seconds of the host's part of a sequence."""
        q = self.oracle.step.parameters
        return q.sequence * q.fixed * q.factor

    @cached_property
    def expert_fixed(self) -> float:
        """Seconds of fixed times that experts add, all layers together."""
        q = self.oracle.step.parameters
        return q.expert_layer * self.oracle.step.layers.expert * q.fixed * q.factor

    @cached_property
    def all_reduce_fixed(self) -> float:
        """Seconds of one all-reduce of no bytes."""
        q = self.oracle.step.parameters
        return q.all_reduce * q.fixed * q.factor

    @cached_property
    def layer_fixed(self) -> float:
        """Seconds of a layer that no bytes explain, messages and experts left out."""
        messages = self.oracle.step.shares.amounts(Batch()).messages * self.all_reduce_fixed
        layers = self.oracle.step.shares.model.layers
        return (self._none.fixed - self.host - self.expert_fixed - messages) / layers

    def dense(self, tokens: float) -> float:
        """Seconds of the products of one layer with weights that all tokens use."""
        parts = self.parts(Batch(prompt=tokens), head_flop=0.0)
        return parts.weights / self.oracle.step.shares.model.layers

    def head(self, sequences: float) -> float:
        """Seconds more that the vocabulary's product takes, of as many tokens as sequences."""
        with_head = self.parts(Batch(decodes=sequences)).weights
        return with_head - self.parts(Batch(prompt=sequences), head_flop=0.0).weights

    def attention(self, decodes: float, context: float, chunk: float, past: float) -> float:
        """Seconds of attention of one layer."""
        batch = Batch(decodes, context, chunk, past, chunk)
        return self.parts(batch).attention / self.oracle.step.shares.model.layers

    def experts(self, tokens: float, activated: float) -> float:
        """Seconds of the routed experts of one layer, of which `activated` are visited."""
        shares = self.oracle.step.shares
        bytes_read = shares.routed_weights * activated * shares.kind.experts / 8
        parts = self.parts(Batch(prompt=tokens), expert_bytes=bytes_read)
        return (parts.experts + self.expert_fixed) / shares.model.expert_layers


@checked
def write_profile(oracle: StepTimePredictor, folder: str | os.PathLike[str], simulator: str) -> list[Path]:
    """Write a step's time as a simulator's tables of operators; returns the files.

    Parameters
    ----------
    folder
        Into which they are written; it is made.
    simulator
        "vidur" or "llmservingsim".

    Raises
    ------
    InputError
        Where the simulator is unknown or cannot hold the model, or nothing can be written there.

    Examples
    --------
    >>> import slipstick as ss, tempfile
    >>> step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")
    >>> [file.name for file in ss.write_profile(step, tempfile.mkdtemp(), "vidur")]
    ['mlp.csv', 'attention.csv']
    """
    writers = {"vidur": _vidur, "llmservingsim": _llmservingsim}
    if simulator not in writers:
        raise unknown_name("simulator", simulator, list(writers))
    profile, made = StepOperators(oracle), []
    for name, header, rows in writers[simulator](profile):
        path = Path(folder) / name
        with atomic_write(path) as stream:
            stream.write(",".join(header) + "\n")
            stream.writelines(",".join(map(_cell, row)) + "\n" for row in rows)
        made.append(path)
    return made


FrozenDict: TypeAlias = tuple[str, Sequence[str], list[list[Any]]]


def _vidur(profile: StepOperators) -> Iterator[FrozenDict]:
    m, tensor = profile.oracle.step.shares.model, profile.oracle.step.shares.layout.tensor
    if m.experts or m.latent or m.linear:
        raise InputError(f"{m.name}: Vidur's tables hold dense layers with plain attention")
    shape: dict[str, Any] = {"n_embd": m.width, "n_kv_head": m.kv_heads, "num_tensor_parallel_workers": tensor}
    names = {"attn_pre_proj": "query", "attn_post_proj": "output", "mlp_up_proj": "up", "mlp_down_proj": "down"}
    once = (profile.host + profile.head(1.0)) / m.layers
    rows = []
    for tokens in TOKENS:
        layer, small = profile.dense(tokens), (profile.layer_fixed + once) / len(VIDUR_SMALL)
        times = {name: layer * profile.products[part] for name, part in names.items()}
        times.update(dict.fromkeys(VIDUR_SMALL, small))
        times["emb"] = times["post_attention_layernorm"] = 0.0
        facts = {
            **shape, "n_head": m.heads, "n_expanded_embd": m.feed_forward, "vocab_size": m.vocabulary,
            "use_gated_mlp": m.matrices == 3, "num_tokens": tokens,
        }  # fmt: skip
        rows.append({**_milliseconds(times), **facts})
    yield "mlp.csv", list(rows[0]), [list(row.values()) for row in rows]
    rows = []
    for decodes, chunk, past in [
        *((0, n, c) for n in CHUNKS[1:] for c in CACHE),
        *((n, 0, c) for n in SEQUENCES for c in CACHE),
    ]:
        seconds = profile.attention(decodes, past, chunk, past) + decodes * profile.sequence / m.layers
        times = {"attn_prefill": seconds if chunk else 0.0, "attn_decode": 0.0 if chunk else seconds}
        facts = {
            **shape, "n_q_head": m.heads, "block_size": BLOCK, "max_model_len": m.context or CACHE[-1],
            "batch_size": decodes or 1, "prefill_chunk_size": chunk, "kv_cache_size": past, "is_prefill": chunk > 0,
            "attention_backend": "slipstick",
        }  # fmt: skip
        rows.append({**_milliseconds({**times, "attn_kv_cache_save": 0.0}), **facts})
    yield "attention.csv", list(rows[0]), [list(row.values()) for row in rows]
    if tensor > 1:
        rows = []
        for tokens in TOKENS:
            facts = {
                "rank": 0, "num_workers": tensor, "size": tokens * m.width * 2, "collective": "all_reduce",
                "devices_per_node": tensor, "max_devices_per_node": max(8, tensor),
            }  # fmt: skip
            rows.append({**_milliseconds({"all_reduce": _all_reduce(profile, tokens)}), **facts})
        yield "all_reduce.csv", list(rows[0]), [list(row.values()) for row in rows]


def _all_reduce(profile: StepOperators, tokens: float) -> float:
    """Seconds of one all-reduce of as many tokens."""
    messages = profile.oracle.step.shares.amounts(Batch()).messages
    return profile.parts(Batch(prompt=tokens)).links / messages + profile.all_reduce_fixed


def _milliseconds(times: Mapping[str, float]) -> dict[str, Any]:
    """Vidur's five columns of each operator; nothing was repeated, so all but the deviation are one number."""
    return {
        f"time_stats.{name}.{statistic}": 0.0 if statistic == "std" else seconds * 1e3
        for name, seconds in times.items()
        for statistic in ("min", "max", "mean", "median", "std")
    }


def _llmservingsim(profile: StepOperators) -> Iterator[FrozenDict]:
    m, tensor = profile.oracle.step.shares.model, profile.oracle.step.shares.layout.tensor
    if m.latent or m.linear or (m.experts and m.plain_layers):
        raise InputError(f"{m.name}: LLMServingSim's tables hold layers that are alike, with plain attention")
    if m.experts and tensor > 1:
        raise InputError(f"{m.name}: LLMServingSim profiles experts on one rank; want 1 device, not {tensor}")
    small = (*SIMULATOR_SMALL, "layernorm", "layernorm", *(["qk_norm"] if m.head_norm else []))
    if m.experts:
        small = tuple(name for name in small if name != "act_fn")
    names = {"qkv_proj": "query", "o_proj": "output", "gate_up_proj": "up", "down_proj": "down"}
    parts = {name: profile.products[part] for name, part in names.items() if profile.products[part]}
    rows: dict[str, list[list[Any]]] = {}
    for tokens in TOKENS:
        times = {"embedding": profile.host, "final_layernorm": 0.0}
        times.update({name: profile.layer_fixed / len(small) for name in small})
        times.update({name: profile.dense(tokens) * share for name, share in parts.items()})
        for name, seconds in times.items():
            rows.setdefault(name, []).append([name, tokens, seconds * 1e6])
    yield f"tp{tensor}/dense.csv", ("layer", "tokens", "time_us"), [row for name in sorted(rows) for row in rows[name]]
    heads: list[list[Any]] = [["lm_head", n, profile.head(n) * 1e6] for n in SEQUENCES]
    samplers: list[list[Any]] = [["sampler", n, n * profile.sequence * 1e6] for n in SEQUENCES]
    yield f"tp{tensor}/per_sequence.csv", ("layer", "sequences", "time_us"), heads + samplers
    grid = [
        (chunk, past, decodes, context)
        for chunk, past, decodes, context in product(CHUNKS, CACHE, (0, *SEQUENCES), CACHE)
        if (chunk or decodes) and (chunk or not past) and (bool(decodes) == bool(context))
    ]
    attention = [[*point, profile.attention(point[2], point[3], point[0], point[1]) * 1e6] for point in grid]
    yield f"tp{tensor}/attention.csv", ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"), attention
    if m.experts:
        counts = [n for n in (m.experts.per_token << k for k in range(12)) if n <= m.experts.count]
        table: list[list[Any]] = [
            [tokens, count, profile.experts(tokens, count) * 1e6]
            for tokens in TOKENS
            for count in counts
            if count <= tokens * m.experts.per_token
        ]
        yield f"tp{tensor}/moe.csv", ("tokens", "activated_experts", "time_us"), table


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
