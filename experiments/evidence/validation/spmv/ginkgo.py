"""Whole products timed by others on devices that the model never saw: CSR in Ginkgo, SuiteSparse matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.learning.scores import mean_error, relative_quantile
from slipstick.estimators.operation.spmv.spmv_anchors import anchored
from slipstick.estimators.operation.spmv.spmv_devices import (
    TERMS,
    TrainedDevices,
    fit_device,
)
from slipstick.experiments.calibrate.public_data import scored_file, training_file
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import MAPE, Data, Scored
from slipstick.experiments.subjects.spmv.device_fits import left_out, predict
from slipstick.experiments.subjects.spmv.product_times import MATRICES, TIMES, Floats, Products, read_products

DATASET = "Ginkgo CSR, at least 1e6 non-zeros"
GOALS = {"Xeon_Gold_6230": 0.22, "V100_SXM2": 0.12, "RadeonVII": 0.20}
ANCHORS, ANCHOR_DRAWS = (1, 8), 40
"""How many products measured on the new device are tried as anchors, and how many draws of them are averaged."""


def public_products(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every device of the scored file by costs fitted to the others."""
    known_path, judged_path = data.known(TIMES), data.judged(TIMES)
    statistics = (scored_file(MATRICES, data.scored) if data.scored else None) or data.known(MATRICES)
    known, _ = read_products(known_path, training_file(MATRICES) or statistics)
    targets, unknown = read_products(judged_path, statistics) if data.scored else (known, [])
    yield from (skipped(f"{DATASET}: {name}", "the catalogue has no such machine") for name in unknown)
    costs = {name: fit_device(products.amount, products.seconds, products.machine) for name, products in known.items()}
    for test in targets.values():
        train = {name: products for name, products in known.items() if products.machine.name != test.machine.name}
        if not train:
            yield skipped(f"{DATASET}: {test.device}", "no other device to learn from")
            continue
        trained = left_out(train, costs)
        predicted = predict(trained.model, test)
        yield _scored(test, trained, predicted)
        yield from (_anchored_row(test, trained, predicted, count) for count in ANCHORS)


def _scored(test: Products, trained: TrainedDevices, predicted: Floats) -> Scored:
    def hindsight(terms: list[int]) -> Floats:
        amount = test.amount * terms
        cost = fit_device(amount, test.seconds, test.machine).cost
        return np.asarray(amount @ [cost[term] for term in TERMS])

    half = quantile(DEFAULT_LEVEL, None) * float(np.hypot(trained.machine_spread, trained.matrix_spread))
    median = relative_quantile(0.5, predicted, test.seconds)
    return Scored(
        test.device,
        "device unseen",
        test.seconds,
        predicted,
        (MAPE,),
        (GOALS.get(test.device),),
        {
            "roofline x median efficiency of the other devices": test.roofline * trained.model.usual,
            "start + bytes / bandwidth fitted on this device": hindsight([1, 1, 0, 0, 0]),
            "all five costs fitted on this device": hindsight([1, 1, 1, 1, 1]),
        },
        half or None,
        reason=f"median {median:.3f}; the band is from the other devices, each left out in turn",
    )


def _anchored_row(test: Products, trained: TrainedDevices, ours: Floats, count: int) -> ValidationRow:
    """Scored on the matrices not measured, the mean over draws of which ones were."""
    random = np.random.default_rng(0)
    result: list[float] = []
    plain: list[float] = []
    for _ in range(ANCHOR_DRAWS):
        known = np.zeros(len(ours), dtype=bool)
        known[random.permutation(len(ours))[:count]] = True
        for predicted, errors in ((ours, result), (test.roofline, plain)):
            scale = anchored(test.seconds[known] / predicted[known], trained.machine_spread, trained.matrix_spread)
            errors.append(float(np.mean(np.abs(scale.factor * predicted[~known] / test.seconds[~known] - 1))))
    what = "one matrix" if count == 1 else f"{count} matrices"
    return ValidationRow(
        DATASET,
        f"{test.device}, {what} measured there",
        f"matrices, {ANCHOR_DRAWS} draws",
        len(ours) - count,
        "MAPE",
        "1",
        float(np.mean(result)),
        {"without": mean_error(ours, test.seconds), "roofline with the same anchors": float(np.mean(plain))},
    )
