"""Whole models (NeuSight's 42 cases on H100, L4 and A100-80) as sums of their operations' times.

The operations of a case and how often its block repeats come from the graphs that stand beside the labels; no time of
the machine that is predicted is used. A backward pass takes its forward's time times the ratio of that class of
operation on the other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.frames import csv_frame
from slipstick.experiments.calibrate.public_data import data_folder, scored_file, why_missing
from slipstick.experiments.scoreboards.gpu.gpu_data import machine_of
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.gpu.model_graphs import Node, graph, node_of
from slipstick.experiments.scoreboards.gpu.switch_transformer import MODELS, switch_transformer
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "gpu/neusight"
TARGETS = ("h100-sxm", "l4", "a100-pcie-80gb")
HOST = 9e-6
"""Seconds that a node takes in the labels when no kernel runs: it hides behind the device's work."""


def predicted(
    nodes: Sequence[Node], name: str, boards: Mapping[str, OperationBoard], left_out: Sequence[str]
) -> dict[str, float]:
    """Seconds by class of operation. What a launch costs alone hides behind other kernels; the device's share stays."""
    import pandas as pd

    total: dict[str, float] = {}
    for kind in {node.kind for node in nodes} - {"waiting"}:
        mine = [node for node in nodes if node.kind == kind]
        board = boards["elementwise" if kind == "dropout" else kind]
        frame = pd.DataFrame([node.dims for node in mine])
        time = board.predict(name, frame, left_out).time
        waiting = board.overhead(name, left_out)
        total[kind] = float(
            np.sum(np.maximum(time - waiting, _on(name).runtime.launch_overhead) * [node.times for node in mine])
        )
    total["waiting"] = HOST * sum(node.times * node.dims["launches"] for node in nodes if node.kind == "waiting")
    return total


def accumulations(nodes: Sequence[Node]) -> list[Node]:
    """What training adds: each weight's gradient is added to what is there."""
    weights = [(node.dims["m"] * node.dims["k"], node.times) for node in nodes if node.kind == "linear"]
    return [Node("elementwise", {"elements": w, "reads": 2 * w, "writes": w}, times) for w, times in weights]


def rows(scored: Path | None, boards: Mapping[str, OperationBoard]) -> list[ValidationRow]:
    """MAPE over the cases, and the worst; cases without a graph are named."""

    folder, title = data_folder(), "neusight whole models"
    labels_path = scored_file(f"{FOLDER}/e2e_labels.csv", scored)
    if folder is None or labels_path is None:
        return [skipped(title, why_missing(f"{FOLDER}/e2e_labels.csv", scored))]
    labels = csv_frame(labels_path)
    labels["machine"] = [machine_of(device) for device in labels["device"]]
    nodes = csv_frame(folder / FOLDER / "per_node_labels.csv.gz")
    nodes["machine"] = [_machine(device) for device in nodes["device"]]
    stored = csv_frame(folder / FOLDER / "e2e_predictions.csv").pivot_table(
        index=["device", "case"], columns="predictor", values="e2e_latency"
    )
    if scored is None:
        labels = labels[labels["machine"].isin(TARGETS)]
        labels = labels[
            [
                (d, c) in stored.index and stored.loc[(d, c)].get("roofline") > 0
                for d, c in zip(labels.device, labels.case, strict=True)
            ]
        ]
    ratios = {name: backward_ratios(nodes[nodes["machine"] != name]) for name in labels["machine"].unique()}
    others = csv_frame(folder / FOLDER / "e2e_labels.csv")
    others["machine"] = [machine_of(device) for device in others["device"]]
    sums = excess(others, nodes, boards)
    missed = {name: float(np.median([v for m, v in sums if m != name] or [0.0])) for name in ratios}
    ours, measured, plain, neusight, missing, names = [], [], [], [], [], []
    row: Any
    for row in labels.itertuples():
        work = _operations(row, nodes) if row.machine else None
        if work is None:
            missing.append(f"{row.machine or row.device} {row.case}")
            continue
        left_out = (row.machine,) if scored is None else ()
        predicted = seconds(row, work, boards, left_out, ratios[row.machine])
        ours.append(predicted * np.exp(missed[row.machine]))
        measured.append(row.e2e_latency * 1e-3)
        known = stored.loc[(row.device, row.case)] if (row.device, row.case) in stored.index else {}
        plain.append(known.get("roofline", np.nan) * 1e-3)
        neusight.append(known.get("neusight", np.nan) * 1e-3)
        names.append(f"{row.machine} {row.case}")
    if not ours:
        return [skipped(title, "no case with a graph")]
    numbers = np.array([ours, measured, plain, neusight], dtype=float)
    return _scores(title, names, numbers, missing)


