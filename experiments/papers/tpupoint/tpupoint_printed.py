"""What TPUPoint prints, checked: sums and counts of its tables, the numbers of its method, its chips."""

from __future__ import annotations

from slipstick.experiments.papers.tpupoint.tpupoint_tables import (
    GIB,
    IMAGENET_TRAINING_IMAGES,
    MIB,
    TABLE_I,
    TABLE_II_HOST,
    TABLE_II_TPU,
)
from slipstick.experiments.scoring.score_rows import ReproductionRow
from slipstick.hwmodels.catalog import machine


def not_public(table: str, cell: str, published: float | str, unit: str, reason: str) -> ReproductionRow:
    """A row for a number, in `unit`, that cannot be reproduced, with the reason."""
    return ReproductionRow(table, cell, "not_reproducible", published, None, unit, reason=reason)


def table_i() -> list[ReproductionRow]:
    """Table I: the nine workloads, their data sets, batch sizes and steps."""
    resnet = TABLE_I[-1]
    epochs = (resnet.steps or 0) * resnet.batch / IMAGENET_TRAINING_IMAGES
    rows = [
        ReproductionRow(
            "I",
            "ResNet-50: 112,590 steps of 1,024 images are 90 epochs of ImageNet",
            "exact",
            90.0,
            epochs,
            "epochs",
            tolerance_rel=0.001,
            reason="the usual 90 epochs; the table gives steps only",
        ),
        ReproductionRow("I", "workloads", "exact", 9, len(TABLE_I), "1", tolerance_abs=0),
    ]
    for each in TABLE_I:
        size = each.dataset_bytes / MIB
        reason = "an input of the study, kept as data in TABLE_I"
        rows.append(not_public("I", f"{each.model} on {each.data}: dataset size", round(size, 2), "MiB", reason))
        rows.append(not_public("I", f"{each.model} on {each.data}: batch", each.batch, "examples", reason))
        for name in ("steps", "epochs", "steps_per_epoch"):
            value = getattr(each, name)
            if value is not None:
                rows.append(not_public("I", f"{each.model} on {each.data}: {name}", value, "1", reason))
    return rows


def table_ii() -> list[ReproductionRow]:
    """Table II: how many columns list each of the most frequent operators."""
    columns = sum(each.analysed_by for each in TABLE_I)
    five = 5 * columns
    rows = [
        ReproductionRow(
            "II",
            "columns: workloads times the algorithms that could analyse them",
            "exact",
            23,
            columns,
            "1",
            tolerance_abs=0,
            reason="fusion is in the top five of every column, 23 of 23",
        )
    ]
    for place, table, versions in (("host", TABLE_II_HOST, (0, 1)), ("TPU", TABLE_II_TPU, (0,))):
        for version in versions:
            total = sum(counts[version] or 0 for counts in table.values())
            name = f"sum of the {place} operators' totals, v{version + 2}: five a column"
            rows.append(ReproductionRow("II", name, "exact", total, five, "1", tolerance_abs=0))
    known = sum(counts[1] or 0 for counts in TABLE_II_TPU.values())
    rows.append(
        ReproductionRow(
            "II",
            "sum of the TPU operators' totals, v3: five a column",
            "model",
            known,
            five,
            "1",
            reason="totals of Copy and InfeedDequeueTuple are not legible in our text; the others sum to this",
        )
    )
    for table in (TABLE_II_HOST, TABLE_II_TPU):
        for operator, counts in table.items():
            for chip, count in zip(("v2", "v3"), counts, strict=True):
                if count is not None:
                    reason = "top five of runs on Cloud TPUs; the traces are not public"
                    rows.append(not_public("II", f"{operator}, {chip}", count, "columns", reason))
    first = sorted(TABLE_II_HOST, key=lambda name: -TABLE_II_HOST[name][0])[:2]
    rows.append(
        ReproductionRow(
            "II",
            "the most frequent host operators exchange data with the TPU",
            "qualitative",
            "OutfeedDequeueTuple, TransferBufferToInfeedLocked",
            ", ".join(first),
            "",
            holds=first == ["OutfeedDequeueTuple", "TransferBufferToInfeedLocked"],
        )
    )
    reshape = TABLE_II_TPU["Reshape"]
    rows.append(
        ReproductionRow(
            "II",
            "layout copies (Reshape) are among the three most frequent operators on both",
            "qualitative",
            "15 and 18",
            f"{reshape[0]} and {reshape[1]}",
            "",
            holds=all(sum((c[v] or 0) > (reshape[v] or 0) for c in TABLE_II_TPU.values()) < 3 for v in (0, 1)),
            reason="here they cost time: the estimator's runtime may not call them free views",
        )
    )
    return rows


