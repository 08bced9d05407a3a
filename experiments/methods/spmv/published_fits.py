"""`slipstick spmv train --data` and `spmv validate --data`: the authors' own published set, Figures 4 and 5."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.experiments.measure.spmv.published_set import PublishedSet


def train_published(folder: Path, save: Path, clock: int, metric: str, epochs: int) -> list[dict[str, Any]]:
    """Train the network of Table 2 for a metric at a frequency [kHz] on the published training matrices.

    Raises InputError where files cannot be used.
    """
    from slipstick.estimators.sparse.spmv_network import ENERGY_NET, TIME_NET
    from slipstick.estimators.sparse.spmv_network_training import Recipe, train

    inputs, labels = PublishedSet(folder, clock).training(metric)
    shape = TIME_NET if metric == "time" else ENERGY_NET
    facts = {
        "labels": f"published set, Xeon E5-2630 at {clock / 1e6:g} GHz, {metric}",
        "label_kind": "hot",
        "unit": "as published",
    }

    def say(epoch: int, error: float) -> None:
        print(f"slipstick: epoch {epoch}: validation rms {error:.4f} of the mean", file=sys.stderr)

    quantity = "time" if metric == "time" else metric
    net = train(inputs, labels, shape, Recipe(epochs=epochs), quantity=quantity, provenance=facts, progress=say)
    net.save(save)
    return [{"metric": metric, "clock_kHz": clock, "blocks": len(labels)} | dict(list(net.provenance.items())[:2])]


def score_published(model: Path, folder: Path, clock: int, metric: str) -> list[dict[str, Any]]:
    """Errors on the published test matrices, one row each and their mean last.

    `block_error` is the mean relative error of the blocks (Figure 4), `matrix_error` that of their sum (Figure 5).
    Raises InputError where files cannot be used, or the network is of another quantity.
    """
    from slipstick.estimators.sparse.spmv_network import load_net

    net = load_net(model)
    if net.quantity != metric:
        raise InputError(f"{model}: a network of {net.quantity}, wanted {metric}")
    rows = []
    for name, (inputs, labels) in PublishedSet(folder, clock).tests(metric).items():
        predicted = net.predict(inputs)
        whole = abs(predicted.sum() / labels.sum() - 1)
        constant = np.abs(net.scale / labels - 1).mean()
        errors = {"block_error": np.abs(predicted / labels - 1).mean(), "matrix_error": whole}
        rows.append({"matrix": name, "blocks": len(labels), **errors, "constant_block_error": constant})
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key.endswith("error")}
    return [*rows, {"matrix": "mean", "blocks": sum(int(str(row["blocks"])) for row in rows), **mean}]
