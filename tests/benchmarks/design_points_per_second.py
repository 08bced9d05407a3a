"""Design points a second beside Calculon, one process, thread CPU time, the same transformer (GPT-2: 12 blocks of 768).

    python tests/benchmarks/design_points_per_second.py [PATH-TO-CALCULON]

The path is a checkout of github.com/calculon-ai/calculon (Apache-2.0). Calculon models one block with its parallel
execution, we sum every operation of the network: neither is the other's arithmetic, but the question is the same (how
long is a training step when clock and bandwidth change?). llm-analysis (pip install llm-analysis fire; 0.2.2 was tried)
is asked the same, a point at a time, where it is installed; Calculon where a path is given.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.operation.roofline import Roofline
from slipstick.estimators.schedule.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

POINTS = 200
MANY = 1_000_000
NETWORK = {"hidden": 768, "feedforward": 3072, "seq_size": 1024, "attn_heads": 12, "attn_size": 64, "num_blocks": 12}


def spent(call: Any) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def theirs(checkout: Path) -> float:
    sys.path.insert(0, str(checkout))
    from calculon.llm import Llm
    from calculon.system import System

    execution = json.loads((checkout / "examples" / "3072_t4_p64_d12_mbs4_full.json").read_text())
    alone = {"num_procs": 1, "tensor_par": 1, "pipeline_par": 1, "data_par": 1, "batch_size": 8, "microbatch_size": 8}
    execution |= {**alone, "activation_recompute": "none", "optimizer_sharding": False}
    system = json.loads((checkout / "systems" / "a100_80g.json").read_text())
    log = logging.getLogger("calculon")
    log.setLevel(logging.CRITICAL)

    def loop() -> None:
        for index in range(POINTS):
            changed = copy.deepcopy(system)
            changed["mem1"]["GBps"] = 1000 + index
            model = Llm(Llm.Application(NETWORK), log)
            on = System(changed)
            model.compile(on, Llm.Execution.from_json(execution))
            model.run(on)

    return POINTS / spent(loop)


def llm_analysis() -> float | None:
    """Points a second of llm-analysis, bandwidth varied; None where it is not installed."""
    try:
        from llm_analysis.analysis import LLMAnalysis
        from llm_analysis.config import ModelConfig, get_dtype_config_by_name, get_gpu_config_by_name
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)
    gpu, dtype = get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16")
    model = ModelConfig(name="gpt2", num_layers=12, n_head=12, hidden_dim=768, vocab_size=50257, max_seq_len=1024)

    def loop() -> None:
        for index in range(POINTS):
            changed = dataclasses.replace(gpu, hbm_bandwidth_in_GB_per_sec=1000 + index)
            asked = LLMAnalysis(model, changed, dtype)
            asked.training(batch_size_per_gpu=8, seq_len=1024, total_num_tokens=8192)

    return POINTS / spent(loop)


def main(checkout: str | None) -> None:
    gpt2, a100 = workload("gpt2"), machine("a100-sxm-80gb")
    model = Composite(Roofline(), Sequential())
    bandwidth = f"memory.{a100.main_memory}.bandwidth"
    free = ("machine.clock", f"machine.{bandwidth}")
    generator = np.random.default_rng(0)
    points = {free[0]: generator.uniform(1e9, 2e9, MANY), free[1]: generator.uniform(1e12, 4e12, MANY)}
    ours = MANY / spent(lambda: model.compile(gpt2, a100, free)(points))

    def loop() -> None:
        for index in range(5):
            model.estimate(gpt2, a100.using({bandwidth: 1e12 + index * 1e9}))

    single = 5 / spent(loop)
    print(f"ours, a million at once, compiling counted: {ours:,.0f} design points a second")
    print(f"our own single estimates in a loop: {single:,.1f}")
    if (peer := llm_analysis()) is not None:
        print(f"llm-analysis: {peer:,.0f}; ours is {ours / peer:,.0f} x llm-analysis")
    if checkout is not None:
        peer = theirs(Path(checkout))
        print(f"Calculon: {peer:,.1f}; ours is {ours / peer:,.0f} x Calculon")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
