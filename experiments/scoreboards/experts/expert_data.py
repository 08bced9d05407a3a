"""Layers of experts and latent attention of public serving stacks: the tables, and each row as a question.

A layer of experts is asked as a language model's step writes it (`workloads/language/language_step.py`): a product up
and one down by those experts that have rows. Which rows one device gets depends on how experts are spread (`routed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.frames import parquet_frame
from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.transfer.device_calibration import variant_name
from slipstick.estimators.gpu.transfer.device_fits import ENOUGH
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.pooling_constants import GRAPH_LAUNCH
from slipstick.experiments.scoreboards.gpu.gpu_data import machine_of
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import SIZE_BYTES, Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.op import Op
from slipstick.workloads.graph.workload import Attribute, Workload
from slipstick.workloads.graph.workload_kind import ROLE, WORK

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 0.55}
WEIGHTS |= {"nvfp4": 0.5625, "w4a16_mxfp4": 0.53125, "w4a8_mxfp4_mxfp8": 0.53125, "w4afp8": 0.53125}
"""Bytes of a weight, scales of groups included."""
MULTIPLIED = {
    "bfloat16": ("bfloat16", ""),
    "float16": ("float16", ""),
    "fp8": ("float8", ""),
    "fp8_block": ("float8_block", ""),
    "int4_wo": ("bfloat16", "int4"),
    "w4a16_mxfp4": ("bfloat16", "mxfp4"),
    "w4a8_mxfp4_mxfp8": ("mxfp8", "mxfp4"),
    "w4afp8": ("float8", "int4"),
    "nvfp4": ("nvfp4", ""),
}
"""Types that a case multiplies in, and of its weights where they are narrower."""
EXPONENTS = {"balanced": 0.0, "uniform": 0.0, "power_law_1.01": 1.01, "power_law_1.2": 1.2}
"""Of the power law that experts' rows follow, by distribution; 0 gives all equally many."""
SHAPES = {"experts": ("hidden_size", "inter_size", "topk", "num_experts"), "prefill": ("num_heads",)}
SHAPES |= {"decode": SHAPES["prefill"]}
"""Rows of one machine and model err alike."""
LATENT, ROTARY, VALUE, KEY = 512, 64, 128, 192
"""Sizes of DeepSeek-V3's latent attention (arXiv 2412.19437, table of hyper-parameters): latent and rotary part of what
is cached, value and key of a head."""
RECORDED = {"runtime.mode": "graph_replay", "runtime.launch_overhead": GRAPH_LAUNCH}
"""How the stacks' collectors time."""
ABSENT, ZEROED = "absent", "zeroed"
OTHERS = {("sglang_flashinfer_cutedsl_moe", name): ABSENT for name in ("b200-sxm", "b300-sxm", "gb200", "gb300")}
OTHERS |= {("sglang_fused_moe_triton", "b200-sxm"): ZEROED}
"""What becomes of the rows that a rank's tokens send to other ranks, by library and machine. They are masked (absent);
or an older collector (cbcd0ec) marked them, and their results are zeroes (zeroed); all others multiply them by the
rank's first expert (cb4d907)."""
DRAWS = 5
"""Routings that a row's time is the mean of."""


