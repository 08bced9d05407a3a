"""Viebke et al., "Performance Modelling of Deep Learning on Intel Many Integrated Core Architectures", 2019.

Every number of its tables beside `many_core.phi_study`, a combination of shared parts.
"""

from __future__ import annotations

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu.thread_calibration import by_weights
from slipstick.estimators.cpu.xeon_phi_study import (
    PREDICTED_THREADS,
    SIZES,
    TABLE_IV_S,
    TABLE_IX_PERCENT,
    TABLE_X_MINUTES,
    TABLE_XI_MINUTES,
    contention_fit,
    estimator,
    fit_queue,
    phi,
    threaded,
)
from slipstick.experiments.scoring.annotations import Mark, marked
from slipstick.experiments.scoring.score_rows import ReproductionRow
from slipstick.workloads.networks.phi_cnn import all_weights, forward_pass, phi_cnn, phi_network, training_step

MARKS = (
    Mark("IV", "contention, .*", "computed", "Table IV at the seven measured thread counts"),
    Mark("VIII?", ".* operations of one image.*", "computed", "layers of Figure 2"),
    Mark("VIII?", ".* ratio, .*", "echo", "Tables VII and VIII as printed"),
    Mark("X", ".*from the graph alone", "computed", "layers of Figure 2, Prep, OperationFactor 15, Table IV"),
    Mark("IV", ".*weights of the two others", "computed", "layers of Figure 2, Table IV of the two others"),
    Mark("XI?", ".*", "computed", "Tables II to IV, VII and VIII"),
    Mark("IX", "the better strategy .*", "echo", "Table IX as printed"),
    Mark("Figure 7", ".*", "direction", "Tables II to IV, VII and VIII"),
)


def run() -> list[ReproductionRow]:
    """Every number that the paper states, beside ours."""
    return marked(
        [
            *_table_iv(),
            *_counts(),
            *_table_ix(),
            *_table_x(),
            *_from_graphs(),
            *_table_xi(),
            *_orderings(),
            *_inconsistencies(),
        ],
        MARKS,
    )


def minutes(size: str, strategy: str, threads: float, preparation: str = "in_use", **values: float) -> float:
    """Predicted minutes of a training run on so many threads."""
    workload = phi_cnn(size, "printed" if preparation == "printed" else "in_use")
    return estimator(strategy).estimate(workload, phi(), {"threads": threads, **values}).time / 60


def _table_iv() -> list[ReproductionRow]:
    rows = []
    for size in SIZES:
        intercept, slope = contention_fit(size).values
        for threads, published in zip(PREDICTED_THREADS, TABLE_IV_S[size][1], strict=True):
            cell = f"contention, {size}, {threads} threads"
            ours = intercept + slope * threads
            rows.append(ReproductionRow("IV", cell, "exact", published, ours, "s", tolerance_rel=0.007))
        queue, errors = fit_queue(size)
        line = float(np.log(abs(intercept + slope) / TABLE_IV_S[size][0][0]))
        rows.append(
            ReproductionRow(
                "IV",
                f"contention as a queue, {size}: largest |log error| at the measured counts",
                "model",
                None,
                float(np.max(np.abs(errors))),
                "1",
                reason=(
                    f"a closed network: one server, {queue.service:.3g} s a visit whose data come from another core, "
                    f"{queue.alone:.3g} s after one's own; two numbers for seven counts, the paper's line errs by more "
                    f"than {abs(line):.1g} at one thread"
                ),
            )
        )
    return rows


def _counts() -> list[ReproductionRow]:
    rows = []
    for size in SIZES:
        network = phi_network(size)
        forward = {
            kind: sum(float(op.cost.flop) / 2 for op in forward_pass(size) if op.kind == ours_as)
            for kind, ours_as in (("convolution", "convolution"), ("fully_connected", "gemm"), ("pool", "pool"))
        }
        for kind, ours in forward.items():
            ours = ours * 2 if kind == "pool" else ours
            reason = "our count is multiply-adds (pooling: comparisons); the paper says its counts are approximations"
            cell = f"forward operations of one image, {size}, {kind}"
            rows.append(ReproductionRow("VII", cell, "model", network.forward[kind], ours, "operations", reason=reason))
        ours = float(training_step(size).cost.flop) / 2 - float(forward_pass(size).cost.flop) / 2
        cell = f"backward operations of one image, {size}"
        reason = "ours: two multiply-adds for a forward one, one in the first layer; the paper's come to 3.2-3.3"
        rows.append(
            ReproductionRow("VIII", cell, "model", network.backward["total"], ours, "operations", reason=reason)
        )
    ratios = {("VII", "medium"): 9.64, ("VII", "large"): 9.57, ("VIII", "medium"): 11.68, ("VIII", "large"): 11.96}
    for (table, size), published in ratios.items():
        smaller = SIZES[SIZES.index(size) - 1]
        part = "forward" if table == "VII" else "backward"
        ours = getattr(phi_network(size), part)["total"] / getattr(phi_network(smaller), part)["total"]
        cell = f"{part} ratio, {size} to {smaller}"
        rows.append(ReproductionRow(table, cell, "exact", published, ours, "1", tolerance_abs=0.005))
    return rows


