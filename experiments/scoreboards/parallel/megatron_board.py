"""Scoreboard: iterations of large transformers on up to 512 GPUs, by a model that saw single kernels and transfers.

Published times: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", arXiv 2205.05198,
Table 5 (iteration time in seconds: full recompute, and present work = sequence parallelism with selective
recomputation). Nothing is fitted to them: kernels are fitted to linear layers and elementwise operations of single
A100 80 GB, collectives to the systems of the scoreboard "collectives".
"""

from __future__ import annotations

import numpy as np

from slipstick.experiments.question import registry
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.networks.megatron.layout import FULL, OFF, ON, SELECTIVE

ON_MACHINE = "a100-80-dgx"
PUBLISHED = {
    "megatron-22b": (1.42, 1.10),
    "megatron-175b": (18.13, 13.75),
    "megatron-530b": (49.05, 37.83),
    "megatron-1t": (94.42, 71.49),
}
"""Seconds of an iteration by model: full recompute, present work (Table 5)."""
RUNS = {
    "full recompute": {"recompute": FULL, "sequence_parallel": OFF},
    "sequence parallel, selective recompute": {"recompute": SELECTIVE, "sequence_parallel": ON},
}
MEAN_GOAL, LARGEST_GOAL = 0.05, 0.12
TRANSFER = "no row of these is in any fit"


def _iterations(_: Data) -> list[ValidationRow]:
    """Each published iteration, their mean and largest error, and the ratio of the two ways to train."""
    target, model = machine(ON_MACHINE), registry.estimator("parallel-training")
    peak = target.peak("matrix", "float16")
    scores, ours, roofline, published, inside, widths, ratios = [], [], [], [], [], [], []
    for name, times in PUBLISHED.items():
        graph = workload(name)
        pair = []
        for (label, run), measured in zip(RUNS.items(), times, strict=True):
            answer = model.estimate(graph, target, run)
            low, high = answer.interval() or (0.0, float("inf"))
            flop = sum(float(op.cost.flop * op.times) for op in graph.bound(run) if op.kind == "gemm")
            # The trivial answer: matrix products at the peak, and the pipeline's bubble.
            stages, rounds = graph.defaults["pipeline_parallel"], graph.defaults["batch"] / graph.defaults["microbatch"]
            bound = flop / peak * (1 + (stages - 1) / (graph.defaults["interleave"] * rounds))
            error = answer.time / measured - 1
            scores.append(
                ValidationRow(
                    "megatron",
                    f"{name}, {label}",
                    "all published iterations",
                    1,
                    "relative error of the iteration",
                    "1",
                    error,
                    {"products at the peak": bound / measured - 1},
                    LARGEST_GOAL,
                    abs(error) <= LARGEST_GOAL,
                    0.8,
                    float(low <= measured <= high),
                    high / low,
                    None,
                    f"published {measured:g} s, ours {answer.time:.4g} s; "
                    + ", ".join(f"{part} {share:.3f}" for part, share in answer.metrics.items()),
                )
            )
            ours.append(answer.time)
            roofline.append(bound)
            published.append(measured)
            inside.append(low <= measured <= high)
            widths.append(high / low)
            pair.append((answer.time, measured))
        ratios.append(pair[0][0] / pair[1][0] / (pair[0][1] / pair[1][1]) - 1)
    errors = np.abs(np.array(ours) / np.array(published) - 1)
    trivial = np.abs(np.array(roofline) / np.array(published) - 1)
    gain = np.abs(np.array(ratios))
    same = float(np.mean([abs(high / low - 1) for low, high in (times[::-1] for times in PUBLISHED.values())]))
    for metric, value, baseline, goal in (
        ("mean |relative error|", errors.mean(), {"products at the peak": float(trivial.mean())}, MEAN_GOAL),
        ("largest |relative error|", errors.max(), {"products at the peak": float(trivial.max())}, LARGEST_GOAL),
        ("mean |relative error| of the speed-up of the present work", gain.mean(), {"no speed-up": same}, None),
    ):
        scores.append(
            ValidationRow(
                "megatron",
                "all",
                "all published iterations",
                len(errors) if goal else len(gain),
                metric,
                "1",
                float(value),
                baseline,
                goal,
                None if goal is None else bool(value <= goal),
                0.8,
                float(np.mean(inside)),
                float(np.median(widths)),
                None,
                TRANSFER,
            ).over([name for name, times in PUBLISHED.items() for _ in times], inside)
        )
    return scores


BOARD = Board(
    "How long does an iteration of a large transformer take, from single kernels and transfers alone?",
    {"megatron": _iterations},
    closed={"megatron": "published times stand in the module; there is no file to score"},
)