def method() -> list[ReproductionRow]:
    """Constants of the method: windows of a profile, k of k-means, samples of DBSCAN, threshold of the scan."""
    from inspect import signature

    from slipstick.estimators.sampling.phases import PublishedScan, density, k_means, step_features
    from slipstick.experiments.methods.tuning.profiler import LARGEST_WINDOW, LONGEST_WINDOW

    tried = signature(k_means).parameters["tried"].default
    samples = signature(density).parameters["tried"].default
    facts = [
        ("III-A", "most events of a profile", 1_000_000, LARGEST_WINDOW, "events"),
        ("III-A", "longest profile", 60_000, LONGEST_WINDOW * 1e3, "ms"),
        ("IV-A", "dimensions after PCA, at most", 100, signature(step_features).parameters["dimensions"].default, "1"),
        ("IV-A", "k-means: smallest k", 1, tried[0], "1"),
        ("IV-A", "k-means: largest k", 15, tried[-1], "1"),
        ("IV-A", "DBSCAN: smallest minimum of samples", 5, samples[0], "1"),
        ("IV-A", "DBSCAN: step of the minimum", 25, samples[1] - samples[0], "1"),
        ("Fig. 5", "DBSCAN: largest minimum shown", 180, samples[-1], "1"),
        ("IV-A", "linear scan: similarity threshold", 70, 100 * PublishedScan().threshold, "%"),
    ]
    rows = [ReproductionRow(t, cell, "exact", p, float(o), unit, tolerance_abs=1e-9) for t, cell, p, o, unit in facts]
    absent: list[tuple[str, str, float | str, str, str]] = [
        (
            "IV-A",
            "DBSCAN: largest minimum in the text",
            200,
            "1",
            "the text says 200, steps of 25 from 5 end at 180 (Fig. 5)",
        ),
        ("VI-A", "k-means: clusters at the elbow", "4 to 6", "1", "of their workloads; curves without numbers"),
        ("VI-A", "k-means: clusters shown", 5, "1", "a choice; `slipstick phases --clusters 5`"),
        ("VI-A", "DBSCAN: best minimum", "30 to 80", "1", "of their workloads; the radius is not given"),
        ("VI-A", "DBSCAN: clusters found", "3 to 13", "1", "of their workloads"),
        ("VI-A", "linear scan: phases of most workloads at 70 %", 3, "1", "of their workloads"),
        ("VI-A", "linear scan: phases of most workloads at 100 %, fewer than", 15, "1", "of their workloads"),
    ]
    return rows + [not_public(*each) for each in absent]


def chips() -> list[ReproductionRow]:
    """Section II-A: peaks and memories of the two chips."""
    v2, v3 = machine("tpu-v2-8"), machine("tpu-v3-8")
    tera = 1e12
    return [
        ReproductionRow(
            "II-A",
            "TPU v2 chip",
            "model",
            45,
            v2.peak("matrix", "bfloat16") / 4 / tera,
            "TFLOP/s",
            tolerance_rel=0.03,
            reason="our catalogue: clock times cells (Jouppi et al., CACM 2020: 46)",
        ),
        ReproductionRow(
            "II-A",
            "TPU v3 chip",
            "model",
            90,
            v3.peak("matrix", "bfloat16") / 4 / tera,
            "TFLOP/s",
            evidence="conflict of sources",
            reason="the paper's figure is of before publication; Jouppi et al., CACM 2020: 123 at 940 MHz",
            relabelled="missed",
        ),
        ReproductionRow(
            "II-A",
            "TPU v3 over v2, matrix units",
            "exact",
            2.0,
            v3.engines["matrix"].arrays / v2.engines["matrix"].arrays,
            "1",
            tolerance_abs=0,
        ),
        ReproductionRow(
            "II-A", "memory of a v2 chip", "exact", 16, v2.memory["HBM"].capacity / 4 / GIB, "GiB", tolerance_abs=0
        ),
        ReproductionRow(
            "II-A", "memory of a v3 chip", "exact", 32, v3.memory["HBM"].capacity / 4 / GIB, "GiB", tolerance_abs=0
        ),
        not_public("II-A", "power of a v2 chip", "200 to 250", "W", "not modelled"),
    ]
