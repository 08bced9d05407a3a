"""One device's share of a training iteration of a GPT under data, tensor, sequence and pipeline parallelism.

The layers are Megatron's: fused attention softmax, fused bias and GELU, fused bias, dropout and residual, vocabulary
cut over the tensor-parallel group, mixed precision with gradients and optimizer in float32. The operations are those of
one device of the pipeline, each as often as it runs in an iteration, so every number of the run is a symbol:
`tensor_parallel`, `pipeline_parallel`, `data_parallel`, `microbatch` (sequences at a time), `batch` (sequences an
iteration, all devices together), `interleave` (model chunks a device), `recompute` (1 none, 2 selective: the
attention's core, 3 full), `sequence_parallel` and `overlap_gradients` (1 off, 2 on), `shard` (what replicas share
out: 1 nothing, 2 optimizer states, 3 gradients too, 4 parameters too).

Sources: Shoeybi et al., arXiv 1909.08053; Narayanan et al., SC 2021, arXiv 2104.04473 (pipeline, interleaving);
Korthikanti et al., arXiv 2205.05198 (sequence parallelism, recomputation, activation memory; sizes in its Table 3).
"""

from __future__ import annotations

from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text
from slipstick.common.records import Table
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.networks.megatron.device import DeviceOperations
from slipstick.workloads.networks.megatron.layout import ON, SELECTIVE, UNSHARDED, WORDS, MegatronLayout
from slipstick.workloads.transforms.parallel import expanded

SIZES = {
    "megatron-22b": {"layers": 48, "width": 6144, "heads": 64},
    "megatron-175b": {"layers": 96, "width": 12288, "heads": 96},
    "megatron-530b": {"layers": 105, "width": 20480, "heads": 128},
    "megatron-1t": {"layers": 128, "width": 25600, "heads": 160},
    "megatron-gpt2-xl": {"layers": 48, "width": 1600, "heads": 25, "vocabulary": 50_257, "seq_len": 1024},
    "megatron-bert-large": {"layers": 24, "width": 1024, "heads": 16, "vocabulary": 30_522, "seq_len": 512},
}
"""Korthikanti et al., Table 3; GPT-2 (Radford et al., 2019) and BERT (Devlin et al., 2019) as Megatron trains them."""
LAYOUTS = {
    "megatron-22b": {"tensor_parallel": 8, "pipeline_parallel": 1, "batch": 4, "microbatch": 4, "interleave": 1},
    "megatron-175b": {"tensor_parallel": 8, "pipeline_parallel": 8, "batch": 64, "microbatch": 1, "interleave": 3},
    "megatron-530b": {"tensor_parallel": 8, "pipeline_parallel": 35, "batch": 280, "microbatch": 1, "interleave": 3},
    "megatron-1t": {"tensor_parallel": 8, "pipeline_parallel": 64, "batch": 512, "microbatch": 1, "interleave": 1},
}
"""How the paper trains them; defaults of the run."""


def megatron(size: str) -> Workload:
    """A size of the paper with its layout as defaults, selective recomputation and sequence parallelism.

    Raises InputError where there is no such size.
    """
    if size not in SIZES:
        raise InputError(f"unknown Megatron size {size!r} (known: {', '.join(SIZES)})")
    return parallel_gpt(size, **SIZES[size], defaults=LAYOUTS.get(size))


def parallel_gpt(
    name: str,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int = 51_200,
    seq_len: int = 2048,
    defaults: dict[str, int] | None = None,
) -> Workload:
    """A GPT of any size as one device of many trains it.

    Raises InputError where the heads do not divide the width.
    """
    if width % heads:
        raise InputError(f"{name}: {heads} heads do not divide a width of {width}")
    layout = MegatronLayout(layers, width, heads, vocabulary, seq_len)
    writer = DeviceOperations(layout)
    writer.layer_forward()
    writer.layer_backward()
    writer.ends()
    writer.between_devices()
    writer.update()
    one = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "batch": 1, "microbatch": 1}
    one |= {"interleave": 1, "recompute": SELECTIVE, "sequence_parallel": ON, "overlap_gradients": ON}
    one |= {"shard": UNSHARDED}
    facts: dict[str, Attribute] = {
        "network": "gpt",
        "layers": layers,
        "heads": heads,
        "seq_len": seq_len,
        "device_memory": expression_text(layout.memory),
        "devices": expression_text(layout.tensor * layout.stages * layout.replicas),
    }
    facts |= {f"words.{name}": words for name, words in WORDS.items()}
    facts |= {"parameters": layers * (12 * width**2 + 13 * width) + (vocabulary + seq_len) * width}
    return Workload(
        name, expanded(writer.operations), _phases(writer.operations), Table({**one, **(defaults or {})}), Table(facts)
    )


def _phases(operations: list[Op]) -> tuple[tuple[str, str], ...]:
    """What holds for every microbatch: forward, then backward, then the sum of gradients, then the update."""
    begins = "layer.backward.down.dropout"
    summed = [op.name for op in operations if op.attributes["lane"] in ("data", "data_each")]
    edges = [(begins, name) for name in summed]
    for op in operations:
        if op.name == begins or op.name in summed:
            continue
        if op.attributes["lane"] == "update":
            edges += [(name, op.name) for name in summed]
        elif op.attributes["lane"] == "gathered":
            edges.append(("update.round", op.name))
        elif ".backward" in op.name:
            edges += [(begins, op.name)] if op.name.startswith("layer.") else []
            edges += [(op.name, name) for name in summed]
        elif op.attributes["lane"] in ("tied", "transfer") or op.name.startswith("head."):
            edges.append((op.name, "update.unscale"))
        else:
            edges.append((op.name, begins))
    return tuple(edges)
