"""Imported image models beside the published table of their parameters and FLOPs, in the table's convention."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_text
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.graph.compare import matrix_flop
from slipstick.workloads.graph.workload import Op, Workload

TABLE = "graphs/zoo_params_flops.csv"
MAX_TABLE_MODELS = 90
"""Models of the table that are imported, in its order."""
MAX_PARAMETERS = 120_000_000
GOAL_MODELS = 60


def exact_row(dataset: str, case: str, n: int, wrong: list[str]) -> ValidationRow:
    """The row of what must be exact: the share that is, and what is not."""
    share = 1 - len(wrong) / n if n else None
    return ValidationRow(
        dataset, case, "closed forms", n, "share exact", "1", share, goal=1.0, ok=not wrong if n else None,
        reason=f"not exact: {', '.join(wrong)}" if wrong else "",
    )  # fmt: skip


def progress(items: list[Any], what: str) -> Iterator[Any]:
    """The items, counted on standard error."""
    for index, item in enumerate(items):
        if index % 10 == 0:
            print(f"\r{what}: {index}/{len(items)} ", end="", file=sys.stderr, flush=True)
        yield item
    print(f"\r{what}: {len(items)}/{len(items)} ", file=sys.stderr, flush=True)


def table(scored: Path | None) -> list[ValidationRow]:
    """Parameters and FLOPs of image models against the table of their authors, in its convention."""
    from slipstick.experiments.measure.bricks.model_population import pytorchcv_model
    from slipstick.experiments.scoreboards.graphs.model_names import model_name
    from slipstick.workloads.importers.torch.arguments import Input
    from slipstick.workloads.importers.torch.importer import import_torch

    path = scored_file(TABLE, scored)
    if path is None:
        return [skipped("pytorchcv table", why_missing(TABLE, scored))]
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    listed = [row for row in rows if row.get("params") and row.get("flops_half_M")]
    named: dict[str, tuple[int, float]] = {}
    for row in listed:
        name = model_name(row["section"], row["model"])
        if name and int(row["params"]) <= MAX_PARAMETERS:
            named.setdefault(name, (int(row["params"]), 2e6 * float(row["flops_half_M"])))
    errors: dict[str, float] = {}
    bare: dict[str, float] = {}
    wrong_parameters: list[str] = []
    failed: list[str] = []
    for name in progress(list(named)[: 2 * MAX_TABLE_MODELS], "published table"):
        if len(errors) + len(failed) >= MAX_TABLE_MODELS:
            break
        parameters, flop = named[name]
        try:
            model = pytorchcv_model(name)
        except Exception:  # pytorchcv has no such name, or cannot build it beside today's torch
            continue
        try:
            graph = import_torch(model, [Input((1, 3, *model.in_size))], name, purpose="inference")
        except InputError as error:
            failed.append(f"{name} ({str(error)[:60]})")
            continue
        if graph.metadata["parameters"] != parameters:
            wrong_parameters.append(name)
        errors[name] = abs(table_flop(graph) / flop - 1)
        bare[name] = abs(float(matrix_flop(graph, "forward")) / flop - 1)
    n = len(errors)
    exact = n - len(wrong_parameters)
    beyond = sorted((name for name in errors if errors[name] > 0.01), key=lambda name: -errors[name])
    within = n - len(beyond)
    notes = [f"beyond 1 %: {', '.join(f'{name} {errors[name]:.1%}' for name in beyond[:12])}"] if beyond else []
    notes += [f"not imported: {', '.join(failed[:5])}"] if failed else []
    changed = f"not those of the table in the installed collection: {', '.join(wrong_parameters)}"
    parameters_row = ValidationRow(
        "pytorchcv table",
        "parameters",
        "nothing is fitted",
        n,
        "models exact",
        "1",
        exact,
        goal=GOAL_MODELS,
        ok=exact >= GOAL_MODELS if n >= GOAL_MODELS else None,
        reason=changed if wrong_parameters else "",
    )
    flops_row = ValidationRow(
        "pytorchcv table",
        "FLOPs in the table's convention, which is documented",
        "nothing is fitted",
        n,
        "models within 1 %",
        "1",
        within,
        {"products and convolutions alone": float(sum(error <= 0.01 for error in bare.values()))},
        goal=GOAL_MODELS,
        ok=within >= max(GOAL_MODELS, 0.95 * n) if n >= GOAL_MODELS else None,
        reason="; ".join(notes),
    )
    return [parameters_row, flops_row]


def table_flop(graph: Workload) -> float:
    """flop of a bound forward pass in the table's convention.

    Its authors count whole modules: two flop a multiply-add, 4 an element of a norm, the window of each pooled
    element, activations by the element (ReLU 1, sigmoid 4, leaky ReLU 2, PReLU 3, swish 5, hard swish 2), shuffles of
    channels 1; additions
    between branches, bilinear taps and transposed convolutions beyond 4 an input element are not counted.
    Source: osmr/imgclsmob, pytorch/utils.py, measure_model.
    """
    gates = {op.name: op.dims["elements"] for op in graph if op.attributes.get("function") in ("sigmoid", "sigmoid_")}
    layers = {op.name.rpartition(".")[0] for op in graph}
    parts = [layer.split(".") for layer in layers]
    if not str(graph.metadata.get("source", "")).startswith("torch"):
        parts = []  # builders name layers, not modules
    # Modules that hold others: what they call themselves is no module of its own, and is not counted there.
    inner = frozenset(".".join(words[:depth]) for words in parts for depth in range(1, len(words)))
    return float(sum(_table_flop(op, graph, gates, inner) for op in graph))


# flop an element in the table.
_ACTIVATIONS: Mapping[str, int] = {
    "relu": 1,
    "hardtanh": 1,
    "clamp": 1,
    "hardsigmoid": 1,
    "hardswish": 2,
    "leaky_relu": 2,
    "prelu": 3,
    "_prelu_kernel": 3,
    "elu": 3,
    "sigmoid": 4,
    "silu": 5,
}


def _table_flop(op: Op, graph: Workload, gates: dict[str, Any], inner: frozenset[str]) -> float:
    d: Any = op.dims
    if op.kind == "convolution" and op.attributes.get("transposed"):
        return float(4 * d["batch"] * d["channels_in"] * d["in_height"] * d["in_width"])
    if op.kind in ("gemm", "convolution"):
        # Without a bias the first addition of a sum is none; the table takes one off a weight of a convolution.
        first = d["m"] * d["n"] if op.kind == "gemm" else d["channels_in"] * d["channels_out"] // d["groups"]
        return float(op.cost["flop.matrix.float32"] - (0 if op.attributes.get("bias") else first))
    if op.kind == "norm" or op.attributes.get("function") == "batch_norm":
        return float(4 * d["elements"])
    if op.kind == "pool":
        return float(d["outputs"] * d["window"])
    if op.kind == "upsample":
        return float(4 * d["inputs"])
    if op.kind == "move" and "shuffle" in op.name:
        return float(d["writes"])
    if op.kind == "elementwise" and op.name.rpartition(".")[0] not in inner:
        function = str(op.attributes.get("function"))
        if function == "mul":
            # Swish is written as x times its own sigmoid: five an element together.
            gated = any(gates.get(before) == d["elements"] for before in graph.graph.predecessors(op.name))
            return float(d["elements"]) if gated else 0.0
        return float(_ACTIVATIONS.get(function, 0) * d["elements"])
    return 0.0