@dataclass(frozen=True)
class ExpertCase:
    """Calls of one kind by one library in one data type."""

    kind: str
    library: str
    dtype: str

    def questions(self, frame: pd.DataFrame) -> list[Workload]:
        """Each row as kernels that run alone."""
        made = self._layers(frame) if self.kind == "experts" else self._attentions(frame)
        chains = ((ops, tuple((a.name, b.name) for a, b in pairwise(ops))) for ops in made)
        return [Workload(self.kind, ops, edges, metadata=FrozenDict({WORK: "kernel"})) for ops, edges in chains]

    def timed(self, frame: pd.DataFrame, at: Machine) -> list[OperationTimes]:
        """Each row as the time of one operation: a layer of experts as two equal products, half of its time each."""
        seconds = frame["time"].to_numpy(float)
        if self.kind == "experts":
            rows, active, _, hidden, inner = _routed(frame)
            dims = {"batch": active, "m": 1.5 * inner, "n": rows / active, "k": hidden}
            dtype, facts = self._product_facts
            return [OperationTimes.of(at, "gemm", dtype, dims, seconds / 2, facts)]
        made = []
        for cached, part in frame.groupby("kv_cache_dtype"):
            dims, facts = self._attention_dims(part), self._attention_facts(str(cached))
            made.append(OperationTimes.of(at, "attention", "bfloat16", dims, part["time"].to_numpy(float), facts))
        return made

    @property
    def _product_facts(self) -> tuple[str, dict[str, Attribute]]:
        dtype, stored = MULTIPLIED[self.dtype]
        return dtype, {ROLE: "experts", **({"weights": stored} if stored else {})}

    def _layers(self, frame: pd.DataFrame) -> Iterator[tuple[Op, ...]]:
        for rows, experts, zeroed, hidden, inner in zip(*(one.tolist() for one in _routed(frame)), strict=True):
            up = self._product("up", experts, 2 * inner, rows / experts, hidden)
            down = self._product("down", experts, hidden, rows / experts, inner)
            beside = {"reads": zeroed * (2 * inner + hidden), "writes": zeroed * (3 * inner + hidden)}
            yield (up, down, *([operation("zeroed", "move", beside, "bfloat16")] if zeroed else []))

    def _product(self, name: str, batch: float, m: float, n: float, k: float) -> Op:
        """A product of all experts that have rows; activations move in 16 bits, weights as they are stored."""
        dtype, facts = self._product_facts
        made = operation(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k}, dtype, facts)
        read = batch * (m * k * WEIGHTS[self.dtype] + 2 * n * k)
        return replace(made, cost=Cost({**made.cost, "read": read, "written": 2 * batch * m * n}))

    def _attention_facts(self, cached: str) -> dict[str, Attribute]:
        return {ROLE: "latent", "causal": self.kind != "decode", "kv_dtype": _cached(cached)}

    def _attention_dims(self, frame: pd.DataFrame) -> dict[str, FloatArray]:
        """Whole prompts with keys and values unfolded for each head; or a new token, whose heads share one latent."""
        names = ("batch_size", "num_heads", "isl", "step")
        batch, heads, new, step = (frame[name].to_numpy(float) for name in names)
        one, decodes = np.ones(len(frame)), self.kind == "decode"
        made = {"batch": batch, "heads": heads, "keys": new + step, "kv_heads": one if decodes else heads}
        made["queries"] = one if decodes else new
        made["head_dim"] = one * (LATENT + ROTARY if decodes else KEY)
        return {**made, "value_dim": one * (LATENT if decodes else VALUE)}

    def _attentions(self, frame: pd.DataFrame) -> Iterator[tuple[Op, ...]]:
        dims = self._attention_dims(frame)
        columns = zip(frame["kv_cache_dtype"], *(one.tolist() for one in dims.values()), strict=True)
        for cached, *values in columns:
            sizes, facts = dict(zip(dims, values, strict=True)), self._attention_facts(cached)
            made = operation("attention", "attention", sizes, "bfloat16", facts)
            if self.kind == "decode":  # the latent is key and value at once
                latent = sizes["keys"] * sizes["head_dim"] * SIZE_BYTES[_cached(cached)]
                read = sizes["batch"] * (latent + 2 * sizes["heads"] * sizes["head_dim"])
                made = replace(made, cost=Cost({**made.cost, "read": read}))
            yield (made,)


def _cached(name: str) -> str:
    """The type of a cache; all but FP8 have 16 bits."""
    return "float8" if name == "fp8" else "bfloat16"


def _routed(frame: pd.DataFrame) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Rows of a device, experts that have any, rows that it zeroes, width of the model and of an expert on it."""
    sizes = frame[["num_tokens", "topk", "num_experts", "moe_ep_size"]].astype(int).itertuples(index=False)
    each = [routed(*one, slope) for one, slope in zip(sizes, frame["distribution"].map(EXPONENTS), strict=True)]
    rows, others, active = np.array(each).reshape(-1, 3).T
    kept, zeroed = ~frame["others"].isin((ABSENT, ZEROED)), frame["others"] == ZEROED
    hidden, inner, tensor = (frame[name].to_numpy(float) for name in ("hidden_size", "inter_size", "moe_tp_size"))
    return rows + others * kept.to_numpy(), active, others * zeroed.to_numpy(), hidden, inner / tensor


RAN = {"sglang": "sglang 0.5.10", "trtllm": "trtllm"}
"""Stacks as libraries of kernels; TensorRT-LLM's differ by release."""
BORROWED = {("decode", "trtllm_mla"): "trtllm"}
"""Kernels that a stack has from another: of prompts SGLang's own differ."""