def seconds(
    row: Any,
    work: Sequence[Node],
    boards: Mapping[str, OperationBoard],
    left_out: Sequence[str],
    backward: Mapping[str, float],
) -> float:
    """The sum over a case's operations; training adds the backward pass and the accumulation of gradients."""
    parts = predicted(work, row.machine, boards, left_out)
    if "-train-" not in str(row.case):
        parts.pop("dropout", None)
        return sum(parts.values())
    total = sum(time * (1 + backward.get(kind, 0.0)) for kind, time in parts.items())
    return total + predicted(accumulations(work), row.machine, boards, left_out)["elementwise"]


def excess(labels: pd.DataFrame, nodes: pd.DataFrame, boards: Mapping[str, OperationBoard]) -> list[tuple[str, float]]:
    """By machine and forward pass: log of what a model takes over the sum of its operations on that measured machine.

    Operations that are timed one by one find their inputs in caches and a chip at rest.
    """
    measured = [
        machine for machine in labels["machine"].unique() if machine and all(b.fitted(machine) for b in boards.values())
    ]
    ratios = []
    row: Any
    for row in labels[labels["machine"].isin(measured)].itertuples():
        plain = len(str(row.case).split("-")) == 4 and "-inf-" in str(row.case)
        work = _operations(row, nodes) if plain else None
        if work is not None:
            ratios.append((row.machine, float(np.log(row.e2e_latency * 1e-3 / seconds(row, work, boards, (), {})))))
    return ratios


def _operations(row: Any, nodes: pd.DataFrame) -> list[Node] | None:
    """What a case does: its graph, or the published configuration of a model without one; None where neither is."""
    model, *rest = str(row.case).split("-")
    if model in MODELS and len(rest) == 3:
        return switch_transformer(MODELS[model], int(rest[2]), int(rest[1]))
    graphs = nodes[nodes["case"] == row.case]
    if graphs.empty or not np.isfinite(row.num_layer):
        return None
    return graph(graphs[graphs["device"] == graphs["device"].iloc[0]], row.num_layer)


def _scores(title: str, names: Sequence[str], numbers: Any, missing: Sequence[str]) -> list[ValidationRow]:
    ours, measured, plain, neusight = numbers
    error = np.abs(ours / measured - 1)
    apart = {"roofline (stored)": np.abs(plain / measured - 1), "NeuSight (stored)": np.abs(neusight / measured - 1)}
    worst = int(np.argmax(error))
    note = f"no graph for {', '.join(missing)}" if missing else ""
    rows = [
        ValidationRow(
            title,
            "all cases",
            "each machine",
            len(error),
            "MAPE",
            "1",
            float(error.mean()),
            _over(apart, np.mean),
            0.06,
            bool(error.mean() <= 0.06),
            reason=note,
        ),
        ValidationRow(
            title,
            "all cases",
            "each machine",
            len(error),
            "largest error",
            "1",
            float(error.max()),
            _over(apart, np.max),
            0.20,
            bool(error.max() <= 0.20),
            reason=f"worst: {names[worst]}",
        ),
    ]
    for machine in sorted({name.split()[0] for name in names}):
        chosen = np.array([name.split()[0] == machine for name in names])
        over_machines = _over({name: errors[chosen] for name, errors in apart.items()}, np.mean)
        rows.append(
            ValidationRow(
                title, machine, machine, int(chosen.sum()), "MAPE", "1", float(error[chosen].mean()), over_machines
            )
        )
    return rows


def _over(errors: Mapping[str, Any], rule: Callable[[Any], Any]) -> dict[str, float]:
    """A rule over the finite errors of each baseline; those without any are left out."""
    known = {name: values[np.isfinite(values)] for name, values in errors.items()}
    return {name: float(rule(values)) for name, values in known.items() if len(values)}


def backward_ratios(nodes: pd.DataFrame) -> dict[str, float]:
    """Ratio of backward to forward time by class of operation, on the machines of these labels."""
    training = nodes[nodes["case"].str.contains("-train-") & (nodes["fw_latency"] > 2 * HOST * 1e3)]
    sums: dict[str, list[float]] = {}
    row: Any
    for row in training.itertuples():
        node = node_of(row, 1.0)
        if node is not None:
            both = sums.setdefault(node.kind, [0.0, 0.0])
            both[0] += row.fw_latency - HOST * 1e3
            both[1] += row.bw_latency
    return {kind: back / forward for kind, (forward, back) in sums.items()}


def _machine(device: str) -> str:
    return machine_of(device.replace("A100-PCIE", "A100 PCIE").replace("_", " ").replace("A100 PCIE", "A100-PCIE"))


def _on(name: str) -> Any:
    from slipstick.hwmodels.catalog import machine

    return machine(name)
