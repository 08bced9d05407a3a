"""What other programs want to know of a language model and of an accelerator: sizes and data-sheet numbers in SI."""

from __future__ import annotations

from slipstick.experiments.scoring.scored_cases import Input
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel


def model_inputs(model: LanguageModel) -> dict[str, Input]:
    """Sizes by name; those of experts are 0 where there are none."""
    experts = model.experts
    return {
        "model": model.name,
        "layers": model.layers,
        "width": model.width,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "feed_forward": model.feed_forward,
        "vocabulary": model.vocabulary,
        "matrices": model.matrices,
        "experts": experts.count if experts else 0,
        "experts_per_token": experts.per_token if experts else 0,
        "expert_feed_forward": experts.feed_forward if experts else 0,
        "parameters": float(model.parameters),
        "active_parameters": float(model.active_parameters),
    }


def machine_inputs(machine: Machine) -> dict[str, Input]:
    """Data-sheet numbers of one device: B/s, flop/s in bfloat16, bytes, and B/s of its nearest link (0 without)."""
    main = machine.main_memory
    link = next(iter(machine.links.values()), None)
    return {
        "bandwidth": machine.bandwidth(main),
        "peak_flop_per_s": machine.peak("matrix", "bfloat16"),
        "capacity": float(machine.memory[main].capacity),
        "link_bandwidth": link.bandwidth if link else 0.0,
    }
