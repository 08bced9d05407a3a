"""Idle and matrix shares of TPUPoint's nine workloads as predicted, beside its averages and its reduced data sets."""

from __future__ import annotations

from statistics import mean

from slipstick.experiments.evidence.papers.tpupoint.tpupoint_tables import (
    IDLE_PERCENT,
    MXU_PERCENT,
    TABLE_I,
    PaperWorkload,
)
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_workloads import ASSUMED, predictions
from slipstick.experiments.evidence.rows import ReproductionRow

EXAMPLES = {"MRPC": 3_668, "SQuAD": 87_599, "CoLA": 8_551, "MNLI": 392_702, "COCO": 120_000}
"""Training examples of the data sets (GLUE, SQuAD 1.1; COCO as Table I has it)."""
PRINTED_MXU = {("QANet", "v2"): 16.0, ("QANet", "v3"): 13.0, ("RetinaNet", "v2"): 46.0}
"""Section VI-B, in per cent."""
CIFAR10_EXAMPLES, IMAGENET_EPOCHS = 50_000, 90


def steps_of(workload: PaperWorkload) -> float:
    """Training steps of a run of Table I."""
    if workload.steps is not None:
        return workload.steps
    epochs = workload.epochs or 1
    return epochs * (workload.steps_per_epoch or EXAMPLES[workload.data] / workload.batch)


def whole_runs(chip: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Idle and matrix share [%] of each run of Table I, its start included."""
    found = {}
    for each in TABLE_I:
        key = each.model, each.data
        idle, matrix = predictions(chip)[key].over(steps_of(each))
        found[key] = float(100 * idle), float(100 * matrix)
    return found


def reduced_runs(chip: str) -> dict[tuple[str, str], tuple[float, float]]:
    """The same for half of QANet's and RetinaNet's data, and ResNet on CIFAR10."""
    steps = {(each.model, each.data): steps_of(each) for each in TABLE_I}
    runs = {key: steps[key] / 2 for key in (("QANet", "SQuAD"), ("RetinaNet", "COCO"))}
    runs["ResNet-50", "CIFAR10"] = IMAGENET_EPOCHS * CIFAR10_EXAMPLES / 1024
    shares = {key: predictions(chip)[key].over(count) for key, count in runs.items()}
    return {key: (float(100 * idle), float(100 * matrix)) for key, (idle, matrix) in shares.items()}


def predicted() -> list[ReproductionRow]:
    """Rows of Figs. 10 to 13: a figure a workload, averages beside the printed ones, and directions."""
    runs = {chip: whole_runs(chip) for chip in ("v2", "v3")}
    rows = []
    for chip, shares in runs.items():
        for (model, data), both in shares.items():
            step = predictions(chip)[model, data]
            times = f"step {1e3 * step.step:.1f} ms, device {1e3 * step.device:.1f} ms, host {1e3 * step.host:.1f} ms"
            for figure, name, value in (("Fig. 10", "idle", both[0]), ("Fig. 11", "MXU share", both[1])):
                cell = f"{model} on {data}, {chip}: {name} predicted"
                printed_share = PRINTED_MXU.get((model, chip)) if name == "MXU share" else None
                reason = f"{times}; {'Section VI-B' if printed_share else 'no numbers there'}"
                rows.append(ReproductionRow(figure, cell, "model", printed_share, value, "%", reason=reason))
        for place, (figure, name, printed) in enumerate(
            (("Fig. 10", "idle", IDLE_PERCENT), ("Fig. 11", "MXU share", MXU_PERCENT))
        ):
            ours = mean(both[place] for both in shares.values())
            cell = f"mean {name} of the nine predicted runs, {chip}"
            rows.append(ReproductionRow(figure, cell, "model", printed[chip], ours, "%", reason=ASSUMED))
    return [*rows, *_directions(runs), *_reduced(runs["v2"])]


def _directions(runs: dict[str, dict[tuple[str, str], tuple[float, float]]]) -> list[ReproductionRow]:
    v2, v3 = runs["v2"], runs["v3"]
    rows = []
    for figure, name, place, sign, said in (
        ("Fig. 10", "idle rises", 0, 1, "38.90 to 43.53"),
        ("Fig. 11", "MXU share falls", 1, -1, "22.72 to 11.34"),
    ):
        before, after = (mean(both[place] for both in each.values()) for each in (v2, v3))
        text = f"{before:.1f} to {after:.1f}"
        holds = sign * (after - before) > 0
        cell = f"mean {name} from v2 to v3, predicted"
        rows.append(ReproductionRow(figure, cell, "qualitative", said, text, "%", holds=holds, reason=ASSUMED))
    for key, said in ((("QANet", "SQuAD"), "16 to 13"), (("RetinaNet", "COCO"), "46, less on v3")):
        text = f"{v2[key][1]:.1f} to {v3[key][1]:.1f}"
        cell = f"{key[0]}: MXU share falls from v2 to v3, predicted"
        holds = v3[key][1] < v2[key][1]
        rows.append(ReproductionRow("VI-B", cell, "qualitative", said, text, "%", holds=holds, reason=ASSUMED))
    return rows


def _reduced(whole: dict[tuple[str, str], tuple[float, float]]) -> list[ReproductionRow]:
    reduced = reduced_runs("v2")
    changes = {}
    rows = []
    for key, (idle, matrix) in reduced.items():
        before = whole[key if key in whole else ("ResNet-50", "ImageNet")]
        changes[key[0]] = idle - before[0]
        for figure, name, one, other, said in (
            ("Fig. 12", "idle", before[0], idle, "up"),
            ("Fig. 13", "MXU share", before[1], matrix, "down"),
        ):
            holds = other > one if said == "up" else other < one
            cell = f"{key[0]} with reduced data: {name}, predicted"
            text = f"{one:.2f} to {other:.2f}"
            rows.append(ReproductionRow(figure, cell, "qualitative", said, text, "%", holds=holds, reason=ASSUMED))
    most = max(changes, key=lambda name: changes[name])
    cell = "the workload whose idle share reduced data change most, predicted"
    holds = most == "ResNet-50"
    rows.append(ReproductionRow("Fig. 12", cell, "qualitative", "ResNet-50", most, "", holds=holds, reason=ASSUMED))
    return rows
