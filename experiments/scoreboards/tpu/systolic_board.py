"""Systolic arrays against the simulator SCALE-Sim: equal to the cycle, and how fast that is."""

from __future__ import annotations

import time

import numpy as np

from slipstick.common.readers import read_csv_rows, read_number
from slipstick.estimators.tpu.systolic_array import SHORT_NAMES, accesses, cycles
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow

FILE = "tpu/scalesim_v3_layers.csv"
DATASET = "scalesim 3.0.0 layers"
GOAL_LAYERS_PER_SECOND = 1e6
WITHIN = 0.05
ACTIVE = 32 * 1024
"""Elements of one byte in the active half of SCALE-Sim's buffers of 64 KiB."""
COUNTS = {
    "sram.input": "ifmap_sram_reads", "sram.weights": "filter_sram_reads", "sram.outputs": "ofmap_sram_writes",
    "dram.input": "ifmap_dram_reads", "dram.weights": "filter_dram_reads", "dram.outputs": "ofmap_dram_writes",
}  # fmt: skip
"""What is counted, and its column."""
TRAFFIC = "scalesim 3.0.0 traffic"


def _dataflows(data: Data) -> list[ValidationRow]:
    """The share of rows that are equal for each dataflow, and layers a second."""
    path = data.judged(FILE)
    hits: dict[str, list[bool]] = {name: [] for name in SHORT_NAMES}
    ideal: dict[str, list[bool]] = {name: [] for name in SHORT_NAMES}
    columns = ("R", "C", "dataflow", "M", "N", "K", "compute_cycles")
    for line, row in read_csv_rows(path, columns):
        if not row["compute_cycles"] or row["dataflow"] not in SHORT_NAMES:
            continue
        m, n, k, r, c = (read_number(row[name], path, line, name, 1, 1e12) for name in ("M", "N", "K", "R", "C"))
        counted = int(read_number(row["compute_cycles"], path, line, "compute_cycles", 0))
        hits[row["dataflow"]].append(int(cycles(m, n, k, r, c, row["dataflow"])) == counted)
        ideal[row["dataflow"]].append(round(m * n * k / (r * c)) == counted)
    scores = [
        ValidationRow(
            DATASET,
            f"{name}: cycles equal",
            "nothing is fitted",
            len(equal),
            "share of layers equal to the cycle",
            "1",
            sum(equal) / len(equal),
            {"multiply-adds over cells": sum(ideal[name]) / len(equal)},
            1.0,
            all(equal),
        )
        for name, equal in hits.items()
        if equal
    ]
    rate = layers_per_second()
    return [
        *scores,
        ValidationRow(
            DATASET,
            "speed",
            "random layers",
            1_000_000,
            "layers a second",
            "1/s",
            rate,
            {},
            GOAL_LAYERS_PER_SECOND,
            rate >= GOAL_LAYERS_PER_SECOND,
            reason="thread CPU time of one core, median of 5",
        ),
    ]


def _traffic(data: Data) -> list[ValidationRow]:
    """The share of layers whose elements read and written are within 5 % of the simulator's, by memory and operand."""
    path = data.judged(FILE)
    hits: dict[str, list[bool]] = {}
    once: dict[str, list[bool]] = {}
    columns = ("layer", "R", "C", "dataflow", "M", "N", "K", *COUNTS.values())
    for line, row in read_csv_rows(path, columns):
        if not row["M"] or row["dataflow"] not in SHORT_NAMES:
            continue
        m, n, k, r, c = (read_number(row[name], path, line, name, 1, 1e12) for name in ("M", "N", "K", "R", "C"))
        ours = accesses(m, n, k, r, c, row["dataflow"], ACTIVE)
        plain = {"input": m * k, "weights": k * n, "outputs": m * n}
        for name, column in COUNTS.items():
            counted = read_number(row[column], path, line, column, 0)
            case = f"{name} of {'convolutions' if row['layer'].startswith('Conv') else 'products'}"
            hits.setdefault(case, []).append(abs(ours[name] - counted) <= WITHIN * counted)
            once.setdefault(case, []).append(abs(plain[name.partition(".")[2]] - counted) <= WITHIN * counted)
    return [
        ValidationRow(
            TRAFFIC, f"{case}: within 5 %", "nothing is fitted", len(equal), "share of layers within 5 %", "1",
            sum(equal) / len(equal), {"every element once": sum(once[case]) / len(equal)}, 1.0, all(equal),
        )
        for case, equal in hits.items()
    ]  # fmt: skip


def layers_per_second(count: int = 1_000_000) -> float:
    """Layers evaluated a second of thread CPU time."""
    rng = np.random.default_rng(0)
    m, n, k = rng.integers(1, 4096, (3, count))
    r, c = rng.integers(1, 512, (2, count))
    cycles(1, 1, 1, 1, 1)
    taken = []
    for _ in range(5):
        start = time.thread_time()
        cycles(m, n, k, r, c)
        taken.append(time.thread_time() - start)
    return count / float(np.median(taken))


BOARD = Board("How many cycles does a layer take on a systolic array?", {DATASET: _dataflows, TRAFFIC: _traffic})