def _table_ix() -> list[ReproductionRow]:
    reason = "|measured - predicted| / predicted, averaged; the measured times are only in Figures 5-7, without numbers"
    return [
        ReproductionRow(
            "IX", f"mean deviation, {size}, ({strategy})", "not_reproducible", value, None, "%", reason=reason
        )
        for size in SIZES
        for strategy, value in zip("ab", TABLE_IX_PERCENT[size], strict=True)
    ]


def _table_x() -> list[ReproductionRow]:
    rows = []
    for size in SIZES:
        for threads, pair in zip(PREDICTED_THREADS, TABLE_X_MINUTES[size], strict=True):
            for strategy, published in zip("ab", pair, strict=True):
                cell = f"{size}, ({strategy}), {threads} threads"
                ours = minutes(size, strategy, threads)
                rows.append(ReproductionRow("X", cell, "exact", published, ours, "min", tolerance_abs=0.06))
    for threads, (published, _) in zip(PREDICTED_THREADS, TABLE_X_MINUTES["medium"], strict=True):
        rows.append(
            ReproductionRow(
                "X",
                f"medium, (a), {threads} threads, with Prep as printed",
                "model",
                published,
                minutes("medium", "a", threads, "printed"),
                "min",
                reason="Table II prints Prep = 1e10 for medium; Table X was made with 1e9 (1.8 min less at each)",
            )
        )
    return rows


def _from_graphs() -> list[ReproductionRow]:
    """Table X from the layers alone, nothing refitted; contention of a network from the weights of the two others."""
    rows = []
    for size in SIZES:
        network, step = phi_network(size), training_step(size)
        run = {"images": 6e4, "validation_images": 6e4, "test_images": 1e4, "epochs": float(network.epochs)}
        run["preparation"] = network.preparation_in_use
        for threads, (published, _) in zip(PREDICTED_THREADS, TABLE_X_MINUTES[size], strict=True):
            ours = threaded("a", "wider").estimate(step, phi(), {**run, "threads": threads}).time / 60
            cell = f"{size}, (a), {threads} threads, from the graph alone"
            reason = "instructions counted from flop and bytes in place of Tables VII and VIII"
            rows.append(ReproductionRow("X", cell, "model", published, ours, "min", tolerance_rel=0.10, reason=reason))
        others = [other for other in SIZES if other != size]
        law = by_weights(
            FrozenDict({other: float(all_weights(other)) for other in others}),
            FrozenDict({other: contention_fit(other).values[1] for other in others}),
        )
        first = PREDICTED_THREADS[0]
        wait = (law.fixed + law.by_weight * all_weights(size)) * first
        cell = f"contention, {size}, {first} threads, from the weights of the two others"
        reason = "a turn at shared weights costs a thread a fixed time and a time for every weight"
        stated = TABLE_IV_S[size][1][0]
        rows.append(ReproductionRow("IV", cell, "model", stated, wait, "s", tolerance_rel=0.05, reason=reason))
    return rows


def _table_xi() -> list[ReproductionRow]:
    rows = []
    for (threads, images, test_images), published in TABLE_XI_MINUTES.items():
        for epochs, value in zip((70, 140, 280), published, strict=True):
            ours = minutes("small", "a", threads, images=images, test_images=test_images, epochs=epochs)
            cell = f"{threads} threads, {images} images, {epochs} epochs"
            rows.append(
                ReproductionRow("XI", cell, "exact", value, ours, "min", tolerance_abs=0.06, tolerance_rel=0.004)
            )
    return rows


def _orderings() -> list[ReproductionRow]:
    rows = []
    for size in SIZES:
        a, b = TABLE_IX_PERCENT[size]
        published = "(a)" if a < b else "(b)"
        table = "(a)" if size == "small" else "(b)"
        cell = f"the better strategy for {size} (Result 1)"
        reason = "from the printed deviations; the measured times are not public"
        rows.append(
            ReproductionRow("IX", cell, "qualitative", table, published, reason=reason, holds=table == published)
        )
    rise = minutes("large", "a", 240) / minutes("large", "a", 120)
    rows.append(
        ReproductionRow(
            "Figure 7",
            "(a), large: predicted time rises from 120 to 240 threads",
            "qualitative",
            "rises",
            "rises" if rise > 1 else "falls",
            reason=f"ratio {rise:.3f}: CPI doubles from two to four threads on a core; the measured time falls there",
            holds=rise > 1,
        )
    )
    return rows


def _inconsistencies() -> list[ReproductionRow]:
    notes = {
        "what is timed": "Section V leaves out initialising networks and images; both models include it (Prep, T_Prep)",
        "3,840 threads, medium": "the text says 14.5 min, which is (b); (a) is 14.2",
        "3,840 threads, large": "the text says 36.8 min, which is (a); (b) is 18.0",
        "caption of Table X": "says 480 ... 3,840 images; they are threads",
        "clock": "1.238 GHz in Table III, 1.2 GHz in Sections III and V",
        "Prep of the medium network": "1e10 in Table II, 1e9 in use (see Table X)",
    }
    return [ReproductionRow("text", cell, "not_reproducible", reason=note) for cell, note in notes.items()]