@cache
def routed(tokens: int, chosen: int, experts: int, ranks: int, exponent: float) -> tuple[float, float, float]:
    """Rows of the busiest rank's experts, rows that its tokens send elsewhere, and its experts that have any.

    Its tokens are those that chose any of its experts. As the collector routes them (`collector/helper.py` of
    ai-dynamo/aiconfigurator): balanced, token t chooses the experts t + j experts / chosen; else experts' rows are
    drawn from a power law, each at most `tokens`, the rest goes round the ranks, and they fill all tokens'
    first choices, then their second, the most wanted expert first.
    """
    here, each = experts // ranks, []
    for seed in range(DRAWS if exponent else 1):
        picked = (
            _drawn(tokens, chosen, experts, ranks, exponent, seed) if exponent else _spread(tokens, chosen, experts)
        )
        rank = np.bincount(picked.ravel() // here).argmax() if exponent else 0
        mine = picked // here == rank
        each.append((mine.sum(), mine.any(axis=0).sum() * chosen - mine.sum(), len(np.unique(picked[mine]))))
    rows, others, active = np.mean(each, axis=0).tolist()
    return rows, others, active


def _spread(tokens: int, chosen: int, experts: int) -> IntArray:
    """Experts by choice and token, shape (chosen, tokens), all equally often."""
    stride = -(-experts // chosen)
    token, choice = np.arange(tokens) * max(1.0, stride / tokens), np.arange(chosen)[:, None] * stride
    return (token + choice).astype(int) % experts


def _drawn(tokens: int, chosen: int, experts: int, ranks: int, exponent: float, seed: int) -> IntArray:
    """Experts by choice and token, shape (chosen, tokens), with rows of a power law."""
    ends = np.array((1.0, 0.8 * tokens) if tokens * chosen > experts else (0.01, 2.0)) ** (1 - exponent)
    wanted = (ends[0] + (ends[1] - ends[0]) * np.random.default_rng(seed).random(experts)) ** (1 / (1 - exponent))
    rows = np.minimum(np.rint(wanted / wanted.sum() * tokens * chosen).astype(int), tokens)
    while missing := tokens * chosen - rows.sum():
        one = np.sign(missing)
        places = (one * rows).reshape(ranks, -1).argsort(axis=1).argsort(axis=1)  # each rank's least loaded first
        turns = np.argsort((places * ranks + np.arange(ranks)[:, None]).ravel())
        able = turns[(rows < tokens if missing > 0 else rows > 0)[turns]]
        rows[able[: abs(missing)]] += one
    order = np.argsort(-rows)
    return np.repeat(order, rows[order]).reshape(chosen, tokens)


def frames(folder: Path) -> dict[ExpertCase, pd.DataFrame]:
    """Rows by case, with `machine` (the catalogue's name, "" where it is not there) and `time` [s]."""
    import pandas as pd

    result: dict[ExpertCase, list[pd.DataFrame]] = {}
    for path in sorted((folder / "gpu/aiconfigurator").glob("*/m[ol][ea]/*/*/*.parquet")):
        kind = {"moe_perf": "experts", "context_mla_perf": "prefill", "generation_mla_perf": "decode"}.get(path.stem)
        if kind is None:
            continue
        frame = parquet_frame(path)
        frame = frame[frame["latency"] > 0].assign(machine=machine_of(path.parts[-5]), stack=path.parts[-3])
        library_of_stack = RAN.get(path.parts[-3], path.parts[-3])
        frame["ran"] = [BORROWED.get((kind, source), library_of_stack) for source in frame["kernel_source"]]
        frame["time"] = frame["latency"] * 1e-3
        library, dtype = ("kernel_source", "moe_dtype") if kind == "experts" else ("stack", "mla_dtype")
        if kind == "experts":
            frame = frame[frame["moe_dtype"].isin(list(WEIGHTS)) & frame["distribution"].isin(list(EXPONENTS))]
            ran = zip(frame["kernel_source"], frame["machine"], strict=True)
            frame = frame.assign(others=[OTHERS.get(one, "") for one in ran])
        for (source, width), part in frame.groupby([library, dtype]):
            result.setdefault(ExpertCase(kind, str(source), str(width)), []).append(part)
    return {case: pd.concat(parts, ignore_index=True) for case, parts in result.items()}


def layer_times(folder: Path) -> list[OperationTimes]:
    """Rows of the tables as times of single operations in recorded graphs; a machine's rows of a second library, of a
    kind that the first one ran there, are those of a machine of its own."""
    result: list[OperationTimes] = []
    seen: set[tuple[str, str]] = set()
    for case, frame in sorted(frames(folder).items(), key=lambda pair: repr(pair[0])):
        for (name, ran), mine in frame.groupby(["machine", "ran"]):
            if case.kind == "experts":  # rows of zeroes are no layer that anybody runs
                mine = mine[(mine["others"] != ZEROED) | (mine["moe_ep_size"] == 1)]
            if not name or len(mine) < ENOUGH:
                continue
            at = machine(str(name)).using({**RECORDED, "runtime.library": str(ran)})
            made = case.timed(mine, at)
            if {(one.name, at.name) for one in made} & seen:
                at = at.model_copy(update={"name": variant_name(at.name, str(ran))})
                made = [replace(one, machine=at) for one in made]
            seen |= {(one.name, at.name) for one in made}
            result += made
    return result
